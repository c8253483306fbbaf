"""Estimators prove what they have found, on every storage and with every option."""

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op

K = 3


def planted(rng, n=90, r=12):
    profiles = np.kron(np.eye(K), np.ones((1, r // K))) + 0.1 * rng.random((K, r))
    A = profiles[np.arange(n) % K] * rng.uniform(0.5, 1.0, (n, 1))
    return A + 0.02 * rng.random((n, r))


FORMS = {
    "dense": np.asarray,
    "float32": lambda A: A.astype(np.float32),
    "CSR": csr_array,
    "Dask": lambda A: da.from_array(A, chunks=(40, 12)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_factorization_of_separated_groups_is_proven(form, orthogonal, rng):
    A = planted(rng)
    A = A if orthogonal == "samples" else np.ascontiguousarray(A.T[:, : 4 * K])
    X = FORMS[form](A)
    model = op.OrthogonalNMF(K, orthogonal=orthogonal).fit(X)
    certificate = model.certify(X, tol=1e-5 if form == "float32" else 1e-8)
    assert certificate.is_optimal
    assert certificate.value == pytest.approx(model.reconstruction_err_**2, rel=1e-4)
    assert certificate.verify()


def test_weights_of_samples_are_those_of_the_fit(rng):
    A, weight = planted(rng), rng.integers(1, 4, size=90)
    model = op.OrthogonalNMF(K).fit(A, sample_weight=weight)
    certificate = model.certify(A, sample_weight=weight)
    assert certificate.is_optimal
    assert certificate.value == pytest.approx(model.reconstruction_err_**2, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "transpose"),
    [
        (op.NonnegativePCA(K, center=False), True),
        (op.NonnegativeSpectralClustering(K, affinity="rbf"), False),
        (op.KIndicatorsClustering(K), False),
    ],
)
def test_every_estimator_has_a_bound(model, transpose, rng):
    A = planted(rng)
    X = A.T if transpose else A
    certificate = model.fit(X).certify(X, time_limit=2.0)
    assert certificate.bound <= certificate.value
    assert certificate.verify()


def test_other_data_than_those_of_the_fit_are_refused(rng):
    A = planted(rng)
    for model in (op.OrthogonalNMF(K), op.KIndicatorsClustering(K)):
        with pytest.raises(ValueError, match="90"):
            model.fit(A).certify(A[:50])
    holes = A.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ValueError, match="missing entries"):
        op.OrthogonalNMF(K, missing="mask").fit(holes).certify(holes)
