"""AssignmentSearch: its starts, the relaxation, the clock, saved states."""

from itertools import islice, permutations

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.errors import OutOfTimeError
from orthoplus.core.method import iterate
from orthoplus.core.status import Status
from orthoplus.kernels import fused
from orthoplus.methods import AssignmentSearch
from orthoplus.methods.search.birkhoff import as_matrix_of, nearest_permutation, relax_assignment
from orthoplus.problems import QAP, Projection
from orthoplus.run import monitor
from orthoplus.run.monitor import Budget, CountedProblem
from waiting import PATIENCE, Clock

KINDS = ("relaxation", "penalty", "gilmore-lawler", "random")


def gnp(n, p, rng):
    graph = np.triu(rng.random((n, n)) < p, 1).astype(float)
    return graph + graph.T


def last_state(method, problem, X=None, carry=None, steps=None):
    X = problem.start(np.random.default_rng(0)) if X is None else X
    first = method.init(problem, X, carry)
    return list(islice(iterate(problem, method, first), (steps or method.n_init) + 1))[-1]


@pytest.mark.parametrize("seed", range(4))
def test_solve_finds_the_best_of_all_permutations(seed):
    rng = np.random.default_rng(seed)
    found = 0
    for number in range(50):
        n = int(rng.integers(1, 7))
        A, B, C = rng.standard_normal((3, n, n)) if number % 2 else rng.integers(-9, 10, (3, n, n))
        problem = QAP(A, B, C if number % 3 else None)
        best = min(problem.value_of(p) for p in permutations(range(n)))
        found += op.solve(problem).value <= best + problem.tolerance
    assert found == 50


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_start_ends_where_no_exchange_gains(kind, rng):
    A, B, C = rng.integers(-9, 10, (3, 12, 12)).astype(float)
    problem = QAP(A, B, C)
    method = AssignmentSearch(starts=(kind,), n_init=2, search_steps=30, continued=0.0)
    state = last_state(method, problem)
    assert fused.exchange_deltas(A, B, C, state.permutation).min() >= 0
    assert state.value == problem.value_of(state.permutation)
    assert state.value <= min(state.start_values)
    assert len(state.start_values) == state.n_iter == 2
    np.testing.assert_array_equal(state.X, np.eye(12)[state.permutation])


def test_answer_is_not_worse_than_a_given_permutation(rng):
    problem = QAP(*rng.random((2, 30, 30)))
    good = op.solve(problem)
    short = AssignmentSearch(starts=("random",), n_init=1, search_steps=0)
    assert op.solve(problem, method=short).value > good.value
    assert op.solve(problem, good.X, method=short).value <= good.value


def test_penalty_starts_first_from_the_given_matrix(rng):
    A, B = rng.random((2, 9, 9))
    problem = QAP(A, B)
    method = AssignmentSearch(starts=("penalty",), n_init=2, search_steps=0, continued=0.0)
    first, second = (last_state(method, problem, X, steps=1) for X in rng.random((2, 9, 9)))
    assert first.start is None
    assert first.start_values[0] != second.start_values[0]
    # Then from a random one, the same for both.
    assert (
        method.step(problem, first).start_values[1] == method.step(problem, second).start_values[1]
    )


def test_last_steps_go_on_from_the_best_permutation(rng):
    A, B = rng.random((2, 25, 25))
    method = AssignmentSearch(starts=("random",), n_init=4, search_steps=50, continued=0.5)
    states = list(islice(iterate(QAP(A, B), method, method.init(QAP(A, B), np.ones((25, 25)))), 5))
    values = states[-1].start_values
    assert max(values[2:]) <= min(values[:2])
    assert all(state.value == min(state.value, *state.start_values) for state in states[1:])


def test_seed_and_generator_act(rng):
    A, B = rng.random((2, 25, 25))
    problem, short = QAP(A, B), {"n_init": 3, "search_steps": 20, "starts": ("random",)}
    values = [
        tuple(last_state(AssignmentSearch(seed=seed, **short), problem).start_values)
        for seed in range(3)
    ]
    assert len(set(values)) == 3
    method = AssignmentSearch(**short)
    carried = [
        tuple(last_state(method, problem, carry={"rng": np.random.default_rng(seed)}).start_values)
        for seed in (0, 1, 1)
    ]
    assert carried[1] == carried[2] != carried[0]
    assert carried[0] not in values


@pytest.mark.parametrize("n_done", [1, 2, 4])
def test_saved_run_goes_on_bit_for_bit(n_done, rng, tmp_path):
    A, B = rng.random((2, 20, 20))
    problem, method = QAP(A, B), AssignmentSearch(n_init=6, search_steps=40)
    whole = op.solve(problem, method=method)
    path = tmp_path / "run.npz"
    op.solve(problem, method=method, callback=lambda state: state.n_iter == n_done, checkpoint=path)
    resumed = op.solve(problem, method=method, resume=path)
    assert resumed.n_iter == whole.n_iter
    np.testing.assert_array_equal(resumed.labels, whole.labels)
    np.testing.assert_array_equal(resumed.state.start_values, whole.state.start_values)


