"""Data with missing entries: every sum over what was observed, against NumPy with NaN."""

import dask.array as da
import numpy as np
import pytest

from every_storage import FORMS, WITH_ENTRIES
from orthoplus.data import as_data
from orthoplus.data.base import ask
from orthoplus.data.observed import as_observed, count_gaps, observe

K = 3
both_dtypes = pytest.mark.parametrize("dtype", ["f8", "f4"])
ROUNDING = {"f8": 1e-12, "f4": 1e-4}
# Those that keep NaN as they are made.
GAPPED = [form for form in WITH_ENTRIES if "derived" not in form]


def make(rng, shape=(23, 6), dtype="f8"):
    """Return numbers of both signs, a third of them missing, a row and a column altogether."""
    A = np.round(16 * rng.standard_normal(shape)) / 16 * (rng.random(shape) < 0.6)
    A[rng.random(shape) < 0.3] = np.nan
    if shape[0] > 4:
        A[2], A[4] = np.nan, 0.0
    if shape[1] > 2:
        A[:, 1] = np.nan
    return A.astype(dtype)


class Vectors:
    def __init__(self, A, rng):
        n, r = A.shape
        self.labels = rng.integers(-1, K, size=n)
        self.weights = np.where(self.labels >= 0, rng.random(n), 0.0)
        self.H, self.Y = rng.standard_normal((K, r)), rng.random((r, 2))


def sums_of_groups(A, v, power):
    """Return sum of w_i^power a_il^(2 - power) over the rows of a group that show l."""
    seen = ~np.isnan(A)
    parts = np.zeros((K, A.shape[1]))
    for i, j in enumerate(v.labels):
        if j >= 0:
            number = v.weights[i] * np.nan_to_num(A[i]) if power == 1 else v.weights[i] ** 2
            parts[j] += np.where(seen[i], number, 0.0)
    return parts


def _sizes(M, v):
    return M.gather(M.map_rows(ask("observed_sizes"), args=(v.H,)))


def _squares(M, v):
    labels, weights = M.scatter(v.labels), M.scatter(v.weights)
    return M.reduce_rows(ask("observed_squares"), labels, weights, args=(K,))


QUESTIONS = {
    "observed_sizes": (_sizes, lambda A, v: ~np.isnan(A) @ (v.H**2).T),
    "observed_squares": (_squares, lambda A, v: sums_of_groups(A, v, 2)),
    "group_sums": (
        lambda M, v: M.group_sums(M.scatter(v.labels), M.scatter(v.weights), K),
        lambda A, v: sums_of_groups(A, v, 1),
    ),
    "n_seen": (lambda M, v: M.reduce_rows(ask("n_seen")), lambda A, v: (~np.isnan(A)).sum(axis=0)),
    "column_sums": (lambda M, v: M.reduce_rows(ask("column_sums")), lambda A, v: np.nansum(A, 0)),
    "row_squares": (lambda M, v: M.gather(M.row_squares()), lambda A, v: np.nansum(A**2, axis=1)),
    "squared_norm": (lambda M, v: M.squared_norm(), lambda A, v: np.nansum(A**2)),
    "times": (lambda M, v: M.times(v.Y), lambda A, v: np.nan_to_num(A) @ v.Y),
    "to_dense": (lambda M, v: M.to_dense(), lambda A, v: np.nan_to_num(A)),
}


@both_dtypes
@pytest.mark.parametrize("form", GAPPED)
@pytest.mark.parametrize("question", QUESTIONS)
def test_only_what_was_observed_counts(question, form, dtype, rng):
    asked, expected = QUESTIONS[question]
    for shape in ((23, 6), (1, 4), (8, 1), (5, 12)):
        A = make(rng, shape, dtype)
        A.flat[0] = np.nan  # at least one gap
        M, v = as_observed(FORMS[form](A)), Vectors(A, rng)
        assert M.has_gaps
        assert M.dtype == A.dtype
        exact = expected(A.astype(float), v)
        np.testing.assert_allclose(asked(M, v), exact, rtol=0, atol=50 * ROUNDING[dtype])


@pytest.mark.parametrize("form", GAPPED)
def test_gaps_are_filled_with_the_model(form, rng):
    A = make(rng)
    M, v = as_observed(FORMS[form](A)), Vectors(A, rng)
    labels = np.maximum(v.labels, 0)
    filled = M.derive(
        ask("filled"), M.scatter(labels), M.scatter(v.weights), args=(v.H,)
    ).to_dense()
    model = v.weights[:, None] * v.H[labels]
    np.testing.assert_allclose(filled, np.where(np.isnan(A), model, A), atol=1e-12)


