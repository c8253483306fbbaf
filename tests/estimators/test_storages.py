"""Every option of the estimators in every storage: the answer of the same data in memory."""

import os

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op
from every_storage import STORAGES, limit_for
from orthoplus.data import as_data

N, R, K = 80, 14, 3
# Sums over blocks in another order than in memory; the gaps are refilled until little is gained.
RTOL = 1e-7


def planted(rng, *, signed=False, n=N, noise=0.05):
    """Return sparse rows along K directions; the last but one is zero."""
    spectra = np.kron(np.eye(K), np.ones(R // K + 1))[:, :R] * rng.uniform(0.5, 1.5, (K, R))
    spectra += 0.3 * rng.random((K, R)) * (rng.random((K, R)) < 0.3)
    if signed:
        spectra *= rng.choice([-1.0, 1.0], size=(K, R))
    A = rng.uniform(0.5, 1.5, (n, 1)) * spectra[rng.permutation(np.arange(n) % K)]
    extra = rng.random((n, R)) - 0.5 * signed
    A += noise * extra * (rng.random((n, R)) < 0.5)
    A[-2] = 0.0
    return A


OPTIONS = {
    "plain": {},
    "weights": {},
    "signed": {"allow_negative": True},
    "features": {"orthogonal": "features"},
    "mask": {"missing": "mask"},
    "mask without gaps": {"missing": "mask"},
    "mask, weights": {"missing": "mask"},
    "mask, signed": {"missing": "mask", "allow_negative": True},
    "signed, weights": {"allow_negative": True},
    "signed, features": {"allow_negative": True, "orthogonal": "features"},
    "features, weights": {"orthogonal": "features"},
    "mask, signed, weights": {"missing": "mask", "allow_negative": True},
    "bound": {"with_bound": True},
    "penalty method": {"method": "ep4orth"},
}


# The single options everywhere; of the combinations each storage has some in the suite, in turn.
SINGLE = ("plain", "weights", "signed", "features", "mask")
OTHERS = [name for name in STORAGES if name != "memory"]
PAIRS = [
    (option, storage)
    for i, option in enumerate(OPTIONS)
    for j, storage in enumerate(OTHERS)
    if (option in SINGLE and storage not in ("zarr", "dask, rows in ten chunks"))
    or (i + j) % 5 == 0
    or "ORTHOPLUS_ALL_TESTS" in os.environ
]


def make(option, rng):
    """Return the data for an option, and the weights of the samples or None."""
    A = planted(rng, signed="signed" in option)
    if "mask" in option and "without" not in option:
        A[(rng.random(A.shape) < 0.2) & (np.arange(N)[:, None] != N - 2)] = np.nan
    weights = rng.integers(0, 4, size=N).astype(float) if "weights" in option else None
    return A, weights


def fit(given, option, weights, **limit):
    model = op.OrthogonalNMF(K, random_state=0, n_init=2, **OPTIONS[option], **limit)
    return model.fit(given, sample_weight=weights)


@pytest.fixture(scope="module")
def answers():
    """What was found in memory, by option; the data of an option are those of the seed."""
    return {}


def answer_of_memory(option, A, weights, answers):
    if option not in answers:
        answers[option] = fit(A, option, weights)
    return answers[option]


@pytest.mark.parametrize(("option", "storage"), PAIRS)
def test_option_gives_the_answer_of_memory(option, storage, rng, tmp_path, answers):
    A, weights = make(option, rng)
    whole = answer_of_memory(option, A, weights, answers)
    given = STORAGES[storage](A, tmp_path)
    model = fit(given, option, weights, **limit_for(storage, A))
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    assert whole.labels_[-2] == -1
    size = np.sqrt(np.nansum(A**2))
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=RTOL)
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-5 * size)
    X = np.asarray(model.orthonormal_)
    np.testing.assert_allclose(X, whole.orthonormal_, atol=1e-5)
    assert (model.bound_ is None) == (option != "bound")
    if option == "bound":
        assert model.bound_ == pytest.approx(whole.bound_, rel=RTOL)
    assert model.score(given) == pytest.approx(whole.score(A), rel=RTOL)
    np.testing.assert_array_equal(np.asarray(model.predict(given)), whole.labels_)
    W = np.asarray(model.transform(given))
    np.testing.assert_allclose(W, whole.transform(A), atol=1e-5 * size)


@pytest.mark.parametrize("storage", ["memory", "blocks", "sparse dask"])
@pytest.mark.parametrize("option", SINGLE)
def test_single_precision_stays_single(option, storage, rng, tmp_path, answers):
    A, weights = make(option, rng)
    whole = answer_of_memory(option, A, weights, answers)
    single = A.astype(np.float32)
    model = fit(STORAGES[storage](single, tmp_path), option, weights, **limit_for(storage, A))
    assert model.components_.dtype == np.float32
    assert np.asarray(model.orthonormal_).dtype == np.float32
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=1e-3)


@pytest.mark.parametrize("storage", ["blocks", "hdf5", "dask", "sparse dask"])
def test_fit_transform_and_fit_predict_are_those_of_the_fit(storage, rng, tmp_path):
    A, _ = make("plain", rng)
    given, limit = STORAGES[storage](A, tmp_path), limit_for(storage, A)
    model = op.OrthogonalNMF(K, random_state=0, **limit)
    W = np.asarray(model.fit_transform(given))
    np.testing.assert_allclose(W, np.asarray(model.transform(given)), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(model.fit_predict(given)), np.asarray(model.labels_))


