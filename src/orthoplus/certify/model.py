r"""The common form max <M, XX'> over S+ of all problems that can be certified.

A model is scaled by a power of two, so that no square overflows or underflows and no digit changes.
All quantities in this package are in units of ``model.unit``.
"""

import math
import os
from functools import cached_property
from typing import Any

import numpy as np

from orthoplus.certify.cuts import ratio_bounds
from orthoplus.core.bounds import relative_gap, rounding_margin
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import as_label_array
from orthoplus.core.point import SupportPoint, spread
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.symmetric import SymmetricMap
from orthoplus.linalg.group_vectors import (
    leading_directions,
    leading_vectors,
    nonnegative_vectors,
)
from orthoplus.linalg.symmetric import bottom_of_blocks

# Labels up to here are integers also as float64.
_LARGEST_LABEL = 1 << 53
# An operator with at most this many entries is converted to an array.
_WRITTEN_OUT = 1 << 25
# The n x n matrix is always formed up to this many rows.
MOST_DENSE_ROWS = 4000
# Beyond that it is formed up to this many rows, if the relaxation takes at most this share of the
# memory. Bytes per entry: T, W and G of the iteration, two S and a start in float32, M + S in
# float64.
_MOST_LARGE_ROWS, _BYTES_PER_ENTRY, _MEMORY_SHARE = 12000, 32, 0.5
# A float32 rounding error in units of float64 rounding errors, with a margin.
_SINGLE_ROUNDINGS = 1 << 30
# Maximum number of steps of the projected power method on the groups of an M of any sign, and the
# largest change of the weights at which it stops.
_MAX_POWERS, _POWER_CHANGE = 500, 1e-12