@pytest.mark.parametrize("form", GAPPED)
def test_rows_are_weighed_and_taken_with_their_gaps(form, rng):
    A, factors = make(rng), rng.random(23)
    factors[[0, 7]] = 0.0
    M = as_observed(FORMS[form](A)).scale_rows(factors)
    assert M.has_gaps
    v = Vectors(A, rng)
    scaled = A * factors[:, None]
    for question in ("observed_sizes", "group_sums", "row_squares", "n_seen"):
        asked, expected = QUESTIONS[question]
        np.testing.assert_allclose(asked(M, v), expected(scaled, v), atol=1e-11)
    rows = np.array([0, 2, 3, 20])
    some = M.sample_rows(rows)
    np.testing.assert_allclose(some.n_seen(), (~np.isnan(A[rows])).sum(axis=0))
    np.testing.assert_allclose(some.to_dense(), np.nan_to_num(scaled[rows]), atol=1e-12)
    own = M.scatter(np.maximum(v.labels, 0)), M.scatter(v.weights)
    filled = M.derive(ask("filled"), *own, args=(v.H,)).to_dense()
    model = v.weights[:, None] * v.H[np.maximum(v.labels, 0)]
    np.testing.assert_allclose(filled, np.where(np.isnan(A), model, scaled), atol=1e-12)
    other = rng.random(6)
    for row in rows:
        found = M.sample_rows(np.array([row])).replaced(other)
        expected = np.where(np.isnan(A[row]), other, scaled[row])
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "fortran", "sparse"])
def test_transpose_shows_the_same_entries(form, rng):
    A = make(rng)
    M = as_observed(FORMS[form](A)).T
    assert M.has_gaps
    assert M.shape == (6, 23)
    v = Vectors(A.T, rng)
    for asked, expected in QUESTIONS.values():
        np.testing.assert_allclose(asked(M, v), expected(A.T, v), atol=1e-11)


@pytest.mark.parametrize("form", WITH_ENTRIES)
def test_data_without_gaps_stays_as_it_is(form, rng):
    M = FORMS[form](rng.random((9, 3)))
    assert as_observed(M) is M
    assert not M.has_gaps


@pytest.mark.parametrize("form", GAPPED)
def test_gaps_are_counted_and_the_data_is_left(form, rng):
    A = make(rng)
    before = A.copy()
    M = FORMS[form](A)
    assert M.reduce_rows(count_gaps) == np.isnan(A).sum()
    as_observed(M).to_dense()
    np.testing.assert_array_equal(A, before)


def test_sparse_zeros_that_are_not_stored_are_observed(rng):
    A = np.array([[0.0, np.nan, 2.0], [0.0, 0.0, np.nan]])
    block = observe(FORMS["sparse"](A))
    assert block.values.nnz == 3  # the pattern is that of the data
    np.testing.assert_array_equal(block.n_seen(), [2, 1, 1])
    H = np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(block.observed_sizes(H), [[17.0], [5.0]])


@both_dtypes
@pytest.mark.parametrize("form", GAPPED)
def test_sums_over_nothing_are_zero_to_the_last_digit(form, dtype, rng):
    # What would be left of a difference of sums would be divided by.
    A = np.ones((3000, 3), dtype=dtype)
    A[:, 0] = np.nan
    M, weights = as_observed(FORMS[form](A)), rng.random(3000).astype(dtype)
    labels, H = rng.integers(K, size=3000), np.array([[0.3, 0.0, 0.0]], dtype=dtype)
    own = M.scatter(labels), M.scatter(weights)
    sums = M.reduce_rows(ask("observed_squares"), *own, args=(K,))
    assert not sums[:, 0].any()
    assert sums[:, 1:].all()
    assert not M.gather(M.map_rows(ask("observed_sizes"), args=(H,))).any()


def test_dask_blocks_without_gaps_are_observed_too(rng):
    A = rng.random((20, 3))
    A[17, 1] = np.nan  # in one chunk only
    M = as_observed(as_data(da.from_array(A, chunks=(5, 3)), check=False))
    np.testing.assert_array_equal(M.reduce_rows(ask("n_seen")), [20, 19, 20])
