"""Quadratic assignment: brute force, SciPy's names and signs, fixed pairs, messages."""

from itertools import permutations

import numpy as np
import pytest
import scipy.optimize

import orthoplus as op
from orthoplus.kernels import fused


def objective(A, B, p, C=0.0):
    p = np.asarray(p)
    return float((A * B[np.ix_(p, p)]).sum() + (C * np.eye(len(p))[p]).sum())


METHODS = pytest.mark.parametrize(
    "method", ["search", "ep4orth", "exchange", op.EP4Orth(max_iter=5)]
)


@METHODS
@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("maximize", [False, True])
def test_answer_is_the_best_of_all_permutations(method, n, maximize, rng):
    A, B, C = rng.standard_normal((3, n, n))
    options = {"maximize": maximize, "linear": C, "search_steps": 200, "n_init": 4}
    result = op.quadratic_assignment(A, B, method, options)
    values = [objective(A, B, p, C) for p in permutations(range(n))]
    best = max(values) if maximize else min(values)
    assert result.fun == pytest.approx(best, rel=1e-12)
    assert result.fun == pytest.approx(objective(A, B, result.col_ind, C), rel=1e-12)
    beyond = result.bound - best if maximize else best - result.bound
    assert beyond >= -1e-12
    start = max(result.start_values) if maximize else min(result.start_values)
    assert start == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("maximize", [False, True])
def test_result_reads_like_that_of_scipy(maximize, rng):
    A, B = rng.integers(0, 10, (2, 8, 8))
    options = {"maximize": maximize, "rng": np.random.default_rng(3)}
    ours = op.quadratic_assignment(A, B, options=options)
    theirs = scipy.optimize.quadratic_assignment(A, B, options=options)
    assert type(ours) is type(theirs)
    assert theirs.keys() <= ours.keys()
    assert ours.fun == objective(A, B, ours.col_ind)
    assert theirs.fun == objective(A, B, theirs.col_ind)
    assert ours.fun >= theirs.fun if maximize else ours.fun <= theirs.fun
    assert ours.nit > 0


def test_graph_matching_finds_the_relabelling(rng):
    graph = np.triu(rng.random((12, 12)) < 0.5, 1).astype(float)
    graph += graph.T
    p = rng.permutation(12)
    relabelled = np.empty_like(graph)
    relabelled[np.ix_(p, p)] = graph
    result = op.quadratic_assignment(graph, relabelled, options={"maximize": True})
    assert result.fun == graph.sum()
    np.testing.assert_array_equal(relabelled[np.ix_(result.col_ind, result.col_ind)], graph)


def relabelled(graph, share, rng):
    """The graph without some of its edges, its vertices in another order."""
    edges = np.argwhere(np.triu(graph))
    kept = graph.copy()
    for i, j in edges[rng.permutation(len(edges))[: round(share * len(edges))]]:
        kept[i, j] = kept[j, i] = 0.0
    p = rng.permutation(len(graph))
    return kept[np.ix_(p, p)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "density", "share"), [(100, 0.1, 0.0), (300, 0.05, 0.02)])
def test_large_graphs_are_matched_exactly(n, density, share, seed):
    rng = np.random.default_rng(seed)
    graph = np.triu(rng.random((n, n)) < density, 1).astype(float)
    graph += graph.T
    other = relabelled(graph, share, rng)
    result = op.quadratic_assignment(other, graph, options={"maximize": True, "rng": seed})
    assert result.fun == result.bound == other.sum()
    assert result.success


@pytest.mark.parametrize("maximize", [False, True])
def test_default_finds_the_best_of_all_permutations(maximize):
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        A, B = rng.standard_normal((2, n, n)) if seed % 2 else rng.integers(-9, 10, (2, n, n))
        values = [objective(A, B, p) for p in permutations(range(n))]
        result = op.quadratic_assignment(A, B, options={"maximize": maximize})
        best = max(values) if maximize else min(values)
        found += abs(result.fun - best) <= 1e-12 * max(1.0, abs(best))
    assert found == 60


def matchings(m, n):
    """All p with p(i) in 0..n-1 for min(m, n) rows, each at most once, and -1 for the others."""
    if m <= n:
        yield from permutations(range(n), m)
    else:
        for rows in permutations(range(m), n):
            p = [-1] * m
            for column, row in enumerate(rows):
                p[row] = column
            yield tuple(p)


def value_of_matching(A, B, C, p):
    rows = [i for i, j in enumerate(p) if j >= 0]
    columns = [p[i] for i in rows]
    return (A[np.ix_(rows, rows)] * B[np.ix_(columns, columns)]).sum() + C[rows, columns].sum()


