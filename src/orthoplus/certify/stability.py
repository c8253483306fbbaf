r"""Bounds on how much every partition at least as good as the answer has in common with it.

Let X be the answer, :math:`\hat Z = XX^\top` and :math:`v = \langle M, \hat Z \rangle`. For every
symmetric :math:`S \ge 0`, every :math:`t \ge 0` and every Z of a point of S+ with :math:`\langle M,
Z \rangle \ge v`,

.. math:: \langle \hat Z, Z \rangle \ge t v - \sum_{i \le k} \lambda_i(t (M + S) - \hat Z)
          =: k - \delta(t).

For two partitions :math:`\langle \hat Z, Z \rangle \le \sum_j \max_l a_{lj}`, with :math:`a_{lj}`
the sum of :math:`x_i^2` over the rows in group l of ours and j of theirs. If :math:`\delta < 1`,
the largest entries of the columns lie in different rows. This matches the groups one to one, and
:math:`x_i^2` sums to at most :math:`\delta` over the rows on which the two partitions differ. Hence
every partition at least as good agrees on each row with :math:`x_i^2 > \delta`.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from orthoplus.certify.anytime import unpack
from orthoplus.certify.between import Between, Setting
from orthoplus.certify.certificate import Compressed, DensePart
from orthoplus.certify.cuts import Cuts
from orthoplus.certify.eigenvalues import bound_dense, dense_of, is_narrow
from orthoplus.certify.factored import (
    FactoredMatrix,
    assemble_factors,
    gram_sums,
    pair_sums,
    sum_of_leading,
)
from orthoplus.certify.model import Model
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray

# The range of t, for an M of unit size, and the number of trials.
_LEAST, _MOST, _TRIALS = 1.0, 1e8, 20
# With all eigenvalues the trials take seconds up to _MOST_ROWS rows, and well below a second up to
# _FEW_ROWS rows, the limit after the deadline.
_MOST_ROWS, _FEW_ROWS = 600, 150


def unsure_mass(
    model: Model, point: SupportPoint, proof: Any, deadline: float = np.inf
) -> float | None:
    r"""Return the smallest :math:`\delta` found, or None if it is not below 1.

    Parameters
    ----------
    model : Model
    point : SupportPoint
        The answer.
    proof : Between, tuple of one DensePart, or None
        The proof of a bound, which provides S. A better bound gives a smaller :math:`\delta`.
    deadline : float
        Deadline on the clock of ``time.perf_counter``; after it, only small problems are solved.

    Notes
    -----
    Computes eigenvalues for about twenty values of t: of matrices of order r + k^2 if A in M = AA'
    has few columns and S is in closed form, and of order n otherwise.
    """
    if not model.form.is_exact:
        return None
    most_rows = _MOST_ROWS if perf_counter() < deadline else _FEW_ROWS
    is_own = isinstance(proof, Between) and np.array_equal(proof.labels, point.labels)
    if is_own and is_narrow(model):
        excess = _factored_excess(model, point, proof)
    elif model.n <= most_rows and not _is_cut_up(proof):
        excess = _dense_excess(model, point, proof)
    else:
        return None
    from scipy.optimize import minimize_scalar  # slow to import

    found = [np.inf]

    def mass(log: float) -> float:
        found.append(excess(float(np.exp(log))))
        return found[-1]

    # Every t gives a valid delta, so that the minimum over all trials is one as well.
    limits = (np.log(_LEAST), np.log(_MOST))
    minimize_scalar(mass, bounds=limits, method="bounded", options={"maxiter": _TRIALS})
    delta = max(min(found), 0.0)
    return delta if delta < 1.0 else None


def agreement_of(weights: FloatArray, delta: float) -> float:
    """Return the least share of rows that agree if rows with a total mass of delta may differ.

    Examples
    --------
    >>> agreement_of(np.sqrt([0.1, 0.2, 0.7, 1.0]), 0.25)
    0.75
    """
    # In the worst case the rows with the smallest x_i^2 differ, as many as fit into delta.
    squares = np.cumsum(np.sort(weights**2))
    return 1.0 - float(np.searchsorted(squares, delta, side="right")) / len(weights)


def _is_cut_up(proof: Any) -> bool:
    return isinstance(proof, Compressed) or (type(proof) is tuple and len(proof) > 1)


def _factored_excess(model: Model, point: SupportPoint, proof: Between) -> Callable[[float], float]:
    """Return the function delta(t), computed from the Gram matrix of [A, V, X]."""
    setting = Setting(model, point)
    pairs = pair_sums(setting, proof.levels)
    H = assemble_factors(gram_sums(model), pairs, proof.couplings, model.n)
    images = setting.images(setting.unit_dots(pairs.dots))
    gram = np.block([[H.gram, images.T], [images, np.eye(model.k)]])
    ends = np.concatenate([H.sums, 1.0 / setting.to_unit if model.has_row_sums else _sums(point)])
    value = setting.trace - rounding_margin(model.size, model.n + model.rank)

    def excess(t: float) -> float:
        core = np.zeros_like(gram)
        # t (M + S) - XX' in the factors [A, V, X].
        core[: -model.k, : -model.k] = t * H.core
        core[-model.k :, -model.k :] = -np.eye(model.k)
        whole = FactoredMatrix(gram, core, ends, model.n)
        upper = sum_of_leading(whole, model.k, has_row_sums=model.has_row_sums)
        return model.k - t * value + upper

    return excess


def _sums(point: SupportPoint) -> FloatArray:
    rows = point.labels >= 0
    sums = np.bincount(point.labels[rows], point.weights[rows], minlength=point.k)
    return sums.astype(np.float64, copy=False)


def _dense_excess(model: Model, point: SupportPoint, proof: Any) -> Callable[[float], float]:
    """Return the function delta(t), computed from the n x n matrix."""
    H, X = model.dense(), point.dense()
    if isinstance(proof, Between):
        H += dense_of(model, proof)
    elif proof:
        H += _whole(proof[0], model)
    margin = rounding_margin(model.size, model.n + model.rank)
    value = model.trace(point) - margin

    def excess(t: float) -> float:
        upper = bound_dense(model, t * H - X @ X.T) + t * margin
        return model.k - t * value + upper

    return excess


def _whole(part: DensePart, model: Model) -> FloatArray:
    """Return S minus the cuts times their multipliers."""
    S = unpack(part.half, model.n)
    i, j, other = part.cuts.T
    ratios = np.ones((model.n, model.n))
    ratios[i, j] = part.ratios[:, 0]
    at = other >= 0
    ratios[i[at], other[at]] = part.ratios[at, 1]
    return np.asarray(S - Cuts(i, j, other, part.multipliers).matrix(model.n, ratios))
