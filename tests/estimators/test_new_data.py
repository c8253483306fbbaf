"""New data for a fitted model are checked like the data of a fit, in every storage."""

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op

A = np.random.default_rng(0).random((60, 5))
SPECTRA = np.random.default_rng(1).random((3, 5))
BAD = {"nan": np.nan, "inf": np.inf, "negative": -5.0, "huge": 1e300}
METHODS = ("predict", "transform", "score", "row_fits")


def spoiled(kind, storage, tmp_path):
    B = A.copy()
    B[7, 2] = BAD[kind]
    if storage == "memory map":
        np.save(tmp_path / "B.npy", B)
        return np.load(tmp_path / "B.npy", mmap_mode="r")
    return da.from_array(B, chunks=(10, 5)) if storage == "dask" else B


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("storage", ["memory", "memory map", "dask"])
@pytest.mark.parametrize("kind", BAD)
def test_bad_entry_is_refused_after_the_fit(tmp_path, kind, storage, loss):
    model = op.OrthogonalNMF(3, loss=loss, random_state=0).fit(A)
    X = spoiled(kind, storage, tmp_path)
    for name in METHODS:
        with pytest.raises(ValueError, match=r"NaN|infinit|[Nn]egative|products of such numbers"):
            getattr(model, name)(X)


@pytest.mark.parametrize("storage", ["memory", "memory map", "dask"])
def test_signs_and_gaps_are_accepted_where_the_model_accepts_them(tmp_path, storage):
    signed = op.OrthogonalNMF(3, allow_negative=True, random_state=0).fit(A)
    masked = op.OrthogonalNMF(3, missing="mask", random_state=0).fit(A)
    expected = {}
    for model, kind in ((signed, "negative"), (masked, "nan")):
        X = spoiled(kind, storage, tmp_path)
        expected[kind] = model.predict(spoiled(kind, "memory", tmp_path))
        np.testing.assert_array_equal(np.asarray(model.predict(X)), expected[kind])


@pytest.mark.parametrize("make", [np.array, csr_array])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_infinite_coordinates_are_refused(make, dtype):
    model = op.OrthogonalNMF(3, random_state=0).fit(A)
    W = model.transform(A).astype(dtype)
    W[:2, 0] = np.inf, -np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.inverse_transform(make(W))


@pytest.mark.parametrize("storage", ["memory", "memory map", "dask"])
@pytest.mark.parametrize("kind", ["nan", "inf", "huge"])
def test_bad_pixel_is_refused_by_abundances(tmp_path, kind, storage):
    with pytest.raises(op.InputError, match=r"NaN|products of such numbers"):
        op.abundances(spoiled(kind, storage, tmp_path), SPECTRA)


@pytest.mark.parametrize("options", [
    {}, {"loss": "kullback-leibler"}, {"orthogonal": "features"}, {"row_scale": "l2"},
    {"allow_negative": True},
], ids=lambda options: "-".join(map(str, options.values())) or "usual")  # fmt: skip
@pytest.mark.parametrize("storage", ["dask", "blocks"])
def test_message_of_a_fit_names_the_argument(storage, options):
    B = A.copy()
    B[7, 2] = np.nan
    limit = {"memory_limit": 1024} if storage == "blocks" else {}
    given = da.from_array(B, chunks=(10, 5)) if storage == "dask" else B
    blocks_of_features = options == {"orthogonal": "features"}
    model = op.OrthogonalNMF(1 if blocks_of_features else 3, **options, **limit)
    with pytest.raises(op.InputError, match="`X` has 1 entries that are NaN"):
        model.fit(given)


def test_spectra_out_of_range_are_refused():
    with pytest.raises(op.InputError, match="products of such numbers"):
        op.abundances(A, 1e200 * SPECTRA)
    with pytest.raises(op.InputError, match="no spectra to compare"):
        op.metrics.spectral_angle_distance(SPECTRA[:0], SPECTRA[:0])


@pytest.mark.parametrize(
    "labels", [np.full(60, 1e30), np.full(60, 2**64 - 1, dtype=np.uint64), np.full(60, np.nan)]
)
def test_labels_that_are_no_integers_are_refused_by_certify(labels):
    with pytest.raises(op.InputError, match="cannot be read as labels"):
        op.certify(op.problems.ONMF(A, 3), labels)


def test_labels_in_float16_are_those_in_integers():
    labels = np.arange(60) % 3
    problem = op.problems.ONMF(A, 3)
    found = [op.certify(problem, given, time_limit=0.05).value
             for given in (labels, labels.astype(np.float16))]  # fmt: skip
    assert found[0] == found[1]
