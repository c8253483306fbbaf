"""ONP-MF: orthonormal factors with penalized negativity (Pompili et al. 2014)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import (
    check_choice,
    check_count,
    check_growth,
    check_positive,
    check_range,
)
from orthoplus.core.outer_method import Diagnostics, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import polar_factor, violation
from orthoplus.linalg.starts import signed_left_vectors
from orthoplus.methods.factors import data_of, factor_model
from orthoplus.methods.stiefel_descent import NegativityStop

# Maximum number of halvings of a step; after these, the point is kept and only the penalty grows.
_MAX_HALVINGS = 40


class ONPState(NamedTuple):
    """Hold U with orthonormal columns (``factor``), its multipliers, the penalty and the step."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    factor: FloatArray
    multipliers: FloatArray
    sigma: float
    step_length: float
    negativity: float
    n_inner: int


@dataclass(frozen=True)
class ONPMF(SeededMethod):
    r"""Minimize an augmented Lagrangian for X >= 0 over the Stiefel manifold.

    .. math:: L(U, Y) = \tfrac12 \|A - UY^\top\|_F^2 - \langle \Lambda, U \rangle
              + \tfrac{\rho}{2} \|\min(U, 0)\|_F^2, \qquad U^\top U = I,\; Y \ge 0,

    with one projected gradient step in U, the best Y, :math:`\rho \leftarrow c \rho` and
    :math:`\Lambda \leftarrow \max(\Lambda - (\alpha / t)\, U, 0)` in iteration t.

    Parameters
    ----------
    start : {"svd", "given"}
        Left singular vectors, each with the sign whose positive part is larger, or the orthonormal
        matrix closest to the given X.
    penalty_start, penalty_growth : float
        The first rho and its growth c. They are absolute, as published, so that scaling A changes
        the run.
    multiplier_step : float
        The step alpha of the multipliers.
    decrease : float
        Share of the predicted decrease that a step must attain (Armijo condition).
    step_growth : float
        Factor between the last step and the first trial step.
    negativity_tol : float
        Value of ||min(U, 0)|| / ||U|| at which to stop.
    max_iter : int
        Maximum number of iterations.
    seed : int
        Seed of the SVD of the start.

    Notes
    -----
    Neurocomputing 141 (2014), 15-25, section 4. The step follows the Riemannian gradient and is
    retracted by the polar factor; its length is halved until the Armijo condition holds. Because
    U'U = I, the optimal Y is max(A'U, 0), and the fit needs only AY. ``X`` is max(U, 0) with unit
    columns, and ``violation`` refers to U. An iteration costs two products with A and a few
    products of n x k with k x k.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=ONPMF()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    state_type = ONPState
    ends_with_search = False  # baselines are compared without a search

    start: str = "svd"
    penalty_start: float = 1e-2
    penalty_growth: float = 1.01
    multiplier_step: float = 1e2
    decrease: float = 1e-4
    step_growth: float = 2.0
    negativity_tol: float = 1e-3
    max_iter: int = 3000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("svd", "given"))
        check_positive(self.penalty_start, "penalty_start")
        check_growth(self.penalty_growth, "penalty_growth")
        check_range(self.multiplier_step, "multiplier_step", low=0.0)
        check_range(self.decrease, "decrease", low=0.0, high=0.5)
        check_growth(self.step_growth, "step_growth")
        check_range(self.negativity_tol, "negativity_tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> ONPState:
        """Return the state with U, zero multipliers, the first penalty and a unit step."""
        A = data_of(problem)
        # The closest matrix with orthonormal columns.
        U = polar_factor(X.astype(np.float64))
        if self.start == "svd":
            vectors = signed_left_vectors(A, X.shape[1], np.random.default_rng(self.seed))
            if vectors.shape == X.shape:  # A may have fewer than k singular vectors
                U = vectors
        return _state(problem, U, np.zeros_like(U), (self.penalty_start, 1.0, 0, 0))

    def step(self, problem: Problem, state: ONPState) -> ONPState:
        """Perform one step in U with a larger penalty, then update the multipliers and Y."""
        sigma, n_iter = self.penalty_growth * state.sigma, state.n_iter + 1
        AY = data_of(problem).times(state.Y).astype(np.float64, copy=False)
        lagrangian = _Lagrangian(AY + state.multipliers, sigma)
        U, length, n_trials = self._descend(lagrangian, state.factor, state.step_length)
        # Lambda <- max(Lambda - (alpha / t) U, 0), as published.
        multipliers = np.maximum(state.multipliers - self.multiplier_step / n_iter * U, 0.0)
        return _state(problem, U, multipliers, (sigma, length, n_iter, n_trials))

    def diagnostics(self, state: ONPState) -> Diagnostics:
        """Return the penalty parameter and the number of projected gradient steps."""
        return Diagnostics(state.sigma, state.n_inner)

    def stop(self) -> NegativityStop:
        """Return the stopping rule: the negativity is small, or the limit is reached."""
        return NegativityStop(self.negativity_tol, self.max_iter)

    def _descend(
        self, lagrangian: "_Lagrangian", U: FloatArray, last: float
    ) -> tuple[FloatArray, float, int]:
        """Return the next U, its step length, and the number of trials."""
        value, gradient = lagrangian.value(U), lagrangian.gradient(U)
        slope = float(np.vdot(gradient, gradient))
        # Try a longer step first, then halve it until the Armijo condition holds.
        length = self.step_growth * last
        for trial in range(1, _MAX_HALVINGS + 1):
            moved = polar_factor(U - length * gradient)
            if lagrangian.value(moved) <= value - self.decrease * length * slope:
                return moved, length, trial
            length *= 0.5
        return U, last, _MAX_HALVINGS


class _Lagrangian(NamedTuple):
    """Evaluate L for a fixed Y up to a constant: -<C, U> + rho/2 ||min(U, 0)||^2.

    Here C = AY + Lambda, and ||UY'|| = ||Y|| because U'U = I.
    """

    C: FloatArray
    sigma: float

    def value(self, U: FloatArray) -> float:
        negative = np.minimum(U, 0.0)
        return 0.5 * self.sigma * float(np.vdot(negative, negative)) - float(np.vdot(self.C, U))

    def gradient(self, U: FloatArray) -> FloatArray:
        """Return the Riemannian gradient G - U sym(U'G)."""
        G = self.sigma * np.minimum(U, 0.0) - self.C
        inner = U.T @ G
        return np.asarray(G - U @ (0.5 * (inner + inner.T)))


def _state(
    problem: Problem,
    U: FloatArray,
    multipliers: FloatArray,
    progress: tuple[float, float, int, int],
) -> ONPState:
    sigma, step_length, n_iter, n_inner = progress
    Y = np.maximum(data_of(problem).times_transposed(U).astype(np.float64, copy=False), 0.0)
    return ONPState(
        X=project_oblique_plus(U),
        # <A'U, Y> = ||Y||^2 for Y = max(A'U, 0).
        value=factor_model(problem).total - float(np.vdot(Y, Y)),
        violation=violation(U),
        Y=Y,
        n_iter=n_iter,
        factor=U,
        multipliers=multipliers,
        sigma=sigma,
        step_length=step_length,
        negativity=float(np.linalg.norm(np.minimum(U, 0.0)) / np.linalg.norm(U)),
        n_inner=n_inner,
    )