@METHODS
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("sizes", [(3, 6), (6, 3), (1, 4), (4, 1), (5, 6)])
def test_unequal_sizes_are_matched_as_by_brute_force(method, maximize, sizes, rng):
    m, n = sizes
    for sign in (-1.0, 0.0, 1.0):  # entries of one sign, which zeros would attract or repel
        A = rng.standard_normal((m, m)) + 2 * sign
        B = rng.standard_normal((n, n)) + 2
        C = rng.standard_normal((m, n))
        options = {"linear": C, "maximize": maximize, "n_init": 4, "search_steps": 300}
        result = op.quadratic_assignment(A, B, method, options)
        values = [value_of_matching(A, B, C, p) for p in matchings(m, n)]
        best = max(values) if maximize else min(values)
        assert result.fun == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert result.col_ind.shape == (m,)
        assert value_of_matching(A, B, C, result.col_ind.tolist()) == pytest.approx(best)
        assert (result.col_ind >= 0).sum() == min(m, n)
        assert (result.bound - best) * (1 if maximize else -1) >= -1e-12


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
def test_unequal_sizes_keep_a_partial_match_and_take_a_guess(sizes, rng):
    m, n = sizes
    A, B, C = rng.standard_normal((m, m)), rng.standard_normal((n, n)), np.zeros((m, n))
    options = {"partial_match": [[m - 1, n - 1]], "P0": rng.random((m - 1, n - 1))}
    result = op.quadratic_assignment(A, B, options=options)
    allowed = [p for p in matchings(m, n) if p[m - 1] == n - 1]
    assert result.col_ind[m - 1] == n - 1
    best = min(value_of_matching(A, B, C, p) for p in allowed)
    assert result.fun == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_smaller_graph_with_all_rows_fixed(rng):
    A, B = rng.random((2, 2)), rng.random((4, 4))
    result = op.quadratic_assignment(A, B, options={"partial_match": [[0, 3], [1, 1]]})
    np.testing.assert_array_equal(result.col_ind, [3, 1])
    assert result.fun == pytest.approx((A * B[np.ix_([3, 1], [3, 1])]).sum(), rel=1e-13)


def test_whole_numbers_keep_exact_values(rng):
    A, B = rng.integers(0, 10**5, (2, 9, 9))
    B = B + B.T  # then only the symmetric part of A counts
    result = op.quadratic_assignment(A, B)
    p = result.col_ind
    assert result.fun == int((A * B[np.ix_(p, p)]).sum())
    assert op.solve(op.problems.QAP(A, B)).value == result.fun


def test_number_of_starts_and_generator_act(rng):
    A, B = rng.random((2, 20, 20))
    short = {"search_steps": 0, "n_init": 7}
    runs = [
        op.quadratic_assignment(A, B, "exchange", short | {"rng": seed}).start_values
        for seed in (0, 1, np.random.default_rng(1))
    ]
    assert [len(values) for values in runs] == [7, 7, 7]
    np.testing.assert_array_equal(runs[1], runs[2])
    assert (runs[0] != runs[1]).all()


def test_time_limit_returns_the_best_so_far(rng):
    A, B = rng.random((2, 30, 30))
    result = op.quadratic_assignment(A, B, options={"n_init": 10**6, "time_limit": 0.1})
    assert not result.success
    assert "time limit" in result.message
    assert result.fun == pytest.approx(objective(A, B, result.col_ind), rel=1e-12)
    none = op.quadratic_assignment(A, B, options={"time_limit": 1e-9})
    np.testing.assert_array_equal(np.sort(none.col_ind), np.arange(30))


@pytest.mark.parametrize("maximize", [False, True])
def test_linear_assignment_is_solved_exactly_and_proven(maximize, rng):
    C, zero = rng.standard_normal((20, 20)), np.zeros((20, 20))
    result = op.quadratic_assignment(zero, zero, options={"linear": C, "maximize": maximize})
    rows, columns = scipy.optimize.linear_sum_assignment(C, maximize=maximize)
    np.testing.assert_array_equal(result.col_ind, columns)
    assert result.fun == pytest.approx(C[rows, columns].sum(), rel=1e-13)
    assert result.bound == pytest.approx(result.fun, rel=1e-11)  # a margin for rounding apart
    assert result.nit == 0


@METHODS
@pytest.mark.parametrize("n_fixed", [0, 1, 3, 6])
def test_partial_match_is_kept_and_the_rest_is_best(method, n_fixed, rng):
    A, B = rng.standard_normal((2, 6, 6))
    match = np.stack([rng.permutation(6)[:n_fixed], rng.permutation(6)[:n_fixed]], axis=1)
    options = {"partial_match": match, "search_steps": 200, "n_init": 3}
    result = op.quadratic_assignment(A, B, method, options)
    np.testing.assert_array_equal(result.col_ind[match[:, 0]], match[:, 1])
    values = [
        objective(A, B, p)
        for p in permutations(range(6))
        if all(p[i] == j for i, j in match.tolist())
    ]
    assert result.fun == pytest.approx(min(values), rel=1e-12)
    assert result.bound <= result.fun + 1e-12


