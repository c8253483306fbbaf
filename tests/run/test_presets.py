"""One table of defaults: the same problem gets the same quality from every entry point."""

from unittest import mock

import numpy as np
import pytest
from sklearn.cluster import KMeans as LloydKMeans
from sklearn.datasets import make_blobs

import orthoplus as op
from orthoplus.methods import METHODS, EP4Orth
from orthoplus.methods.baselines import KindAP
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.problems import (
    KLONMF,
    ONMF,
    QAP,
    KIndicators,
    KMeans,
    Projection,
    SymmetricONMF,
    TraceMin,
    laplacian_embedding,
    nonnegative_pca,
)
from orthoplus.run.presets import preset_of, search_after


def same_up_to_rounding(one, other):
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def test_estimator_of_components_has_the_value_of_solve(rng):
    X = rng.standard_normal((30, 12))
    model = op.NonnegativePCA(3, random_state=0).fit(X)
    problem = nonnegative_pca(X.T, 3, center=True)
    value = problem.value(model.components_.T)
    assert value <= op.solve(problem).value + 1e-6 * abs(value)


def test_estimator_of_graphs_has_the_value_of_solve(rng):
    W = rng.random((25, 25))
    W = W + W.T
    model = op.NonnegativeSpectralClustering(3, affinity="precomputed", random_state=0).fit(W)
    best = op.solve(laplacian_embedding(W, 3, normalized=True)).value
    assert model.objective_ <= best * (1.0 + 1e-6)


def test_estimator_of_indicators_has_the_value_of_solve(rng):
    U = np.linalg.qr(rng.standard_normal((40, 4)))[0]
    model = op.KIndicatorsClustering(4, embedding="precomputed", random_state=0).fit(U)
    assert same_up_to_rounding(model.objective_, op.solve(KIndicators(U)).value)


def test_assignment_is_the_same_by_both_calls(rng):
    A, B = rng.integers(0, 9, (2, 7, 7)).astype(float)
    assert op.solve(QAP(A, B)).value == op.quadratic_assignment(A, B).fun


@pytest.mark.parametrize("kind", ["random", "planted"])
@pytest.mark.parametrize("seed", range(2))
def test_components_leave_the_residual_of_orthogonal_nmf(kind, seed):
    rng = np.random.default_rng(seed)
    A = rng.random((80, 15))
    if kind == "planted":
        A = 0.1 * A + np.kron(np.eye(4), np.ones((20, 1))) @ rng.random((4, 15))
    best, total = op.solve(ONMF(A, 4)).value, float((A**2).sum())
    assert total + op.solve(nonnegative_pca(A, 4)).value <= 1.001 * best
    assert total + op.solve(TraceMin(-A @ A.T, 4)).value <= 1.01 * best


@pytest.mark.parametrize("seed", range(3))
def test_inertia_is_that_of_scikit_learn_or_less(seed):
    A, _ = make_blobs(120, 3, centers=6, cluster_std=2.0, random_state=seed)
    problem = KMeans(A, 6)
    best = LloydKMeans(6, n_init=10, random_state=seed).fit(A).inertia_
    result = op.solve(problem, rng=seed)
    assert problem.inertia(result.labels) <= best * 1.0001
    assert result.value <= problem.inertia(result.labels) * (1.0 + 1e-9)


def test_symmetric_factorization_does_not_depend_on_the_scale_of_the_similarity(rng):
    M = np.kron(np.eye(3), np.ones((6, 6))) + 0.3 * rng.random((18, 18))
    M = M + M.T
    labels = [op.solve(SymmetricONMF(factor * M, 3)).labels for factor in (1.0, 1e-12, 1e12)]
    np.testing.assert_array_equal(labels[0], labels[1])
    np.testing.assert_array_equal(labels[0], labels[2])


def test_projection_by_solve_is_the_certified_one(rng):
    C = rng.standard_normal((60, 4))
    result, certified = op.solve(Projection(C)), op.project(C)
    np.testing.assert_allclose(result.X, certified.X, atol=1e-12)
    assert result.gap <= 1e-9


def test_subclass_has_the_preset_of_its_parent(rng):
    class Mine(ONMF):
        pass

    A = rng.random((6, 4))
    assert preset_of(Mine(A, 2)) is preset_of(ONMF(A, 2))


def test_method_for_indicators_is_checked_once_per_number_of_columns(rng):
    problems = [KIndicators(rng.random((9, k))) for k in (2, 3, 2)]
    first, other, again = (preset_of(p).method(p, 0) for p in problems)
    assert first is again
    assert (first, other) == (EP4Orth.for_indicators(2), EP4Orth.for_indicators(3))


