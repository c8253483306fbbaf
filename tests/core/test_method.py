"""The loop and its stopping rule: they look, and do nothing else."""

from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest

from orthoplus.core.method import ObliqueStop, iterate, run
from orthoplus.core.status import STATIONARITY_TOL, Status


class Count(NamedTuple):
    n_iter: int = 0
    step_length: float = 1.0
    stationarity: float = 1.0
    is_stalled: bool = False
    value: float = 0.0
    X: object = None


class Halving:
    """A method whose measures halve at every step."""

    def step(self, problem, state):
        return state._replace(
            n_iter=state.n_iter + 1,
            stationarity=state.stationarity / 2,
            step_length=state.step_length / 4,
        )


def test_iterate_yields_the_first_state_and_never_ends():
    states = list(islice(iterate(None, Halving(), Count()), 50))
    assert [state.n_iter for state in states] == list(range(50))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ObliqueStop(1e-2, "stationarity", 0, 100), (7, Status.CONVERGED)),  # 2^-7 < 0.01
        (ObliqueStop(1e-2, "step", 0, 100), (4, Status.CONVERGED)),  # 4^-4 < 0.01
        (ObliqueStop(1e-2, "stationarity", 9, 100), (9, Status.CONVERGED)),
        (ObliqueStop(1e-2, "stationarity", 0, 3), (3, Status.MAX_ITER)),
        (ObliqueStop(1e-2, "stationarity", 0, 7), (7, Status.CONVERGED)),
        (ObliqueStop(2.0, "stationarity", 0, 100), (0, Status.CONVERGED)),
        (ObliqueStop(0.0, "stationarity", 0, 5), (5, Status.MAX_ITER)),
    ],
)
def test_run_stops_where_the_rule_says(rule, expected):
    state, status = run(None, Halving(), Count(), rule)
    assert (state.n_iter, status) == expected


def test_stop_sees_a_stall_first_and_nan_as_not_converged():
    rule = ObliqueStop(1.0, "stationarity", 0, 10)
    assert rule(Count(is_stalled=True, stationarity=0.0)) is Status.LINE_SEARCH_FAILED
    assert rule(Count(stationarity=np.nan)) is Status.RUNNING


def test_every_status_has_a_message_and_only_two_are_success():
    assert all(status.message for status in Status)
    assert len({status.message for status in Status}) == len(Status)
    assert {status for status in Status if status.success} == {Status.CONVERGED, Status.CERTIFIED}


def test_messages_state_the_tolerance_that_is_used():
    for status in (Status.CONVERGED, Status.FEASIBLE):
        assert f"to {STATIONARITY_TOL:.0e}".replace("e-0", "e-") in status.message
