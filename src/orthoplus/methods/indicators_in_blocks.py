r"""K-indicators of an embedding in row blocks: the problem, and the polish of its answer.

EP4Orth+ itself is the one of matrices in memory: X is a `BlockMatrix`, and of U only U'X and
products of its blocks are asked for. A point of S+ is a label and a weight a row, beside U.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.point import sum_squares
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import MemoryMatrix, ask
from orthoplus.data.block_matrix import BlockMatrix
from orthoplus.data.groups import count_rows, support_labels
from orthoplus.data.stored import BlockedMatrix
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.refine import FOOTHOLD, MAX_ROUNDS, stationary_tol
from orthoplus.methods.search.polish import Polish
from orthoplus.problems.k_indicators import ALTERNATION_GAIN, MAX_ALTERNATIONS
from orthoplus.projection import project_stiefel_plus
from orthoplus.projection.merged import OPEN_ROWS, UndecidedColumnError, project_row_blocks

# The projection of a point of OB+ whose rounding leaves a column without a row.
_ROUNDING = Polish(tol=1e-12, max_passes=10)


@dataclass(frozen=True, eq=False)
class IndicatorsInBlocks(Problem):
    """`KIndicators` for a U in row blocks: what PALM asks for, at points that are `BlockMatrix`.

    Examples
    --------
    >>> from orthoplus.data.stored import Stored
    >>> U = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, -1.0]]) / 2
    >>> problem = IndicatorsInBlocks(Stored(U, 256))
    >>> X = problem.start(np.random.default_rng(0))
    >>> X.shape, round(problem.value(X), 6)
    ((4, 2), 0.304482)
    """

    U: BlockedMatrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.U.shape

    @cached_property
    def constant(self) -> float:
        """||U||_F^2 + k."""
        return self.U.squared_norm() + self.U.shape[1]

    def value(self, X: Any) -> float:
        return self.value_at(X.cross)

    def value_at(self, cross: FloatArray) -> float:
        """The value at an X with this U'X."""
        return self.constant - 2.0 * float(np.linalg.svd(cross, compute_uv=False).sum())

    def value_and_gradient(self, X: Any) -> tuple[float, FloatArray]:
        """min over Y, and the M of its gradient UM."""
        return self.at(self.second_block(X)).value_and_gradient(X)

    def start(self, rng: np.random.Generator) -> Any:
        return BlockMatrix.nearest(self.U)

    @property
    def Y0(self) -> FloatArray:
        """The identity."""
        return np.eye(self.shape[1])

    def second_block(self, X: Any) -> FloatArray:
        """The orthogonal Y that maximises <U'X, Y>, eq. (6.6a)."""
        return polar_factor(X.cross)

    @property
    def minimise_y(self) -> Any:
        """The closed form of the Y-step."""
        return self.second_block

    def y_step(self, X: Any, Y: FloatArray, beta: float) -> tuple[FloatArray, float]:
        """Eq. (6.5a): the polar factor of Y / beta + U'X; and beta."""
        return polar_factor(Y / beta + X.cross), beta

    def at(self, Y: FloatArray) -> "RotationInBlocks":
        """The linear problem in X alone, for this Y."""
        return RotationInBlocks(self.shape, -2.0 * Y, self.constant)


@dataclass(frozen=True, eq=False)
class RotationInBlocks(Problem):
    """||UY - X||^2 for a fixed Y: its gradient UM, M = -2Y, is known by M."""

    size: tuple[int, int]
    M: FloatArray
    constant: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    def value_and_gradient(self, X: Any) -> tuple[float, FloatArray]:
        return self.constant + float(np.vdot(self.M, X.cross)), self.M

    @property
    def lipschitz(self) -> float:
        return 0.0


class Groups(NamedTuple):
    """A point of S+: labels (-1 for a row of zeros) and weights beside the rows, U'X and f(X)."""

    labels: Any
    weights: Any
    cross: FloatArray
    value: float


def round_groups(problem: IndicatorsInBlocks, X: BlockMatrix) -> Groups:
    """Procedure 1; the nearest point of S+ where that would leave a column without a row."""
    U, (labels, entries) = problem.U, X.largest_entries()
    if not count_rows(U, labels, X.shape[1]).all():
        with suppress(UndecidedColumnError):
            labels, entries = _nearest(X.as_data(), _ROUNDING)
    return unit_groups(problem, labels, entries)


