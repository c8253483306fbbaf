"""Spectra of pure materials: refinement by the purest pixels, and the choice of a start."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.linalg.fractions import normalized_rows, on_orthant, rounding_error
from orthoplus.linalg.vertices import VertexSearch

# Share of the pixels of a material that count as pure, and their least number. Means over more
# pixels would be mixtures, over fewer pixels they would be noisy.
_PURE_SHARE, _PURE_PIXELS = 0.1, 5
# Maximum number of rounds of fractions and means.
_ROUNDS = 6
# Number of starts from vertices, in addition to those from the factorization.
_VERTEX_STARTS = 4
# A later start must reduce the error by this share; smaller differences are noise.
_GAIN = 0.01
# Starts are compared on at most this many pixels; the best one is then refined on all pixels.
_COMPARED_PIXELS = 1 << 14
# Fractions that differ by less than this are equally pure.
_SAME_PURITY = 1e-7


class Candidate(NamedTuple):
    """Hold the spectra that result from one start.

    The spectra are means of the pixels with the given ``labels`` and ``weights``; other pixels have
    the label -1. ``scores`` are the spectra in the coordinates of the pixels' scores, and ``error``
    is relative to ||A||.
    """

    start: str
    scores: FloatArray
    labels: IntArray
    weights: FloatArray
    error: float


def choose_spectra(
    A: DataMatrix, factored: Sequence[FloatArray], rng: np.random.Generator, n_init: int | None
) -> tuple[FloatArray, str]:
    """Refine the spectra of each start by their purest pixels; return the best and a note.

    The starts are those in ``factored``, each k x r, then vertices of the data. The best one has
    the smallest error of nonnegative least squares with its spectra. The objective of the
    factorization is not used, because it measures centers of clusters rather than pure materials.
    Pixels are represented by their scores on the k leading singular vectors; the remaining error is
    the same for all starts.
    """
    # Work on a few scores per pixel, in the leading singular subspace, instead of all bands.
    search = VertexSearch.of(A, len(factored[0]))
    Z, squares = search.scores, np.asarray(A.gather(A.row_squares()), dtype=np.float64)
    children = rng.spawn(max(_VERTEX_STARTS, n_init or 0))
    starts: list[tuple[str, FloatArray]]
    starts = [(f"factorization {i + 1}", Y @ search.basis) for i, Y in enumerate(factored)]
    starts += [(f"vertices {i + 1}", Z[search.draw(c)]) for i, c in enumerate(children)]
    is_sampled = len(Z) > _COMPARED_PIXELS
    rows = rng.choice(len(Z), _COMPARED_PIXELS, replace=False) if is_sampled else slice(None)
    found = [_refine(Z[rows], E, name, squares[rows]) for name, E in starts]
    best = found[0]
    for other in found[1:]:
        # A later start must be clearly better, so that ties keep the factorization.
        if other.error < (1.0 - _GAIN) * best.error - rounding_error(A):
            best = other
    note = _note(best, found, "a sample of the cube" if is_sampled else "the cube")
    if is_sampled:
        # The starts were compared on a sample; refine the best one on all pixels.
        best = _refine(Z, best.scores, best.start, squares)
    return _means(A, best, search.basis), note


def _refine(Z: FloatArray, E: FloatArray, name: str, squares: FloatArray) -> Candidate:
    """Alternate between fractions of all pixels and means of the purest pixels per material."""
    labels = weights = None
    for _ in range(_ROUNDS):
        new_labels, new_weights = _purest(normalized_rows(on_orthant(Z.__matmul__, E)))
        if labels is not None and (new_labels == labels).all():
            break
        labels, weights = new_labels, new_weights
        E = _group_means(Z, labels, weights, E)
    assert labels is not None
    assert weights is not None
    return Candidate(name, E, labels, weights, _error(Z, E, squares))


def _purest(F: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the material of each pure pixel (-1 for others) and the weights of their mean.

    Among the pixels whose largest fraction is j, the purest tenth counts, including all ties, so
    that the order of the pixels does not matter.
    """
    owners, purity = F.argmax(axis=1), F.max(axis=1)
    labels, weights = np.full(len(F), -1), np.zeros(len(F))
    for j in range(F.shape[1]):
        own = np.flatnonzero((owners == j) & (purity > 0.0))
        if len(own) == 0:
            continue
        count = min(len(own), max(_PURE_PIXELS, int(np.ceil(_PURE_SHARE * len(own)))))
        # Include ties, so that the order of the pixels does not matter.
        least = np.partition(purity[own], -count)[-count] - _SAME_PURITY
        pure = own[purity[own] >= least]
        labels[pure], weights[pure] = j, 1.0 / len(pure)
    return labels, weights


def _group_means(Z: FloatArray, labels: IntArray, weights: FloatArray, E: FloatArray) -> FloatArray:
    """Return the mean score of each cluster, or that of E if the cluster is empty."""
    means = E.copy()
    for j in range(len(E)):
        own = labels == j
        if own.any():
            means[j] = weights[own] @ Z[own]
    return means


def _error(Z: FloatArray, E: FloatArray, squares: FloatArray) -> float:
    """Return the relative error of nonnegative least squares, with ``squares`` = ||a_i||^2."""
    total = float(squares.sum())
    missed = max(total - float((Z**2).sum()), 0.0)
    left = Z - on_orthant(Z.__matmul__, E) @ E
    return float(np.sqrt((float((left**2).sum()) + missed) / (total or 1.0)))


def _means(A: DataMatrix, best: Candidate, basis: FloatArray) -> FloatArray:
    """Return the spectra of a candidate, in one pass over the pixels."""
    k = len(best.scores)
    sums = A.group_sums(A.scatter(best.labels), A.scatter(best.weights), k)
    is_empty = ~(best.labels[:, None] == np.arange(k)).any(axis=0)
    sums[is_empty] = np.maximum(best.scores[is_empty] @ basis.T, 0.0)
    return np.asarray(sums, dtype=np.float64)


def _note(best: Candidate, found: Sequence[Candidate], where: str) -> str:
    """Return a sentence on how the spectra were chosen."""
    first = found[0]
    text = (
        f"The spectra are means of the purest pixels; of {len(found)} starts the one with the "
        f"smallest error of nonnegative fractions was taken: {best.start}, {best.error:.3g} of the "
        f"norm of {where}"
    )
    if best is first:
        return f"{text}."
    return f"{text} ({first.start}: {first.error:.3g}), whatever its objective."
