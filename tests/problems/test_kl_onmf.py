"""Orthogonal NMF with the Kullback-Leibler divergence: closed forms, brute force, documents."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from brute_force import minimize_over_supports, random_on_support, supports
from orthoplus.data.divergence import kl_divergence, ratio_products
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import labels_of, random_stiefel_plus
from orthoplus.kernels import fused, reference
from orthoplus.methods import KLAlternating
from orthoplus.methods.count_seeds import sketch_counts
from orthoplus.problems import KLONMF

N, R, K = 7, 5, 2


def counts(rng, n=N, r=R, density=0.6):
    return rng.poisson(3.0, (n, r)) * (rng.random((n, r)) < density).astype(float)


def by_definition(A, M):
    logs = A[A > 0] * np.log(A[A > 0] / M[A > 0])
    return logs.sum() - A.sum() + M.sum()


def counts_of(labels, k=3):
    return np.bincount(labels[labels >= 0], minlength=k)


as_data = pytest.mark.parametrize("convert", [np.asarray, csr_array, csc_matrix])


@as_data
def test_divergence_is_its_definition(convert, rng):
    A, X, Y = counts(rng), rng.random((N, K)), rng.random((R, K))
    data = op.problems.KLONMF(convert(A), K).A
    assert kl_divergence(data, X, Y) == pytest.approx(by_definition(A, X @ Y.T), rel=1e-12)
    Z = A / (X @ Y.T)
    ZY, ZtX = ratio_products(data, X, Y)
    np.testing.assert_allclose(ZY, Z @ Y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ZtX, Z.T @ X, rtol=1e-12, atol=1e-12)


def test_divergence_of_what_the_model_lacks_is_infinite():
    A = np.array([[1.0, 0.0], [1.0, 1.0]])
    X = np.array([[1.0], [0.0]])
    assert KLONMF(A, 1).value(X) == np.inf
    assert KLONMF(csr_array(A), 1).value(X) == np.inf


@as_data
def test_second_block_is_the_best(convert, rng):
    A = counts(rng)
    problem = KLONMF(convert(A), K)
    X = random_stiefel_plus(N, K, rng)
    Y, best = problem.second_block(X), problem.value(X)
    assert best == pytest.approx(by_definition(A, X @ Y.T), rel=1e-12)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            other = np.maximum(Y * (1 + size * rng.uniform(-1, 1, Y.shape)), 0.0)
            assert kl_divergence(problem.A, X, other) >= best - 1e-12 * abs(best)


@as_data
def test_model_of_a_group_is_row_sums_times_column_sums(convert, rng):
    A = counts(rng) + 0.1
    problem = KLONMF(convert(A), K)
    X = problem.refine(random_stiefel_plus(N, K, rng))
    model = X @ problem.second_block(X).T
    labels = labels_of(X)
    for j in range(K):
        rows = A[labels == j]
        expected = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / rows.sum()
        np.testing.assert_allclose(model[labels == j], expected, rtol=1e-12)


def test_refine_keeps_groups_of_zero_rows():
    A = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(KLONMF(A, 2).refine(X), X)


@pytest.mark.parametrize("seed", range(6))
def test_method_ends_where_no_row_move_helps_and_often_at_the_optimum(seed):
    rng = np.random.default_rng(seed)
    A = counts(rng, n=6) + np.eye(6, R)
    problem = KLONMF(A, K)
    best, _, _ = minimize_over_supports(problem)
    result = op.solve(problem)
    assert result.status is op.Status.CONVERGED
    assert result.violation <= 1e-14
    assert result.value >= best - 1e-10
    for i in range(6):
        for j in range(K):
            moved = result.labels.copy()
            moved[i] = j
            if len(set(moved)) == K:
                X = (moved[:, None] == np.arange(K)) * 1.0
                refined = problem.refine(X / np.linalg.norm(X, axis=0))
                assert problem.value(refined) >= result.value - 1e-9
    starts = [KLAlternating(start="random", seed=s) for s in range(10)]
    values = [op.solve(problem, method=method).value for method in (KLAlternating(), *starts)]
    assert min(values) == pytest.approx(best, abs=1e-9)


def test_default_finds_the_optimum_of_tiny_problems():
    problems = [KLONMF(counts(np.random.default_rng(s), n=6) + np.eye(6, R), 3) for s in range(4)]
    best = [minimize_over_supports(problem)[0] for problem in problems]
    np.testing.assert_allclose([op.solve(p).value for p in problems], best, rtol=1e-9)


def test_sketch_of_square_roots_returns_the_groups_it_was_given(rng):
    labels = np.arange(30) % 3
    A = rng.poisson(20.0 * (np.kron(np.eye(3), np.ones(4)) + 0.05)[labels]).astype(float)
    A[4] = 0.0
    for rows in (KLONMF(A, 3).A, KLONMF(csr_array(A), 3).A):
        sketch = sketch_counts(rows, 3, seed=0)
        found = sketch.labels_of(sketch.centers_of(labels, 3))
        assert found[4] == -1
        np.testing.assert_array_equal(np.delete(found, 4), np.delete(labels, 4))


def test_refine_beats_other_weights(rng):
    A = counts(rng) + 0.5
    problem = KLONMF(A, K)
    H = next(H for H in supports(N, K, full=True) if rng.random() < 0.05)
    best = problem.value(problem.refine(H))
    assert all(best <= problem.value(random_on_support(H, rng)) + 1e-10 for _ in range(50))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_kernels_agree(dtype, is_sparse, rng):
    A = counts(rng, 30, 12).astype(dtype)
    problem = KLONMF(csr_array(A) if is_sparse else A, 3)
    labels = rng.integers(-1, 3, size=30)
    sums = np.array([A[labels == j].sum(axis=0) for j in range(3)], dtype=float).T.copy()
    answers = []
    for module in (fused, reference):
        own_labels, own_sums = labels.copy(), sums.copy()
        moved = module.move_rows_into(
            problem.A.csr_parts(), own_labels, own_sums, counts_of(labels)
        )
        answers.append((moved, own_labels, own_sums))
    assert answers[0][0] == answers[1][0] > 0
    np.testing.assert_array_equal(answers[0][1], answers[1][1])
    np.testing.assert_allclose(answers[0][2], answers[1][2], atol=1e-12)
    S = csr_array(A)
    X, Y = rng.random((30, 3)).astype(dtype), rng.random((12, 3)).astype(dtype)
    one, other = (m.sampled_products(S.indices, S.indptr, X, Y) for m in (fused, reference))
    np.testing.assert_allclose(one, other, rtol=1e-14)


@as_data
@pytest.mark.parametrize("start", ["svd", "random", "given"])
def test_every_start_and_kind_gives_a_run_that_never_rises(convert, start, rng):
    A = counts(rng, 40, 20)
    A[[0, 5]] = 0.0
    A[:, 3] = 0.0
    values = []
    result = op.solve(
        KLONMF(convert(A), 3),
        random_oblique_plus(40, 3, rng),
        method=KLAlternating(start=start),
        callback=lambda state: values.append(state.value),
    )
    assert result.success
    assert result.violation <= 1e-14
    assert all(b <= a for a, b in pairwise(values))
    assert len(set(result.labels[result.labels >= 0])) == 3


def test_float32_agrees_with_float64(rng):
    A = counts(rng, 60, 20)
    ours, exact = KLONMF(A.astype(np.float32), 3), KLONMF(A, 3)
    result = op.solve(ours)
    assert result.X.dtype == np.float32
    assert result.value == pytest.approx(
        exact.value(exact.refine(result.X.astype(float))), rel=1e-5
    )


def test_penalty_method_solves_it_too(rng):
    labels = np.arange(30) % 3
    profiles = np.kron(np.eye(3), np.ones(4)) + 0.05
    A = rng.poisson(20 * profiles[labels]) + 0.01
    result = op.solve(KLONMF(A, 3), method=op.EP4Orth())
    assert result.violation <= 1e-12
    assert op.metrics.nmi(labels, result.labels) == 1.0


def test_what_cannot_work_is_explained(rng):
    with pytest.raises(TypeError, match=r"needs the entries of A.*use ONMF"):
        KLONMF(aslinearoperator(np.eye(3)), 2)
    with pytest.raises(ValueError, match="negative entries"):
        KLONMF(-np.eye(3), 2)
    with pytest.raises(TypeError, match=r"KLAlternating solves KLONMF\(A, k\), got Projection"):
        op.solve(op.problems.Projection(np.eye(3, 2)), method=KLAlternating())


@pytest.mark.parametrize(("name", "least"), [("T-l10", 0.93), ("NewsG-t5", 0.38)])
def test_documents_are_clustered_far_better_than_by_squares(load_data, name, least):
    parts = load_data(name)
    data, indices = parts["data"].astype(float), parts["indices"].astype(np.int32)
    A = csr_array((data, indices, parts["indptr"]), shape=tuple(parts["shape"]))
    k = len(np.unique(parts["labels"]))
    result = op.solve(KLONMF(A, k))
    # 0.974 and 0.413 were measured; the Frobenius norm gives 0.80 and 0.23.
    assert op.metrics.nmi(parts["labels"], result.labels) >= least
