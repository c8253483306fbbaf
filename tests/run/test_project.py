"""`project` at its border: what it takes, what it refuses, what it reports."""

import numpy as np
import pytest
import scipy.sparse

import orthoplus as op
from orthoplus.geometry.stiefel import violation

BAD = {
    "NaN": (
        lambda: np.array([[1.0, np.nan], [0.0, 1.0]]),
        ValueError,
        r"NaN or infinite.*\(0, 1\)",
    ),
    "infinity": (lambda: np.array([[1.0], [np.inf]]), ValueError, r"NaN or infinite.*\(1, 0\)"),
    "vector": (lambda: np.ones(3), ValueError, "1 dimension"),
    "cube": (lambda: np.ones((2, 2, 2)), ValueError, "3 dimension"),
    "wide": (lambda: np.ones((2, 3)), ValueError, "more columns than rows.*at most k = 2"),
    "empty": (lambda: np.ones((0, 0)), ValueError, "empty"),
    "no columns": (lambda: np.ones((3, 0)), ValueError, "empty"),
    "complex": (lambda: np.ones((3, 2), dtype=complex), TypeError, "complex"),
    "objects": (
        lambda: np.array([["a", "b"], ["c", "d"]], dtype=object),
        TypeError,
        "an entry that is not a number",
    ),
    "strings": (lambda: np.array([["a"], ["b"]]), TypeError, "an entry that is not a number"),
    "sparse": (lambda: scipy.sparse.eye(3, 2, format="csr"), TypeError, "sparse.*toarray"),
}


@pytest.mark.parametrize("name", BAD)
def test_project_refuses_with_a_reason(name):
    make, error, message = BAD[name]
    with pytest.raises(error, match=message):
        op.project(make())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tol": -1.0}, ValueError),
        ({"tol": "loose"}, TypeError),
        ({"max_passes": 0}, ValueError),
        ({"max_passes": 2.5}, TypeError),
        ({"time_limit": 0.0}, ValueError),
        ({"time_limit": -1.0}, ValueError),
        ({"time_limit": "long"}, TypeError),
    ],
)
def test_project_checks_its_options(options, error):
    with pytest.raises(error, match=next(iter(options))):
        op.project(np.eye(3, 2), **options)


def test_bad_entry_of_a_later_block_is_named(monkeypatch):
    monkeypatch.setattr("orthoplus.core.checks._CHECK_SIZE", 8)
    C = np.ones((20, 4))
    C[17, 3] = np.nan
    with pytest.raises(ValueError, match=r"\(17, 3\)"):
        op.project(C)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_result_is_feasible_and_consistent(dtype, rng):
    C = rng.standard_normal((300, 7)).astype(dtype)
    before = C.copy()
    result = op.project(C)
    roundoff = float(np.finfo(dtype).eps)
    assert result.X.dtype == dtype
    assert violation(result.X) <= 10 * 7 * roundoff  # k columns, normalized in their own precision
    assert result.value == pytest.approx(
        float(np.vdot(C.astype(float), result.X)), rel=20 * roundoff
    )
    assert result.bound >= result.value
    assert result.gap == pytest.approx((result.bound - result.value) / result.bound)
    assert result.success == (result.gap <= 1e-12)
    np.testing.assert_array_equal(result.labels, np.where(result.X.any(1), result.X.argmax(1), -1))
    np.testing.assert_array_equal(C, before)
    assert result.n_iter >= 1
    assert result.history == ()


def test_integers_are_projected_as_floats():
    result = op.project(np.array([[3, 0], [4, 1], [0, 2]]))
    assert result.value == 7.0
    assert result.X.dtype == np.float64


def test_project_is_not_worse_than_the_penalty_method(rng):
    C = rng.standard_normal((200, 6))
    penalty = op.solve(op.problems.Projection(C))
    assert np.vdot(C, penalty.X) <= op.project(C).bound * (1 + 1e-14)
    assert np.vdot(C, penalty.X) <= op.project(C).value * (1 + 1e-6)


def test_memory_map_is_read_not_copied(tmp_path, rng):
    C = rng.random((400, 5))
    np.save(tmp_path / "C.npy", C)
    mapped = np.load(tmp_path / "C.npy", mmap_mode="r")
    assert op.project(mapped).value == op.project(C).value


def test_dense_answer_is_made_only_when_asked_for(rng):
    result = op.project(rng.random((50, 3)))
    assert "X" not in vars(result)
    assert result.X is result.X
    assert str(result).count("50 x 3") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(6, 3), (5, 5), (40, 4), (30, 12)])
def test_lower_bound_of_the_problem_is_its_minimum_where_the_projection_is_certified(shape, dtype):
    rng = np.random.default_rng(shape[0])
    for _ in range(10):
        C = rng.standard_normal(shape).astype(dtype)
        problem, nearest = op.problems.Projection(C), op.project(C)
        wide = C.astype(np.longdouble)
        least = (wide**2).sum() + shape[1] - 2 * np.longdouble(nearest.value)
        assert problem.lower_bound() <= least
        if nearest.status is op.Status.CERTIFIED:
            assert problem.lower_bound() == pytest.approx(float(least), rel=1e-11)


def test_lower_bound_of_the_problem_is_below_the_optimum_where_a_gap_is_left():
    C = np.random.default_rng(0).standard_normal((21, 20))
    best = op.project(C, max_passes=20_000)
    assert best.status is op.Status.CERTIFIED
    problem = op.problems.Projection(C)
    minimum = float((C**2).sum()) + 20 - 2 * best.value
    assert minimum - 1e-2 * minimum < problem.lower_bound() < minimum


def test_a_point_of_the_set_has_the_lower_bound_zero():
    X = op.datasets.planted_projection(40, 4, 0.5, np.random.default_rng(0)).X
    assert op.problems.Projection(X).lower_bound() == 0.0


def test_problem_certifies_its_matrix_once(monkeypatch):
    from orthoplus.problems import projection

    calls, certify = [], projection.project_stiefel_plus
    monkeypatch.setattr(projection, "project_stiefel_plus", lambda C: calls.append(C) or certify(C))
    problem = op.problems.Projection(np.random.default_rng(0).random((30, 3)))
    bounds = [problem.lower_bound() for _ in range(3)]
    result = op.solve(problem)
    assert len(calls) == 1
    assert bounds == [result.bound] * 3
    assert result.value >= result.bound
