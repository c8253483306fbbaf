"""The estimator: scikit-learn's own checks, and what it promises beyond them."""

import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthoplus as op
from orthoplus.data.groups import best_column
from orthoplus.estimators.factorize import METHODS, finish_alternation
from orthoplus.geometry.stiefel import violation
from orthoplus.problems import ONMF

CONTAINERS = [np.asarray, sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix]
# A factor is orthonormal to a few roundings of each of its entries' squares.
FEASIBLE = 1e-13


@parametrize_with_checks(
    [
        op.OrthogonalNMF(),
        op.OrthogonalNMF(orthogonal="features", n_init=2, with_bound=True),
        op.OrthogonalNMF(allow_negative=True, missing="mask"),
        op.OrthogonalNMF(missing="mask"),
        op.OrthogonalNMF(row_scale="l2", column_scale="std"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def planted(rng, n=60, r=12, k=3, noise=0.05):
    """Rows of k groups, each a multiple of its center, and the groups."""
    groups = rng.permutation(np.arange(n) % k)
    centers = rng.random((k, r))
    A = (0.5 + rng.random((n, 1))) * centers[groups] + noise * rng.random((n, r))
    return A, groups


@pytest.fixture
def data(rng):
    return planted(rng)


def test_groups_are_found(data):
    A, groups = data
    model = op.OrthogonalNMF(3)
    assert adjusted_rand_score(groups, model.fit_predict(A)) == 1.0
    assert is_clusterer(model)


@pytest.mark.parametrize("method", METHODS)
def test_every_named_method_finds_the_groups(data, method):
    A, groups = data
    labels = op.OrthogonalNMF(3, method=method).fit_predict(A)
    assert adjusted_rand_score(groups, labels) == 1.0


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_orthonormal_factor_is_exactly_feasible(data, orthogonal, container):
    A, _ = data
    model = op.OrthogonalNMF(3, orthogonal=orthogonal).fit(container(A))
    assert violation(model.orthonormal_) <= FEASIBLE
    assert (np.count_nonzero(model.orthonormal_, axis=1) <= 1).all()
    dense = op.OrthogonalNMF(3, orthogonal=orthogonal).fit(A)
    np.testing.assert_allclose(model.components_, dense.components_, rtol=1e-6, atol=1e-9)


def test_components_have_disjoint_supports_when_features_are_orthogonal(data):
    A, _ = data
    H = op.OrthogonalNMF(3, orthogonal="features").fit(A).components_
    np.testing.assert_allclose(H @ H.T, np.eye(3), atol=FEASIBLE)
    assert ((H > 0).sum(axis=0) <= 1).all()


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_transform_agrees_with_fit_transform(rng, orthogonal, container):
    A = container(rng.random((40, 8)))  # no groups at all: many rows nearly tie
    model = op.OrthogonalNMF(4, orthogonal=orthogonal)
    W = model.fit_transform(A)
    np.testing.assert_array_equal(W, model.transform(A))
    np.testing.assert_array_equal(model.labels_, model.predict(A))


def test_transform_of_the_training_rows_is_the_orthonormal_factor(rng):
    A = rng.random((40, 8))
    model = op.OrthogonalNMF(4)
    W = model.fit_transform(A)
    np.testing.assert_allclose(W, model.orthonormal_, atol=1e-9)  # Lanczos' own tolerance
    np.testing.assert_array_equal(model.labels_, model.orthonormal_.argmax(axis=1))


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_reconstruction_error_is_that_of_the_factors(data, orthogonal):
    A, _ = data
    model = op.OrthogonalNMF(3, orthogonal=orthogonal)
    W = model.fit_transform(A)
    missed = np.linalg.norm(A - model.inverse_transform(W))
    assert model.reconstruction_err_ == pytest.approx(missed, rel=1e-9)
    share = 1 - missed**2 / np.linalg.norm(A) ** 2
    assert model.score(A) == pytest.approx(share)
    assert model.score(sp.csr_array(A)) == pytest.approx(share)


@pytest.mark.parametrize("noise", [1e-7, 1e-3, 0.3])
def test_reconstruction_error_is_accurate_for_any_share_of_the_data(noise, rng):
    # Below 1e-4 of ||A||^2 the expanded square would lose the residual to rounding.
    A = np.kron(np.eye(3), np.outer(1 + rng.random(20), 1 + rng.random(4)))
    A = A + noise * rng.random(A.shape)
    model = op.OrthogonalNMF(3, random_state=0).fit(A)
    X = model.orthonormal_
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(A - X @ (X.T @ A)), rel=1e-8)


def test_new_rows_go_to_the_largest_cosine(data, rng):
    A, _ = data
    model = op.OrthogonalNMF(3).fit(A)
    new, H = rng.random((20, A.shape[1])), model.components_
    cosines = new @ H.T / np.linalg.norm(H, axis=1)
    W = model.transform(new)
    np.testing.assert_array_equal(model.predict(new), cosines.argmax(axis=1))
    assert ((W > 0).sum(axis=1) == 1).all()
    # The weight is the best multiple of the component: what is left is orthogonal to it.
    left = new - model.inverse_transform(W)
    inner = np.einsum("ij,ij->i", left, H[model.predict(new)])
    np.testing.assert_allclose(inner, 0.0, atol=1e-12 * np.abs(H).max() ** 2)


def test_rows_of_zeros_belong_to_no_component(data):
    A, groups = data
    A = np.vstack([np.zeros((2, A.shape[1])), A])
    model = op.OrthogonalNMF(3)
    W = model.fit_transform(A)
    assert (model.labels_[:2] == -1).all()
    assert (model.labels_[2:] >= 0).all()
    np.testing.assert_array_equal(model.predict(A), model.labels_)
    assert not W[:2].any()
    assert adjusted_rand_score(groups, model.labels_[2:]) == 1.0
    assert violation(model.orthonormal_) <= FEASIBLE


def test_columns_of_zeros_stay_zero(data):
    A, _ = data
    A = np.hstack([A, np.zeros((len(A), 2))])
    assert not op.OrthogonalNMF(3).fit(A).components_[:, -2:].any()
    assert not op.OrthogonalNMF(3, orthogonal="features").fit(A).components_[:, -2:].any()


@pytest.mark.parametrize(
    "A",
    [
        np.zeros((5, 4)),
        np.ones((5, 4)),
        np.outer(np.arange(5.0), np.arange(4.0)),
        np.eye(5)[:, :4],
        np.ones((5, 1)),
    ],
    ids=["zero", "constant", "rank one", "identity", "one column"],
)
def test_degenerate_data_give_a_feasible_factor(A):
    model = op.OrthogonalNMF(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # columns that tie cannot part
        W = model.fit_transform(A)
    assert violation(model.orthonormal_) <= FEASIBLE
    np.testing.assert_array_equal(W, model.transform(A))
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_float32_stays_float32(data, container, orthogonal):
    A = container(data[0].astype(np.float32))
    model = op.OrthogonalNMF(3, orthogonal=orthogonal)
    W = model.fit_transform(A)
    for array in (W, model.transform(A), model.components_, model.orthonormal_):
        assert array.dtype == np.float32
    assert model.inverse_transform(W).dtype == np.float32
    wide = op.OrthogonalNMF(3, orthogonal=orthogonal).fit(data[0])
    np.testing.assert_array_equal(model.labels_, wide.labels_)


def test_sample_weight_counts_rows_as_often_as_it_says(rng):
    A, _ = planted(rng, n=30, noise=0.3)
    weights = rng.integers(0, 4, size=30)
    weighted = op.OrthogonalNMF(3).fit(A, sample_weight=weights)
    repeated = op.OrthogonalNMF(3).fit(np.repeat(A, weights, axis=0))
    assert weighted.reconstruction_err_ == pytest.approx(repeated.reconstruction_err_)
    np.testing.assert_array_equal(weighted.predict(A), repeated.predict(A))
    scaled = np.sqrt(weights)[:, None] * weighted.transform(A)
    np.testing.assert_allclose(scaled, weighted.orthonormal_, atol=1e-9)


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_weighted_score_is_that_of_repeated_rows(rng, loss, orthogonal):
    A, weights = rng.random((20, 6)), rng.integers(0, 4, size=20)
    model = op.OrthogonalNMF(3, loss=loss, orthogonal=orthogonal, row_scale="l2").fit(A)
    repeated = model.score(np.repeat(A, weights, axis=0))
    assert model.score(A, sample_weight=weights) == pytest.approx(repeated, rel=1e-12)
    assert model.score(A) != pytest.approx(repeated, rel=1e-6)


def test_weights_are_routed_to_fit_and_score(rng):
    A, weights = rng.random((20, 6)), rng.random(20)
    with sklearn.config_context(enable_metadata_routing=True):
        model = op.OrthogonalNMF().set_fit_request(sample_weight=True)
        search = GridSearchCV(
            model.set_score_request(sample_weight=True),
            {"n_components": [2]},
            cv=[(A[:, 0] > 0,) * 2],
        ).fit(A, sample_weight=weights)
    fitted = clone(model).set_params(n_components=2).fit(A, sample_weight=weights)
    assert search.best_score_ == pytest.approx(fitted.score(A, sample_weight=weights))


def test_sample_weight_of_sparse_data_is_that_of_dense_data(data, rng):
    A, _ = data
    weights = rng.random(len(A))
    dense = op.OrthogonalNMF(3).fit(A, sample_weight=weights)
    sparse = op.OrthogonalNMF(3).fit(sp.csr_array(A), sample_weight=weights)
    np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-9)
    labels = op.OrthogonalNMF(3).fit_predict(A, sample_weight=weights)
    np.testing.assert_array_equal(labels, dense.labels_)


def test_bound_is_below_the_error_and_gap_is_their_distance(data):
    A, _ = data
    model = op.OrthogonalNMF(3, with_bound=True).fit(A)
    best = np.linalg.norm(np.linalg.svd(A, compute_uv=False)[3:])
    assert model.bound_ == pytest.approx(best)
    assert model.gap_ == pytest.approx(model.reconstruction_err_ / best - 1)
    assert op.OrthogonalNMF(3).fit(A).bound_ is None


def test_more_starts_are_never_worse(rng):
    A = rng.random((50, 10))
    errors = [
        op.OrthogonalNMF(5, n_init=n, random_state=0, with_bound=True).fit(A).reconstruction_err_
        for n in (1, 4)
    ]
    assert errors[1] <= errors[0] * (1 + 1e-12)  # the first start is the same


def test_same_seed_same_answer(rng):
    A = rng.random((30, 6))
    first, second = (op.OrthogonalNMF(4, n_init=3, random_state=7).fit(A) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)


def test_settling_never_raises_the_objective(rng):
    problem = ONMF(rng.random((60, 9)), 6)
    loose = op.EP4Orth(max_iter=2)
    for seed in range(5):
        before = op.solve(problem, method=loose, rng=seed)
        after = finish_alternation(problem, before)
        assert after.value <= before.value + problem.rounding()
        assert after.gap == pytest.approx((after.value - after.bound) / after.bound)
        assert after.violation <= FEASIBLE
        assert len(np.unique(after.labels)) == 6


def test_best_column_takes_the_first_of_a_tie_up_to_rounding():
    fits = np.array([[0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3], [0.2, 0.3], [0.0, 0.0]])
    np.testing.assert_array_equal(best_column(fits), [0, 0, 1, 0])


def test_unfinished_run_warns(data):
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        op.OrthogonalNMF(3, max_iter=1).fit(data[0])


def test_options_reach_the_method(data):
    model = op.OrthogonalNMF(3, method=op.EP4Orth(penalty_growth=1.5), tol=1e-2).fit(data[0])
    careful = op.OrthogonalNMF(3, method=op.EP4Orth(penalty_growth=1.05)).fit(data[0])
    assert model.n_iter_ < careful.n_iter_


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components=0"),
        ({"n_components": 2.5}, TypeError, "not an integer"),
        ({"n_components": 61}, ValueError, "n_samples = 60.*at most 60"),
        ({"n_components": 13, "orthogonal": "features"}, ValueError, "n_features = 12"),
        ({"orthogonal": "rows"}, ValueError, "samples, features"),
        ({"method": "newton"}, ValueError, "auto, ep4orth"),
        ({"method": 3}, TypeError, "`method` must be"),
        ({"method": op.EP4Orth}, TypeError, "`method` must be"),
        ({"method": op.ProjectedGradient()}, TypeError, "`method` must be"),
        ({"n_init": 0}, ValueError, "n_init=0"),
        ({"max_iter": 0}, ValueError, "max_iter=0"),
        ({"method": "ep4orth", "tol": -1.0}, ValueError, "feasibility_tol=-1.0"),
        ({"method": op.PALM(), "tol": 1.0}, TypeError, "`method` must be"),
    ],
)
def test_bad_option_is_named(data, options, error, message):
    with pytest.raises(error, match=message):
        op.OrthogonalNMF(**({"n_components": 3} | options)).fit(data[0])


