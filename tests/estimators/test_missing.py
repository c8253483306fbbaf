"""Orthogonal NMF of data with missing entries, and with weights."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.data.observed import observe as observe_block
from orthoplus.estimators.missing import (
    _MAX_ROUNDS,
    alternate_observed,
    assign,
    renew_components,
)
from orthoplus.geometry.stiefel import violation
from orthoplus.optimality.conditions import stationarity

FEASIBLE = 1e-13


def planted(rng, n=120, r=20, k=4, noise=0.05):
    groups = rng.permutation(np.arange(n) % k)
    centers = rng.random((k, r))
    return (0.5 + rng.random((n, 1))) * centers[groups] + noise * rng.random((n, r)), groups


def observe(A):
    return observe_block(as_data(A, check=False))


def with_gaps(A, rng, share=0.3):
    return np.where(rng.random(A.shape) < share, np.nan, A)


def masked(k, **options):
    return op.OrthogonalNMF(k, missing="mask", random_state=0, **options)


def missed(A, model, W=None):
    W = model.transform(A) if W is None else W
    return float(np.sqrt(np.nansum((A - model.inverse_transform(W)) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_planted_groups_are_found_with_a_third_missing(seed):
    rng = np.random.default_rng(seed)
    A, groups = planted(rng)
    model = masked(4).fit(with_gaps(A, rng))
    assert adjusted_rand_score(groups, model.labels_) == 1.0
    # What was never seen is predicted to the noise.
    filled = model.inverse_transform(model.transform(with_gaps(A, rng)))
    assert np.sqrt(((A - filled) ** 2).mean()) < 0.05


def best_of_two_groups(A, rng):
    """What two groups of rows miss of the observed entries at least."""
    n = len(A)
    missed = {}
    for size in range(1, n + 1):
        for rows in combinations(range(n), size):
            missed[rows] = min(rank_one(A[list(rows)], rng) for _ in range(3))
    return min(
        missed[rows] + missed[tuple(i for i in range(n) if i not in rows)]
        for rows in missed
        if 0 < len(rows) < n
    )


def rank_one(A, rng):
    """Least squares over the observed entries of a nonnegative A, both factors in turn."""
    seen, values, h = ~np.isnan(A), np.nan_to_num(A), rng.random(A.shape[1])
    for _ in range(100):
        w = values @ h / np.maximum(seen @ h**2, 1e-300)
        h = w @ values / np.maximum(w**2 @ seen, 1e-300)
    return ((values - np.outer(w, h) * seen) ** 2).sum()


@pytest.mark.parametrize("seed", range(3))
def test_fit_is_the_best_of_all_partitions_of_few_rows(seed):
    rng = np.random.default_rng(seed)
    A = with_gaps(0.2 + rng.random((5, 6)), rng, share=0.15)
    model = masked(2, n_init=4).fit(A)
    best = best_of_two_groups(A, rng)
    assert model.reconstruction_err_**2 == pytest.approx(best, rel=1e-5)


def test_gaps_are_not_zeros(rng):
    A, groups = planted(rng, noise=0.3)
    gaps = with_gaps(A, rng, share=0.6)
    zeros = op.OrthogonalNMF(4, random_state=0).fit_predict(np.nan_to_num(gaps))
    ours = masked(4).fit_predict(gaps)
    assert adjusted_rand_score(groups, ours) > adjusted_rand_score(groups, zeros) + 0.1


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
@pytest.mark.parametrize("signed", [False, True])
def test_factors_are_feasible_and_the_error_is_theirs(rng, orthogonal, signed):
    A, _ = planted(rng)
    A = with_gaps(A - A.mean() if signed else A, rng)
    model = masked(4, orthogonal=orthogonal, allow_negative=signed)
    W = model.fit_transform(A)
    assert violation(model.orthonormal_) <= FEASIBLE
    np.testing.assert_array_equal(W, model.transform(A))
    np.testing.assert_array_equal(model.labels_, model.predict(A))
    assert not np.isnan(W).any()
    assert model.reconstruction_err_ == pytest.approx(missed(A, model, W), rel=1e-5)
    assert model.score(A) == pytest.approx(1 - missed(A, model, W) ** 2 / np.nansum(A**2))
    assert model.bound_ is None
    if not signed:
        assert (model.components_ >= 0).all()
    if orthogonal == "samples":
        np.testing.assert_allclose(W, model.orthonormal_, atol=1e-5)


def test_without_gaps_it_is_the_ordinary_fit(rng):
    A, _ = planted(rng)
    plain = op.OrthogonalNMF(4, random_state=0).fit(A)
    ours = masked(4).fit(A)
    np.testing.assert_array_equal(ours.components_, plain.components_)
    np.testing.assert_array_equal(masked(4).fit(sp.csr_array(A)).labels_, plain.labels_)
    labels, weights, _ = assign(observe(A), plain.components_)
    np.testing.assert_array_equal(labels, plain.labels_)
    np.testing.assert_allclose(weights, plain.transform(A).max(axis=1))


def test_steps_are_least_squares_over_what_was_observed(rng):
    A = with_gaps(rng.random((7, 5)), rng)
    data, H = observe(A), rng.random((2, 5))
    labels, weights, fits = assign(data, H)
    for i, row in enumerate(A):
        seen = ~np.isnan(row)
        solved = [np.linalg.lstsq(h[seen, None], row[seen], rcond=None) for h in H]
        left = [float(r[0]) if len(r) else 0.0 for _, r, *_ in solved]
        assert labels[i] == np.argmin(left)
        assert weights[i] == pytest.approx(solved[labels[i]][0][0])
        assert fits[i] ** 2 == pytest.approx((row[seen] ** 2).sum() - min(left))
    renewed = renew_components(data, labels, weights, H)
    for j in range(2):
        for column in range(5):
            rows = (labels == j) & ~np.isnan(A[:, column])
            if rows.any():
                best = np.linalg.lstsq(weights[rows, None], A[rows, column], rcond=None)[0][0]
                assert renewed[j, column] == pytest.approx(best)
            else:
                assert renewed[j, column] == H[j, column]


def test_value_never_rises(rng, monkeypatch):
    from orthoplus.estimators import missing

    A = with_gaps(rng.random((60, 9)), rng)
    start, values = rng.random((5, 9)), []
    for rounds in range(1, 12):
        monkeypatch.setattr(missing, "_MAX_ROUNDS", rounds)
        values.append(alternate_observed(observe(A), start).value)
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < values[0]
    assert _MAX_ROUNDS > 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("rounds", [1, 4, _MAX_ROUNDS])
def test_status_is_that_of_the_observed_entries(rounds, make, rng, monkeypatch):
    """A fit that has not settled on the observed entries has not converged."""
    from orthoplus.estimators import missing

    monkeypatch.setattr(missing, "_MAX_ROUNDS", rounds)
    monkeypatch.setattr(missing, "_MAX_FILLS", 1)
    A = with_gaps(rng.random((30, 8)), rng, 0.5)
    A[0] = np.where(np.isnan(A[0]), A[0], 0.0)
    result = masked(3).fit(make(A)).result_
    X, seen = result.X, ~np.isnan(A)
    squares = (X**2).T @ seen
    H = np.divide(X.T @ np.nan_to_num(A), squares, out=result.Y.T.copy(), where=squares > 0)
    G = -2.0 * np.where(seen, A - X @ H, 0.0) @ H.T
    size = 2.0 * np.linalg.norm(np.nan_to_num(A) @ H.T)
    assert result.stationarity == pytest.approx(stationarity(X, G), abs=1e-12 * size)
    assert result.success == (result.stationarity <= 1e-4 * size)
    assert result.success == (rounds > 4)


def test_component_without_rows_takes_the_row_that_is_missed_most():
    A = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, np.nan], [0.0, 5.0, np.nan]])
    fit = alternate_observed(observe(A), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    assert fit.value == pytest.approx(0.0)
    np.testing.assert_array_equal(fit.labels, [0, 0, 1])


def test_rows_and_columns_that_are_missing_altogether(rng):
    A, groups = planted(rng)
    A = with_gaps(A, rng)
    A[5], A[:, 3] = np.nan, np.nan
    model = masked(4)
    W = model.fit_transform(A)
    assert not W[5].any()
    assert model.labels_[5] == -1  # as a row of zeros: nothing was seen of it
    assert np.isfinite(model.components_).all()
    rest = np.arange(len(A)) != 5
    assert adjusted_rand_score(groups[rest], model.labels_[rest]) == 1.0
    nothing = masked(2).fit(np.full((5, 3), np.nan))
    assert nothing.reconstruction_err_ == 0.0
    assert violation(nothing.orthonormal_) <= FEASIBLE


def test_float32_stays_float32_with_gaps(rng):
    A = with_gaps(planted(rng)[0], rng).astype(np.float32)
    model = masked(4)
    assert model.fit_transform(A).dtype == np.float32
    assert model.components_.dtype == model.orthonormal_.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_error_is_that_of_the_factors_when_the_fit_is_nearly_exact(dtype, noise, rng):
    A = with_gaps(planted(rng, noise=noise)[0], rng).astype(dtype)
    model = masked(4).fit(A)
    W = model.transform(A).astype(np.float64)
    truth = np.sqrt(np.nansum((A - W @ model.components_.astype(np.float64)) ** 2))
    # The entries of the product are rounded to the dtype of the data.
    rounding = np.finfo(dtype).eps * np.sqrt(np.nansum(A.astype(np.float64) ** 2))
    assert model.reconstruction_err_ == pytest.approx(truth, rel=0.05, abs=rounding)


def test_weight_two_with_gaps_is_the_row_twice(rng):
    A = with_gaps(planted(rng, n=40)[0], rng, share=0.2)
    weights = rng.integers(0, 3, size=40)
    weighted = masked(4).fit(A, sample_weight=weights)
    repeated = masked(4).fit(np.repeat(A, weights, axis=0))
    assert weighted.reconstruction_err_ == pytest.approx(repeated.reconstruction_err_, rel=1e-5)
    assert adjusted_rand_score(weighted.predict(A), repeated.predict(A)) == 1.0


def test_row_of_weight_zero_is_absent_from_the_fit_and_assigned(rng):
    A, groups = planted(rng, n=40)
    outlier = np.zeros((1, A.shape[1]))
    outlier[0, 0] = 1e3  # would take a component for itself
    both, weights = np.vstack([A, outlier]), np.append(np.ones(40), 0.0)
    model = op.OrthogonalNMF(4, random_state=0).fit(both, sample_weight=weights)
    without = op.OrthogonalNMF(4, random_state=0).fit(A)
    assert model.reconstruction_err_ == pytest.approx(without.reconstruction_err_, rel=1e-9)
    assert adjusted_rand_score(groups, model.labels_[:40]) == 1.0
    cosines = model.components_[:, 0] / np.linalg.norm(model.components_, axis=1)
    assert model.labels_[40] == cosines.argmax()
    assert model.orthonormal_[40].max() <= FEASIBLE


def test_nan_is_an_error_that_names_the_option(rng):
    A, _ = planted(rng)
    gaps = with_gaps(A, rng)
    with pytest.raises(ValueError, match=r'contains NaN.*missing="mask"'):
        op.OrthogonalNMF(4).fit(gaps)
    model = op.OrthogonalNMF(4).fit(A)
    with pytest.raises(ValueError, match=r'missing="mask"'):
        model.predict(gaps)
    with pytest.raises(ValueError, match="error, mask"):
        op.OrthogonalNMF(4, missing="ignore").fit(A)
    with pytest.raises(ValueError, match=r"Negative values.*allow_negative=True"):
        masked(4).fit(gaps - 0.5)
    with pytest.raises(ValueError, match="infinity"):
        masked(4).fit(np.where(np.isnan(gaps), np.inf, gaps))
    assert clone(masked(4)).missing == "mask"
