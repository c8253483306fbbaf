"""The reasons for which a run can end, each with its message."""

from enum import Enum

# An answer counts as stationary up to this residual of the first-order conditions (2.6), relative
# to the norm of the gradient.
STATIONARITY_TOL = 1e-4


class Status(Enum):
    """Why a method stopped; ``message`` says what happened and what to try.

    Only CONVERGED and CERTIFIED are successes. For a result of `orthoplus.solve`, CONVERGED means
    that the method met its own tolerances and that the residual of (2.6) at the result is at most
    1e-4 times the norm of the gradient, there or at a random point of OB+, whichever is larger. If
    the residual is larger, the status is FEASIBLE. For a run over OB+
    (`orthoplus.core.method.run`), CONVERGED only means that the method met its tolerance.

    Examples
    --------
    >>> Status.CONVERGED.success, Status.MAX_ITER.success
    (True, False)
    >>> print(Status.TIME_LIMIT.message)
    The time limit was reached. The best point so far is returned; raise `time_limit` to continue.
    """

    RUNNING = "Still running."
    CONVERGED = (
        "Converged: the method met its tolerances; "
        "the solution is feasible, and stationary to 1e-4 times the norm of the gradient."
    )
    FEASIBLE = (
        "Feasible, but the requested tolerances were not met: the solution is not stationary "
        "to 1e-4 times the norm of the gradient. Check the gradient with "
        "`orthoplus.check_gradient`, give the inner solver a larger `max_iter`, or try another "
        "start."
    )
    CERTIFIED = "Globally optimal: the value meets its bound within the requested tolerance."
    GAP_LEFT = (
        "Feasible, but global optimality was not proven: a gap is left between the value and its "
        "bound. Raise `max_passes` above 100, or set `time_limit` in seconds, to continue with "
        "branch and bound, or raise `tol` to at least the gap to accept the point."
    )
    MAX_ITER = (
        "The iteration limit was reached before the tolerance. "
        "Raise `max_iter`; with EP4Orth+, the penalty may also grow faster (`penalty_growth`)."
    )
    STALLED = (
        "The violation no longer decreases although the penalty grows: columns may share a row. "
        "The point was rounded and refined; let the penalty grow more slowly, or try another "
        "start."
    )
    LINE_SEARCH_FAILED = (
        "No step along the gradient decreases the objective to working precision. "
        "Usually the point is as good as the arithmetic allows; "
        "if not, check the gradient with `orthoplus.check_gradient`."
    )
    TIME_LIMIT = (
        "The time limit was reached. "
        "The best point so far is returned; raise `time_limit` to continue."
    )
    CALLBACK = "The callback ended the run. The best point so far is returned."
    INTERRUPTED = "Interrupted from the keyboard. The best point so far is returned."

    @property
    def message(self) -> str:
        """Return what happened and, if it helps, what to try."""
        return self.value

    @property
    def success(self) -> bool:
        """Return whether the status is CONVERGED or CERTIFIED."""
        return self in (Status.CONVERGED, Status.CERTIFIED)
