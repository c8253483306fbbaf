"""EP4Orth+, the exact penalty method: Algorithm 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from orthoplus.core.checks import check_count, check_growth, check_positive, check_range, check_type
from orthoplus.core.method import minimise_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import ROUNDOFF, Carry, FloatArray
from orthoplus.data.block_matrix import BlockMatrix
from orthoplus.geometry.stiefel import keep_largest
from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.palm import PALM
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.polish import Polish
from orthoplus.methods.separation import Beginning, begin, columns_coincide
from orthoplus.methods.theory import FollowsTheory
from orthoplus.penalty.family import Penalised, PowerPenalty, check_mixing

Inner = ProjectedGradient | RegularizedNewton | PALM

_ROUNDOFFS = 10
_FALL = 0.95  # a violation has fallen if it is below this share of the one before


class PenaltyState(NamedTuple):
    """All the next outer iteration needs: X^t with its sigma_t, eps_t and tolerance.

    ``gradient`` is that of f at X, None where the inner solver did not leave it; ``value_feas`` is
    f at X^feas, NaN until somebody asks for it. ``is_stationary`` and ``is_descent`` say whether
    this iteration met (4.1) and (4.2), see `HistoryRow`; None before the first. ``has_collapsed``
    says that two columns have met.
    """

    X: FloatArray
    value: float
    gradient: FloatArray | None
    violation: float
    sigma: float
    eps: float
    tol: float
    unit: float
    X_feas: FloatArray
    value_feas: float
    carries: Mapping[str, Carry]
    Y: FloatArray | None
    n_iter: int
    n_inner: int
    n_stalled: int
    is_stationary: bool | None = None
    is_descent: bool | None = None
    has_collapsed: bool = False


@dataclass(frozen=True)
class EP4Orth(FollowsTheory):
    r"""EP4Orth+, Algorithm 1: a sequence of penalised problems over OB+.

    .. math:: X^t \approx \arg\min_{X \in \mathcal{OB}_+} f(X)
              + \sigma_t (\|XV\|_F^q - 1 + \epsilon_t)^p, \qquad \sigma_{t+1} = \gamma_2 \sigma_t,

    each from the last, until :math:`\|X^tV\|_F^2 - 1` is small; then rounding and refinement.

    Parameters
    ----------
    inner : ProjectedGradient, RegularizedNewton or PALM
        Solver of the penalised problem; PALM for a problem with two blocks.
    second_order : RegularizedNewton, optional
        Takes over once the violation is at most ``switch_violation``.
    switch_violation : float
        zeta-bar; 0 never switches, infinity always uses the second-order solver.
    penalty_start : float
        sigma_0, in units of ``penalty_unit``.
    penalty_unit : float, optional
        By default the sigma at which a relaxed point and its rounding cost the same, so that the
        scale of f does not matter. The paper's parameters are absolute: 1.
    penalty_growth, penalty_growth_late : float
        gamma_2 while ||XV||^2 > 2, and afterwards (None: the same).
    penalty_max : float
        Largest sigma, in the same units.
    p, q, V
        The penalty's exponents and its mixing matrix, as in `PowerPenalty`.
    smoothing_start : float
        eps_0. With p < 1 it must be positive.
    smoothing_decay : float, optional
        gamma_1. By default 1 for p >= 1 and 0.95 gamma_2^(-1/p) for p < 1, where Algorithm 1 asks
        for less than gamma_2^(-1/p) and more is refused.
    tol_start, tol_decay, tol_min : float
        First tolerance of the inner solver, its factor eta, and its floor.
    feasibility_tol : float
        Stop when ||XV||_F^2 - 1 is at most this.
    max_iter : int
        Outer iterations.
    patience : int, optional
        Stop after this many outer iterations, in all, that did not lower the violation by five
        percent: the published table of projections was made so.
    safeguard : bool
        Start an iteration from X^feas, a feasible point that has seen f, if the penalized objective
        is lower there: what Theorem 4.1 needs. It also keeps columns from meeting in one, see
        `orthoplus.methods.separation`. The published tables were made without: with a penalty that
        grows fivefold and a loose inner tolerance it would throw away the path.
    polish : Polish, optional
        What `solve` does after rounding and refinement: descent over S+ itself.

    Notes
    -----
    Theorem 4.1 asks for eta < gamma_1^(1-p) / gamma_2. The default, 0.9 > 1 / 1.2, does not satisfy
    it, nor do the paper's own experiments and the presets made after them: `for_theory` does.

    An outer iteration costs the inner solver's steps, each one evaluation of f and its gradient and
    O(nk) besides; ``docs/method.md`` has the mathematics.

    References
    ----------
    B. Jiang, X. Meng, Z. Wen and X. Chen, *An exact penalty approach for optimization with
    nonnegative orthogonality constraints*, Math. Program. (2023), Algorithm 1.

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.TraceMin(np.diag([3.0, 1.0, 2.0]), 2)
    >>> result = op.solve(problem, method=EP4Orth(penalty_growth=1.5))
    >>> sorted(result.labels.tolist()), round(result.value, 6)  # -1: a row of zeros
    ([-1, 0, 1], 3.0)
    """

    state_type: ClassVar[Any] = PenaltyState

    inner: Inner = field(default_factory=lambda: ProjectedGradient(max_iter=100))
    second_order: RegularizedNewton | None = None
    switch_violation: float = 0.0
    penalty_start: float = 1e-2
    penalty_unit: float | None = None
    penalty_growth: float = 1.2
    penalty_growth_late: float | None = None
    penalty_max: float = np.inf
    p: float = 1.0
    q: float = 2.0
    V: FloatArray | None = None
    smoothing_start: float = 0.0
    smoothing_decay: float | None = None
    tol_start: float = 1e-2
    tol_decay: float = 0.9
    tol_min: float = 1e-7
    feasibility_tol: float = 1e-8
    max_iter: int = 300
    patience: int | None = None
    safeguard: bool = True
    polish: Polish | None = None

    def __post_init__(self) -> None:
        check_type(self.inner, "inner", ProjectedGradient, RegularizedNewton, PALM)
        check_type(self.second_order, "second_order", RegularizedNewton, type(None))
        check_type(self.polish, "polish", Polish, type(None))
        for name in ("penalty_start", "p", "q"):
            check_positive(getattr(self, name), name)
        for name in ("penalty_max", "tol_start"):
            check_positive(getattr(self, name), name, finite=False)
        if self.penalty_unit is not None:
            check_positive(self.penalty_unit, "penalty_unit")
        check_growth(self.penalty_growth, "penalty_growth")
        if self.penalty_growth_late is not None:
            check_growth(self.penalty_growth_late, "penalty_growth_late")
        for name in ("switch_violation", "smoothing_start", "feasibility_tol", "tol_min"):
            check_range(getattr(self, name), name, low=0.0)
        check_range(self.tol_decay, "tol_decay", low=1e-3, high=1.0)
        check_count(self.max_iter, "max_iter", low=1)
        if self.patience is not None:
            check_count(self.patience, "patience", low=1)
        self.check_smoothing()
        if self.V is not None:
            object.__setattr__(self, "V", check_mixing(self.V))

    @classmethod
    def for_projection(cls, **changes: Any) -> "EP4Orth":
        """The paper's parameters for the projection onto S+, section 6.1.

        It does not print its first tolerance: this one was chosen because with it the numbers of
        projections and of solved instances come out as in its table. A larger one solves more.
        Nor does it say when a run that no longer improves ends: ``patience`` ends it here, and
        ``max_iter`` is 1000 instead of the t_max = 300 of section 6 so that it never decides.
        """
        step = ProjectedGradient(
            step_rule="fixed", step_fraction=0.99, criterion="step", min_iter=3, max_iter=100
        )
        paper: dict[str, Any] = {
            "inner": step,
            "penalty_start": 1e-2,
            "penalty_unit": 1.0,
            "penalty_growth": 5.0,
            "tol_start": 1.5,
            "tol_decay": 0.8,
            "max_iter": 1000,
            "patience": 5,
            "safeguard": False,
        }
        return cls(**(paper | changes))

    @classmethod
    def for_onmf(cls, *, size: float = 1.0, **changes: Any) -> "EP4Orth":
        """The paper's parameters for orthogonal NMF, section 6.2; ``size`` is ||A||_F^2."""
        newton = RegularizedNewton(
            shrink=0.98, grow=1.3, tau_unit=size, criterion="step", max_iter=20
        )
        paper: dict[str, Any] = {
            "inner": ProjectedGradient(criterion="step", min_iter=3, max_iter=20),
            "second_order": newton,
            "switch_violation": 5.0,
            "penalty_start": 1e-3,
            "penalty_unit": size,
            "penalty_growth": 1.05,
            "penalty_growth_late": 1.03,
            "penalty_max": 1e5,
            "tol_start": 0.1,
            "tol_decay": 0.98,
            "safeguard": False,
        }
        return cls(**(paper | changes))

    @classmethod
    def for_unmixing(cls, *, size: float = 1.0, **changes: Any) -> "EP4Orth":
        """The paper's parameters for hyperspectral images, section 6.2; ``size`` is ||A||_F^2.

        They stop far from S+: rounding and refinement, or a polish, must follow, as `solve` does.
        """
        paper: dict[str, Any] = {
            "switch_violation": 0.6,
            "penalty_growth": 1.1 * 1.05,
            "penalty_growth_late": 1.1 * 1.03,
            "feasibility_tol": 0.3,
        }
        return cls.for_onmf(size=size, **(paper | changes))

    @classmethod
    def for_indicators(cls, k: int, **changes: Any) -> "EP4Orth":
        """The paper's parameters for K-indicators with k clusters, section 6.3; then a polish.

        The alternation of eqs. (6.6a) and (6.6b), without a search. The paper's tables were made
        with ``feasibility_tol=1e-5, polish=None``: it prints the 0.1 that is taken here, from
        which the polish reaches the same points or better ones.
        """
        x_step = ProjectedGradient(
            step_unit="penalty", first_step=10.0, step_max=10.0 * k, search=False, criterion="step"
        )
        paper: dict[str, Any] = {
            "inner": PALM(x_step=x_step, criterion="step", min_iter=3, max_iter=50),
            "penalty_start": 10.0,
            "penalty_unit": 1.0,
            "penalty_growth": 10.0,
            "penalty_max": 1e5,
            "tol_start": 5e-2,
            "tol_decay": 0.5,
            "feasibility_tol": 0.1,
            "patience": 5,
            "safeguard": False,
            "polish": Polish(tol=1e-5),
        }
        return cls(**(paper | changes))

    @classmethod
    def for_assignment(cls, *, size: float = 1.0, **changes: Any) -> "EP4Orth":
        """A short run for n = k; ``size`` is that of the quadratic term, `QAP.size`.

        It ends far from S+: rounding, and exchanges as in `quadratic_assignment`, must follow.
        """
        short: dict[str, Any] = {
            "inner": ProjectedGradient(step_rule="alternating", criterion="step", max_iter=5),
            "penalty_start": 1.0,
            "penalty_unit": size,
            "penalty_growth": 3.0,
            "tol_start": 0.1,
            "feasibility_tol": 1.0,
            "max_iter": 40,
            "patience": 4,
            "safeguard": False,
        }
        return cls(**(short | changes))

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> PenaltyState:
        """X^0, and X^feas by rounding it."""
        if self.V is not None and len(self.V) != X.shape[1]:
            raise ValueError(
                f"`V` has shape {self.V.shape}: it needs one row for each of the {X.shape[1]} "
                f"columns of X."
            )
        first = Beginning(X, _rounded(X), self.penalty_unit or 1.0, self.penalty_start)
        if self.penalty_unit is None:
            found = begin(problem, X, self._penalty, penalty_start=self.penalty_start)
            first = found if self.safeguard else first._replace(unit=found.unit)
        X, unit = first.X, first.unit
        return PenaltyState(
            X=X,
            value=problem.value(X),
            gradient=None,
            violation=self._violation(X),
            sigma=first.penalty_start * unit,
            eps=self.smoothing_start,
            tol=self.tol_start,
            unit=unit,
            X_feas=first.X_feas,
            value_feas=first.value_feas,
            carries=dict(carry or {}),
            Y=None,
            n_iter=0,
            n_inner=0,
            n_stalled=0,
        )

    def step(self, problem: Problem, state: PenaltyState) -> PenaltyState:
        """One outer iteration of Algorithm 1."""
        sigma, eps, tol = self._schedule(state)
        # An alternating method moves Y itself; to the others it is frozen at its best.
        alternates = isinstance(self.inner, PALM)
        smooth = problem if alternates else problem.freeze(state.X)
        is_same = smooth is problem and not alternates  # f has no second block that moved
        penalty = self._penalty.rescaled(sigma, eps)
        model = Penalised(smooth, penalty, unit=state.unit)
        if self.safeguard and is_same and np.isnan(state.value_feas):
            state = state._replace(value_feas=problem.value(state.X_feas))
        X = self._safeguarded(model, state, is_same) if self.safeguard else state.X
        # X^t: a stationary point to tolerance, eq. (4.1), not above its start, eq. (4.2).
        method = self._inner(state.violation if X is state.X else 0.0)
        is_first_order = isinstance(method, ProjectedGradient)
        name = type(method).__name__
        carry = state.carries.get(name, {})
        if is_first_order and is_same and state.gradient is not None and X is state.X:
            known = (state.value, state.gradient)
            carry = {**carry, "known": known, "energy": state.violation + 1.0}
        inner, carry, status, start_value = minimise_oblique(model, method, X, tol=tol, carry=carry)
        # The first-order solver leaves ||XV||^2 and, for V = e / sqrt(k), the gradient of f alone.
        energy = inner.energy if is_first_order else penalty.energy(inner.X)
        leaves_gradient = is_first_order and is_same and self.V is None
        violation = max(energy - 1.0, 0.0)
        has_fallen = state.n_iter == 0 or violation <= _FALL * state.violation
        return PenaltyState(
            X=inner.X,
            value=inner.value - sigma * penalty.profile(energy)[0],
            gradient=inner.gradient if leaves_gradient else None,
            violation=violation,
            sigma=sigma,
            eps=eps,
            tol=tol,
            unit=state.unit,
            X_feas=state.X_feas,
            value_feas=state.value_feas,
            carries={**state.carries, name: carry},
            Y=carry.get("Y"),
            n_iter=state.n_iter + 1,
            n_inner=inner.n_iter,
            n_stalled=state.n_stalled + (not has_fallen),
            has_collapsed=not has_fallen and self._has_collapsed(inner.X, violation),
            is_stationary=status is Status.CONVERGED,
            is_descent=_is_descent(inner.value, start_value, state),
        )

    def _has_collapsed(self, X: FloatArray, violation: float) -> bool:
        """Whether columns have met; the paper's own presets do not look."""
        return self.safeguard and columns_coincide(X, violation if self.V is None else np.inf)

    def stop(self) -> "PenaltyStop":
        """Stop at feasibility, or at the iteration limit."""
        return PenaltyStop(self.feasibility_tol, self.max_iter, self.patience)

    def _safeguarded(self, model: Penalised, state: PenaltyState, is_same: bool) -> FloatArray:
        """X^{t,0}: the last point, or X^feas where the penalised objective is lower."""
        if is_same:  # f is known at both
            sigma, profile = model.penalty.sigma, model.penalty.profile
            last = state.value + sigma * profile(state.violation + 1.0)[0]
            feas = state.value_feas + sigma * profile(1.0)[0]
        else:
            last, feas = model.value(state.X), model.value(state.X_feas)
        return state.X_feas if last > feas else state.X

    def _schedule(self, state: PenaltyState) -> tuple[float, float, float]:
        """sigma_t, eps_t and the tolerance of this iteration."""
        if state.n_iter == 0:
            return state.sigma, state.eps, state.tol
        growth, sigma = self.penalty_growth, state.sigma
        if state.has_collapsed and state.value_feas > state.value:
            # Only a penalty at which X^feas is the better point parts columns that have met.
            sigma = max(sigma, (state.value_feas - state.value) / state.violation)
        if self.penalty_growth_late is not None and state.violation <= 1.0:
            growth = self.penalty_growth_late
        return (
            min(growth * sigma, self.penalty_max * state.unit),
            self.decay_of_smoothing * state.eps,
            max(self.tol_decay * state.tol, self.tol_min),
        )

    def _inner(self, violation: float) -> Inner:
        """First order while far from S+, second order once near."""
        near = 0.0 < self.switch_violation >= violation
        if self.second_order is not None and near:
            return self.second_order
        return self.inner

    def _violation(self, X: FloatArray) -> float:
        """||XV||_F^2 - 1, at least 0."""
        return max(self._penalty.energy(X) - 1.0, 0.0)

    @cached_property
    def _penalty(self) -> PowerPenalty:
        """The penalty at the start of its schedule."""
        return PowerPenalty(
            self.penalty_start, V=self.V, p=self.p, q=self.q, eps=self.smoothing_start
        )


def _is_descent(value: float, start_value: float, state: PenaltyState) -> bool:
    """Whether (4.2) holds, up to the roundings that a line search forgives."""
    slack = _ROUNDOFFS * ROUNDOFF[state.X.dtype] * max(state.unit, abs(start_value))
    return bool(value <= start_value + slack)


def _rounded(X: Any) -> Any:
    """X^feas; for a matrix in blocks a label and an entry a row, in blocks."""
    return X.largest_entries() if isinstance(X, BlockMatrix) else keep_largest(X)


@dataclass(frozen=True)
class PenaltyStop:
    """Looks at a state of EP4Orth+ and says when to stop."""

    feasibility_tol: float
    max_iter: int
    patience: int | None = None

    def __call__(self, state: PenaltyState) -> Status:
        # Columns of unit norm to rounding are as near to S+ as the arithmetic comes.
        roundoff = _ROUNDOFFS * ROUNDOFF[state.X.dtype]
        if state.n_iter > 0 and state.violation <= max(self.feasibility_tol, roundoff):
            return Status.CONVERGED
        if self.patience is not None and state.n_stalled >= self.patience:
            return Status.STALLED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING
