"""Nonnegative PCA: scikit-learn's checks, closed forms, sparse against dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthoplus as op
from orthoplus.geometry.stiefel import violation

CONTAINERS = [np.asarray, sp.csr_array, sp.csc_matrix]


@parametrize_with_checks(
    [op.NonnegativePCA(), op.NonnegativePCA(1, center=False, n_init=1, with_bound=True)]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def factors(rng, n=200, noise=0.1):
    """Three hidden factors, each seen through features of its own, with positive weights."""
    groups = np.repeat([0, 1, 2], [3, 4, 5])
    loadings = np.zeros((3, 12))
    loadings[groups, np.arange(12)] = 1.0 + rng.random(12)
    Z = rng.standard_normal((n, 3)) * [3.0, 2.0, 1.0]
    return Z @ loadings + noise * rng.standard_normal((n, 12)) + 5.0, groups


@pytest.fixture
def data(rng):
    return factors(rng)


def test_hidden_factors_are_found_in_order_of_variance(data):
    X, groups = data
    model = op.NonnegativePCA(3, with_bound=True).fit(X)
    assert len(set(zip(groups.tolist(), model.feature_labels_.tolist(), strict=True))) == 3
    assert (np.diff(model.explained_variance_) <= 0).all()
    assert violation(model.components_.T) <= 1e-13
    # Nearly all that principal components of any sign could explain.
    assert 0 <= model.gap_ < 1e-3
    assert model.bound_ == pytest.approx(PCA(3).fit(X).explained_variance_.sum())


def test_one_component_of_positively_correlated_features_is_the_principal_one(rng):
    X = rng.random((50, 1)) @ (0.5 + rng.random((1, 6))) + 0.01 * rng.standard_normal((50, 6))
    model, pca = op.NonnegativePCA(1).fit(X), PCA(1).fit(X)
    np.testing.assert_allclose(model.components_, np.abs(pca.components_), atol=1e-7)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)
    np.testing.assert_allclose(model.mean_, pca.mean_)


def test_anticorrelated_features_do_not_share_a_component(rng):
    z = rng.standard_normal((80, 1))
    X = np.hstack([z, 2 * z, -z, -2 * z]) + 0.01 * rng.standard_normal((80, 4))
    model = op.NonnegativePCA(2).fit(X)
    assert model.feature_labels_[0] == model.feature_labels_[1]
    assert model.feature_labels_[2] == model.feature_labels_[3]
    assert model.feature_labels_[0] != model.feature_labels_[2]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("container", CONTAINERS)
def test_transform_and_its_inverse_are_their_formulas(data, container, center):
    X, _ = data
    X = np.where(np.abs(X) > 4, X, 0.0)
    model = op.NonnegativePCA(3, center=center).fit(container(X))
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1])
    Z = model.transform(container(X))
    np.testing.assert_allclose(model.mean_, mean, atol=1e-12)
    np.testing.assert_allclose(Z, (X - mean) @ model.components_.T, atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(Z), Z @ model.components_ + mean, atol=1e-10)
    squares = ((X - mean) ** 2).sum()
    np.testing.assert_allclose(model.explained_variance_, (Z**2).sum(axis=0) / (len(X) - 1))
    np.testing.assert_allclose(model.explained_variance_ratio_, (Z**2).sum(axis=0) / squares)


@pytest.mark.parametrize("container", CONTAINERS[1:])
def test_sparse_is_dense(data, container):
    X, _ = data
    dense, sparse = op.NonnegativePCA(3).fit(X), op.NonnegativePCA(3).fit(container(X))
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7)


def test_more_runs_are_never_worse_and_repeatable(rng):
    X = rng.standard_normal((30, 12))
    one, several, again = (op.NonnegativePCA(4, n_init=n, random_state=0).fit(X) for n in (1, 5, 5))
    assert several.explained_variance_.sum() >= one.explained_variance_.sum() - 1e-12
    np.testing.assert_array_equal(several.components_, again.components_)


def test_data_without_variance_have_components():
    model = op.NonnegativePCA(2, with_bound=True).fit(np.ones((5, 100)))
    assert violation(model.components_.T) <= 1e-13
    np.testing.assert_allclose(model.explained_variance_, 0.0, atol=1e-12)


def test_a_large_mean_costs_no_digits(data):
    X, _ = data
    near, far = op.NonnegativePCA(3).fit(X), op.NonnegativePCA(3).fit(X + 1e7)
    # Roundings of the shifted data themselves: 1e7 times 1e-16.
    np.testing.assert_allclose(far.explained_variance_, near.explained_variance_, rtol=1e-7)
    np.testing.assert_allclose(far.components_, near.components_, atol=1e-7)


def test_float32_stays_and_output_can_be_named(data):
    X, _ = data
    model = op.NonnegativePCA(3).fit(X.astype(np.float32))
    assert model.components_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32
    names = model.get_feature_names_out()
    assert names.tolist() == ["nonnegativepca0", "nonnegativepca1", "nonnegativepca2"]


def test_bad_input_is_explained(data, rng):
    X, _ = data
    with pytest.raises(ValueError, match=r"`n_components=13` is too many for n_features = 12"):
        op.NonnegativePCA(13).fit(X)
    with pytest.raises(
        ValueError, match=r"`X` has 2 columns; expected one for each of the 3 components"
    ):
        op.NonnegativePCA(3).fit(X).inverse_transform(np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"`n_init=0` is out of range"):
        op.NonnegativePCA(3, n_init=0).fit(X)
    short = op.NonnegativePCA(3, method=op.EP4Orth(max_iter=1, penalty_start=1e-9))
    with pytest.warns(ConvergenceWarning, match="limit"):
        clone(short).fit(rng.standard_normal((20, 12)))