@pytest.mark.parametrize("scales", [(1e-12, 1.0), (1.0, 1e12), (1e12, 1e-12), (3e-7, 7.1e5)])
@pytest.mark.parametrize("kind", ["graphs", "integers", "reals"])
def test_permutation_does_not_depend_on_the_scale(scales, kind, rng):
    n = 14
    A, B = (gnp(n, 0.3, rng), gnp(n, 0.3, rng)) if kind == "graphs" else rng.random((2, n, n))
    if kind == "integers":
        A, B = np.rint(9 * A), np.rint(9 * B)
    method = AssignmentSearch(search_steps=300)
    one = op.solve(QAP(-A, B), method=method)
    other = op.solve(QAP(-scales[0] * A, scales[1] * B), method=method)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert other.status is one.status


def test_value_at_the_bound_is_certified_and_ends_the_run(rng):
    graph = gnp(40, 0.2, rng)
    p = rng.permutation(40)
    result = op.solve(QAP(-graph[np.ix_(p, p)], graph))
    assert result.status is Status.CERTIFIED
    assert result.value == result.bound == -graph.sum()
    assert result.n_iter == 1
    assert result.gap == 0.0


def test_hard_instance_is_converged_not_certified(rng):
    result = op.solve(QAP(*rng.random((2, 8, 8))))
    assert result.status is Status.CONVERGED
    assert result.bound < result.value
    assert result.stationarity == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_clock_is_looked_at_inside_a_step(kind, rng):
    A, B = rng.random((2, 20, 20))
    method = AssignmentSearch(starts=(kind,))
    state = method.init(QAP(A, B), np.ones((20, 20)))
    with pytest.raises(OutOfTimeError):
        method.step(CountedProblem(QAP(A, B), Budget(time_limit=0.0)), state)


def test_time_limit_returns_the_best_so_far(rng, monkeypatch):
    clock, values = Clock(), []
    monkeypatch.setattr(monitor, "time", clock)

    def look(state):
        values.append(state.value)
        if len(values) == 3:
            clock.set_forward()

    A, B = rng.random((2, 30, 30))
    problem, X0 = QAP(A, B), np.eye(30)
    search = AssignmentSearch(n_init=10**6)
    result = op.solve(problem, X0, method=search, time_limit=PATIENCE, callback=look)
    assert result.status is Status.TIME_LIMIT
    assert result.n_iter == 3
    assert result.value == pytest.approx(min(values), rel=1e-12)
    assert min(values) <= problem.value(X0)


def test_problem_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="needs a QAP problem, got Projection"):
        AssignmentSearch().init(Projection(np.eye(3)), np.eye(3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_init": 0}, ValueError, "`n_init=0`"),
        ({"search_steps": -1}, ValueError, "`search_steps=-1`"),
        ({"starts": ()}, ValueError, "`starts` is empty. Name at least one of relaxation"),
        ({"starts": ("random", "middle")}, ValueError, "`starts='middle'`"),
        ({"starts": "random"}, TypeError, "`starts` must be"),
        ({"continued": 1.5}, ValueError, "`continued=1.5`"),
        ({"penalty": "ep4orth"}, TypeError, "`penalty` must be"),
        ({"seed": -1}, ValueError, "`seed=-1`"),
    ],
)
def test_bad_options_are_explained(options, error, message):
    with pytest.raises(error, match=message):
        AssignmentSearch(**options)


# The relaxation


def test_relaxation_is_doubly_stochastic(rng):
    A, B, C = rng.standard_normal((3, 12, 12))
    X, n_steps = relax_assignment(QAP(A, B, C).normalized)
    assert X.min() >= 0
    np.testing.assert_allclose(X.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(X.sum(axis=1), 1.0, rtol=1e-12)
    assert n_steps >= 5


@pytest.mark.parametrize("seed", range(5))
def test_relaxation_finds_a_relabelled_graph_with_edges_rewired(seed):
    rng = np.random.default_rng(seed)
    n, graph = 60, gnp(60, 0.3, rng)
    edges = np.argwhere(np.triu(graph))
    changed = graph.copy()
    for i, j in edges[rng.permutation(len(edges))[: len(edges) // 20]]:
        changed[i, j] = changed[j, i] = 0.0
    order = rng.permutation(n)
    X, _ = relax_assignment(QAP(-changed[np.ix_(order, order)], graph).normalized)
    np.testing.assert_array_equal(nearest_permutation(X), order)


def test_relaxation_solves_a_linear_problem(rng):
    C = rng.standard_normal((9, 9))
    X, _ = relax_assignment(QAP(np.zeros((9, 9)), np.zeros((9, 9)), C).normalized)
    np.testing.assert_array_equal(nearest_permutation(X), nearest_permutation(-C))


def test_nearest_permutation_is_the_best_of_all(rng):
    X = rng.standard_normal((5, 5))
    best = max(permutations(range(5)), key=lambda p: X[np.arange(5), p].sum())
    np.testing.assert_array_equal(nearest_permutation(X), best)
    np.testing.assert_array_equal(as_matrix_of(np.array(best)), np.eye(5)[list(best)])
