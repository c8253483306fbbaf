r"""Leading eigenvalues of a low-rank matrix for any n, exact up to rounding.

For :math:`H = BKB^\top` with B of n x N and a small symmetric K, the eigenvalues of H other than 0
are those of :math:`RKR^\top` with :math:`R^\top R = B^\top B`: a dense problem of order N that
needs only the Gram matrix of B, summed over blocks of rows.

Rounding. If the Gram matrix is known up to an error E, then :math:`B^\top B + E + \epsilon I` with
:math:`\epsilon \ge \|E\|` is the Gram matrix of B extended by further rows. H is then a leading
block of the extended matrix, so that by interlacing its sums of leading eigenvalues are no larger:
the bound is valid in floating point.
"""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.certify.between import Setting, scaled_slices, slopes
from orthoplus.certify.fantope import average_into
from orthoplus.certify.model import Model
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.memory import MemoryMatrix

# Growth of the shift if a Gram matrix is not numerically positive definite.
_GROWTH = 16.0


class FactoredMatrix(NamedTuple):
    """Hold B'B, K and B'e of H = BKB', and the number n of rows of B."""

    gram: FloatArray
    core: FloatArray
    sums: FloatArray
    n: int


def sum_of_leading(H: FactoredMatrix, k: int, *, has_row_sums: bool = False) -> float:
    r"""Bound the sum of the k largest eigenvalues of H from above, exactly up to rounding.

    Parameters
    ----------
    H : FactoredMatrix
    k : int
    has_row_sums : bool
        If True, bound the sum of :math:`e^\top He/n` and the k - 1 largest eigenvalues of
        :math:`PHP` with :math:`P = I - ee^\top/n`.

    Examples
    --------
    >>> B, core = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.diag([2.0, -1.0])
    >>> H = FactoredMatrix(B.T @ B, core, B.sum(axis=0), 3)
    >>> round(sum_of_leading(H, 1), 9), round(sum_of_leading(H, 3), 9)
    (4.0, 4.0)
    """
    if not has_row_sums:
        return _bound_leading(H, H.gram, k)
    fixed = float(H.sums @ H.core @ H.sums) / H.n
    terms = float(np.abs(H.sums) @ np.abs(H.core) @ np.abs(H.sums)) / H.n
    # B'PB with P = I - ee'/n.
    centered = H.gram - np.outer(H.sums, H.sums) / H.n
    return fixed + rounding_margin(terms, H.n) + _bound_leading(H, centered, k - 1)


def top_off(H: FactoredMatrix, images: FloatArray) -> float:
    """Bound the largest eigenvalue of H, or 0, on the complement of X from ``images`` = X'B."""
    return _bound_leading(H, H.gram - images.T @ images, 1)


def _bound_leading(H: FactoredMatrix, gram: FloatArray, k: int) -> float:
    """Bound the sum of the k largest eigenvalues of BKB', padded with zeros, from B'B."""
    sizes = np.sqrt(np.maximum(np.diag(H.gram), 0.0))
    kept = np.flatnonzero(sizes > 0)
    if k == 0 or not len(kept):
        return 0.0
    # Scale to unit columns, so that all entries of the Gram matrix have the same accuracy. Work in
    # place, since matrices of this order may dominate the memory.
    order, inside, unit = len(kept), np.ix_(kept, kept), sizes[kept]
    R = gram[inside]
    R /= unit[:, None]
    R /= unit
    R = _root_above(R, order * rounding_margin(1.0, H.n + order))
    core = H.core[inside]
    core *= unit[:, None]
    core *= unit
    product = R @ core
    product = product @ R.T
    average_into(product)
    values = np.linalg.eigvalsh(product)
    # H has n >= k eigenvalues; those that are not eigenvalues of RKR' are 0.
    leading = np.sort(np.concatenate([values, np.zeros(k)]))[-k:]
    np.matmul(np.abs(R, out=R), np.abs(core, out=core), out=product)
    np.matmul(product, R.T, out=core)
    terms = float(np.linalg.norm(core))
    return float(leading.sum()) + k * rounding_margin(terms, order)


