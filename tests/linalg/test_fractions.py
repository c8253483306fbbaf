"""Fractions of known spectra: hand cases, every storage, the two models, and the choice of one."""

import dask.array as da
import h5py
import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array

from orthoplus.data import as_data
from orthoplus.linalg.fractions import fit_fractions, fitting_model, mixture_errors


def mixtures(rng, n=60, k=4, r=12):
    """Return pixels without noise, spectra and fractions."""
    E, F = rng.random((k, r)), rng.dirichlet(np.full(k, 0.7), n)
    return F @ E, E, F


def test_fractions_of_exact_mixtures_are_found(rng):
    A, E, F = mixtures(rng)
    np.testing.assert_allclose(fit_fractions(A, E), F, atol=1e-10)
    light = rng.uniform(0.3, 3.0, (60, 1))
    np.testing.assert_allclose(fit_fractions(light * A, E, "nnls"), F, atol=1e-10)
    assert np.abs(fit_fractions(light * A, E) - F).max() > 0.1  # brightness is taken for material


def test_sum_to_one_is_the_limit_of_a_heavy_row_of_ones(rng):
    A, E, _ = mixtures(rng, n=10)
    A += 0.3 * rng.standard_normal(A.shape)
    heavy = np.vstack([E.T, np.full(4, 1e4)])
    for a, f in zip(A, fit_fractions(A, E), strict=True):
        wanted = lsq_linear(heavy, np.append(a, 1e4), (0, np.inf), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(f, wanted, atol=1e-5)


def test_spectra_need_only_be_affinely_independent():
    E = np.array([[1.0, 1.0], [3.0, 3.0], [0.0, 0.0]])[[0, 2]]  # dependent, a shade
    np.testing.assert_allclose(fit_fractions([[0.3, 0.3]], E), [[0.3, 0.7]])
    line = np.array([[1.0, 1.0], [3.0, 3.0]])
    np.testing.assert_allclose(
        fit_fractions([[2.5, 2.5], [9.0, 9.0]], line), [[0.25, 0.75], [0, 1]]
    )


def test_near_spectra_far_from_zero_are_told_apart(rng):
    E = 1e3 + 1e-2 * rng.random((3, 20))  # their Gram matrix is singular in float64
    F = rng.dirichlet(np.ones(3), 5)
    np.testing.assert_allclose(fit_fractions(F @ E, E), F, atol=1e-6)


@pytest.mark.parametrize("model", ["fcls", "nnls"])
@pytest.mark.parametrize("storage", ["blocks", "hdf5", "dask", "sparse"])
def test_fractions_are_the_same_on_every_storage(model, storage, rng, tmp_path):
    A, E, _ = mixtures(rng, n=90)
    A = np.maximum(A + 0.1 * rng.standard_normal(A.shape), 0.0)
    A[3] = 0.0
    whole = fit_fractions(A, E, model)
    assert not whole[3].any()
    stored = {
        "blocks": lambda: as_data(A, memory_limit=64 * 12 * 8 * 20),
        "hdf5": lambda: h5py.File(tmp_path / "a.h5", "w").create_dataset("a", data=A),
        "dask": lambda: da.from_array(A, chunks=(20, 5)),
        "sparse": lambda: csr_array(A),
    }[storage]()
    data = as_data(stored)
    np.testing.assert_allclose(data.gather(fit_fractions(data, E, model)), whole, atol=1e-12)


def test_single_precision_comes_and_goes(rng):
    A, E, F = mixtures(rng)
    found = fit_fractions(A.astype(np.float32), E)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, F, atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


def test_model_follows_the_brightness(rng):
    A, E, _ = mixtures(rng, n=400)
    noise = 0.02 * rng.standard_normal(A.shape)
    even, shaded = as_data(A + noise), as_data(A * rng.uniform(0.5, 1.5, (400, 1)) + noise)
    assert (fitting_model(even, E), fitting_model(shaded, E)) == ("fcls", "nnls")
    free, fixed = mixture_errors(shaded, E)
    F = fit_fractions(shaded, E)
    left = np.linalg.norm(shaded.entries() - F @ E) / np.linalg.norm(shaded.entries())
    assert fixed == pytest.approx(left, rel=1e-6)
    assert free < fixed


@pytest.mark.parametrize(
    ("spectra", "match"),
    [(np.ones((2, 5)), "2, 5"), (np.ones(4), "one spectrum"), (np.full((1, 4), np.nan), "NaN|inf")],
)
def test_bad_spectra_are_explained(spectra, match):
    with pytest.raises(ValueError, match=match):
        fit_fractions(np.ones((3, 4)), spectra)