def test_methods_with_a_search_of_their_own_and_baselines_are_not_searched_after():
    for method in (METHODS["swap_search"](), METHODS["support_search"](), op.baselines.OPNMF()):
        assert search_after(method, (9, 2)) is None
    for name in op.baselines.__all__:
        kind = getattr(op.baselines, name)
        if isinstance(kind, type):
            assert search_after(kind(), (9, 2)) is None, name
    assert search_after(op.EP4Orth(), (9, 2)) == SupportSearch()
    assert search_after(op.EP4Orth(), (9, 2), False) is None
    assert search_after(op.EP4Orth(), (2**18, 2)) is None
    assert search_after(op.EP4Orth(), (2**18, 2), SupportSearch(seed=1)) == SupportSearch(seed=1)


@pytest.mark.parametrize("n_init", [1, 4])
def test_further_starts_of_counts_are_random(n_init, rng):
    problem = KLONMF(rng.random((30, 6)), 4)
    one, more = op.solve(problem, rng=5), op.solve(problem, n_init=n_init, rng=5)
    assert more.value <= one.value
    assert more.n_eval >= one.n_eval


def test_number_of_starts_is_checked(rng):
    problem = TraceMin(np.eye(4), 2)
    with pytest.raises(ValueError, match="`n_init=0`"):
        op.solve(problem, n_init=0)
    state = op.solve(problem, method=op.EP4Orth()).state
    with pytest.raises(ValueError, match="`resume`"):
        op.solve(problem, method=op.EP4Orth(), n_init=2, resume=state)


@pytest.mark.parametrize("seed", range(5))
def test_search_of_groups_claims_row_moves_only_where_it_examined_them(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((30, 6))
    for problem in (ONMF(A, 4), nonnegative_pca(A, 4)):
        result = op.solve(problem, rng=seed)
        assert result.is_row_optimal
        assert problem.move_gains(result.X).max() <= 1e-9 * abs(result.value)
    assert op.solve(ONMF(A - 0.5, 4, allow_negative=True)).is_row_optimal is None


def test_result_prints_what_is_known_of_row_moves(rng):
    problem = ONMF(rng.random((12, 5)), 3)
    assert "none lowers the value" in str(op.solve(problem))
    plain = op.solve(problem, method=op.EP4Orth(), search=False)
    assert "row moves" not in str(plain)


def noisy_embedding(n, k, noise, seed):
    rng = np.random.default_rng(seed)
    rows = np.eye(k)[rng.permutation(n) % k] + noise * rng.standard_normal((n, k))
    rotation = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return KIndicators(np.linalg.svd(rows, full_matrices=False)[0] @ rotation)


# Instances on which EP4Orth from the start of the paper, with the search, is worse than KindAP.
HARD_EMBEDDINGS = [(100, 8, 0.4, 2), (100, 8, 1.0, 0), (300, 5, 1.0, 2)]


@pytest.mark.parametrize("instance", HARD_EMBEDDINGS, ids=str)
def test_indicators_are_never_worse_than_kindap(instance):
    problem = noisy_embedding(*instance)
    kindap = op.solve(problem, method=KindAP(), with_bound=False).value
    alone = op.solve(problem, method=EP4Orth.for_indicators(instance[1]), with_bound=False).value
    found = op.solve(problem, with_bound=False)
    assert found.value <= kindap * (1.0 + 1e-12)
    assert found.value < alone
    assert found.state.violation is not None
    assert op.solve(problem, with_bound=False, rng=3).value <= kindap * (1.0 + 1e-12)
    assert op.solve(problem, with_bound=False, n_init=3).value <= found.value * (1.0 + 1e-12)


def test_no_method_competes_with_a_given_method_or_start_or_clear_clusters():
    hard, clear = noisy_embedding(60, 4, 0.6, 0), noisy_embedding(60, 4, 0.05, 0)
    with mock.patch.object(KindAP, "init", side_effect=AssertionError):
        op.solve(clear, with_bound=False)
        op.solve(hard, method=EP4Orth.for_indicators(4), with_bound=False)
        op.solve(hard, hard.start(np.random.default_rng(0)), with_bound=False)
        with pytest.raises(AssertionError):
            op.solve(hard, with_bound=False)


def test_interrupt_of_the_competing_method_returns_the_result_so_far():
    problem = noisy_embedding(60, 4, 0.6, 0)
    with mock.patch.object(KindAP, "step", side_effect=KeyboardInterrupt):
        found = op.solve(problem, with_bound=False)
    assert found.status is op.Status.INTERRUPTED
    assert found.violation < 1e-12
    alone = op.solve(problem, method=EP4Orth.for_indicators(4), with_bound=False)
    assert found.value == pytest.approx(alone.value, rel=1e-6)
