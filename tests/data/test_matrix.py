"""Every method of a data matrix, in every storage, against NumPy."""

import tracemalloc

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix, issparse, random_array

from every_storage import BLOCKED, FORMS, IN_MEMORY, WITH_ENTRIES, as_dask, in_blocks
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.point import SupportPoint
from orthoplus.data import as_data
from orthoplus.data.base import inner_product
from orthoplus.data.dask import DaskMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sparse import Sparse

K = 3
# One row, one column, tall, wide; rows and columns of zeros in all that have three.
SHAPES = [(1, 1), (1, 5), (9, 1), (2, 3), (23, 6), (6, 23)]
# Sums of two dozen products, relative to the largest number that enters.
ROUNDING = {"f8": 1e-13, "f4": 3e-6}
both_dtypes = pytest.mark.parametrize("dtype", ["f8", "f4"])


def make(shape, dtype, rng):
    """Return numbers of both signs that float32 holds, half of them zeros."""
    A = np.round(64 * rng.standard_normal(shape)) / 64 * (rng.random(shape) < 0.5)
    if shape[0] > 2:
        A[1] = 0.0
    if shape[1] > 2:
        A[:, 1] = 0.0
    return A.astype(dtype)


class Vectors:
    """What the methods are asked about; a row without a group has weight 0."""

    def __init__(self, A, rng):
        n, r = A.shape
        self.labels = rng.integers(-1, K, size=n)
        self.weights = np.where(self.labels >= 0, rng.random(n), 0.0)
        self.X = np.zeros((n, K))
        self.X[np.arange(n), self.labels] = self.weights
        self.Y, self.Z, self.W = rng.random((r, 2)), rng.random((n, 2)), rng.random((K, r))
        self.short = rng.random((min(n, r), 2))
        self.rows = np.flatnonzero(rng.random(n) < 0.5)


def short_gram(A):
    return A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T


def group_products(A, v):
    own = [A[v.labels == j] for j in range(K)]
    return np.array([B.T @ (B @ w) for B, w in zip(own, v.W, strict=True)])


def grouped(M, v):
    """Return a matrix with its labels and weights as its own vectors."""
    return M.scatter(v.labels), M.scatter(v.weights)


# Name -> how the data matrix is asked, and what it is of an array of float64.
QUESTIONS = {
    "matmul": (lambda M, v: M.gather(M.matmul(v.Y)), lambda A, v: A @ v.Y),
    "rmatmul": (lambda M, v: M.rmatmul(M.scatter(v.Z)), lambda A, v: A.T @ v.Z),
    "times": (lambda M, v: M.times(v.Y), lambda A, v: A @ v.Y),
    "times_transposed": (lambda M, v: M.times_transposed(v.Z), lambda A, v: A.T @ v.Z),
    "as_operator": (lambda M, v: M.as_operator() @ v.Y[:, 0], lambda A, v: A @ v.Y[:, 0]),
    "as_operator().T": (lambda M, v: M.as_operator().T @ v.Z, lambda A, v: A.T @ v.Z),
    "normal_product": (lambda M, v: M.normal_product(v.Y), lambda A, v: A.T @ (A @ v.Y)),
    "gram": (lambda M, v: M.gram(), lambda A, v: A.T @ A),
    "short_gram": (lambda M, v: M.short_gram(), lambda A, v: short_gram(A)),
    "short_product": (
        lambda M, v: M.short_product(v.short),
        lambda A, v: short_gram(A) @ v.short,
    ),
    "squared_norm": (lambda M, v: M.squared_norm(), lambda A, v: (A**2).sum()),
    "row_squares": (lambda M, v: M.gather(M.row_squares()), lambda A, v: (A**2).sum(axis=1)),
    "row_sums": (lambda M, v: M.gather(M.row_sums()), lambda A, v: A.sum(axis=1)),
    "part_squares": (
        lambda M, v: M.part_squares(v.Y - 0.5),
        lambda A, v: [
            (np.maximum(s * (A @ (v.Y - 0.5)), 0.0) ** 2).sum(axis=0) for s in (1.0, -1.0)
        ],
    ),
    "group_sums": (lambda M, v: M.group_sums(*grouped(M, v), K), lambda A, v: v.X.T @ A),
    "group_dots": (
        lambda M, v: M.gather(M.group_dots(M.scatter(v.labels), v.W)),
        lambda A, v: np.where(v.labels >= 0, (A * v.W[v.labels]).sum(axis=1), 0.0),
    ),
    "group_products": (
        lambda M, v: M.group_products(M.scatter(v.labels), v.W),
        group_products,
    ),
    "missed_squares": (
        lambda M, v: M.missed_squares(*grouped(M, v), v.W),
        lambda A, v: ((A - v.X @ v.W) ** 2).sum(),
    ),
    "to_dense": (lambda M, v: M.to_dense(), lambda A, v: A),
}
NEED_ENTRIES = {
    "least_and_largest": (
        lambda M, v: M.least_and_largest(),
        lambda A, v: (0, min(A.min(), 0.0), max(A.max(), 0.0)),
    ),
    "sample_rows": (lambda M, v: M.sample_rows(v.rows).to_dense(), lambda A, v: A[v.rows]),
    "in_memory": (lambda M, v: M.in_memory().to_dense(), lambda A, v: A),
    "entries": (
        lambda M, v: E.toarray() if issparse(E := M.entries()) else E,
        lambda A, v: A,
    ),
    "scale_rows": (
        lambda M, v: M.scale_rows(v.Z[:, 0].astype(M.dtype)).to_dense(),
        lambda A, v: A * v.Z[:, :1],
    ),
}


