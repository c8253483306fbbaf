"""Minimization of f on many supports of S+ at once, for tiny n: the oracle where no formula is.

With the labels fixed a point of S+ is a vector of n nonnegative weights, of unit norm on each
group. Every step minimizes a majorizer of f over these weights, so no step goes up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble
from orthoplus.problems import KIndicators

# Starts on each support, and rounds (steps, points kept): most supports are hopeless after a few
# steps, so the budget goes to the others.
STARTS = 8
ROUNDS = ((8, 0.4), (24, 0.2), (120, 0.1))
# Points that are followed to the end, the steps at most, and the move at which a point rests.
FINAL_POINTS, FINAL_STEPS, RESTING_MOVE = 24, 2000, 1e-13
NEWTON_STEPS = 6


@dataclass(frozen=True, eq=False)
class Polynomial(Problem):
    r"""A polynomial that couples the columns, without any structure that a method could use.

    .. math:: f(X) = \langle B, X \rangle + \tfrac12 \sum_{ijlm} H_{ijlm} X_{ij} X_{lm}
              + \tfrac q4 \sum_{ij} (X_{ij} - T_{ij})^4

    Parameters
    ----------
    B, T : arrays of shape (n, k)
    H : array of shape (n, k, n, k)
        Symmetric under the exchange of the two pairs of indices; indefinite allowed.
    quartic : float
        The weight q >= 0.

    Examples
    --------
    >>> Polynomial(np.eye(2), np.zeros((2, 2, 2, 2)), np.zeros((2, 2)), 0.0).value(np.eye(2))
    2.0
    """

    B: FloatArray
    H: FloatArray
    T: FloatArray
    quartic: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.B.shape[0], self.B.shape[1]

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        product, shift = np.tensordot(self.H, X), X - self.T
        value = np.vdot(self.B + 0.5 * product, X) + 0.25 * self.quartic * (shift**4).sum()
        return float(value), self.B + product + self.quartic * shift**3

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.asarray(np.tensordot(self.H, D) + 3.0 * self.quartic * (X - self.T) ** 2 * D)


class Restricted(Protocol):
    """f as a function of the weights, one labeling per point."""

    def value(self, W: FloatArray) -> FloatArray:
        """Return f of each row of W."""
        ...

    def target(self, W: FloatArray) -> FloatArray:
        """Return C such that the weights that maximize <C, .> do not raise f."""
        ...

    def select(self, points: IntArray) -> "Restricted":
        """Return the same f for these points only."""
        ...


@dataclass(frozen=True, eq=False)
class RestrictedPolynomial:
    """A `Polynomial` on labelings: its coefficients on the support, one set per point."""

    B: FloatArray
    H: FloatArray
    T: FloatArray
    quartic: float
    rest: FloatArray  # the constant part
    bound: FloatArray  # an upper bound of the largest eigenvalue of the Hessian

    @classmethod
    def of(cls, problem: Polynomial, labels: IntArray) -> "RestrictedPolynomial":
        """Gather the coefficients of each labeling."""
        rows, q = np.arange(labels.shape[1]), problem.quartic
        B, T = problem.B[rows, labels], problem.T[rows, labels]
        H = problem.H[rows[:, None], labels[:, :, None], rows[None, :], labels[:, None, :]]
        rest = 0.25 * q * ((problem.T**4).sum() - (T**4).sum(axis=1))
        steepest = np.maximum(T**2, (1.0 - T) ** 2).max(axis=1)  # of (w - t)^2 for w in [0, 1]
        bound = np.linalg.eigvalsh(H)[:, -1] + 3.0 * q * steepest
        return cls(B, H, T, q, rest, bound)

    def value(self, W: FloatArray) -> FloatArray:
        product = np.matmul(self.H, W[:, :, None])[:, :, 0]
        fourth = ((W - self.T) ** 4).sum(axis=1)
        return ((self.B + 0.5 * product) * W).sum(axis=1) + 0.25 * self.quartic * fourth + self.rest

    def gradient(self, W: FloatArray) -> FloatArray:
        """Return the gradient in the weights."""
        product = np.matmul(self.H, W[:, :, None])[:, :, 0]
        return self.B + product + self.quartic * (W - self.T) ** 3

    def target(self, W: FloatArray) -> FloatArray:
        # f(Z) <= f(W) + <g, Z - W> + L/2 ||Z - W||^2, and the norm of Z is fixed.
        return self.bound[:, None] * W - self.gradient(W)

    def select(self, points: IntArray) -> "RestrictedPolynomial":
        own = {name: getattr(self, name)[points] for name in ("B", "H", "T", "rest", "bound")}
        return replace(self, **own)

    def newton(self, W: FloatArray, members: FloatArray) -> FloatArray:
        """Return the step of Newton's method for the stationarity of the positive weights."""
        (s, n), k = W.shape, members.shape[2]
        g = self.gradient(W)
        columns = members * W[:, :, None]
        multipliers = (columns * g[:, :, None]).sum(axis=1)
        own = (members * multipliers[:, None, :]).sum(axis=2)
        free = W > 0
        system = np.zeros((s, n + k, n + k))
        system[:, :n, :n] = self.H * (free[:, :, None] & free[:, None, :])
        diagonal = 3.0 * self.quartic * (W - self.T) ** 2 - own
        system[:, np.arange(n), np.arange(n)] += np.where(free, diagonal, 1.0)
        system[:, :n, n:] = columns
        system[:, n:, :n] = columns.transpose(0, 2, 1)
        side = np.concatenate([np.where(free, own * W - g, 0.0), np.zeros((s, k))], axis=1)
        try:
            return np.linalg.solve(system, side[:, :, None])[:, :n, 0]
        except np.linalg.LinAlgError:
            return np.zeros_like(W)


