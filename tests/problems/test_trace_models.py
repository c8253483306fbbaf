"""The models that are trace problems: each matrix against its definition, and known optima."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.linear_model import Ridge

import orthoplus as op
from brute_force import supports
from orthoplus.data.symmetric import SymmetricMap
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import assemble, random_stiefel_plus
from orthoplus.linalg.starts import eigenvector_starts
from orthoplus.methods.refine import refine
from orthoplus.problems import (
    SymmetricONMF,
    TraceMin,
    discriminative_spectral,
    laplacian_embedding,
    nonnegative_pca,
    ratio_cut,
)

N, K = 9, 3
CONTAINERS = [np.asarray, sp.csr_array, sp.csc_matrix]
every_container = pytest.mark.parametrize("container", CONTAINERS)


def similarity(n, rng, density=0.7):
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    return W + W.T


def matrix_of(problem):
    """M, a column at a time: what the solvers see."""
    return problem.symmetric @ np.eye(problem.shape[0])


def eigen_start(problem, rng):
    return next(eigenvector_starts(problem.symmetric, problem.k, rng))


def even(labels, k):
    """The X with equal entries in each column."""
    return assemble(np.asarray(labels), np.ones(len(labels)), k)


def same_partition(one, other):
    return len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(other.tolist()))


# --- the matrices ---------------------------------------------------------------------------------


@every_container
@pytest.mark.parametrize("center", [False, True])
def test_nonnegative_pca_is_minus_the_gram_matrix(container, center, rng):
    A = rng.standard_normal((N, 5)) * (rng.random((N, 5)) < 0.7)
    centered = A - center * A.mean(axis=1, keepdims=True)
    M = matrix_of(nonnegative_pca(container(A), K, center=center))
    np.testing.assert_allclose(M, -centered @ centered.T, atol=1e-13)


@every_container
def test_laplacians_are_their_definitions(container, rng):
    W = similarity(N, rng) + np.diag(rng.random(N))
    degrees = W.sum(axis=1)
    M = matrix_of(laplacian_embedding(container(W), K))
    np.testing.assert_allclose(M, np.diag(degrees) - W, atol=1e-13)
    np.fill_diagonal(W, 0.0)
    root = np.sqrt(W.sum(axis=1))
    M = matrix_of(laplacian_embedding(container(W), K, normalized=True))
    np.testing.assert_allclose(M, np.eye(N) - W / np.outer(root, root), atol=1e-13)


@every_container
@pytest.mark.parametrize("evenness", [0.0, 1.0, 7.0])
def test_ratio_cut_is_the_ratio_cut_where_weights_are_equal(container, evenness, rng):
    W = similarity(N, rng)
    problem = ratio_cut(container(W), K, evenness=evenness)
    for labels in rng.integers(K, size=(20, N)):
        labels[:K] = np.arange(K)
        groups = [labels == j for j in range(K)]
        cut = sum(W[np.ix_(g, ~g)].sum() / g.sum() for g in groups)
        assert problem.value(even(labels, K)) == pytest.approx(cut)


def test_ratio_cut_adds_a_penalty_on_unequal_weights(rng):
    W = similarity(N, rng)
    plain, drawn = laplacian_embedding(W, K), ratio_cut(W, K, evenness=2.0)
    tau = 2.0 * W.sum() / N
    for _ in range(50):
        X = random_stiefel_plus(N, K, rng, n_zero_rows=1)
        added = tau * (1 - np.linalg.norm(X.sum(axis=0)) ** 2 / N)
        assert added > 0
        assert drawn.value(X) == pytest.approx(plain.value(X) + added)


def test_normalized_laplacian_is_the_normalized_cut(rng):
    W = similarity(N, rng)
    labels, degrees = np.arange(N) % K, W.sum(axis=1)
    X = assemble(labels, np.sqrt(degrees), K)
    groups = [labels == j for j in range(K)]
    cut = sum(W[np.ix_(g, ~g)].sum() / degrees[g].sum() for g in groups)
    assert laplacian_embedding(W, K, normalized=True).value(X) == pytest.approx(cut)


@every_container
@pytest.mark.parametrize("r", [1, 4, 15])
def test_discriminative_term_is_the_loss_of_a_ridge_regression(container, r, rng):
    A, mu, gamma = rng.standard_normal((N, r)) + 2.0, 1.7, 0.3
    W = similarity(N, rng)
    problem = discriminative_spectral(container(W), mu, K, A=container(A), ridge=gamma)
    for X in (random_stiefel_plus(N, K, rng), random_oblique_plus(N, K, rng)):
        fit = Ridge(alpha=gamma, solver="cholesky").fit(A, X)
        loss = ((X - fit.predict(A)) ** 2).sum() + gamma * (fit.coef_**2).sum()
        expected = laplacian_embedding(W, K).value(X) + mu * loss
        assert problem.value(X) == pytest.approx(expected, rel=1e-10)


@every_container
def test_discriminative_term_is_that_of_discriminant_analysis(container, rng):
    A, gamma = rng.standard_normal((N, 4)) + 2.0, 0.3
    W = np.zeros((N, N))
    R = matrix_of(discriminative_spectral(container(W), 1.0, K, A=container(A), ridge=gamma))
    H = np.eye(N) - 1.0 / N
    HA = H @ A
    total = HA.T @ HA
    expected = H - HA @ np.linalg.solve(total + gamma * np.eye(4), HA.T)
    np.testing.assert_allclose(R, expected, atol=1e-12)
    labels = np.arange(N) % K
    means = np.stack([HA[labels == j].mean(axis=0) for j in range(K)])
    between = (means.T * np.bincount(labels)) @ means
    X = even(labels, K)
    shared = np.trace(np.linalg.solve(total + gamma * np.eye(4), between))
    assert np.trace(X.T @ R @ X) == pytest.approx(K - 1 - shared)


def test_discriminative_term_does_not_depend_on_the_origin(rng):
    A, W, X = rng.standard_normal((N, 4)), similarity(N, rng), random_stiefel_plus(N, K, rng)
    near, far = (discriminative_spectral(W, 1.0, K, A=A + shift).value(X) for shift in (0.0, 1e7))
    assert far == pytest.approx(near, rel=1e-7)  # the shift itself rounds A to 1e-9


def test_discriminative_spectral_without_weight_is_the_laplacian(rng):
    W, X = similarity(N, rng), random_stiefel_plus(N, K, rng)
    A = rng.standard_normal((N, 2))
    for normalized in (False, True):
        plain = laplacian_embedding(W, K, normalized=normalized).value(X)
        problem = discriminative_spectral(W, 0.0, K, A=A, normalized=normalized)
        assert problem.value(X) == pytest.approx(plain)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_symmetric_onmf_is_the_residual(container, rng):
    M = rng.standard_normal((N, N))
    M += M.T
    problem = SymmetricONMF(container(M), K)
    for X in (random_stiefel_plus(N, K, rng), random_oblique_plus(N, K, rng)):
        assert problem.value(X) == pytest.approx(np.linalg.norm(M - X @ X.T) ** 2)
    X = random_stiefel_plus(N, K, rng)
    expected = np.linalg.norm(M) ** 2 + K + 2 * TraceMin(-M, K).value(X)
    assert problem.value(X) == pytest.approx(expected)
    bound = np.linalg.norm(M) ** 2 + K - 2 * np.linalg.eigvalsh(M)[-K:].sum()
    assert problem.lower_bound() == pytest.approx(max(bound, 0.0))


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [N, 90])
def test_operator_agrees_with_its_matrix(n, rng):
    M = rng.standard_normal((n, n))
    M += M.T
    M -= 10 * np.abs(M)  # no positive entry: blocks have nonnegative eigenvectors
    dense, operator = TraceMin(M, K), TraceMin(aslinearoperator(M), K)
    X, D = random_stiefel_plus(n, K, rng), rng.standard_normal((n, K))
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(operator.value(X), dense.value(X), **close)
    np.testing.assert_allclose(operator.hessp(X, D), dense.hessp(X, D), **close)
    np.testing.assert_allclose(operator.refine(X), dense.refine(X), **close)
    np.testing.assert_allclose(operator.lower_bound(), dense.lower_bound(), **close)
    spectral = np.abs(np.linalg.eigvalsh(M)).max()
    assert 2 * spectral <= operator.lipschitz <= 2.01 * spectral
    assert operator.symmetric.largest >= np.linalg.eigvalsh(M).max()


def test_product_is_never_formed(rng):
    n = 5000  # M would have 25 million entries
    A = sp.random_array((n, 300), density=0.01, rng=rng, format="csr")
    problem = nonnegative_pca(A, 3, center=True)
    assert sum(U.shape[0] * U.shape[1] for U, _ in problem.symmetric.factors[1:]) == n
    X = random_stiefel_plus(n, 3, rng)
    centered = A.toarray() - A.toarray().mean(axis=1, keepdims=True)
    assert problem.value(X) == pytest.approx(-(np.linalg.norm(centered.T @ X) ** 2))
    top = np.linalg.svd(centered, compute_uv=False)[:3]
    assert problem.lower_bound() == pytest.approx(-(top @ top))


def test_blocks_and_norms_of_a_sum_bound_those_of_its_matrix(rng):
    for n in (N, 80):
        U, C = rng.standard_normal((n, 3)), np.diag([1.0, -2.0, 0.5])
        B = rng.standard_normal((n, n))
        M = SymmetricMap(sp.csr_array(B + B.T), ((U, C), (sp.csr_array(U), -0.5)))
        dense = B + B.T + U @ C @ U.T - 0.5 * U @ U.T
        np.testing.assert_allclose(M.to_dense(), dense, atol=1e-12)
        np.testing.assert_allclose((-M).to_dense(), -dense, atol=1e-12)
        rows = np.array([4, 1, 7])
        np.testing.assert_allclose(M.block(rows).to_dense(), dense[np.ix_(rows, rows)], atol=1e-12)
        eigenvalues = np.linalg.eigvalsh(dense)
        assert M.norm >= np.abs(eigenvalues).max() - 1e-12
        assert eigenvalues[-1] <= M.largest <= eigenvalues[-1] + 0.1 * M.norm


# --- optima ---------------------------------------------------------------------------------------


def global_minimum(problem):
    """By refining every support: exact where the refinement is."""
    return min(problem.value(refine(problem, H)) for H in supports(*problem.shape))


@pytest.mark.parametrize(
    "build",
    [
        lambda rng: laplacian_embedding(similarity(5, rng), 2),
        lambda rng: laplacian_embedding(similarity(5, rng), 2, normalized=True),
        lambda rng: ratio_cut(similarity(5, rng), 2),
        lambda rng: nonnegative_pca(rng.standard_normal((5, 4)), 2),
        lambda rng: discriminative_spectral(
            similarity(5, rng), 1.0, 2, A=rng.standard_normal((5, 2))
        ),
    ],
    ids=["laplacian", "normalized", "ratio cut", "pca", "discriminative"],
)
def test_best_of_a_few_runs_is_the_optimum_by_brute_force(build, rng):
    problem = build(rng)
    runs = [op.solve(problem, rng=seed) for seed in range(8)]
    best = min(run.value for run in runs)
    # Projected gradient on the support ends at 1e-10 of the gradient.
    assert best == pytest.approx(global_minimum(problem), abs=1e-8)
    assert all(run.gap >= -1e-10 for run in runs)


def test_symmetric_onmf_has_the_optimum_of_its_trace_problem_by_brute_force(rng):
    M = similarity(5, rng) + np.diag(rng.random(5))
    problem = SymmetricONMF(M, 2)
    best = np.linalg.norm(M) ** 2 + 2 + 2 * global_minimum(TraceMin(-M, 2))
    assert global_minimum(problem) == pytest.approx(best)
    for seed in range(4):
        run = op.solve(problem, rng=seed)
        assert problem.lower_bound() - 1e-12 <= best <= run.value + 1e-8
        assert op.optimality.check(problem, run.X, tol=1e-7).is_stationary


def test_indefinite_refinement_is_stationary_where_no_eigenvector_is_nonnegative(rng):
    M = rng.standard_normal((N, N))
    problem = TraceMin(M + M.T, 2)
    X = even(np.arange(N) % 2, 2)
    assert problem.refine(X) is None
    refined = refine(problem, X)
    assert problem.value(refined) < problem.value(X)
    assert op.optimality.check(problem, refined, tol=1e-7).is_stationary


def test_refinement_takes_a_nonnegative_eigenvector_although_signs_of_the_block_are_mixed():
    # The bottom vector (2, 2, 1)/3 in spite of a positive entry off the diagonal.
    Q = np.array([[2.0, -2.0, 1.0], [2.0, 1.0, -2.0], [1.0, 2.0, 2.0]]) / 3
    M = Q @ np.diag([-5.0, 4.0, -4.0]) @ Q.T
    assert (M - np.diag(np.diag(M))).max() > 0
    refined = TraceMin(M, 1).refine(np.full((3, 1), 1 / np.sqrt(3)))
    np.testing.assert_allclose(refined[:, 0], Q[:, 0], atol=1e-12)


@every_container
@pytest.mark.parametrize("normalized", [False, True])
def test_components_of_a_graph_are_its_groups_at_no_cost(container, normalized, rng):
    labels = np.repeat([0, 1, 2], [5, 8, 12])
    W = np.where(labels[:, None] == labels, similarity(25, rng, density=1.0), 0.0)
    problem = laplacian_embedding(container(W), 3, normalized=normalized)
    result = op.solve(problem, eigen_start(problem, rng))
    assert result.value == pytest.approx(0.0, abs=1e-9)
    assert same_partition(result.labels, labels)


def test_principal_components_of_disjoint_blocks_are_found_exactly(rng):
    # Rank-one blocks of falling size: the optimum is known, and meets the spectral bound.
    parts = [rng.random((4, 1)) @ rng.random((1, 6)) * size for size in (3.0, 2.0, 1.0)]
    A = sp.block_diag(parts, format="csr")
    problem = nonnegative_pca(A, 3)
    result = op.solve(problem, eigen_start(problem, rng))
    assert result.gap == pytest.approx(0.0, abs=1e-9)
    assert same_partition(result.labels, np.repeat([0, 1, 2], 4))


def test_symmetric_onmf_finds_planted_blocks(rng):
    labels = np.arange(20) % 3
    M = (labels[:, None] == labels) + 0.05 * similarity(20, rng)
    assert same_partition(op.solve(SymmetricONMF(M, 3), rng=1).labels, labels)


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [laplacian_embedding, ratio_cut])
def test_bad_similarities_are_explained(build):
    with pytest.raises(ValueError, match=r"`W` has negative entries \(the smallest is -1\)"):
        build(np.array([[0.0, -1.0], [-1.0, 0.0]]), 1)
    with pytest.raises(ValueError, match="`W` is not symmetric"):
        build(np.array([[0.0, 1.0], [0.0, 0.0]]), 1)
    with pytest.raises(ValueError, match=r"`W` has shape \(2, 3\): a square matrix"):
        build(np.ones((2, 3)), 1)
    with pytest.raises(ValueError, match="more columns than rows"):
        build(np.ones((2, 2)), 3)


def test_bad_operators_are_explained():
    with pytest.raises(ValueError, match=r"`M` is not symmetric: x'\(My\)"):
        TraceMin(aslinearoperator(np.triu(np.ones((3, 3)))), 1)
    with pytest.raises(ValueError, match=r"`M` has shape \(2, 3\): a square"):
        TraceMin(aslinearoperator(np.ones((2, 3))), 1)
    with pytest.raises(ValueError, match="`M` has products that are NaN"):
        TraceMin(LinearOperator((2, 2), matvec=lambda x: x * np.nan, dtype=float), 1)
    with pytest.raises(TypeError, match=r"its entries are needed.*Use TraceMin\(-M, k\)"):
        SymmetricONMF(aslinearoperator(np.eye(3)), 1)


def test_bad_options_of_the_models_are_explained(rng):
    W, A = similarity(4, rng), rng.random((3, 2))
    with pytest.raises(ValueError, match="`A` has 3 rows, but the graph `W` has 4 vertices"):
        discriminative_spectral(W, 1.0, 2, A=A)
    with pytest.raises(ValueError, match=r"`mu=-1\.0` is out of range"):
        discriminative_spectral(W, -1.0, 2, A=W)
    with pytest.raises(ValueError, match=r"`ridge=0\.0` is out of range"):
        discriminative_spectral(W, 1.0, 2, A=W, ridge=0.0)
    with pytest.raises(ValueError, match=r"`evenness=-1\.0` is out of range"):
        ratio_cut(W, 2, evenness=-1.0)
    with pytest.raises(ValueError, match="`A` has 1 entries that are NaN"):
        nonnegative_pca(np.array([[1.0, np.nan]]), 1)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("problem", [TraceMin, SymmetricONMF, laplacian_embedding])
def test_matrices_close_to_the_ends_of_the_range_are_refused_by_their_name(problem, form, rng):
    M = similarity(9, rng) * 1e307
    with pytest.raises(op.InputError, match=r"`[MW]` has entries as large as .*e\+30[678]"):
        problem(form(M), 2)
    with pytest.raises(op.InputError, match=r"`[MW]` has no entries larger than 4\.94e-324"):
        problem(form(np.where(M > M.mean(), 5e-324, 0.0)), 2)
