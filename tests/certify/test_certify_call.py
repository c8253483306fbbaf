"""What `certify` accepts and refuses, and how it ends."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.certify import api
from orthoplus.core.trace_form import TraceForm
from orthoplus.problems import ONMF, KMeans, Projection, TraceMin
from waiting import PATIENCE, Clock


@pytest.fixture
def noisy(rng):
    """An instance that no closed form proves optimal, and its solution."""
    A = rng.random((40, 5))
    problem = ONMF(A, 4)
    return problem, op.solve(problem)


def test_labels_of_any_kind_give_the_same_certificate():
    A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0]])
    problem = ONMF(A, 2)
    answers = [
        op.solve(problem),
        [0, 0, 1, 1],
        np.array([7, 7, -3, -3]),
        ["b", "b", "a", "a"],
        np.array(["x", "x", "y", "y"], dtype=object),
        np.array([1.0, 1.0, 0.0, 0.0]),
        np.array([True, True, False, False]),
    ]
    values = {round(op.certify(problem, answer).value, 12) for answer in answers}
    assert len(values) == 1


def test_row_without_a_group_stays_without():
    A = np.vstack([np.eye(3), np.zeros((1, 3))])
    certificate = op.certify(ONMF(A, 3), [0, 1, 2, -1])
    assert certificate.is_optimal
    assert certificate.answer[3] == -1


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ([0, 0, 1], "shape"),
        ([0, 0, 0, 0], "is 1, but k = 2"),
        ([0, 1, 2, 2], "is 3, but k = 2"),
        ([0.5, 1, 1, 0], "dtype"),
        ([np.nan, 1, 1, 0], "dtype"),
        (np.zeros((4, 2)), "shape"),
    ],
)
def test_labels_that_cannot_be_are_refused(answer, match):
    with pytest.raises(op.InputError, match=match):
        op.certify(ONMF(np.ones((4, 2)), 2), answer)


def test_k_means_needs_a_cluster_for_every_row():
    with pytest.raises(op.InputError, match="every row to a cluster"):
        op.certify(KMeans(np.arange(4.0)[:, None], 2), [0, 1, 1, -1])


def test_problem_without_a_trace_form_is_refused():
    with pytest.raises(op.InputError, match="no trace form"):
        op.certify(Projection(np.eye(4, 2)), [0, 1, 0, 1])
    with pytest.raises(op.InputError, match="no trace form"):
        op.certify(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize(
    "options",
    [{"time_limit": 0.0}, {"tol": -1.0}, {"confidence": 1.0}, {"callback": 3}],
)
def test_options_out_of_range_are_refused(options, noisy):
    with pytest.raises(op.InputError):
        op.certify(*noisy, **options)


def test_own_problem_with_a_trace_form_is_certified(rng):
    class Fit(op.Problem):
        shape = (12, 3)
        M = np.kron(np.eye(3), np.ones((4, 4))) + 0.01 * np.ones((12, 12))

        def value_and_gradient(self, X):
            return 5.0 - float(np.vdot(self.M @ X, X)), -2.0 * self.M @ X

        def trace_form(self):
            return TraceForm(3, lambda v: 5.0 - v, 20.0, matrix=self.M)

    certificate = op.certify(Fit(), np.repeat([0, 1, 2], 4))
    assert certificate.is_optimal
    assert certificate.verify()


def test_callback_sees_falling_gaps_and_ends_the_search(noisy):
    seen = []

    def look(certificate):
        seen.append(certificate.bound)
        return len(seen) == 3

    certificate = op.certify(*noisy, callback=look)
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert certificate.bound >= seen[-1]


def test_keyboard_interrupt_returns_the_best_so_far(noisy, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run_relaxation", interrupted)
    certificate = op.certify(*noisy)
    assert certificate.kind in ("spectral", "closed form")
    assert certificate.verify()


def test_search_ends_at_the_first_look_at_the_clock_after_the_time_limit(noisy, monkeypatch):
    clock, seen = Clock(), []
    monkeypatch.setattr(api, "perf_counter", clock.perf_counter)

    def look(certificate):
        seen.append(certificate)
        if len(seen) == 3:
            clock.set_forward()

    certificate = op.certify(*noisy, time_limit=PATIENCE, callback=look)
    assert len(seen) == 3
    assert certificate.bound >= seen[-1].bound
    assert not certificate.is_optimal


def test_history_rises_until_the_time_limit(noisy):
    certificate = op.certify(*noisy, time_limit=1.0)
    bounds = [row.bound for row in certificate.history]
    assert bounds == sorted(bounds)
    assert certificate.gap is not None
    assert "%" in str(certificate) or certificate.is_optimal


def test_better_partition_is_returned_and_said(rng):
    labels = np.arange(60) % 3
    A = np.eye(3)[labels] + 0.05 * rng.random((60, 3))
    wrong = labels.copy()
    wrong[:6] = (wrong[:6] + 1) % 3
    certificate = op.certify(ONMF(A, 3), wrong, time_limit=PATIENCE)
    assert certificate.improved
    assert not certificate.is_optimal
    assert certificate.best_value < certificate.value
    assert "better partition" in certificate.message
    assert op.certify(ONMF(A, 3), certificate.labels).is_optimal
    assert op.metrics.nmi(labels, certificate.labels) == pytest.approx(1.0)


def test_certificate_does_not_depend_on_the_scale(rng):
    A = rng.random((30, 4))
    answer = op.solve(ONMF(A, 3))
    limits = {"time_limit": PATIENCE, "callback": _is_closed_form}
    gaps = [
        op.certify(ONMF(A * scale, 3), answer.labels, **limits).gap
        for scale in (1.0, 2.0**-80, 2.0**90)
    ]
    assert gaps[0] == gaps[1] == gaps[2]  # powers of two change no digit


def _is_closed_form(certificate):
    return certificate.kind == "closed form" and len(certificate.history) == 2


def test_indefinite_matrix_is_certified(rng):
    M = rng.standard_normal((8, 8))
    M = M + M.T
    problem = TraceMin(M, 2)
    certificate = op.certify(problem, op.solve(problem, n_init=5), time_limit=5.0)
    assert certificate.bound <= certificate.value
    assert certificate.verify()