@dataclass(frozen=True, eq=False)
class RestrictedIndicators:
    """`KIndicators` on labelings: a constant less twice the nuclear norm of U'X."""

    U: FloatArray
    members: FloatArray
    constant: float

    @classmethod
    def of(cls, problem: KIndicators, labels: IntArray) -> "RestrictedIndicators":
        U = np.asarray(problem.U, dtype=np.float64)
        return cls(U, members_of(labels, U.shape[1]), float((U**2).sum()) + U.shape[1])

    def _cross(self, W: FloatArray) -> FloatArray:
        return np.matmul(self.U.T, self.members * W[:, :, None])

    def value(self, W: FloatArray) -> FloatArray:
        fit = np.linalg.svd(self._cross(W), compute_uv=False).sum(axis=1)
        return self.constant - 2.0 * fit

    def target(self, W: FloatArray) -> FloatArray:
        left, _, right = np.linalg.svd(self._cross(W))
        return (np.matmul(self.U, left @ right) * self.members).sum(axis=2)

    def select(self, points: IntArray) -> "RestrictedIndicators":
        return replace(self, members=self.members[points])


def members_of(labels: IntArray, k: int) -> FloatArray:
    """Return the indicator matrix of each labeling, shape (s, n, k)."""
    return (labels[:, :, None] == np.arange(k)).astype(np.float64)


def full_labelings(n: int, k: int, *, up_to_order: bool) -> IntArray:
    """Return the labelings of n rows that use each of k labels, one per row of the result.

    A weight may be zero, so labelings without a row that belongs to no column cover all of S+.

    Parameters
    ----------
    n, k : int
    up_to_order : bool
        Whether to keep one of the labelings that differ by the names of the labels only.

    Examples
    --------
    >>> full_labelings(3, 2, up_to_order=True)
    array([[0, 0, 1],
           [0, 1, 0],
           [0, 1, 1]])
    """
    labels = np.array(list(product(range(k), repeat=n)), dtype=np.int64)
    kept = (labels[:, :, None] == np.arange(k)).any(axis=1).all(axis=1)
    if up_to_order:
        first = (labels[:, :, None] == np.arange(k)).argmax(axis=1)
        kept &= (np.diff(first, axis=1) > 0).all(axis=1)
    return labels[kept]


def fit_groups(C: FloatArray, members: FloatArray) -> FloatArray:
    """Return the weights that maximize <C, W>: the positive part of each group, normalized.

    A group without a positive entry takes its largest one alone.
    """
    W = np.maximum(C, 0.0)
    norms = np.sqrt(np.matmul((W * W)[:, None, :], members)[:, 0, :])
    for point, group in zip(*np.nonzero(norms == 0.0), strict=True):
        own = np.where(members[point, :, group] > 0, C[point], -np.inf)
        W[point, own.argmax()] = norms[point, group] = 1.0
    return np.asarray(W / np.matmul(members, norms[:, :, None])[:, :, 0])


def minimize_on_supports(
    problem: Polynomial | KIndicators,
    rng: np.random.Generator,
    *,
    n_starts: int = STARTS,
    rounds: Sequence[tuple[int, float]] = ROUNDS,
) -> tuple[float, FloatArray]:
    """Minimize f on every support from several starts, and return the best value with its X.

    Parameters
    ----------
    problem : Polynomial or KIndicators
    rng : Generator
        For the starts.
    n_starts : int
        Starts on each support, the first with equal weights.
    rounds : sequence of (int, float)
        Steps of a round, and the share of the points that it leaves to the next.
    """  # fmt: skip
    n, k = problem.shape
    # The names of the columns do not matter to KIndicators: Y takes them up.
    up_to_order = isinstance(problem, KIndicators)
    labels = np.tile(full_labelings(n, k, up_to_order=up_to_order), (n_starts, 1))
    start = np.abs(rng.standard_normal(labels.shape))
    start[: len(labels) // n_starts] = 1.0
    members = members_of(labels, k)
    model: Restricted
    if isinstance(problem, KIndicators):
        model = RestrictedIndicators.of(problem, labels)
    else:
        model = RestrictedPolynomial.of(problem, labels)
    W = fit_groups(start, members)
    for steps, share in (*rounds, (FINAL_STEPS, 0.0)):
        W = _follow(model, W, members, steps)
        best = np.argsort(model.value(W))[: max(int(share * len(W)), FINAL_POINTS)]
        model, W, members, labels = model.select(best), W[best], members[best], labels[best]
    if isinstance(model, RestrictedPolynomial):
        W = _finish(model, W, members)
    i = int(np.argmin(model.value(W)))
    return float(model.value(W)[i]), assemble(np.where(W[i] > 0, labels[i], -1), W[i], k)


def _follow(model: Restricted, W: FloatArray, members: FloatArray, steps: int) -> FloatArray:
    for _ in range(steps):
        new = fit_groups(model.target(W), members)
        move = np.abs(new - W).max()
        W = new
        if move <= RESTING_MOVE:
            break
    return W


def _finish(model: RestrictedPolynomial, W: FloatArray, members: FloatArray) -> FloatArray:
    """Take Newton steps from each point as long as they go down."""
    for _ in range(NEWTON_STEPS):
        new: FloatArray = W + model.newton(W, members)
        is_inside = np.asarray((np.isfinite(new) & (new >= 0.0)).all(axis=1))
        new = fit_groups(np.where(is_inside[:, None], new, W), members)
        is_lower = np.asarray(model.value(new) < model.value(W))
        W = np.where(is_lower[:, None], new, W)
    return W