def test_option_that_a_method_does_not_have_is_named(data):
    @dataclass(frozen=True)
    class Rigid:
        state_type = object

    with pytest.raises(ValueError, match="`max_iter` is not an option of the method Rigid"):
        op.OrthogonalNMF(3, method=Rigid(), max_iter=5).fit(data[0])


def test_negative_data_are_refused_everywhere(data):
    A, _ = data
    model = op.OrthogonalNMF(3).fit(A)
    for call in (model.fit, model.transform, model.predict):
        with pytest.raises(ValueError, match="Negative values in data passed to"):
            call(A - 1.0)


def test_inverse_transform_says_what_is_wrong(data):
    with pytest.raises(NotFittedError):
        op.OrthogonalNMF(3).inverse_transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="one for each of the 3 components"):
        op.OrthogonalNMF(3).fit(data[0]).inverse_transform(np.ones((2, 4)))


def test_pipeline_and_grid_search(data):
    A, groups = data
    pipeline = make_pipeline(MaxAbsScaler(), op.OrthogonalNMF(random_state=0))
    search = GridSearchCV(pipeline, {"orthogonalnmf__n_components": [1, 2, 3]}, cv=3)
    search.fit(A)
    assert search.best_params_ == {"orthogonalnmf__n_components": 3}
    assert adjusted_rand_score(groups, search.best_estimator_.predict(A)) == 1.0


def test_clone_and_pickle(data):
    model = op.OrthogonalNMF(3, method=op.EP4Orth(penalty_growth=1.5), random_state=1)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(n_components=2).n_components == 2
    model.fit(data[0])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(data[0]), model.transform(data[0]))


def test_feature_names_out(data):
    names = op.OrthogonalNMF(3).fit(data[0]).get_feature_names_out()
    assert list(names) == ["orthogonalnmf0", "orthogonalnmf1", "orthogonalnmf2"]


def test_data_frames_in_and_out(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=[f"band{i}" for i in range(data[0].shape[1])])
    model = op.OrthogonalNMF(3).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == list(frame.columns)


def test_sparse_data_are_never_made_dense(rng, monkeypatch):
    # More than 2^20 entries: solutions of smaller data are crossed, which takes 8 MB at most.
    A = sp.random_array((300, 4000), density=0.02, format="csr", rng=rng)

    def refuse(self, *args, **options):
        if min(self.shape) > 64:  # the Gram matrix of a few rows may be
            raise AssertionError("densified")
        return original(self, *args, **options)

    original = sp.csr_array.toarray
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
    for orthogonal in ("samples", "features"):
        model = op.OrthogonalNMF(3, orthogonal=orthogonal, with_bound=True).fit(A)
        model.transform(A)
        assert model.score(A) > 0


def test_clusters_of_documents_are_those_of_the_paper(load_data):
    parts = load_data("T-l10")
    indices = parts["indices"].astype(np.int32)
    A = sp.csr_array((parts["data"].astype(float), indices, parts["indptr"]), parts["shape"])
    model = op.OrthogonalNMF(10).fit(A)
    # The paper has purity 84.5 and NMI 79.9 (%); the labels are no part of the objective, so a
    # lower residual moves them by some points.
    assert op.metrics.purity(parts["labels"], model.labels_) >= 0.80
    assert op.metrics.nmi(parts["labels"], model.labels_) >= 0.76
    # 0.79491 is what the authors' code reaches.
    assert model.reconstruction_err_ <= 0.7955 * np.linalg.norm(A.data)


def test_estimators_are_loaded_when_asked_for():
    code = (
        "import sys, orthoplus as op; assert 'sklearn' not in sys.modules; "
        "assert 'OrthogonalNMF' in dir(op); op.OrthogonalNMF; assert 'sklearn' in sys.modules; "
        "op.select_rank; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'OrthogonalNmf'"):
        _ = op.OrthogonalNmf


def test_answer_does_not_depend_on_the_number_of_processes(rng):
    X = rng.random((40, 8)) ** 3
    method = op.EP4Orth.for_onmf(size=float((X**2).sum()), penalty_growth=1.5)
    one, two = (
        op.OrthogonalNMF(3, method=method, n_init=3, n_jobs=n_jobs, random_state=0).fit(X)
        for n_jobs in (None, 2)
    )
    assert one.components_.tobytes() == two.components_.tobytes()
    np.testing.assert_array_equal(one.labels_, two.labels_)


def test_answer_is_that_of_one_thread_and_has_the_same_bits_each_time(rng, monkeypatch):
    # Above PARALLEL_SIZE: all passes are shared out to threads.
    groups = rng.integers(4, size=12_000)
    X = rng.random((4, 100))[groups] + 0.2 * rng.random((12_000, 100))
    found = []
    for threads in ("1", "2", "2"):
        monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
        found.append(op.OrthogonalNMF(4, n_init=1, random_state=0).fit(X))
    one, two, again = found
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_allclose(one.components_, two.components_, rtol=1e-12)
    assert two.components_.tobytes() == again.components_.tobytes()
    assert two.result_.weights.tobytes() == again.result_.weights.tobytes()
    assert two.reconstruction_err_ == again.reconstruction_err_


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", range(4))
def test_weighted_fit_is_the_best_of_all_partitions(form, seed):
    rng = np.random.default_rng(seed)
    A, weights = rng.random((7, 4)), rng.uniform(0.1, 5.0, size=7)
    scaled = np.sqrt(weights)[:, None] * A
    best = max(
        sum(np.linalg.norm(scaled[np.array(labels) == j], 2) ** 2 for j in range(2) if j in labels)
        for labels in product(range(2), repeat=7)
    )
    model = op.OrthogonalNMF(2, random_state=0).fit(form(A), sample_weight=weights)
    missed = model.reconstruction_err_**2
    assert missed == pytest.approx((scaled**2).sum() - best, rel=1e-9)
    residuals = A - model.inverse_transform(model.transform(form(A)))
    assert missed == pytest.approx((weights[:, None] * residuals**2).sum(), rel=1e-9)