@pytest.mark.parametrize("storage", ["blocks", "hdf5", "dask", "sparse dask"])
def test_gaps_of_features_need_the_data_in_memory(storage, rng, tmp_path):
    A, _ = make("mask", rng)
    model = op.OrthogonalNMF(K, missing="mask", orthogonal="features", **limit_for(storage, A))
    with pytest.raises(op.InputError, match=r'"features"` needs the data in memory, or its trans'):
        model.fit(STORAGES[storage](A, tmp_path))


@pytest.mark.parametrize("make_sparse", [csr_array, lambda A: csr_array(A).tocsc()])
def test_gaps_of_features_in_sparse_memory(make_sparse, rng):
    A, _ = make("mask", rng)
    options = {"missing": "mask", "orthogonal": "features", "random_state": 0}
    whole = op.OrthogonalNMF(K, **options).fit(A)
    model = op.OrthogonalNMF(K, **options).fit(make_sparse(A))
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=RTOL)


def test_sparse_gaps_are_not_the_zeros_that_are_not_stored(rng):
    A, _ = make("mask", rng)
    model = op.OrthogonalNMF(K, missing="mask", random_state=0).fit(csr_array(A))
    zeros = op.OrthogonalNMF(K, missing="mask", random_state=0).fit(np.nan_to_num(A))
    assert model.reconstruction_err_ < 0.9 * zeros.reconstruction_err_


@pytest.mark.parametrize("heights", [(N, 0, 0), (1, N - 2, 1), (0, 40, 0, 40, 0)])
@pytest.mark.parametrize("option", SINGLE)
def test_chunks_of_a_dask_array_do_not_matter(option, heights, rng, answers):
    A, weights = make(option, rng)
    whole = answer_of_memory(option, A, weights, answers)
    model = fit(da.from_array(A, chunks=(heights, (5, R - 5))), option, weights)
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    assert len(model.labels_) == N
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=RTOL)


@pytest.mark.parametrize("option", SINGLE)
def test_chunks_of_unknown_length_are_refused_with_advice(option, rng, answers):
    A, weights = make(option, rng)
    unknown = da.from_array(A, chunks=(20, R))
    unknown = unknown[da.ones(N, chunks=20) > 0]
    with pytest.raises(op.InputError, match=r"unknown length: call `X.compute_chunk_sizes\(\)` fi"):
        fit(unknown, option, weights)
    known = fit(unknown.compute_chunk_sizes(), option, weights)
    whole = answer_of_memory(option, A, weights, answers)
    np.testing.assert_array_equal(np.asarray(known.labels_), whole.labels_)


@pytest.mark.parametrize("storage", STORAGES)
def test_weights_may_be_a_dask_array_and_are_checked(storage, rng, tmp_path, answers):
    A, weights = make("weights", rng)
    given, limit = STORAGES[storage](A, tmp_path), limit_for(storage, A)
    one = fit(given, "weights", da.from_array(weights, chunks=30), **limit)
    whole = answer_of_memory("weights", A, weights, answers)
    assert one.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=RTOL)
    for bad, message in (
        (-weights, "Negative values"),
        (weights[1:], r"sample_weight.shape == \(79,\), expected \(80,\)"),
        (np.full(N, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(given, "weights", bad, **limit)


@pytest.mark.parametrize("storage", STORAGES)
def test_negative_entries_beside_gaps_are_named(storage, rng, tmp_path):
    A, _ = make("mask, signed", rng)
    with pytest.raises(ValueError, match=r"[Nn]egative .*allow_negative=True|the smallest is -"):
        fit(STORAGES[storage](A, tmp_path), "mask", None, **limit_for(storage, A))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_zeros_and_ones_have_an_answer(orthogonal, storage, tmp_path):
    for number in (0.0, 1.0):
        A = np.full((20, 6), number)
        folder = tmp_path / str(number)
        folder.mkdir()
        limit = limit_for(storage, A, height=4)
        model = op.OrthogonalNMF(2, orthogonal=orthogonal, random_state=0, **limit)
        model.fit(STORAGES[storage](A, folder))
        assert model.reconstruction_err_ == pytest.approx(0.0, abs=1e-6)
        assert model.result_.violation <= 1e-14
        if number == 0.0 and orthogonal == "samples":
            assert (np.asarray(model.labels_) == -1).all()


# --- unmixing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["blocks", "memory map", "hdf5", "zarr", "dask"])
@pytest.mark.parametrize("method", [None, "auto", "ep4orth"])
def test_unmixing_has_one_method_on_every_storage(method, storage, rng, tmp_path):
    pixels = planted(rng, noise=0.1)
    pixels[3, 2] = -0.5
    given = {} if method is None else {"method": method}
    whole = op.unmix(pixels, K, **given)
    found = op.unmix(STORAGES[storage](pixels, tmp_path), K, **given, **limit_for(storage, pixels))
    np.testing.assert_array_equal(found.labels, whole.labels)
    assert found.labels[-2] == -1
    np.testing.assert_allclose(found.endmembers, whole.endmembers, atol=1e-6)
    np.testing.assert_allclose(found.brightness, whole.brightness, atol=1e-6)
    np.testing.assert_allclose(found.abundances, whole.abundances, atol=1e-6)
    assert found.result.value == pytest.approx(whole.result.value, rel=RTOL)
    assert found.result.notes == whole.result.notes
    assert len(whole.result.notes) == 3  # negative values, the start, the fractions


def test_unmixing_of_negative_pixels_is_that_of_the_clipped(rng):
    pixels = planted(rng) - 0.02
    lazy = op.unmix(da.from_array(pixels, chunks=(30, R)), K)
    clipped = op.unmix(np.maximum(pixels, 0.0), K)
    np.testing.assert_array_equal(lazy.labels, clipped.labels)
    assert lazy.result.value == pytest.approx(clipped.result.value, rel=RTOL)
    assert as_data(pixels).least_and_largest()[1] < 0  # left as it was