@pytest.mark.parametrize("steps", [0, 50])
def test_no_exchange_improves_the_answer(steps, rng):
    A, B = rng.integers(-20, 20, (2, 15, 15)).astype(float)
    result = op.quadratic_assignment(A, B, options={"n_init": 1, "search_steps": steps})
    deltas = fused.exchange_deltas(A, B, np.zeros_like(A), result.col_ind)
    assert deltas.min() >= 0


def test_same_seed_same_answer_and_input_untouched(rng):
    A, B = rng.standard_normal((2, 14, 14))
    before = A.copy(), B.copy()
    first, second = (
        op.quadratic_assignment(A, B, options={"rng": 5, "n_init": 2, "search_steps": 20})
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.col_ind, second.col_ind)
    np.testing.assert_array_equal(first.start_values, second.start_values)
    np.testing.assert_array_equal(before, (A, B))


@pytest.mark.parametrize("P0", ["barycenter", "randomized", "matrix"])
def test_first_start_is_taken(P0, rng):
    A, B = rng.random((2, 9, 9))
    given = rng.random((9, 9)) if P0 == "matrix" else P0
    result = op.quadratic_assignment(A, B, options={"P0": given, "n_init": 1})
    np.testing.assert_array_equal(np.sort(result.col_ind), np.arange(9))


def test_constant_matrices_are_proven_at_once():
    result = op.quadratic_assignment(np.ones((4, 4)), np.arange(16.0).reshape(4, 4))
    assert result.fun == result.bound == 120.0
    assert result.nit == 0


@pytest.mark.parametrize("name", ["nug12", "tai15a", "bur26a", "lipa20b", "esc16f"])
def test_qaplib_is_solved_to_one_percent(name, load_data):
    data = load_data("qaplib")
    best = float(data["values"][data["names"].tolist().index(name)])
    result = op.quadratic_assignment(data[f"{name}_A"], data[f"{name}_B"], options={"n_init": 3})
    assert best <= result.fun <= 1.01 * best
    assert result.bound <= best


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"maximal": True}, TypeError, "unknown entries 'maximal'. Supported: maximize, partial"),
        ({"shuffle_input": True}, TypeError, "For shuffle_input: remove it"),
        ({"maxiter": 5}, TypeError, r"For maxiter: .*EP4Orth.for_assignment\(max_iter"),
        ({"tol": 1.0}, TypeError, r"For tol: .*EP4Orth.for_assignment\(tol_start"),
        ({"partial_guess": [[0, 1]]}, TypeError, "For partial_guess: .* as `P0`"),
        ({"rng": "seed"}, TypeError, "`rng` must be"),
        ({"maximize": 1}, TypeError, "`maximize` must be an object of type bool"),
        ({"n_init": 0}, ValueError, "`n_init=0` is out of range"),
        ({"search_steps": -1}, ValueError, "`search_steps=-1` is out of range"),
        ({"P0": "middle"}, ValueError, "`P0='middle'` is unknown. Pass 'randomized'"),
        ({"P0": np.eye(2)}, ValueError, r"`P0` has shape \(2, 2\).*shape \(3, 3\) is needed"),
        ({"P0": -np.eye(3)}, ValueError, "smallest entry -1: a nonnegative matrix"),
        ({"partial_match": [0, 1]}, ValueError, r"`partial_match` has shape \(2,\).*\(f, 2\)"),
        ({"partial_match": [[0.5, 1]]}, ValueError, "dtype float64: integers"),
        ({"partial_match": [[0, 3]]}, ValueError, "3 to 3 for `B`: its rows are numbered from 0"),
        ({"partial_match": [[-1, 0]]}, ValueError, "from -1 to -1 for `A`"),
        ({"partial_match": [[0, 1], [0, 2]]}, ValueError, "names a row of A twice"),
        ({"partial_match": [[0, 1], [1, 1]]}, ValueError, "names a row of B twice"),
        ({"linear": np.eye(2)}, ValueError, r"`linear` has shape \(2, 2\), but `A` has 3 rows"),
        ({"time_limit": 0.0}, ValueError, "`time_limit"),
        ([("maximize", True)], TypeError, "`options` must be an object of type Mapping"),
    ],
)
def test_bad_options_are_explained(options, error, message):
    A = np.arange(9.0).reshape(3, 3)
    with pytest.raises(error, match=message):
        op.quadratic_assignment(A, A.T @ A, options=options)


def test_bad_arguments_are_explained():
    with pytest.raises(
        ValueError, match=r"`method='faq'` is unknown\. Choose search, ep4orth, exch"
    ):
        op.quadratic_assignment(np.eye(2), np.eye(2), method="faq")
    with pytest.raises(ValueError, match="`B` has shape"):
        op.quadratic_assignment(np.eye(2), np.ones((2, 3)))
    with pytest.raises(TypeError, match="`A` is complex"):
        op.quadratic_assignment(1j * np.eye(2), np.eye(2))