def unit_groups(problem: IndicatorsInBlocks, labels: Any, entries: Any) -> Groups:
    """The point with these entries, columns normalised; the first k unit vectors if one is empty.

    As `keep_largest` does with the largest entries of the rows.
    """
    U, k = problem.U, problem.shape[1]
    squares = U.reduce_rows(sum_squares, labels, entries, args=(k,), vectors_only=True)
    if not squares.all():
        labels, entries = U.map_rows(_first_rows, U.row_indices(), args=(k,), n_vectors=2)
        squares = np.ones(k)
    weights = U.map_rows(_over_norms, labels, entries, args=(np.sqrt(squares),))
    return _groups(problem, labels, weights)


def polish_groups(problem: IndicatorsInBlocks, groups: Groups, polish: Polish) -> Groups:
    """`Polish` in blocks: refined, then the certified X-step while that lowers the value.

    Ctrl-C ends it with the point it has; so does a rotation of more than 2^15 rows with columns
    that have too few positive entries to be projected in blocks.
    """
    best = groups
    try:
        best = refine_groups(problem, groups)
        for _ in range(polish.max_iter):
            Y = polar_factor(best.cross)
            labels, _ = _nearest(
                problem.U.derive(ask("multiplied"), args=(Y,), width=len(Y)), polish
            )
            if not problem.U.reduce_rows(_n_different, labels, best.labels, vectors_only=True):
                break
            moved = _recall(problem, _refine_on_support(problem, _fit(problem, labels, Y)))
            if not moved.value < best.value - polish.decrease * abs(best.value):
                break
            best = moved
    except (KeyboardInterrupt, UndecidedColumnError):
        pass
    return best


def refine_groups(problem: IndicatorsInBlocks, groups: Groups) -> Groups:
    """`orthoplus.methods.refine.refine` in blocks: both closed forms on the support in turn."""
    first = _fit(problem, groups.labels, polar_factor(groups.cross))
    return _recall(problem, _refine_on_support(problem, first))


# --- on a fixed support ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """The best X with these labels for a fixed Y, not made yet: its U'X, and how to make it."""

    labels: Any
    Y: FloatArray
    cross: FloatArray
    norms: FloatArray  # of the columns
    alone: tuple[IntArray, IntArray]  # columns without a positive entry, and the row each takes


def _fit(problem: IndicatorsInBlocks, labels: Any, Y: FloatArray) -> _Fit:
    """One pass over U: x_j is the positive part of (UY)_j on the rows of j, normalised.

    A column without a positive entry there takes its largest one alone, the first.
    """
    U = problem.U
    sums, squares = U.reduce_rows(_positive_sums, labels, args=(Y,))
    columns = np.flatnonzero(squares == 0.0)
    squares[columns] = 1.0
    cross, rows = (sums / np.sqrt(squares)[:, None]).T, columns
    if len(columns):
        found = U.reduce_rows(
            _best_rows, labels, U.row_indices(), args=(Y, columns), combine=_better
        )
        cross[:, columns], rows = found[2].T, found[1]
    return _Fit(labels, Y, cross, np.sqrt(squares), (columns, rows))


def _refine_on_support(problem: IndicatorsInBlocks, fit: _Fit) -> Groups:
    """Alternate until neither block gains, and make X: as `KIndicators.refine`."""
    value = -np.inf
    for _ in range(MAX_ALTERNATIONS):
        Y = polar_factor(fit.cross)
        if np.vdot(fit.cross, Y) <= value * (1.0 + ALTERNATION_GAIN):
            break
        value = float(np.vdot(fit.cross, Y))
        fit = _fit(problem, fit.labels, Y)
    args = (fit.Y, fit.norms, *fit.alone)
    U = problem.U
    labels, weights = U.map_rows(_fitted_rows, fit.labels, U.row_indices(), args=args, n_vectors=2)
    return _groups(problem, labels, weights)


def _groups(problem: IndicatorsInBlocks, labels: Any, weights: Any) -> Groups:
    cross = problem.U.group_sums(labels, weights, problem.shape[1]).T
    return Groups(labels, weights, cross, problem.value_at(cross))


def _recall(problem: IndicatorsInBlocks, groups: Groups) -> Groups:
    """Rows of zeros that the gradient -2UY calls back join the column where f falls fastest."""
    U, k = problem.U, problem.shape[1]
    least = stationary_tol(U) * np.sqrt(problem.constant - k)
    for _ in range(MAX_ROUNDS):
        args = (polar_factor(groups.cross), least)
        if not U.reduce_rows(_n_recalled, groups.labels, args=args):
            break
        labels, entries = U.map_rows(
            _recalled, groups.labels, groups.weights, args=args, n_vectors=2
        )
        moved = unit_groups(problem, labels, entries)
        moved = _refine_on_support(problem, _fit(problem, labels, polar_factor(moved.cross)))
        if not moved.value < groups.value:
            break
        groups = moved
    return groups