def _root_above(gram: FloatArray, shift: float) -> FloatArray:
    """Return R with R'R = gram + shift I, increasing the shift if necessary; overwrites gram."""
    diagonal = gram.diagonal().copy()
    while True:
        gram[np.diag_indices(len(gram))] = diagonal + shift
        try:
            return np.linalg.cholesky(gram).T
        except np.linalg.LinAlgError:
            shift *= _GROWTH


# --- sums over the rows ---------------------------------------------------------------------------


class GramSums(NamedTuple):
    """Hold A'A and A'e."""

    gram: FloatArray
    sums: FloatArray


class PairSums(NamedTuple):
    """Hold sums of the vectors v_lj, j = 1..k, over the rows of each group l.

    Stacked over l, ``cross`` is A_l'V_l of shape (k, r, k), ``grams`` is V_l'V_l of shape (k, k,
    k), and ``sums`` and ``dots`` are e'V_l and x_l'V_l of shape (k, k).
    """

    cross: FloatArray
    grams: FloatArray
    sums: FloatArray
    dots: FloatArray


def gram_sums(model: Model) -> GramSums:
    """Return A'A and A'e in one pass over the rows."""
    assert model.factor is not None
    return GramSums(*model.factor.reduce_rows(_gram_work, args=(model.scale,)))


def pair_sums(setting: Setting, levels: FloatArray) -> PairSums:
    """Return the sums of the vectors v_lj with these levels in one pass over the rows."""
    model, own = setting.model, setting.own
    A = model.factor
    assert A is not None
    vectors = A.scatter(own.labels), A.scatter(own.weights)
    args = (model.scale, setting.centers, levels, model.has_row_sums)
    return PairSums(*A.reduce_rows(_pair_work, *vectors, args=args))


def _gram_work(block: MemoryMatrix, scale: float) -> tuple[FloatArray, FloatArray]:
    r = block.shape[1]
    gram, sums = np.zeros((r, r)), np.zeros(r)
    for _, part in scaled_slices(block, scale, r):
        gram += part.gram()
        sums += part.rmatmul(np.ones((len(part), 1)))[:, 0]
    return gram, sums


def _pair_work(
    block: MemoryMatrix, labels: IntArray, weights: FloatArray, *args: Any
) -> tuple[FloatArray, ...]:
    scale, centers, levels, has_row_sums = args
    r, k = centers.shape
    total = PairSums(np.zeros((k, r, k)), np.zeros((k, k, k)), np.zeros((k, k)), np.zeros((k, k)))
    for rows, part in scaled_slices(block, scale, r + k):
        own, x = labels[rows], weights[rows]
        V = slopes(part.matmul(centers), own, x, levels, has_row_sums=has_row_sums)
        for group in range(k):
            inside = np.flatnonzero(own == group)
            if len(inside):
                W = V[inside]
                total.cross[group] += part.sample_rows(inside).rmatmul(W)
                total.grams[group] += W.T @ W
                total.sums[group] += W.sum(axis=0)
                total.dots[group] += x[inside] @ W
    return tuple(total)


def assemble_factors(
    data: GramSums, pairs: PairSums | None, couplings: FloatArray | None, n: int
) -> FactoredMatrix:
    r"""Return :math:`AA^\top + \sum_{l \ne j} c_{lj} v_{lj} v_{jl}^\top` with B = [A, V].

    Parameters
    ----------
    data : GramSums
    pairs : PairSums or None
    couplings : ndarray of shape (k, k) or None
        The symmetric matrix of the c; its diagonal is ignored.
    n : int
    """
    r = len(data.gram)
    if pairs is None or couplings is None:
        return FactoredMatrix(data.gram, np.eye(r), data.sums, n)
    k = len(couplings)
    gram = np.zeros((r + k * k, r + k * k))
    core = np.zeros_like(gram)
    gram[:r, :r], core[:r, :r] = data.gram, np.eye(r)
    for group in range(k):
        own = slice(r + group * k, r + (group + 1) * k)  # columns v_lj for l = group
        gram[:r, own], gram[own, :r] = pairs.cross[group], pairs.cross[group].T
        gram[own, own] = pairs.grams[group]
        others = np.flatnonzero(np.arange(k) != group)
        # c_lj couples the columns v_lj and v_jl of B.
        core[r + group * k + others, r + others * k + group] = couplings[group, others]
    return FactoredMatrix(gram, core, np.concatenate([data.sums, pairs.sums.ravel()]), n)
