"""EP4Orth+, the exact penalty method of Algorithm 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_count, check_growth, check_positive, check_range, check_type
from orthoplus.core.errors import InputError
from orthoplus.core.method import (
    Known,
    ObliqueMethod,
    ObliqueRun,
    WarmStart,
    as_oblique_method,
    check_methods,
    minimize_oblique,
)
from orthoplus.core.outer_method import Diagnostics, OuterMethodBase
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, Carry, FloatArray
from orthoplus.geometry.stiefel import keep_largest
from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.paper_presets import PaperPresets
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.polish import Polish
from orthoplus.methods.separation import Beginning, begin, columns_coincide
from orthoplus.methods.theory import FollowsTheory
from orthoplus.penalty.family import Penalty, PowerPenalty, check_mixing
from orthoplus.penalty.penalized import Penalized

_MAX_VIOLATION_RATIO = 0.95  # a violation has decreased if it is at most this share of the last


class PenaltyState(NamedTuple):
    """Hold everything the next outer iteration needs: X^t, sigma_t, eps_t and the tolerance.

    ``gradient`` is that of f at X, or None if the inner solver does not provide it; ``value_feas``
    is f at X^feas, or NaN until it is needed. ``is_stationary`` and ``is_descent`` say whether
    this iteration satisfied (4.1) and (4.2), see `HistoryRow`; they are None before the first
    iteration. ``has_collapsed`` is True if two columns coincide.
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


class _Start(NamedTuple):
    """Hold X^{t,0} and the known values of f.

    ``is_same`` is True if f is the same in all iterations, so that computed values stay valid.
    ``known`` is f at X, or None if it must be evaluated.
    """

    X: FloatArray
    known: Known | None
    value_feas: float
    is_same: bool


