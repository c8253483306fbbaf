r"""Clusters of counts for increasing ranks, and how well they predict hidden counts.

This is the Kullback-Leibler counterpart of `rank_path`; centers are profiles that sum to 1.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.count_groups import SMOOTHING, likeliest_groups, log_profiles, shares, x_log_x
from orthoplus.data.memory import MemoryMatrix
from orthoplus.methods.kl_alternating import KLAlternating
from orthoplus.model_selection.rank_path import PathPoint, solve_to_the_end
from orthoplus.problems import KLONMF


def fit_count_path(
    A: DataMatrix, ranks: Sequence[int], *, n_init: int, seed: int, allow_negative: bool = False
) -> Iterator[PathPoint]:
    """Yield a clustering for each rank, with the unexplained share of the divergence."""
    for k in ranks:
        problem = KLONMF(A, k)
        method = KLAlternating(n_init=n_init, seed=seed)
        result = solve_to_the_end(problem, method=method)
        centers = shares(np.asarray(result.Y, dtype=np.float64).T)
        labels = likeliest_profiles(A, centers)
        yield PathPoint(k, centers, labels, result.value / (problem.total or 1.0))


def likeliest_profiles(A: DataMatrix, centers: FloatArray) -> IntArray:
    """Return the profile with the largest likelihood for each row; -1 for a row of zeros."""
    return np.asarray(A.gather(likeliest_groups(A, log_profiles(centers))))


def predict_hidden_counts(pieces: Sequence[MemoryMatrix], centers: list[FloatArray]) -> float:
    r"""Return the unexplained share of counts, given in column pieces that are hidden in turn.

    A row is assigned to the likeliest profile p by the other pieces, and its hidden piece is
    predicted by w p. Here w is the sum of the row over the other pieces divided by that of p. The
    error is :math:`\sum_l a_l \log (a_l / (w p_l)) - a_l + w p_l`, relative to that of a single
    cluster.
    """
    n = len(pieces[0])
    one_group, ones = np.zeros(n, dtype=np.int64), np.ones(n)
    mean = [np.asarray(A.group_sums(one_group, ones, 1))[0] for A in pieces]
    total = sum(part.sum() for part in mean) or 1.0
    smooth = [
        (1.0 - SMOOTHING) * own + SMOOTHING * part / total
        for own, part in zip(centers, mean, strict=True)
    ]
    whole = [part[None] / total for part in mean]
    baseline = _missed(pieces, whole)
    return _missed(pieces, smooth) / baseline if baseline > 0 else 0.0


def _missed(pieces: Sequence[MemoryMatrix], profiles: list[FloatArray]) -> float:
    logs = [np.log(np.where(p > 0, p, 1.0)) for p in profiles]
    fits = [A.times(own.T).astype(np.float64) for A, own in zip(pieces, logs, strict=True)]
    sizes = [np.asarray(A.row_sums()) for A in pieces]
    masses = [p.sum(axis=1) for p in profiles]
    rows, missed = np.arange(len(sizes[0])), 0.0
    for A, fit, size, mass in zip(pieces, fits, sizes, masses, strict=True):
        shown = sum(fits) - fit
        left = np.maximum(sum(masses) - mass, np.finfo(np.float64).tiny)
        rest = sum(sizes) - size
        # Restricted to the shown columns, profiles have to be normalized by their sum there.
        labels = (shown - rest[:, None] * np.log(left)).argmax(axis=1)
        w = rest / left[labels]
        entries = A.csr_parts()[0].astype(np.float64)
        missed += float(x_log_x(entries).sum()) - float(size.sum())
        missed -= float(fit[rows, labels].sum())
        scaled = np.where(w > 0, w, 1.0)  # a row without shown counts has the same error for all k
        missed += float((w * mass[labels] - size * np.log(scaled)).sum())
    return missed
