"""Scaling of samples and features: factors only, the same for new samples, in every storage."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from every_storage import STORAGES, limit_for
from orthoplus.data import as_data
from orthoplus.data.columns import column_deviations, column_peaks, column_sizes
from orthoplus.data.observed import as_observed
from orthoplus.estimators import scaling

SCALES = {"std": lambda A: A.std(axis=0), "max": lambda A: A.max(axis=0)}


@pytest.fixture
def table(rng):
    """Return a table of three groups whose columns are in units of 1 to 10,000."""
    groups = np.arange(90) % 3
    centers = rng.uniform(0.2, 1.0, (3, 8))
    A = rng.uniform(0.5, 1.5, (90, 1)) * (centers[groups] + 0.05 * rng.random((90, 8)))
    return A * 10.0 ** rng.uniform(0, 4, 8), groups


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("column_scale", SCALES)
def test_column_scale_is_that_of_data_scaled_by_hand(column_scale, loss, table):
    A, _ = table
    sizes = SCALES[column_scale](A)
    model = op.OrthogonalNMF(3, column_scale=column_scale, loss=loss, random_state=0).fit(A)
    plain = op.OrthogonalNMF(3, loss=loss, random_state=0).fit(A / sizes)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.components_, plain.components_ * sizes, rtol=1e-6)
    np.testing.assert_allclose(model.scaled_components_, plain.components_, rtol=1e-6)
    assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_)
    assert model.score(A) == pytest.approx(plain.score(A / sizes))
    new = A[:7] * 1.1
    np.testing.assert_array_equal(model.predict(new), plain.predict(new / sizes))
    np.testing.assert_allclose(model.transform(new), plain.transform(new / sizes), rtol=1e-6)


def test_components_of_scaled_data_are_in_the_units_of_the_data(table):
    A, _ = table
    for row_scale in (None, "l1", "l2"):
        model = op.OrthogonalNMF(3, column_scale="std", row_scale=row_scale).fit(A)
        restored = model.inverse_transform(model.transform(A))
        assert (np.abs(restored - A) < 0.25 * A).all()
        np.testing.assert_array_equal(model.fit_transform(A), model.transform(A))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_row_scale_is_that_of_rows_scaled_by_hand(norm, table):
    A, _ = table
    sizes = A.sum(axis=1) if norm == "l1" else np.linalg.norm(A, axis=1)
    model = op.OrthogonalNMF(3, row_scale=norm, random_state=0).fit(A)
    plain = op.OrthogonalNMF(3, random_state=0).fit(A / sizes[:, None])
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.components_, plain.components_, rtol=1e-9)
    assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_)
    assert model.score(A) == pytest.approx(plain.score(A / sizes[:, None]))
    W = plain.transform(A / sizes[:, None]) * sizes[:, None]
    np.testing.assert_allclose(model.transform(A), W, rtol=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_rows_of_any_sign_are_scaled_by_their_absolute_values(convert, rng):
    """The entries of a row may sum to zero, which says nothing about its size."""
    A = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.8)
    A[:5] = np.round(A[:5])
    A[:5, -1] = -A[:5, :-1].sum(axis=1)
    sizes = np.abs(A).sum(axis=1)
    model = op.OrthogonalNMF(3, row_scale="l1", allow_negative=True).fit(convert(A))
    scaled = A / np.where(sizes > 0, sizes, 1.0)[:, None]
    plain = op.OrthogonalNMF(3, allow_negative=True).fit(scaled)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_)
    assert model.score(convert(A)) == pytest.approx(plain.score(scaled))


def test_unit_rows_are_spherical_clusters(rng):
    """Rows in three directions, with lengths that hide them from clusters by distance."""
    groups = np.arange(90) % 3
    directions = rng.dirichlet(np.full(8, 0.5), 3)
    A = 10.0 ** rng.uniform(-3, 3, (90, 1)) * (directions[groups] + 0.01 * rng.random((90, 8)))
    labels = op.OrthogonalNMF(3, row_scale="l2").fit_predict(A)
    assert adjusted_rand_score(groups, labels) == 1.0


def test_wine_needs_scaled_columns_and_the_result_says_so():
    A, kinds = load_wine(return_X_y=True)
    plain = op.OrthogonalNMF(3, random_state=0).fit(A)
    assert any('`column_scale="std"`' in note for note in plain.result_.notes)
    for column_scale in SCALES:
        model = op.OrthogonalNMF(3, column_scale=column_scale, random_state=0).fit(A)
        assert model.result_.notes == ()
        # 0.66 without scaling, 0.89 and 0.90 with it.
        assert op.metrics.purity(kinds, model.labels_) > 0.85
        assert op.metrics.purity(kinds, plain.labels_) < 0.7


def test_note_is_not_given_for_rare_words_nor_for_equal_units(rng):
    counts = sp.csr_array((rng.random((300, 50)) < np.geomspace(0.9, 0.01, 50)) * 2.0)
    assert op.OrthogonalNMF(2).fit(counts).result_.notes == ()
    assert op.OrthogonalNMF(2).fit(rng.random((30, 5))).result_.notes == ()
    assert op.OrthogonalNMF(2).fit(np.zeros((30, 5))).result_.notes == ()


@pytest.mark.parametrize("storage", STORAGES)
def test_column_scales_do_not_depend_on_the_storage(storage, rng, tmp_path):
    A = rng.random((40, 7)) * (rng.random((40, 7)) < 0.5)
    A[:, 3], A[:, 4] = 0.25, 0.0  # constant columns
    weights = rng.integers(0, 3, size=40).astype(float)
    data = as_data(STORAGES[storage](A, tmp_path), **limit_for(storage, A))
    copies = np.repeat(A, weights.astype(int), axis=0)
    std = np.where(np.arange(7) == 3, 0.0, copies.std(axis=0))
    np.testing.assert_allclose(column_deviations(data, weights), std, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(column_peaks(data, weights), copies.max(axis=0))
    means = A.sum(axis=0) / np.maximum((A > 0).sum(axis=0), 1)
    np.testing.assert_allclose(column_sizes(data), means)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_gaps_do_not_count_in_column_scales(container, rng):
    A = rng.random((40, 7)) * (rng.random((40, 7)) < 0.7)
    A[rng.random((40, 7)) < 0.2] = np.nan
    data = as_observed(as_data(container(A), check=False))
    std = column_deviations(data, np.ones(40))
    np.testing.assert_allclose(std, np.nanstd(A, axis=0), rtol=1e-12)
    options = {"missing": "mask", "random_state": 0}
    model = op.OrthogonalNMF(2, column_scale="std", **options).fit(container(A))
    plain = op.OrthogonalNMF(2, **options).fit(A / std)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.scaled_components_, plain.components_, rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{"row_scale": "max"}, {"column_scale": "l2"}, {"column_scale": "mean"}]
)
def test_unknown_scales_are_named(options, rng):
    with pytest.raises(ValueError, match=next(iter(options))):
        op.OrthogonalNMF(2, **options).fit(rng.random((9, 4)))


def test_proof_is_one_of_the_scaled_data(table):
    A, _ = table
    model = op.OrthogonalNMF(3, column_scale="std", row_scale="l2", random_state=0).fit(A)
    found = model.certify(A, time_limit=5)
    assert found.value == pytest.approx(model.reconstruction_err_**2, rel=1e-6)
    assert found.bound <= found.value * (1 + 1e-9)


def test_sizes_of_columns_copy_no_more_than_some_rows():
    A = np.ones((30_000, 100), dtype=np.float32)
    tracemalloc.start()
    try:
        np.testing.assert_allclose(column_sizes(as_data(A, check=False)), 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * A.nbytes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_note_of_many_rows_is_that_of_rows_in_equal_distances(form, table, monkeypatch):
    A = np.repeat(table[0], 4, axis=0)
    monkeypatch.setattr(scaling, "_ROWS_FOR_SCALES", 40)
    A[1] *= 1e6  # the sample takes every ninth row, so that it has not this one
    (note,) = scaling.note_mixed_units(as_data(form(A)), scaling.Scaling())
    scales = np.abs(A[::9]).mean(axis=0)
    assert f"{scales.max() / scales.min():.0f} times" in note


def test_entries_near_the_largest_number_give_no_warning_before_they_are_refused():
    with pytest.raises(op.InputError, match=r"entries as large as 1\.5e\+308"):
        op.OrthogonalNMF(1, allow_negative=True).fit([[1.5e308]])
