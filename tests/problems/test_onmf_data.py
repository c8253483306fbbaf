"""Orthogonal NMF on every kind of data matrix: the answers of dense float64, and no copy of A."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csc_matrix, csr_array, csr_matrix
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import orthoplus as op
from orthoplus.data import as_data, as_nonnegative_data
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import labels_of, random_stiefel_plus, violation
from orthoplus.linalg.group_vectors import leading_vectors
from orthoplus.linalg.starts import SVD_VARIANTS, svd_start
from orthoplus.problems import ONMF

N, R, K = 40, 90, 3


def memory_map(A, tmp_path):
    path = tmp_path / f"{len(A)}.npy"
    np.save(path, A)
    return np.load(path, mmap_mode="r")


KINDS = {
    "dense": lambda A, _: A,
    "fortran": lambda A, _: np.asfortranarray(A),
    "strided": lambda A, _: np.repeat(A, 2, axis=1)[:, ::2],
    "memory map": memory_map,
    "csr matrix": lambda A, _: csr_matrix(A),
    "csr array": lambda A, _: csr_array(A),
    "csc matrix": lambda A, _: csc_matrix(A),
    "csc array": lambda A, _: csc_array(A),
    "coo array": lambda A, _: coo_array(A),
    "operator": lambda A, _: aslinearoperator(A),
    "operator of sparse": lambda A, _: aslinearoperator(csr_array(A)),
}
# Sums of a hundred products, relative to the largest number that enters.
ROUNDING = {np.float64: 1e-12, np.float32: 1e-5}
every_kind = pytest.mark.parametrize("kind", KINDS)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture
def dense(rng):
    """Half of it zeros, two rows and two columns altogether; numbers that float32 holds exactly."""
    A = np.round(8 * rng.random((N, R))) / 8 * (rng.random((N, R)) < 0.5)
    A[[3, 17]] = 0.0
    A[:, [0, 50]] = 0.0
    return A


@every_kind
@both_dtypes
def test_every_kind_agrees_with_dense_float64(kind, dtype, dense, rng, tmp_path):
    exact, ours = ONMF(dense, K), ONMF(KINDS[kind](dense.astype(dtype), tmp_path), K)
    assert ours.A.dtype == dtype
    X, D = random_oblique_plus(N, K, rng), rng.standard_normal((N, K))
    S = random_stiefel_plus(N, K, rng, n_zero_rows=4)
    tol = ROUNDING[dtype] * exact.total

    def same(one, other):
        np.testing.assert_allclose(one, other, atol=tol, rtol=0)

    assert ours.total == exact.total  # the squares are exact, and so is their sum
    same(ours.row_squares, exact.row_squares)
    same(ours.value(X), exact.value(X))
    for name in ("value_and_gradient", "second_block", "majorizer"):
        for a, b in zip(getattr(ours, name)(X), getattr(exact, name)(X), strict=True):
            same(a, b)
    same(ours.hessp(X, D), exact.hessp(X, D))
    same(ours.freeze(X).value_and_gradient(S)[1], exact.freeze(X).value_and_gradient(S)[1])
    same(ours.value(ours.refine(S)), exact.value(exact.refine(S)))
    same(ours.lower_bound(), exact.lower_bound())


@every_kind
def test_float32_goes_through_and_the_answer_is_that_of_float64(kind, dense, tmp_path):
    problem = ONMF(KINDS[kind](dense.astype(np.float32), tmp_path), K)
    X0 = svd_start(problem.A, K)
    assert X0.dtype == problem.start(np.random.default_rng(0)).dtype == np.float32
    method = op.EP4Orth(penalty_growth=1.5, feasibility_tol=1e-5)
    # A few steps show that the search keeps the dtype too.
    result = op.solve(problem, X0, method=method, search=op.methods.SupportSearch(effort=2e4))
    assert result.X.dtype == result.Y.dtype == np.float32
    assert result.violation <= 1e-6  # float32 columns have norm one to 1e-7
    exact = ONMF(dense, K).value(result.X.astype(np.float64))
    assert result.value == pytest.approx(exact, rel=1e-5)


@every_kind
@pytest.mark.parametrize("variant", SVD_VARIANTS)
def test_start_from_singular_vectors_is_that_of_dense_data(kind, variant, dense, tmp_path):
    start = svd_start(as_nonnegative_data(KINDS[kind](dense, tmp_path)), K, variant)
    np.testing.assert_allclose(start, svd_start(as_data(dense), K, variant), atol=1e-8)


@every_kind
@pytest.mark.parametrize("shape", [(N, R), (R, N)])
def test_norms_and_rows_of_every_kind(kind, shape, rng, tmp_path):
    dense = rng.random(shape)
    A = as_nonnegative_data(KINDS[kind](dense, tmp_path))
    assert A.squared_norm() == pytest.approx((dense**2).sum(), rel=1e-13)
    np.testing.assert_allclose(A.row_squares(), (dense**2).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(A.take_rows(np.array([5, 2])), dense[[5, 2]])


@every_kind
def test_groups_of_every_kind(kind, dense, rng, tmp_path):
    A = as_nonnegative_data(KINDS[kind](dense, tmp_path))
    labels, x = rng.integers(-1, K, size=N), rng.random(N)
    W = A.group_sums(labels, x, K)
    rows = [np.flatnonzero(labels == j) for j in range(K)]
    np.testing.assert_allclose(W, [x[i] @ dense[i] for i in rows], atol=1e-12)
    expected = np.where(labels >= 0, np.einsum("ij,ij->i", dense, W[labels]), 0.0)
    np.testing.assert_allclose(A.group_dots(labels, W), expected, atol=1e-12)
    vectors, squares = leading_vectors(A, labels, np.ones(N), K)
    for j, i in enumerate(rows):
        left, s, _ = np.linalg.svd(dense[i])
        assert squares[j] == pytest.approx(s[0] ** 2, rel=1e-13)
        np.testing.assert_allclose(vectors[i], np.abs(left[:, 0]), atol=1e-9)
    assert not vectors[labels < 0].any()


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.99, 0.9999, 1.0])
def test_leading_vectors_where_the_second_value_comes_near(ratio, rng):
    # Two blocks in one group: the singular values are known, and their vectors.
    u, v = rng.random((2, 200)) + 0.1
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    A = np.zeros((200, 200))
    A[:100], A[100:] = np.outer(u[:100], v), 0.0
    A[:100] /= np.linalg.norm(A[:100])
    B = np.outer(u[100:], np.roll(v, 7))
    A[100:, :] = ratio * B / np.linalg.norm(B)
    _, squares = leading_vectors(as_data(A), np.zeros(200, dtype=int), np.ones(200), 1)
    assert squares[0] == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=1e-12)


def test_leading_vectors_of_empty_and_zero_groups():
    A = as_data([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    x, squares = leading_vectors(A, np.array([0, 1, 0]), np.array([3.0, 1.0, 4.0]), 3)
    np.testing.assert_allclose(x, [0.6, 1.0, 0.8])
    np.testing.assert_allclose(squares, [0.0, 25.0, 0.0], atol=1e-13)


def test_zero_rows_and_columns_stay_and_are_solved(dense):
    problem = ONMF(csr_array(dense), K)
    assert problem.shape == (N, K)
    result = op.solve(problem)
    assert result.violation <= 1e-14
    assert len(result.labels) == N
    assert result.Y.shape == (R, K)
    assert not result.Y[[0, 50]].any()


def test_known_norm_is_taken():
    A = np.eye(3)
    calls = []
    counted = LinearOperator(
        A.shape,
        matvec=lambda y: calls.append(1) or A @ y,
        rmatvec=lambda x: A.T @ x,
        dtype=float,
    )
    assert ONMF(counted, 2, squared_norm=3.0).total == 3.0
    assert not calls
    with pytest.raises(ValueError, match=r"`squared_norm=-1.0` is out of range"):
        ONMF(A, 2, squared_norm=-1.0)


# --- memory ---------------------------------------------------------------------------------------

TALL = (20_000, 200)
# What is held beside A is n x k, a dozen of them at most in float64, and blocks of 2 MB.
SHARE = 0.6


def peak_of(work):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["dense", "fortran", "memory map", "csr array"])
@both_dtypes
def test_nothing_of_the_size_of_the_data_is_made(kind, dtype, tmp_path):
    n, r = TALL
    rng = np.random.default_rng(0)
    (tmp_path / "few").mkdir()
    A = KINDS[kind](rng.random((n, r), dtype=dtype), tmp_path)
    size = n * r * np.dtype(dtype).itemsize
    X = random_oblique_plus(n, 2, rng)
    S = random_stiefel_plus(n, 2, rng)

    def work(problem, X, S):
        _ = problem.total, problem.row_squares
        problem.value_and_gradient(X)
        problem.hessp(X, X)
        problem.freeze(X).value_and_gradient(X)
        problem.majorizer(S)
        problem.refine(S)
        problem.lower_bound()
        svd_start(problem.A, 2, "nndsvda")

    # Kernels load at their first call; those with threads take more than a million entries.
    few = KINDS[kind](rng.random((6000, r), dtype=dtype), tmp_path / "few")
    work(ONMF(few, 2), X[:6000], random_stiefel_plus(6000, 2, rng))
    assert peak_of(lambda: work(ONMF(A, 2), X, S)) <= SHARE * size
    assert violation(ONMF(A, 2).refine(S)) <= 1e-13
    assert (labels_of(ONMF(A, 2).refine(S)) == labels_of(S)).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "operator" not in kind])
@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e200, "f8"), (1e-200, "f8"), (1e20, "f4"), (1e-20, "f4")]
)
def test_entries_whose_products_leave_the_range_are_refused(kind, scale, dtype, dense, tmp_path):
    A = KINDS[kind]((dense * scale).astype(dtype), tmp_path)
    with pytest.raises(
        ValueError, match=r"`A` has .*: products of such numbers .* Rescale the data"
    ):
        ONMF(A, K)


@pytest.mark.parametrize(("scale", "dtype"), [(1e60, "f8"), (1e-60, "f8"), (1e9, "f4")])
def test_units_far_from_one_give_the_same_groups(scale, dtype, dense):
    fair = op.OrthogonalNMF(K).fit_predict(dense)
    np.testing.assert_array_equal(
        op.OrthogonalNMF(K).fit_predict((scale * dense).astype(dtype)), fair
    )