def _nearest(C: BlockedMatrix, options: Polish) -> tuple[Any, Any]:
    """Labels and weights of the projection onto S+.

    `project_row_blocks` would bring so few rows into memory, too: there the answer is that of a
    matrix in memory to the last bit.
    """
    limits: dict[str, Any] = {"tol": options.tol, "max_passes": options.max_passes}
    if len(C) > OPEN_ROWS:
        found: Any = project_row_blocks(C, **limits)
        return support_labels(C, found.labels, found.weights), found.weights
    found = project_stiefel_plus(C.to_dense(), **limits)
    return C.map_rows(_own_rows, C.row_indices(), args=(found.labels, found.weights), n_vectors=2)


# --- of one block ---------------------------------------------------------------------------------


def _over_norms(
    U: MemoryMatrix, labels: IntArray, entries: FloatArray, norms: FloatArray
) -> FloatArray:
    return np.where(labels >= 0, entries / norms[labels], 0.0).astype(entries.dtype)


def _first_rows(U: MemoryMatrix, numbers: IntArray, k: int) -> tuple[IntArray, FloatArray]:
    labels = np.where(numbers < k, numbers, -1)
    return labels, (labels >= 0).astype(U.dtype)


def _own_rows(
    C: MemoryMatrix, numbers: IntArray, labels: IntArray, weights: FloatArray
) -> tuple[IntArray, FloatArray]:
    return labels[numbers], weights[numbers].astype(C.dtype)


def _n_different(one: IntArray, other: IntArray) -> int:
    return int(np.count_nonzero(one != other))


def _entries(U: MemoryMatrix, labels: IntArray, Y: FloatArray) -> FloatArray:
    """(UY)_ij at the column j of each row i."""
    return U.group_dots(labels, np.ascontiguousarray(Y.T))


def _positive_sums(
    U: MemoryMatrix, labels: IntArray, Y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    entries = np.maximum(_entries(U, labels, Y), 0.0)
    return U.group_sums(labels, entries, len(Y)), sum_squares(labels, entries, len(Y))


_Best = tuple[FloatArray, IntArray, FloatArray]


def _best_rows(
    U: MemoryMatrix, labels: IntArray, numbers: IntArray, Y: FloatArray, columns: IntArray
) -> _Best:
    """Of each of these columns: its largest entry, the number of that row, and its row of U."""
    entries, top = _entries(U, labels, Y), np.full(len(columns), -np.inf)
    rows, vectors = np.full(len(columns), -1), np.zeros((len(columns), U.shape[1]))
    for place, column in enumerate(columns):
        own = np.flatnonzero(labels == column)
        if len(own):
            row = own[entries[own].argmax()]
            top[place], rows[place] = entries[row], numbers[row]
            vectors[place] = U.take_rows(np.array([row]))[0]
    return top, rows, vectors


def _better(one: _Best, other: _Best) -> _Best:
    is_better = other[0] > one[0]
    pairs = zip(one, other, strict=True)
    return tuple(  # type: ignore[return-value]
        np.where(is_better if a.ndim == 1 else is_better[:, None], b, a) for a, b in pairs
    )


def _fitted_rows(  # noqa: PLR0913
    U: MemoryMatrix,
    labels: IntArray,
    numbers: IntArray,
    Y: FloatArray,
    norms: FloatArray,
    columns: IntArray,
    rows: IntArray,
) -> tuple[IntArray, FloatArray]:
    weights = np.where(labels >= 0, np.maximum(_entries(U, labels, Y), 0.0) / norms[labels], 0.0)
    weights[np.isin(numbers, rows)] = 1.0
    weights = weights.astype(U.dtype)
    return np.where(weights > 0, labels, -1), weights


def _steepest(
    U: MemoryMatrix, labels: IntArray, Y: FloatArray, least: float
) -> tuple[IntArray, IntArray]:
    """Rows of zeros where an entry of UY is above the least, and the column of the largest."""
    rows = np.flatnonzero(labels < 0)
    scores = U.sample_rows(rows).matmul(Y)
    columns = scores.argmax(axis=1)
    is_steep = scores[np.arange(len(rows)), columns] > least
    return rows[is_steep], columns[is_steep]


def _n_recalled(U: MemoryMatrix, labels: IntArray, Y: FloatArray, least: float) -> int:
    return len(_steepest(U, labels, Y, least)[0])


def _recalled(
    U: MemoryMatrix, labels: IntArray, weights: FloatArray, Y: FloatArray, least: float
) -> tuple[IntArray, FloatArray]:
    rows, columns = _steepest(U, labels, Y, least)
    labels, weights = labels.copy(), weights.copy()
    labels[rows], weights[rows] = columns, FOOTHOLD
    return labels, weights
