"""k-means over S+: the objective is scikit-learn's inertia, the optimum that of brute force."""

import numpy as np
import pytest
from sklearn.cluster import KMeans as ScikitKMeans

import orthoplus as op
from brute_force import supports
from orthoplus.geometry.stiefel import labels_of, random_stiefel_plus
from orthoplus.problems import KMeans


def blobs(rng, n=60, k=3, spread=0.3):
    groups = rng.permutation(np.arange(n) % k)
    centers = 4.0 * np.eye(k, 5) - 2.0
    return centers[groups] + spread * rng.standard_normal((n, 5)), groups


@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_objective_is_the_inertia_of_scikit_learn(spread, rng):
    A, _ = blobs(rng, spread=spread)
    model = ScikitKMeans(3, n_init=3, random_state=0).fit(A)
    problem = KMeans(A, 3)
    X = problem.indicator(model.labels_)
    # A difference of numbers as large as the weighted total.
    assert problem.value(X) == pytest.approx(model.inertia_, rel=1e-9)
    assert problem.inertia(model.labels_) == problem.value(X)
    np.testing.assert_allclose(X @ X.sum(axis=0), 1.0)  # XX'e = e


def test_penalty_is_zero_for_indicators_only(rng):
    A = rng.standard_normal((8, 3))
    light, heavy = KMeans(A, 2, weight=20.0), KMeans(A, 2, weight=40.0)
    labels = np.array([0, 1, 1, 0, 0, 1, 0, 1])
    assert light.inertia(labels) == pytest.approx(heavy.inertia(labels), abs=1e-10)
    X = random_stiefel_plus(8, 2, rng)
    off = 8 - (X.sum(axis=0) ** 2).sum()
    assert off > 0
    assert heavy.value(X) - light.value(X) == pytest.approx(20.0 * off)


def test_solve_finds_what_scikit_learn_finds(rng):
    A, groups = blobs(rng)
    problem = KMeans(A, 3)
    result = op.solve(problem)
    assert len(set(zip(groups, result.labels, strict=True))) == 3
    best = ScikitKMeans(3, n_init=5, random_state=0).fit(A).inertia_
    assert problem.inertia(result.labels) == pytest.approx(best, rel=1e-9)
    assert result.value <= best + 1e-9


def test_labels_of_the_best_point_are_those_of_the_least_inertia(rng):
    problem = KMeans(rng.standard_normal((6, 2)), 2, weight=1e4)
    points = list(supports(6, 2, full=True))
    least = min(points, key=problem.value)
    best = min((problem.refine(H) for H in points), key=problem.value)
    assert problem.inertia(labels_of(best)) == pytest.approx(problem.value(least), rel=1e-8)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"`labels` has shape \(2,\) and dtype int64: one integer per row is needed, 4"),
        ([0.0, 0.0, 1.0, 1.0], "dtype float64: one integer per row"),
        (["a", "a", "b", "b"], "one integer per row"),
        ([0, 0, 1, 2], r"`labels` has the values \[0, 1, 2\]: each of 0 to 1"),
        ([0, 0, 1, -1], r"the values \[-1, 0, 1\]"),
        ([0, 0, 0, 0], r"the values \[0\]: each of 0 to 1 is needed"),
    ],
)
def test_bad_labels_are_explained(labels, message):
    with pytest.raises(ValueError, match=message):
        KMeans(np.arange(4.0).reshape(4, 1), 2).inertia(labels)


def test_bad_input_is_explained(rng):
    with pytest.raises(ValueError, match=r"`weight=-1\.0` is out of range"):
        KMeans(np.ones((3, 2)), 2, weight=-1.0)
    with pytest.raises(ValueError, match="more columns than rows"):
        KMeans(np.ones((3, 2)), 4)
    assert KMeans(rng.standard_normal((4, 2)), 2, weight=1e-3).refine(np.eye(4, 2)) is None
    assert op.solve(KMeans(np.zeros((4, 2)), 2)).value == pytest.approx(0.0, abs=1e-12)
