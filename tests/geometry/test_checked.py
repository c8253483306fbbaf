"""Functions of `op.geometry` check what they are given; compiled loops would leave the arrays."""

import inspect
import pickle

import numpy as np
import pytest

import orthoplus as op
from orthoplus.geometry import delta, oblique, stiefel

X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
LABELS, WEIGHTS = np.array([0, 0, 1]), np.array([3.0, 4.0, 2.0])


@pytest.mark.parametrize("name", op.geometry.__all__)
def test_public_function_is_that_of_its_module(name):
    """The same values, signature, words and name to pickle."""
    public = getattr(op.geometry, name)
    own = next(getattr(place, name) for place in (delta, oblique, stiefel) if hasattr(place, name))
    assert inspect.signature(public) == inspect.signature(own)
    assert public.__doc__ == own.__doc__
    assert pickle.loads(pickle.dumps(public)) is public
    arguments = {"labels": LABELS, "weights": WEIGHTS, "entries": WEIGHTS, "k": 2, "n": 3}
    given = [
        np.random.default_rng(0) if one.name == "rng" else arguments.get(one.name, X)
        for one in inspect.signature(own).parameters.values()
        if one.default is one.empty
    ]
    copies = [np.random.default_rng(0) if isinstance(x, np.random.Generator) else x for x in given]
    np.testing.assert_array_equal(public(*given), own(*copies))


@pytest.mark.parametrize("name", ["assemble", "fit_support", "fit_weights"])
@pytest.mark.parametrize(
    ("labels", "weights", "words"),
    [
        ([0, 500_000_000, 1], WEIGHTS, "values from 0 to 500000000; they must lie between -1"),
        ([0, -2, 1], WEIGHTS, "values from -2 to 1"),
        ([0, 0, 0], WEIGHTS, "leaves a column without rows"),
        ([0, 1, 1], WEIGHTS[:2], r"shape \(2,\); one number per row is needed, so \(3,\)"),
        ([0, 1, 1], [1.0, np.nan, 1.0], "NaN or infinite"),
        ([0.5, 1, 1], WEIGHTS, "a vector of integers is needed"),
        (np.ma.array(LABELS, mask=[0, 1, 0]), WEIGHTS, "a masked array with masked entries"),
    ],
)
def test_labels_and_weights_that_do_not_fit_are_refused(name, labels, weights, words):
    with pytest.raises(op.InputError, match=words):
        getattr(op.geometry, name)(labels, weights, 2)


@pytest.mark.parametrize("name", ["project_delta", "project_tangent", "riemannian_gradient"])
def test_matrices_of_two_shapes_are_refused(name):
    for other in (np.ones((2, 2)), np.ones((3000, 2)), np.ones((3, 1))):
        with pytest.raises(op.InputError, match="both must have the same"):
            getattr(op.geometry, name)(X, other)
    with pytest.raises(op.InputError, match="both must have the same"):
        op.optimality.stationarity(X, np.ones((3000, 2)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.eye(3, 2) * 1j, "complex"),
        (np.empty((0, 2)), "at least one entry is needed"),
        (np.full((3, 2), 1e200), "products of such numbers"),
        (np.full((3, 2), 1e30, dtype=np.float32), "products of such numbers"),
        (np.full((3, 2), np.nan), "NaN"),
        (np.ones(3), r"1 dimension\(s\)"),
    ],
)
def test_matrix_that_is_none_is_refused(value, words):
    for name in ("labels_of", "project_oblique_plus", "violation", "round_to_stiefel_plus"):
        with pytest.raises(op.InputError, match=words):
            getattr(op.geometry, name)(value)


def test_polar_factor_of_too_many_columns_is_refused():
    with pytest.raises(op.InputError, match="more columns than rows"):
        op.geometry.polar_factor(np.ones((2, 3)))


def test_float16_and_lists_are_converted():
    np.testing.assert_array_equal(op.geometry.labels_of(X.astype(np.float16)), LABELS)
    np.testing.assert_array_equal(op.geometry.labels_of(X.tolist()), LABELS)
    assert op.geometry.project_oblique_plus(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("call", ["check", "check_oblique"])
def test_what_is_no_problem_is_refused(call):
    with pytest.raises(op.InputError, match="`problem` must be a Problem, not ndarray"):
        getattr(op.optimality, call)(X, X)
    with pytest.raises(op.InputError, match="`problem` must be a Problem, not ndarray"):
        op.penalty.separation_of_supports(X)
