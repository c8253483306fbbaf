"""How rows fit their clusters: against plain loops over rows and components."""

import numpy as np
import pytest
import scipy.sparse as sp

import orthoplus as op
from orthoplus.estimators.row_fits import SMOOTHING


def make_rows(rng, n=40, r=12, k=3):
    truth = np.arange(n) % k
    A = (0.5 + rng.random((n, 1))) * np.kron(np.eye(k), np.ones(r // k))[truth]
    A += 0.3 * rng.random((n, r))
    A[5] = 0.0
    return A


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scale", [None, "std"])
def test_cosine_weight_and_second_best_are_those_of_a_loop(rng, form, scale):
    A = make_rows(rng)
    model = op.OrthogonalNMF(3, column_scale=scale, row_scale="l2").fit(form(A))
    fits = model.row_fits(form(A))
    scales = A.std(axis=0) if scale else np.ones(12)
    H = model.components_ / scales
    for i, (a, own) in enumerate(zip(A / scales, model.labels_, strict=True)):
        if i == 5:
            assert (own, fits.weights[i], fits.second_best[i]) == (-1, 0.0, -1)
            assert np.isnan([fits.cosines[i], fits.margins[i]]).all()
            continue
        cosines = [a @ h / (np.linalg.norm(a) * np.linalg.norm(h)) for h in H]
        second, first = np.argsort(cosines)[-2:]
        assert (first, second) == (own, fits.second_best[i])
        assert fits.cosines[i] == pytest.approx(cosines[own])
        assert fits.margins[i] == pytest.approx(cosines[own] - cosines[second])
        assert fits.weights[i] == pytest.approx(a @ H[own] / (H[own] @ H[own]))


def test_only_observed_entries_count(rng):
    A = make_rows(rng)
    A[0, 1] = A[7, 3] = np.nan
    model = op.OrthogonalNMF(3, missing="mask").fit(A)
    fits = model.row_fits(A)
    for i in (0, 7):
        seen = ~np.isnan(A[i])
        a, h = A[i, seen], model.components_[model.labels_[i], seen]
        assert fits.weights[i] == pytest.approx(a @ h / (h @ h))
        assert fits.cosines[i] == pytest.approx(a @ h / np.sqrt((a @ a) * (h @ h)))


def test_margin_of_counts_is_the_log_likelihood_per_count(rng):
    profiles = rng.dirichlet(np.full(12, 0.3), 3)
    A = rng.poisson(30 * profiles[np.arange(40) % 3]).astype(float)
    model = op.OrthogonalNMF(3, loss="kullback-leibler").fit(A)
    fits = model.row_fits(A)
    sums = np.array([A[model.labels_ == j].sum(axis=0) for j in range(3)])
    p = sums / sums.sum(axis=1, keepdims=True)
    p = (1 - SMOOTHING) * p + SMOOTHING * A.sum(axis=0) / A.sum()
    p = np.where(A.sum(axis=0) > 0, p, 1.0)
    for a, own, second, margin in zip(
        A, model.labels_, fits.second_best, fits.margins, strict=True
    ):
        scores = np.log(p) @ a / a.sum()
        others = np.delete(scores, own)
        assert scores[second] == others.max()
        assert margin == pytest.approx(scores[own] - others.max())
    np.testing.assert_allclose(fits.weights, model.transform(A).sum(axis=1))


def test_one_component_has_no_second_best(rng):
    fits = op.OrthogonalNMF(1).fit(A := make_rows(rng)).row_fits(A)
    assert (fits.second_best == -1).all()
    assert np.isnan(fits.margins).all()


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_new_rows_are_compared_as_those_of_the_fit(rng, loss):
    A = rng.poisson(30 * rng.dirichlet(np.full(12, 0.3), 3)[np.arange(40) % 3]).astype(float)
    model = op.OrthogonalNMF(3, loss=loss).fit(A)
    some, all_rows = model.row_fits(A[[3, 8]]), model.row_fits(A)
    for one, other in zip(some, all_rows, strict=True):
        np.testing.assert_allclose(one, other[[3, 8]], rtol=1e-12)
    assert (all_rows.margins >= -1e-12).all() or loss == "kullback-leibler"
    assert all_rows.margins.shape == (40,)


def test_dask_array_has_the_fits_of_the_array(rng):
    da = pytest.importorskip("dask.array")
    X = rng.random((30, 5))
    model = op.OrthogonalNMF(3, random_state=0).fit(X)
    for mine, same in zip(
        model.row_fits(da.from_array(X, chunks=(7, 5))), model.row_fits(X), strict=True
    ):
        np.testing.assert_allclose(mine, same, rtol=1e-12)
