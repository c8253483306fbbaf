"""ONP-MF: orthonormal factors with penalised negativity (Pompili et al. 2014)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from orthoplus.checks import check_choice, check_count, check_growth, check_positive, check_range
from orthoplus.geometry import polar_factor, project_oblique_plus, violation
from orthoplus.methods.factors import data_of
from orthoplus.protocols import Carry, FloatArray, Problem
from orthoplus.starts import signed_left_vectors
from orthoplus.status import Status

# No step is shorter than this: where none falls, the point stays and the penalty grows.
_LEAST_STEP = 1e-15


class ONPState(NamedTuple):
    """U with orthonormal columns (``factor``), its multipliers, the penalty and the step length."""

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
class ONPMF:
    r"""Augmented Lagrangian for X >= 0 over the Stiefel manifold, by projected gradient.

    .. math:: L(U, Y) = \tfrac12 \|A - UY^\top\|_F^2 - \langle \Lambda, U \rangle
              + \tfrac{\rho}{2} \|\min(U, 0)\|_F^2, \qquad U^\top U = I,\; Y \ge 0,

    with one projected gradient step in U, the best Y, :math:`\rho \leftarrow c \rho` and
    :math:`\Lambda \leftarrow \max(\Lambda - (\alpha / t)\, U, 0)` in iteration t.

    Parameters
    ----------
    start : {"svd", "given"}
        Left singular vectors, each with the sign whose positive part is larger; or the orthonormal
        matrix nearest to the given X.
    penalty_start, penalty_growth : float
        rho and c. They are absolute, as in the authors' code: scaling A changes the run.
    multiplier_step : float
        alpha.
    step_growth : float
        Factor of the search for the step length, upwards while the Lagrangian falls faster,
        otherwise downwards until it falls.
    negativity_tol : float
        Stop when ||min(U, 0)|| / ||U|| is at most this.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    Neurocomputing 141 (2014), 15-25; parameters of the authors' code. ``X`` is max(U, 0) with unit
    columns, ``violation`` belongs to U. Because U'U = I the best Y is max(A'U, 0). An iteration
    costs two products with A and a few thin SVDs of n x k.
    """

    state_type: ClassVar[Any] = ONPState

    start: str = "svd"
    penalty_start: float = 1e-2
    penalty_growth: float = 1.01
    multiplier_step: float = 1e2
    step_growth: float = 1.1
    negativity_tol: float = 1e-3
    max_iter: int = 3000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("svd", "given"))
        check_positive(self.penalty_start, "penalty_start")
        check_growth(self.penalty_growth, "penalty_growth")
        check_range(self.multiplier_step, "multiplier_step", low=0.0)
        check_growth(self.step_growth, "step_growth")
        check_range(self.negativity_tol, "negativity_tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> ONPState:
        """U, no multipliers, the first penalty and a unit step."""
        A = data_of(problem)
        U = polar_factor(X.astype(np.float64))
        if self.start == "svd":
            vectors = signed_left_vectors(A, X.shape[1], np.random.default_rng(self.seed))
            if vectors.shape == X.shape:  # A with fewer columns than k has fewer vectors
                U = vectors
        Y = np.maximum(A.T @ U, 0.0)
        return _state(problem, U, Y, np.zeros_like(U), (self.penalty_start, 1.0, 0, 0))

    def step(self, problem: Problem, state: ONPState) -> ONPState:
        """One step in U; then the multipliers, and the best Y."""
        A, U, Y = data_of(problem), state.factor, state.Y
        sigma = self.penalty_growth * state.sigma
        model = _Lagrangian(A @ Y, state.multipliers, sigma)
        move = model.AY - U @ (Y.T @ Y) + state.multipliers + sigma * np.maximum(-U, 0.0)
        U, length, n_trials = self._search(model, U, move, state.step_length)
        n_iter = state.n_iter + 1
        multipliers = np.maximum(state.multipliers - self.multiplier_step / n_iter * U, 0.0)
        Y = np.maximum(A.T @ U, 0.0)
        return _state(problem, U, Y, multipliers, (sigma, length, n_iter, n_trials))

    def stop(self) -> "NegativityStop":
        """Stop when little is negative, or at the iteration limit."""
        return NegativityStop(self.negativity_tol, self.max_iter)

    def _search(
        self, model: "_Lagrangian", U: FloatArray, move: FloatArray, length: float
    ) -> tuple[FloatArray, float, int]:
        """The new U, the step length, and how many were tried."""
        first, value = model.value(U), np.inf
        best, n_trials = U, 0
        while length > _LEAST_STEP:
            trial = polar_factor(U + length * move)
            trial_value, n_trials = model.value(trial), n_trials + 1
            if trial_value < min(first, value):
                has_grown_here = value < np.inf or n_trials == 1
                best, value = trial, trial_value
                if not has_grown_here:
                    break
                length *= self.step_growth
            else:
                length /= self.step_growth
                if value < np.inf:
                    break
        return best, length, n_trials


@dataclass(frozen=True)
class NegativityStop:
    """Looks at a state of ONP-MF and says when to stop."""

    negativity_tol: float
    max_iter: int

    def __call__(self, state: ONPState) -> Status:
        if state.n_iter > 0 and state.negativity <= self.negativity_tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


class _Lagrangian(NamedTuple):
    """L as a function of U with U'U = I, without what does not depend on U."""

    AY: FloatArray
    multipliers: FloatArray
    sigma: float

    def value(self, U: FloatArray) -> float:
        negative = np.minimum(U, 0.0)
        linear = float(np.vdot(self.AY, U)) + float(np.vdot(self.multipliers, U))
        return 0.5 * self.sigma * float(np.vdot(negative, negative)) - linear


def _state(
    problem: Problem,
    U: FloatArray,
    Y: FloatArray,
    multipliers: FloatArray,
    progress: tuple[float, float, int, int],
) -> ONPState:
    sigma, step_length, n_iter, n_inner = progress
    return ONPState(
        X=project_oblique_plus(U),
        # <A'U, Y> = ||Y||^2 for Y = max(A'U, 0).
        value=problem.total - float(np.vdot(Y, Y)),  # type: ignore[attr-defined]
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
