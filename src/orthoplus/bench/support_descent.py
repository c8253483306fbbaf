"""Minimize f on many supports of S+ at once, for tiny n; an oracle for problems without a formula.

With the labels fixed a point of S+ is a vector of n nonnegative weights, of unit norm on each
group. Every step minimizes a majorizer of f over these weights, so f never increases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import minimize

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble
from orthoplus.problems import KIndicators

# Starts per support, and rounds (steps, points kept). Most supports are not competitive after a few
# steps, so the budget goes to the others.
STARTS = 8
ROUNDS = ((8, 0.4), (24, 0.2), (120, 0.1))
# Points that are followed to the end, maximum number of steps, move at which a point has converged,
# and points that SciPy refines.
FINAL_POINTS, FINAL_STEPS, RESTING_MOVE, POLISHED_POINTS = 24, 2000, 1e-13, 3


@dataclass(frozen=True, eq=False)
class Polynomial(Problem):
    r"""A polynomial that couples the columns, without any structure that a method could use.

    .. math:: f(X) = \langle B, X \rangle + \tfrac12 \sum_{ijlm} H_{ijlm} X_{ij} X_{lm}
              + \tfrac q4 \sum_{ij} (X_{ij} - T_{ij})^4

    B and T are n x k, H is n x k x n x k and symmetric, perhaps indefinite, and q >= 0.

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
        """Return the shape (n, k) of the linear term B."""
        return self.B.shape[0], self.B.shape[1]

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate `at_points` at the single point X."""
        values, gradients = self.at_points(X[None])
        return float(values[0]), gradients[0]

    def at_points(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return f and its gradient at each of s points, X of shape (s, n, k)."""
        shift, size = X - self.T, self.B.size
        product = (X.reshape(-1, size) @ self.H.reshape(size, size)).reshape(X.shape)
        cube = self.quartic * shift * shift * shift  # ten times as fast as a power
        values = np.einsum("sij,sij->s", self.B + 0.5 * product, X)
        return values + 0.25 * np.einsum("sij,sij->s", cube, shift), self.B + product + cube

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return H[D] + 3 quartic (X - T)^2 o D."""
        return np.asarray(np.tensordot(self.H, D) + 3.0 * self.quartic * (X - self.T) ** 2 * D)

    def curvatures(self, labels: IntArray) -> FloatArray:
        """Bound the largest eigenvalue of the Hessian in the weights of each labeling."""
        rows = np.arange(labels.shape[1])
        T = self.T[rows, labels]
        H = self.H[rows[:, None], labels[:, :, None], rows[None, :], labels[:, None, :]]
        steepest = np.maximum(T**2, (1.0 - T) ** 2).max(axis=1)  # of (w - t)^2 for w in [0, 1]
        return np.asarray(np.linalg.eigvalsh(H)[:, -1] + 3.0 * self.quartic * steepest)


def _at_points(problem: Polynomial | KIndicators, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return f and its gradient at each point; f of `KIndicators` is concave."""
    if isinstance(problem, Polynomial):
        return problem.at_points(X)
    left, sigma, right = np.linalg.svd(np.matmul(problem.U.T, X))
    values = (problem.U**2).sum() + X.shape[2] - 2.0 * sigma.sum(axis=1)
    return values, -2.0 * np.matmul(problem.U, left @ right)


def full_labelings(n: int, k: int, *, up_to_order: bool) -> IntArray:
    """Return the labelings of n rows that use each of k labels, one per row of the result.

    A weight may be zero, so labelings without a row that belongs to no column cover all of S+. Of
    labelings that differ by the names of the labels only, ``up_to_order`` keeps one.

    Examples
    --------
    >>> full_labelings(3, 2, up_to_order=True)
    array([[0, 0, 1],
           [0, 1, 0],
           [0, 1, 1]])
    """
    labels = np.array(list(product(range(k), repeat=n)), dtype=np.int64)
    used = labels[:, :, None] == np.arange(k)
    kept = used.any(axis=1).all(axis=1)
    if up_to_order:
        kept &= (np.diff(used.argmax(axis=1), axis=1) > 0).all(axis=1)
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

    The first start on a support has equal weights. A round has a number of steps, and the share of
    the points that it leaves to the next.
    """
    n, k = problem.shape
    is_polynomial = isinstance(problem, Polynomial)
    # KIndicators does not depend on the order of the columns, because Y absorbs it.
    labels = np.tile(full_labelings(n, k, up_to_order=not is_polynomial), (n_starts, 1))
    start = np.abs(rng.standard_normal(labels.shape))
    start[: len(labels) // n_starts] = 1.0
    bounds: FloatArray = np.zeros(len(labels))
    if isinstance(problem, Polynomial):
        bounds = problem.curvatures(labels)
    members = (labels[:, :, None] == np.arange(k)).astype(np.float64)
    W = fit_groups(start, members)
    for steps, share in (*rounds, (FINAL_STEPS, 0.0)):
        for _ in range(steps):
            # f(Z) <= f(X) + <g, Z - X> + L/2 ||Z - X||^2, and the norm of Z is fixed.
            gradients = (_at_points(problem, members * W[:, :, None])[1] * members).sum(axis=2)
            last, W = W, fit_groups(bounds[:, None] * W - gradients, members)
            if np.abs(W - last).max() <= RESTING_MOVE:
                break
        values = _at_points(problem, members * W[:, :, None])[0]
        best = np.argsort(values)[: max(int(share * len(W)), FINAL_POINTS)]
        W, members, labels, bounds = W[best], members[best], labels[best], bounds[best]
    points = [assemble(np.where(w > 0, own, -1), w, k) for w, own in zip(W, labels, strict=True)]
    if is_polynomial:
        points += [_polish(problem, X) for X in points[:POLISHED_POINTS]]
    X = min(points, key=problem.value)
    return problem.value(X), X


def _polish(problem: Problem, X: FloatArray) -> FloatArray:
    """Refine a point on its support with SciPy, because plain steps are slow if f is flat."""
    n, k = problem.shape
    rows, labels = np.flatnonzero(X.any(axis=1)), X.argmax(axis=1)
    members = (labels[:, None] == np.arange(k)).astype(float)

    def value_and_gradient(w: FloatArray) -> tuple[float, FloatArray]:
        value, G = problem.value_and_gradient(members * w[:, None])
        return value, G[np.arange(n), labels]

    found = minimize(
        value_and_gradient,
        X.max(axis=1),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0 if i in rows else 0.0) for i in range(n)],
        constraints={"type": "eq", "fun": lambda w: (w * w) @ members - 1.0},
        options={"ftol": 1e-15},
    )
    w = fit_groups(found.x[None], members[None])[0]
    return assemble(np.where(w > 0, labels, -1), w, k)