def check(question, form, A, rng):
    asked, expected = (QUESTIONS | NEED_ENTRIES)[question]
    v, M = Vectors(A, rng), FORMS[form](A)
    assert M.shape == A.shape
    assert len(M) == len(A)
    assert M.dtype == A.dtype
    exact = np.asarray(expected(A.astype(float), v))
    found = np.asarray(asked(M, v))
    assert found.shape == exact.shape
    size = max(1.0, float(np.abs(A).max()) ** 2) * max(A.shape)
    np.testing.assert_allclose(found, exact, rtol=0, atol=ROUNDING[A.dtype.str[1:]] * size)


@both_dtypes
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_method_is_that_of_numpy(question, form, dtype, rng):
    for shape in SHAPES:
        check(question, form, make(shape, dtype, rng), rng)


@both_dtypes
@pytest.mark.parametrize("form", WITH_ENTRIES)
@pytest.mark.parametrize("question", NEED_ENTRIES)
def test_method_that_reads_entries_is_that_of_numpy(question, form, dtype, rng):
    for shape in SHAPES:
        check(question, form, make(shape, dtype, rng), rng)


@pytest.mark.parametrize("form", WITH_ENTRIES)
def test_matrix_of_zeros_has_answers(form, rng):
    for question in QUESTIONS | NEED_ENTRIES:
        check(question, form, np.zeros((7, 3)), rng)


def cuts(n):
    """Heights of blocks that make n rows, empty ones among them."""
    ends = st.lists(st.integers(0, n), max_size=4)
    return ends.map(lambda ends: tuple(np.diff([0, *sorted(ends), n]).tolist()))


@settings(max_examples=40)
@given(data=st.data(), n=st.integers(1, 12), r=st.integers(1, 5), seed=st.integers(0, 2**16))
def test_sums_do_not_depend_on_where_the_rows_are_cut(data, n, r, seed):
    rng = np.random.default_rng(seed)
    A = make((n, r), "f8", rng)
    v = Vectors(A, rng)
    for M in (
        DaskMatrix(as_dask(A, data.draw(cuts(n))), "A"),
        in_blocks(A, data.draw(st.integers(1, n))),
    ):
        for name in ("gram", "group_sums", "group_dots", "row_squares", "sample_rows"):
            asked, expected = (QUESTIONS | NEED_ENTRIES)[name]
            np.testing.assert_allclose(asked(M, v), expected(A, v), atol=1e-12)


# --- vectors with an entry per row ----------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_gather_undoes_scatter(form, rng):
    M = FORMS[form](make((23, 6), "f8", rng))
    for vector in (rng.random(23), rng.integers(5, size=23), rng.random((23, 2))):
        back = M.gather(M.scatter(vector))
        assert back.dtype == vector.dtype
        np.testing.assert_array_equal(back, vector)
        again = M.scatter(M.scatter(vector))  # what is scattered stays so
        np.testing.assert_array_equal(M.gather(again), vector)
    np.testing.assert_array_equal(M.gather(M.row_indices()), np.arange(23))


@pytest.mark.parametrize("form", FORMS)
def test_vectors_for_the_user_keep_their_numbers(form, rng):
    M = FORMS[form](make((23, 6), "f8", rng))
    vector, rows = rng.integers(5, size=23), rng.random((23, 2))
    for made, wanted in (
        (M.collect(M.scatter(vector), np.int64), vector),
        (M.collect(M.scatter(rows), np.float64, width=2), rows),
    ):
        assert isinstance(made, da.Array if "dask" in form else np.ndarray)
        assert made.shape == wanted.shape
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(made), wanted)


def _both(block, vector, factor):
    squares = block.row_squares()
    return factor * squares, squares + vector


def _count(block, vector):
    return len(block), float(vector.sum())


def _largest(vector):
    return float(vector.max())


@pytest.mark.parametrize("form", FORMS)
def test_several_vectors_are_made_together_and_used_again(form, rng):
    A, vector = make((23, 6), "f8", rng), rng.random(23)
    M = FORMS[form](A)
    twice, sums = M.map_rows(_both, M.scatter(vector), args=(2.0,), n_vectors=2)
    squares = (A**2).sum(axis=1)
    np.testing.assert_allclose(M.gather(twice), 2 * squares, atol=1e-12)
    np.testing.assert_allclose(M.gather(sums), squares + vector, atol=1e-12)
    assert M.reduce_rows(_count, twice) == (23, pytest.approx(2 * squares.sum()))
    largest = M.reduce_rows(_largest, sums, combine=max, vectors_only=True)
    assert largest == pytest.approx((squares + vector).max())


@pytest.mark.parametrize("form", FORMS)
def test_point_is_that_of_labels_and_weights(form, rng):
    A = make((23, 6), "f4", rng)
    v, M = Vectors(A, rng), FORMS[form](A)
    weights = v.weights.astype("f4")
    point = M.point(M.scatter(v.labels), M.scatter(weights), K)
    exact = SupportPoint(v.labels, weights, K)
    assert point.shape == exact.shape == (23, K)
    assert point.dtype == np.float32
    order = np.array([2, 0, 1])
    for one, other in (
        (point, exact),
        (point.normalized(), exact.normalized()),
        (point.renumbered(order), exact.renumbered(order)),
    ):
        np.testing.assert_array_equal(np.asarray(one.labels), other.labels)
        np.testing.assert_allclose(np.asarray(one.weights), other.weights, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(one.dense()), other.dense(), rtol=1e-6)
        np.testing.assert_allclose(one.column_squares(), other.column_squares(), rtol=1e-6)
        np.testing.assert_array_equal(one.counts(), other.counts())
        assert int(one.assigned()) == other.assigned()
    X = v.X.astype("f4")
    np.testing.assert_array_equal(np.asarray(point.dense()), X)
    np.testing.assert_array_equal(np.asarray(point.renumbered(order).dense()), X[:, order])
    np.testing.assert_allclose(point.normalized().column_squares(), 1.0, rtol=1e-6)


# --- what only some storages have -----------------------------------------------------------------


@both_dtypes
@pytest.mark.parametrize("form", BLOCKED)
def test_gram_root_has_the_gram_matrix_of_the_columns(form, dtype, rng):
    for A in (*(make(shape, dtype, rng) for shape in SHAPES), np.zeros((7, 3), dtype)):
        exact = A.astype(float)
        root = FORMS[form](A).gram_root()
        assert root.shape == (A.shape[1], max(1, np.linalg.matrix_rank(exact)))
        size = max(1.0, np.abs(exact).max() ** 2 * len(A))
        np.testing.assert_allclose(
            root.values @ root.values.T, exact.T @ exact, atol=ROUNDING[dtype] * size
        )


def test_gram_root_of_many_columns_says_what_to_do():
    with pytest.raises(
        InputError, match=r"5000 columns .* at most 4096 columns\. Load the data into memory"
    ):
        in_blocks(np.ones((2, 5000))).gram_root()


@pytest.mark.parametrize("form", BLOCKED)
def test_derived_matrix_may_have_another_width(form, rng):
    A, T = make((23, 6), "f8", rng), rng.random((6, 2))
    M = FORMS[form](A).derive(_multiplied, args=(T,), width=2)
    assert M.shape == (23, 2)
    np.testing.assert_allclose(M.gram(), (A @ T).T @ (A @ T), atol=1e-11)
    again = M.scale_rows(np.arange(23.0))
    np.testing.assert_allclose(again.to_dense(), np.arange(23.0)[:, None] * (A @ T), atol=1e-11)


def _multiplied(block, T):
    return block.multiplied(T)


@pytest.mark.parametrize("form", IN_MEMORY)
def test_transpose_and_rows_of_matrices_in_memory(form, rng):
    A = np.abs(make((23, 6), "f8", rng))
    M = FORMS[form](A)
    assert isinstance(M, MemoryMatrix)
    np.testing.assert_array_equal(M.T.to_dense(), A.T)
    np.testing.assert_allclose(M.take_rows(np.array([5, 2])), A[[5, 2]], atol=1e-15)
    np.testing.assert_array_equal(M.zero_rows(np.arange(23)), ~A.any(axis=1))
    assert M.n_stored == (np.count_nonzero(A) if form == "sparse" else A.size)


@pytest.mark.parametrize("form", FORMS)
def test_costs_are_told(form, rng):
    M = FORMS[form](make((9, 4), "f8", rng))
    assert M.has_cheap_products == (form in IN_MEMORY)
    assert M.has_entries == (form in WITH_ENTRIES)
    assert not M.has_gaps


def test_operator_without_entries_says_so(rng):
    M = FORMS["operator"](rng.random((4, 3)))
    with pytest.raises(InputTypeError, match="LinearOperator only has products"):
        M.entries()
    assert M.sample_rows(np.array([1])) is M


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_extreme_numbers_are_not_empty_in_any_storage(form):
    A = FORMS[form](np.array([[1e300, 0.0], [0.0, 0.0], [1e-300, 0.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(A.empty_rows(), [False, True, False, False])


@pytest.mark.parametrize("form", WITH_ENTRIES)
def test_entries_that_are_not_finite_are_counted(form):
    A = np.array([[1.0, np.nan, -np.inf], [0.0, 2.0, 3.0], [np.inf, 0.0, -4.0]])
    with np.errstate(invalid="ignore"):
        n_bad, least, most = FORMS[form](A).least_and_largest()
    assert n_bad == 3
    assert np.isfinite(least)
    assert np.isfinite(most)


def test_products_round_the_other_factor_to_the_type_of_the_data(rng):
    A = rng.random((5, 4)).astype("f4")
    for form in FORMS:
        M = FORMS[form](A)
        assert M.times(rng.random((4, 2))).dtype == np.float32
        assert M.times_transposed(rng.random((5, 2))).dtype == np.float32
        assert M.gram().dtype == np.float64
        assert M.normal_product(rng.random((4, 2))).dtype == np.float64


def test_inner_product_of_float32_is_summed_in_float64():
    X = np.full((2000, 1000), 0.1, dtype="f4")
    exact = float(np.float32(0.1)) ** 2 * X.size
    assert inner_product(X, X) == pytest.approx(exact, rel=1e-7)


def test_dense_residual_at_rounding_level_is_seen(rng):
    x, w = rng.random(50) + 0.1, rng.random(7)
    missed = Dense(np.outer(x, w)).missed_squares(np.zeros(50, dtype=int), x, w[None])
    assert missed < 1e-28


def test_data_matrix_is_data_itself(rng):
    for form in WITH_ENTRIES:
        M = FORMS[form](rng.random((5, 4)))
        assert as_data(M) is M


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("make", [csr_array, csr_matrix])
def test_ranges_of_sparse_rows_are_views_with_the_same_products(rng, make, index):
    A = make(np.where(rng.random((50, 7)) < 0.4, rng.random((50, 7)), 0.0))
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    part = Sparse(A).rows(slice(10, 17))
    assert np.shares_memory(part.values.data, A.data)
    assert np.shares_memory(part.values.indices, A.indices)
    assert part.values.indices.dtype == index
    dense, X, Y = A.toarray()[10:17], rng.random((7, 2)), rng.random((7, 3))
    np.testing.assert_array_equal(part.to_dense(), dense)
    np.testing.assert_allclose(part.matmul(Y), dense @ Y, rtol=1e-14)
    np.testing.assert_allclose(part.rmatmul(X), dense.T @ X, rtol=1e-14)
    np.testing.assert_allclose(part.gram(), dense.T @ dense, rtol=1e-14)
    np.testing.assert_array_equal(part.take_rows(np.array([2, 0])), dense[[2, 0]])


def test_products_with_a_slice_of_sparse_rows_copy_no_entries(rng):
    A = random_array((20_000, 100), density=0.1, format="csr", rng=rng)
    part = Sparse(A).rows(slice(0, 9_000))  # SciPy copies views of less than half of an array
    X = rng.random((9_000, 1))
    tracemalloc.start()
    try:
        part.rmatmul(X)
        part.matmul(X[:100])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * part.values.data.nbytes


def test_stored_zeros_make_a_zero_row():
    A = csr_array((np.array([0.0, 0.0, 3.0]), [0, 1, 1], [0, 2, 2, 3]), shape=(3, 2))
    np.testing.assert_array_equal(Sparse(A).zero_rows(np.arange(3)), [True, True, False])