class Model:
    r"""Represent a problem as max :math:`\langle M, XX^\top \rangle` over S+.

    Attributes
    ----------
    problem : Problem
    n, k : int
    has_row_sums : bool
        Whether X must have equal positive entries within each column and no zero row, as for
        k-means.
    factor : DataMatrix or None
        The matrix A with AA' = ``unit`` M; multiply its entries by ``scale`` to get M = AA'.
    scale, unit : float
        Powers of two: M is AA' times the square of ``scale``, and <M, XX'> times ``unit`` is the
        trace in the scale of the problem.

    Examples
    --------
    >>> from orthoplus.problems import ONMF
    >>> model = Model(ONMF(np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]]), 2))
    >>> point = model.refine(np.array([0, 0, 1]))
    >>> model.value_of(point), point.weights.round(12)
    (0.0, array([0.6, 0.8, 1. ]))
    """

    def __init__(self, problem: Problem) -> None:
        form = _form_of(problem)
        self.problem: Problem = problem
        self.form: TraceForm = form
        self.n: int = problem.shape[0]
        self.k: int = problem.shape[1]
        self.has_row_sums: bool = form.has_row_sums
        self.data: DataMatrix | None = form.factor
        self.factor = None if self.data is None else _with_entries(self.data)
        self.matrix = None if form.matrix is None else _in_double(form.matrix)
        total = self.matrix.norm if self.matrix is not None else self._data.squared_norm()
        exponent = math.frexp(total)[1]
        exponent += exponent % 2  # even, because A is scaled by the square root of the scale of M
        self.unit: float = math.ldexp(1.0, exponent)
        self.scale: float = math.ldexp(1.0, -exponent // 2)
        self.size: float = total / self.unit

    @property
    def _data(self) -> DataMatrix:
        assert self.data is not None
        return self.data

    @property
    def rank(self) -> int:
        """Number of columns of A, or n if M is not given as a product."""
        return self.n if self.data is None else self.data.shape[1]

    @cached_property
    def rounding(self) -> float:
        """Rounding error between a value and a bound, in the units of the problem."""
        has_entries = self.data is None or self.data.has_entries
        dtype = np.float64 if has_entries else self._data.dtype
        return 2.0 * rounding_margin(self.form.size, self.n + self.rank, dtype)

    def dense(self) -> FloatArray:
        """Return M as an array of shape (n, n)."""
        if self.matrix is not None:
            M = self.matrix.to_dense() / self.unit
            return np.asarray((M + M.T) / 2)
        return self._scaled.outer_gram()

    @property
    def has_ratios(self) -> bool:
        """Whether ratios of weights can be bounded: M = AA' with A >= 0, but not k-means."""
        return self.factor is not None and self.form.is_nonnegative and not self.has_row_sums

    def ratios(self, M: FloatArray) -> FloatArray | None:
        """Bound the ratios of weights for M of all or some rows; return None if impossible."""
        # The entries of an operator are not checked.
        if self.factor is None or not self.has_ratios or not M.size or M.min() < 0:
            return None
        exact = self.factor.dtype == np.float64
        return ratio_bounds(M, self.rank if exact else self.rank * _SINGLE_ROUNDINGS)

    @cached_property
    def _scaled(self) -> DataMatrix:
        return self._data.scale_rows(np.full(self.n, self.scale))

    def product(self, X: FloatArray) -> FloatArray:
        """Return MX for X of shape (n, b)."""
        if self.matrix is not None:
            return np.asarray(self.matrix @ X / self.unit)
        if self._data.has_entries:
            return self._scaled.times(self._scaled.times_transposed(X))
        image = self._data.times(self._data.times_transposed(X))
        return np.asarray(image.astype(np.float64) / self.unit)

    def trace(self, point: SupportPoint) -> float:
        """Return <M, XX'>."""
        labels, weights = point.labels, point.weights
        if self.matrix is not None:
            own = self.product(point.dense())[np.arange(self.n), labels]
            return float((own * weights)[labels >= 0].sum())
        A = self._data
        sums = A.group_sums(A.scatter(labels), A.scatter(weights), self.k) * self.scale
        return float(np.vdot(sums, sums))

    def value_of(self, point: SupportPoint) -> float:
        """Return f at a point given by labels and weights."""
        if not self.form.is_exact:
            return self.problem.value(point.dense())
        return max(self.form.bound(self.trace(point) * self.unit), self.form.least)

    def to_bound(self, upper: float) -> float:
        """Return a lower bound on f from an upper bound on <M, XX'>, rounded outward."""
        bound = self.form.bound(upper * self.unit) - 0.5 * self.rounding
        return max(bound, self.form.least)

    def gap(self, value: float, bound: float) -> float | None:
        """Return the relative gap, or 0 if it is within rounding."""
        return relative_gap(value, bound, self.rounding)

    # --- points -----------------------------------------------------------------------------------

    def refine(self, labels: IntArray, weights: FloatArray | None = None) -> SupportPoint:
        """Maximize <M, XX'> over the weights of these groups, locally if M has negative entries."""
        x: FloatArray = np.ones(self.n)
        if not self.has_row_sums:
            if weights is not None:
                np.abs(weights, out=x, where=weights != 0)
            x = self._refine_matrix(labels, x) if self.data is None else self._refine(labels, x)
        kept = np.where((x > 0) & (labels >= 0), labels, -1)
        x = np.where(kept >= 0, x, 0.0)
        return SupportPoint(kept, x, self.k).normalized()

    def _refine(self, labels: IntArray, start: FloatArray) -> FloatArray:
        """Return the best weights for M = AA', with as few vectors of length n as possible."""
        A, labels, start = self._data, self._data.scatter(labels), self._data.scatter(start)
        if not self.form.is_nonnegative:
            x, _ = nonnegative_vectors(A, labels, start, self.k)
        else:
            squares: FloatArray = np.zeros(1)
            # The best x of a group is the leading left singular vector of its rows of A. Computing
            # it from the right singular vector needs no further vector of length n.
            if self.k * self.rank <= self.n:
                V, squares = leading_directions(A, labels, start, self.k)
            if squares.all():
                x = A.group_dots(labels, V / np.sqrt(squares)[:, None])
            else:  # groups of zero rows keep the start
                x, _ = leading_vectors(A, labels, start, self.k)
        return np.asarray(A.gather(x), dtype=np.float64)

    def _refine_matrix(self, labels: IntArray, start: FloatArray) -> FloatArray:
        assert self.matrix is not None
        X = SupportPoint(labels, start, self.k).normalized().dense()
        best = bottom_of_blocks(-self.matrix, X)
        if best is None:
            return _project_powers(self.matrix, labels, start, self.k)
        return np.asarray(best.sum(axis=1))

    def answer_point(self, labels: IntArray, weights: FloatArray | None) -> SupportPoint:
        """Return the point with these groups whose weights minimize f."""
        point = self.refine(labels, weights)
        if not self.form.is_exact:
            refined = self.problem.refine(point.dense())
            point = point if refined is None else SupportPoint.of(refined)
        if weights is None or self.has_row_sums:
            return point
        given = SupportPoint(np.where(weights > 0, labels, -1), weights.astype(np.float64), self.k)
        given = given.normalized()
        is_complete = bool((given.counts() > 0).all())
        return given if is_complete and self.value_of(given) < self.value_of(point) else point


def fits_in_memory(model: Model) -> bool:
    """Return whether the relaxation of all rows fits in memory."""
    if model.n > _MOST_LARGE_ROWS:
        return False
    if not hasattr(os, "sysconf"):
        return model.n <= MOST_DENSE_ROWS
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return model.n**2 * _BYTES_PER_ENTRY <= _MEMORY_SHARE * memory


def _form_of(problem: Problem) -> TraceForm:
    form = problem.trace_form() if isinstance(problem, Problem) else None
    if form is None:
        raise InputTypeError(
            f"`problem` is of type {type(problem).__name__}, which has no trace form. Pass ONMF, "
            f"KMeans, KIndicators, SymmetricONMF or TraceMin, or use a function that builds one "
            f"(nonnegative_pca, laplacian_embedding, ratio_cut, discriminative_spectral)."
        )
    return form


def _with_entries(data: DataMatrix) -> DataMatrix | None:
    """Return data with entries, converting an operator to an array; None if it is too large."""
    if data.has_entries:
        return data
    return Dense(data.to_dense()) if math.prod(data.shape) <= _WRITTEN_OUT else None


def _in_double(M: Any) -> SymmetricMap:
    """Return M as a map in float64, symmetrized exactly if its entries are known."""
    M = M if isinstance(M, SymmetricMap) else SymmetricMap(M)
    base = M.base
    if base is not None and hasattr(base, "T") and hasattr(base, "astype"):
        base = base.astype(np.float64)
        base = (base + base.T) / 2
    return SymmetricMap(base, M.factors)


def _project_powers(M: SymmetricMap, labels: IntArray, x: FloatArray, k: int) -> FloatArray:
    """Return a local maximizer of <M, XX'> on the groups by the projected power method."""
    shift, rows = 2.0 * M.norm or 1.0, np.arange(len(labels))  # x cannot become 0
    point = SupportPoint(labels, np.where(labels >= 0, x, 0.0), k).normalized()
    for _ in range(_MAX_POWERS):
        # One step of x <- (Mx / shift + x)^+, normalized per group. The shift by the identity makes
        # the objective convex in x, so that it increases monotonically.
        image = (M @ point.dense())[rows, labels] / shift + point.weights
        image = np.where(labels >= 0, np.maximum(image, 0.0), 0.0)
        moved = SupportPoint(labels, image, k).normalized()
        if np.abs(moved.weights - point.weights).max() <= _POWER_CHANGE:
            break
        point = moved
    return np.asarray(point.weights)


# --- reading the user's answer --------------------------------------------------------------------


def read_answer(answer: Any, model: Model) -> tuple[IntArray, FloatArray | None]:
    """Return the labels of an answer, numbered from 0 to k - 1, and its weights if it has any.

    Parameters
    ----------
    answer : Result, SupportPoint or array-like of n labels
        Labels may be any integers or strings; -1 stands for a row without a group.
    model : Model

    Examples
    --------
    >>> from orthoplus.problems import ONMF
    >>> read_answer(["b", "b", "a"], Model(ONMF(np.eye(3), 2)))
    (array([1, 1, 0]), None)
    """
    weights = None
    if isinstance(answer, (Result, SupportPoint)):
        weights, answer = np.asarray(answer.weights, dtype=np.float64), answer.labels
    labels = _as_labels(answer)
    if labels.shape != (model.n,):
        raise InputError(
            f"`answer` has labels of shape {labels.shape}, but the problem has {model.n} rows. "
            f"Pass one label per row."
        )
    has_group = np.ones(model.n, dtype=bool) if labels.dtype.kind == "U" else labels != -1
    groups, numbers = np.unique(labels[has_group], return_inverse=True)
    if len(groups) != model.k:
        raise InputError(
            f"The number of clusters in `answer` is {len(groups)}, but k = {model.k}. Pass labels "
            f"with exactly {model.k} distinct values (-1 marks a row without a group)."
        )
    if model.has_row_sums and not has_group.all():
        raise InputError(
            f"`answer` has {int((~has_group).sum())} rows with the label -1, but k-means assigns "
            f"every row to a cluster. Assign these rows or remove them from the data."
        )
    numbered = np.full(model.n, -1, dtype=np.int64)
    numbered[has_group] = numbers
    return numbered, weights


def _as_labels(answer: Any) -> Any:
    labels = as_label_array(answer, "answer")
    if labels.dtype.kind == "f" and (np.abs(labels.astype(np.float64)) <= _LARGEST_LABEL).all():
        labels = labels.astype(np.int64) if (labels == labels.round()).all() else labels
    is_large = labels.dtype.kind == "u" and labels.max(initial=0) > _LARGEST_LABEL
    if labels.dtype.kind not in "iubU" or is_large:
        raise InputTypeError(
            f"`answer` has dtype {labels.dtype} or entries that cannot be read as labels. Pass a "
            f"Result, or an array of integers below 2^53 or strings."
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels


def dense_point(point: SupportPoint) -> FloatArray:
    """Return X as a float64 array of shape (n, k)."""
    return spread(point.labels, point.weights, point.k)