@dataclass(frozen=True)
class EP4Orth(PaperPresets, FollowsTheory, OuterMethodBase):
    r"""Minimize f over S+ by a sequence of penalized problems over OB+ (Algorithm 1).

    .. math:: X^t \approx \arg\min_{X \in \mathcal{OB}_+} f(X)
              + \sigma_t (\|XV\|_F^q - 1 + \epsilon_t)^p, \qquad \sigma_{t+1} = \gamma_2 \sigma_t,

    Each problem starts from the previous solution, until :math:`\|X^tV\|_F^2 - 1` is small;
    rounding and refinement follow.

    Parameters
    ----------
    inner : ProjectedGradient, RegularizedNewton, PALM or your own `ObliqueMethod`
        Solver of the penalized problem; use PALM for a problem with two blocks.
    second_order : RegularizedNewton, optional
        Solver that takes over once the violation is at most ``switch_violation``.
    switch_violation : float
        Threshold zeta-bar; 0 never switches, infinity always uses the second-order solver.
    penalty_start : float
        First penalty parameter sigma_0, in units of ``penalty_unit``.
    penalty_unit : float, optional
        Unit of the penalty parameters. By default, the sigma at which a relaxed point and its
        rounding have the same penalized value, so that the scale of f does not matter. The paper's
        parameters are absolute, with unit 1.
    penalty_growth, penalty_growth_late : float
        Growth factor gamma_2 while ||XV||^2 > 2, and afterward (None for the same factor).
    penalty_max : float
        Largest sigma, in units of ``penalty_unit``.
    p, q, V
        Exponents and mixing matrix of the penalty, as in `PowerPenalty`.
    smoothing_start : float
        First smoothing parameter eps_0, which must be positive if p < 1.
    smoothing_decay : float, optional
        Decay factor gamma_1. By default 1 for p >= 1 and 0.95 gamma_2^(-1/p) for p < 1; Algorithm 1
        requires a value below gamma_2^(-1/p) for p < 1, and larger values raise an error.
    tol_start, tol_decay, tol_min : float
        First tolerance of the inner solver, its decay factor eta, and its lower limit.
    feasibility_tol : float
        Violation ||XV||_F^2 - 1 at which the run stops.
    max_iter : int
        Maximum number of outer iterations.
    patience : int, optional
        Stop after this many outer iterations in total that did not reduce the violation by five
        percent, as for the paper's table of projections.
    safeguard : bool
        Whether to start an iteration from the feasible point X^feas if the penalized objective is
        lower there, as Theorem 4.1 requires. It also prevents columns from coinciding; see
        `orthoplus.methods.separation`. The paper's tables were made without it: with a penalty that
        grows fivefold and a loose inner tolerance, it would abandon the path.
    polish : Polish, optional
        Descent over S+ that `solve` runs after rounding and refinement.
    penalty : Penalty, optional
        A different function of ||XV||_F^2: an instance of your own subclass of `Penalty`, or a
        `GeneralPenalty`. It defines V and eps_0, while sigma follows the schedule; ``p``, ``q``,
        ``V`` and ``smoothing_start`` must then be omitted.

    Notes
    -----
    Theorem 4.1 requires eta < gamma_1^(1-p) / gamma_2. The default, 0.9 > 1 / 1.2, does not satisfy
    this, and neither do the paper's experiments and the presets that follow them; use `for_theory`
    for options that do.

    An outer iteration costs the steps of the inner solver, each with one evaluation of f and its
    gradient plus O(nk). See ``docs/method.md`` for the mathematics.

    References
    ----------
    B. Jiang, X. Meng, Z. Wen and X. Chen, *An exact penalty approach for optimization with
    nonnegative orthogonality constraints*, Math. Program. 198 (2023), Algorithm 1.

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.TraceMin(np.diag([3.0, 1.0, 2.0]), 2)
    >>> result = op.solve(problem, method=EP4Orth(penalty_growth=1.5))
    >>> sorted(result.labels.tolist()), round(result.value, 6)  # -1: a row of zeros
    ([-1, 0, 1], 3.0)
    """

    state_type = PenaltyState

    inner: ObliqueMethod = field(default_factory=lambda: ProjectedGradient(max_iter=100))
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
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        kind = "a solver over OB+ such as ProjectedGradient()"
        check_methods(self.inner, "inner", kind, ("init", "step", "stop", "carry"))
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
        check_type(self.penalty, "penalty", Penalty, type(None))
        is_plain = (self.p, self.q, self.smoothing_start) == (1.0, 2.0, 0.0) and self.V is None
        if self.penalty is not None and not is_plain:
            raise InputError(
                "`penalty` cannot be combined with `p`, `q`, `V` or `smoothing_start`, because it "
                "defines its own. Omit them."
            )

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> PenaltyState:
        """Return the first state at X^0, with X^feas from rounding it."""
        V = self._penalty.V
        if V is not None and len(V) != X.shape[1]:
            raise InputError(
                f"`V` has shape {V.shape}, but X has {X.shape[1]} columns. Pass a V with one row "
                f"per column of X."
            )
        # Without the automatic unit: X^feas is the rounded start.
        first = Beginning(X, keep_largest(X), self.penalty_unit or 1.0, self.penalty_start)
        if self.penalty_unit is None:
            # The default unit: f(relaxed) + sigma zeta(relaxed) = f(X^feas).
            found = begin(problem, X, self._penalty, penalty_start=self.penalty_start)
            first = found if self.safeguard else first._replace(unit=found.unit)
        X, unit = first.X, first.unit
        return PenaltyState(
            X=X,
            value=problem.value(X),
            gradient=None,
            violation=max(self._penalty.energy(X) - 1.0, 0.0),
            sigma=first.penalty_start * unit,
            eps=self._penalty.eps,
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
        """Perform one outer iteration; each line corresponds to a line of Algorithm 1."""
        # Set eps_t = gamma_1 eps_{t-1}, sigma_t = gamma_2 sigma_{t-1}, the tolerance and
        # X^{t,0} = X^{t-1}: the last line of the box, at the beginning of the next iteration.
        state = self._scheduled(state)
        model = self._model(problem, state)
        # If P(X^{t,0}) > P(X^feas), set X^{t,0} = X^feas.
        start = self._safeguarded(problem, model, state)
        # Starting from X^{t,0}, find X^t: stationary to tolerance, (4.1), and not above, (4.2).
        solver = self._inner(state.violation if start.X is state.X else 0.0)
        warm = WarmStart(state.carries.get(type(solver).__name__, {}), start.known)
        found = minimize_oblique(model, solver, start.X, tol=state.tol, warm=warm)
        # If ||X^t V||^2 - 1 <= tol^feas, break: `stop` checks the state.
        return self._found(state, model, start, solver, found)

    def stop(self) -> "PenaltyStop":
        """Return the stopping rule: feasibility, patience or the iteration limit."""
        return PenaltyStop(self.feasibility_tol, self.max_iter, self.patience)

    def diagnostics(self, state: PenaltyState) -> Diagnostics:
        """Return sigma_t, the number of inner iterations, and whether (4.1) and (4.2) hold."""
        return Diagnostics(state.sigma, state.n_inner, state.is_stationary, state.is_descent)

    def feasible_point(self, state: PenaltyState) -> FloatArray:
        """Return X^feas."""
        return state.X_feas

    def _model(self, problem: Problem, state: PenaltyState) -> Penalized:
        """Return P with sigma_t and eps_t; a second block is fixed unless the solver updates it."""
        moves_y = as_oblique_method(self.inner).moves_second_block
        smooth = problem if moves_y else problem.freeze(state.X)
        return Penalized(smooth, self._penalty.rescaled(state.sigma, state.eps), unit=state.unit)

    def _safeguarded(self, problem: Problem, model: Penalized, state: PenaltyState) -> _Start:
        """Return X^{t,0}: the last point, or X^feas if its penalized objective is lower."""
        moves_y = as_oblique_method(self.inner).moves_second_block
        is_same = model.problem is problem and not moves_y
        last = Known(state.value, state.gradient, state.violation + 1.0)
        X, value_feas = state.X, state.value_feas
        if self.safeguard and is_same:
            # f does not change between iterations: f(X^feas) is computed once, and P follows from
            # known values.
            value_feas = problem.value(state.X_feas) if np.isnan(value_feas) else value_feas
            feas = Known(value_feas, None, 1.0)
            X = state.X_feas if model.value_known(last) > model.value_known(feas) else X
        elif self.safeguard:
            # f changes with the other block: evaluate P at both points.
            X = state.X_feas if model.value(X) > model.value(state.X_feas) else X
        # The last inner run already evaluated f and its gradient at X^{t-1}.
        is_known = is_same and X is state.X and state.gradient is not None
        return _Start(X, last if is_known else None, value_feas, is_same)

    def _found(
        self,
        state: PenaltyState,
        model: Penalized,
        start: _Start,
        solver: ObliqueMethod,
        found: ObliqueRun,
    ) -> PenaltyState:
        """Return the state at the point X^t found by the inner solver."""
        method, inner = as_oblique_method(solver), found.state
        known = method.known(model, inner)
        if known is None:
            known = model.known(inner.value, None, model.penalty.energy(inner.X))
        # zeta(X) = ||XV||_F^2 - 1; rounding may make it slightly negative.
        violation = max(known.energy - 1.0, 0.0)
        # Count iterations without progress for ``patience``.
        has_fallen = state.n_iter == 0 or violation <= _MAX_VIOLATION_RATIO * state.violation
        # A small violation excludes coinciding columns only for V = e / sqrt(k).
        known_violation = violation if self._penalty.V is None else np.inf
        has_collapsed = (
            self.safeguard and not has_fallen and columns_coincide(inner.X, known_violation)
        )
        # A line search tolerates as much rounding.
        slack = model.rounding_slack(found.start_value, state.X.dtype)
        return PenaltyState(
            X=inner.X,
            value=known.value,
            gradient=known.gradient if start.is_same else None,
            violation=violation,
            sigma=state.sigma,
            eps=state.eps,
            tol=state.tol,
            unit=state.unit,
            X_feas=state.X_feas,
            value_feas=start.value_feas,
            carries={**state.carries, type(solver).__name__: found.carry},
            Y=method.second_block(inner),
            n_iter=state.n_iter + 1,
            n_inner=inner.n_iter,
            n_stalled=state.n_stalled + (not has_fallen),
            has_collapsed=has_collapsed,
            is_stationary=found.status is Status.CONVERGED,
            is_descent=bool(inner.value <= found.start_value + slack),  # (4.2)
        )

    def _scheduled(self, state: PenaltyState) -> PenaltyState:
        """Return the last state with sigma_t, eps_t and the tolerance of this iteration."""
        if state.n_iter == 0:
            return state
        # sigma_{t+1} = gamma_2 sigma_t, with a second factor once ||XV||^2 <= 2.
        growth, sigma = self.penalty_growth, state.sigma
        if state.has_collapsed and state.value < state.value_feas < np.inf:
            # Coinciding columns separate only if X^feas has the smaller penalized objective:
            # f(X) + sigma zeta(X) >= f(X^feas), which no sigma achieves if the latter is infinite.
            sigma = max(sigma, (state.value_feas - state.value) / state.violation)
        if self.penalty_growth_late is not None and state.violation <= 1.0:
            growth = self.penalty_growth_late
        return state._replace(
            sigma=min(growth * sigma, self.penalty_max * state.unit),
            eps=self.decay_of_smoothing * state.eps,
            tol=max(self.tol_decay * state.tol, self.tol_min),
        )

    def _inner(self, violation: float) -> ObliqueMethod:
        """Return the first-order solver far from S+ and the second-order one close to it."""
        # A threshold of 0 never switches, infinity always does.
        near = 0.0 < self.switch_violation >= violation
        if self.second_order is not None and near:
            return self.second_order
        return self.inner

    @cached_property
    def _penalty(self) -> Penalty:
        """Penalty with the parameters of the first iteration."""
        if self.penalty is not None:
            return self.penalty
        return PowerPenalty(
            self.penalty_start, V=self.V, p=self.p, q=self.q, eps=self.smoothing_start
        )


@dataclass(frozen=True)
class PenaltyStop:
    """Stop EP4Orth+ at feasibility, after too many stalled iterations, or at the limit."""

    feasibility_tol: float
    max_iter: int
    patience: int | None = None

    def __call__(self, state: PenaltyState) -> Status:
        """Return CONVERGED if the violation is at most the tolerance or rounding."""
        # Columns have unit norm only up to rounding, which limits the attainable violation.
        roundoff = STEP_ROUNDOFFS * ROUNDOFF[state.X.dtype]
        if state.n_iter > 0 and state.violation <= max(self.feasibility_tol, roundoff):
            return Status.CONVERGED
        if self.patience is not None and state.n_stalled >= self.patience:
            return Status.STALLED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING
