"""The estimator with the Kullback-Leibler divergence: the same promises, in every storage."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthoplus as op
from every_storage import STORAGES, limit_for
from orthoplus.geometry.stiefel import violation
from orthoplus.methods import KLAlternating
from orthoplus.problems import KLONMF

KL = "kullback-leibler"
K = 3


@parametrize_with_checks(
    [
        op.OrthogonalNMF(loss=KL),
        op.OrthogonalNMF(loss=KL, orthogonal="features", column_scale="max"),
        op.OrthogonalNMF(loss=KL, row_scale="l1"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def counts(rng, n=80, r=14, mean=40.0):
    """Return counts of K groups, of very different sizes of the rows; the last but one is zero."""
    groups = rng.permutation(np.arange(n) % K)
    profiles = rng.dirichlet(np.full(r, 0.5), size=K)
    A = rng.poisson(mean * rng.pareto(2.0, (n, 1)) * profiles[groups]).astype(float)
    A[np.arange(n), profiles.argmax(axis=1)[groups]] += 1.0
    A[-2] = 0.0
    return A, groups


def divergence(A, M):
    """Return D(A || M) by its definition."""
    return (A[A > 0] * np.log(A[A > 0] / M[A > 0])).sum() - A.sum() + M.sum()


def fit(A, **options):
    options = {"random_state": 0, "n_init": 3} | options
    weights = options.pop("sample_weight", None)
    return op.OrthogonalNMF(K, loss=KL, **options).fit(A, sample_weight=weights)


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_factors_are_feasible_and_the_error_is_their_divergence(container, orthogonal, rng):
    A, groups = counts(rng)
    model = fit(container(A), orthogonal=orthogonal)
    W = model.transform(container(A))
    missed = divergence(A, model.inverse_transform(W))
    assert model.reconstruction_err_ == pytest.approx(missed, rel=1e-10)
    independence = np.outer(A.sum(axis=1), A.sum(axis=0)) / A.sum()
    share = 1 - missed / divergence(A, independence)
    assert model.score(container(A)) == pytest.approx(share, rel=1e-10)
    assert violation(model.orthonormal_) <= 1e-13
    assert model.bound_ is None
    assert model.gap_ is None
    if orthogonal == "samples":
        seen = model.labels_ >= 0
        assert adjusted_rand_score(groups[seen], model.labels_[seen]) == 1.0
        assert np.flatnonzero(~seen).tolist() == [len(A) - 2]


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_no_other_coefficients_are_better(orthogonal, rng):
    A, _ = counts(rng)
    model = fit(A, orthogonal=orthogonal)
    W, H = model.transform(A), model.components_
    best = divergence(A, W @ H)
    for _ in range(30):
        assert divergence(A, (W * rng.uniform(0.9, 1.1, W.shape)) @ H) >= best
    if orthogonal == "samples":  # nor is another component, with its best multiple
        for i in range(10):
            for j in range(K):
                M = W @ H
                M[i] = A[i].sum() / H[j].sum() * H[j]
                with np.errstate(divide="ignore"):
                    assert divergence(A, M) >= best - 1e-9


@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_transform_is_fit_transform(orthogonal, rng):
    A = rng.poisson(1.0, (40, 8)).astype(float)  # no groups at all: many rows nearly tie
    model = op.OrthogonalNMF(4, loss=KL, orthogonal=orthogonal)
    np.testing.assert_array_equal(model.fit_transform(A), model.transform(A))
    np.testing.assert_array_equal(model.labels_, model.predict(A))
    if orthogonal == "samples":
        np.testing.assert_array_equal(model.result_.labels, model.labels_)
        np.testing.assert_allclose(model.transform(A), model.orthonormal_, rtol=1e-10)
        assert model.result_.is_row_optimal


def test_weights_are_copies_of_samples(rng):
    A, _ = counts(rng)
    weights = rng.integers(0, 4, size=len(A))
    weighted = fit(A, sample_weight=weights)
    copied = fit(np.repeat(A, weights, axis=0))
    assert weighted.reconstruction_err_ == pytest.approx(copied.reconstruction_err_, rel=1e-9)
    np.testing.assert_array_equal(adjusted_rand_score(copied.predict(A), weighted.predict(A)), 1.0)


@pytest.mark.parametrize("storage", [name for name in STORAGES if name != "memory"])
@pytest.mark.parametrize("option", ["plain", "weights", "float32", "scaled"])
def test_storage_gives_the_answer_of_memory(option, storage, rng, tmp_path):
    A, _ = counts(rng)
    dtype, options = np.float64, {}
    if option == "weights":
        options["sample_weight"] = rng.integers(0, 4, size=len(A)).astype(float)
    elif option == "float32":
        dtype = np.float32
    elif option == "scaled":
        options = {"row_scale": "l1", "column_scale": "std"}
    whole, given = fit(A, **options), STORAGES[storage](A.astype(dtype), tmp_path)
    model = fit(given, **options, **limit_for(storage, A))
    assert model.components_.dtype == dtype
    rtol = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=rtol)
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-4, atol=1e-4)
    assert model.score(given) == pytest.approx(whole.score(A), rel=rtol)
    np.testing.assert_array_equal(np.asarray(model.predict(given)), whole.labels_)
    W = np.asarray(model.transform(given))
    np.testing.assert_allclose(W, whole.transform(A), rtol=1e-4, atol=1e-6)


def test_blocks_that_spoil_each_others_moves_still_descend(rng):
    A = rng.poisson(1.0, (60, 6)).astype(float) + 0.1  # no groups: many rows move at once
    values = []
    lone = da.from_array(A, chunks=(1, 6))  # a block for each row
    problem = KLONMF(op.data.as_data(lone), 4)
    method = KLAlternating(start="given", smoothing=1.0, n_init=1)
    start = np.eye(4)[np.arange(60) % 4] / np.sqrt(15)
    result = op.solve(problem, start, method=method, callback=lambda s: values.append(s.value))
    assert result.success
    assert result.is_row_optimal
    assert (np.diff(values) <= 0).all()
    memory = KLONMF(A, 4)
    gains = memory.move_gains(np.asarray(result.X))
    assert gains[np.isfinite(gains)].max() <= 1e-9
    assert result.value == pytest.approx(memory.value(np.asarray(result.X)), rel=1e-10)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_copies_of_samples_do_not_hold_each_other_in_a_cluster(convert):
    excess = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        A = rng.integers(0, 15, (16, 4)) + 0.0
        copies = rng.integers(1, 5, 16)
        model = op.OrthogonalNMF(4, loss=KL, random_state=0)
        least = model.fit(convert(A), sample_weight=copies).reconstruction_err_
        model.fit(convert(np.repeat(A, copies, axis=0)))
        excess.append(model.reconstruction_err_ / least - 1)
    # Moves of single rows alone end above the value of the weighted rows for 6 of the 12 seeds.
    assert sum(np.array(excess) > 1e-6) <= 3


def test_more_starts_are_never_worse(rng):
    A = rng.poisson(0.7, (70, 12)).astype(float)
    values = [
        op.OrthogonalNMF(6, loss=KL, n_init=n, random_state=3).fit(A).reconstruction_err_
        for n in range(1, 9)
    ]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0]


def test_default_finds_rare_types_of_cells():
    # The alternation from singular vectors splits a large type and loses the one with 5 %.
    rng = np.random.default_rng(0)
    levels = rng.lognormal(0.0, 1.0, 400)
    profiles = levels * np.where(rng.random((6, 400)) < 0.1, 4.0, 1.0)
    profiles /= profiles.sum(axis=1, keepdims=True)
    types = rng.choice(6, 1500, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    depth = 250 * rng.lognormal(0.0, 0.5, (1500, 1))
    A = rng.poisson(depth * profiles[types] * rng.gamma(3.0, 1 / 3, (1500, 400)))
    model = op.OrthogonalNMF(6, loss=KL, random_state=0).fit(sp.csr_array(A.astype(np.float32)))
    assert op.metrics.purity(types, model.labels_) > 0.99


def test_multiples_of_counts_have_the_same_clusters(rng):
    A = rng.poisson(0.7, (90, 20)).astype(float)
    one, other = (op.OrthogonalNMF(5, loss=KL, random_state=2).fit(c * A) for c in (1.0, 4.0))
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_sampled_search_is_the_same_in_every_storage(rng):
    A, _ = counts(rng, n=200)
    method = KLAlternating(sample=60, n_init=6)  # the search sees only some of the rows
    lone = da.from_array(A, chunks=(37, 14))
    answers = [fit(data, method=method, n_init=6) for data in (A, sp.csr_array(A), lone)]
    for other in answers[1:]:
        np.testing.assert_array_equal(np.asarray(other.labels_), answers[0].labels_)


def test_same_seed_same_answer_and_jobs_do_not_matter(rng):
    A = rng.poisson(0.7, (50, 12)).astype(float)
    one, two = (op.OrthogonalNMF(5, loss=KL, random_state=7, n_jobs=n).fit(A) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)


def test_new_samples_go_where_least_of_them_is_impossible():
    A = np.array([[4.0, 1.0, 0.0, 0.0], [4.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    model = op.OrthogonalNMF(2, loss=KL).fit(A)
    first, last = model.labels_[0], model.labels_[2]
    new = np.array([[1.0, 0.0, 9.0, 0.0], [9.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 5.0], [0.0] * 4])
    labels = model.predict(new)
    assert labels[:2].tolist() == [last, first]
    assert labels[2] >= 0  # no component says anything of its only feature
    assert labels[3] == -1
    assert model.score(new) == -np.inf


def test_run_is_watched_saved_and_resumed(rng, tmp_path):
    A = rng.poisson(0.7, (60, 12)).astype(float)
    path, seen = tmp_path / "run.npz", []
    whole = op.OrthogonalNMF(5, loss=KL, random_state=1).fit(A)

    def end(state):
        seen.append(state.n_iter)
        return state.n_iter == 4

    make = op.OrthogonalNMF(5, loss=KL, random_state=1)
    half = make.fit_watched(A, callback=end, checkpoint=path)
    assert half.result_.status is op.Status.CALLBACK
    assert seen == [1, 2, 3, 4]
    rest = op.OrthogonalNMF(5, loss=KL, random_state=1).fit_watched(A, resume=str(path))
    np.testing.assert_array_equal(rest.components_, whole.components_)
    late = op.OrthogonalNMF(5, loss=KL).fit_watched(A, time_limit=1e-9)
    assert late.result_.status is op.Status.TIME_LIMIT
    assert violation(late.orthonormal_) <= 1e-13


def test_another_method_is_settled(rng):
    A, groups = counts(rng)
    model = fit(A + 0.01, method=op.EP4Orth(), n_init=1)
    assert adjusted_rand_score(groups[:-2], model.labels_[:-2]) > 0.9
    np.testing.assert_array_equal(model.labels_, model.result_.labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "mask"}, r'`missing="mask"` needs `loss="frobenius"`'),
        ({"allow_negative": True}, r'`allow_negative=True` needs `loss="frobenius"`'),
        ({"method": "ep4orth"}, r'`method="ep4orth"` is for the Frobenius norm'),
        ({"loss": "squared"}, r"loss"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(options, message, rng):
    with pytest.raises(ValueError, match=message):
        op.OrthogonalNMF(2, **({"loss": KL} | options)).fit(counts(rng)[0])


def test_parts_of_stored_data_are_refused(rng):
    stored = da.from_array(counts(rng)[0], chunks=(20, 14))
    with pytest.raises(op.InputError, match=r'"features"` with `loss="kullback-leibler"` needs'):
        fit(stored, orthogonal="features")


def test_proof_is_refused_in_a_sentence(rng):
    A, _ = counts(rng)
    with pytest.raises(ValueError, match="KLONMF"):
        fit(A).certify(A)


def test_names_of_the_output(rng):
    model = fit(counts(rng)[0])
    assert model.get_feature_names_out().tolist() == [f"orthogonalnmf{j}" for j in range(K)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_error_counts_every_feature_when_the_penalty_method_drops_one():
    X = np.random.default_rng(0).random((4, 7))
    model = op.OrthogonalNMF(
        6, loss="kullback-leibler", orthogonal="features", method=op.EP4Orth()
    ).fit(X)
    assert (model.result_.labels >= 0).all()
    P = model.transform(X) @ model.components_
    truth = float((X * np.log(X / P) - X + P).sum())
    assert model.reconstruction_err_ == pytest.approx(truth, rel=1e-9)
