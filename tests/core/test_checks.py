"""Every message of the border: what came, why it cannot work, what to do."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.core.checks import (
    as_generator,
    as_matrix,
    check_choice,
    check_finite,
    check_growth,
    check_positive,
    check_range,
    check_shape,
)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (csr_array(np.eye(2)), TypeError, r"`A` is a SciPy sparse matrix.*Pass `A\.toarray\(\)`"),
        (np.eye(2) * 1j, TypeError, r"`A` is complex \(complex128\): nonnegativity needs real"),
        ([["1", "2"]], TypeError, r"`A` has dtype <U1: a numeric array is needed"),
        ([["a", "b"]], TypeError, r"`A` is an array with an entry that is not a number \('a' at"),
        (np.array([[None]]), TypeError, r"`A` has dtype object.*dtype=float"),
        ([[1, 2], [3]], TypeError, r"`A` is a list of rows of unequal lengths"),
        (np.ones(3), ValueError, r"`A` has 1 dimension.*`A\.reshape\(-1, 1\)`"),
        (np.ones((2, 2, 2)), ValueError, r"`A` has 3 dimension"),
        (1.0, ValueError, r"`A` has 0 dimension"),
        ([[1.0, np.nan]], ValueError, r"`A` has 1 entries.*first at \(0, 1\)\. Remove or impute"),
        ([[1.0], [np.inf]], ValueError, r"first at \(1, 0\)"),
        ([[np.inf, -np.inf]], ValueError, r"`A` has 2 entries that are NaN or infinite"),
    ],
)
def test_as_matrix_explains(value, error, message):
    with pytest.raises(error, match=message):
        as_matrix(value, "A")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float64),
        (np.int8, np.float64),
        (np.uint64, np.float64),
        (bool, np.float64),
    ],
)
def test_as_matrix_dtype(dtype, expected):
    A = as_matrix(np.eye(3, 2, dtype=dtype), "A")
    assert A.dtype == expected
    np.testing.assert_array_equal(A, np.eye(3, 2))


def test_as_matrix_copies_only_if_needed():
    A = np.arange(6.0).reshape(3, 2)
    assert as_matrix(A, "A") is A
    fortran = as_matrix(np.asfortranarray(A), "A")
    assert fortran.flags.c_contiguous
    np.testing.assert_array_equal(fortran, A)


def test_check_finite_passes_when_only_the_sum_overflows():
    check_finite(np.full((2, 2), 1e308), "A")
    check_finite(np.full((2, 2), 3e38, dtype=np.float32), "A")
    check_finite(np.zeros((0, 2)), "A")


@pytest.mark.parametrize(("n", "k"), [(0, 1), (3, 0), (0, 0)])
def test_check_shape_explains_when_empty(n, k):
    with pytest.raises(ValueError, match=rf"`X` has shape \({n}, {k}\): it is empty"):
        check_shape(n, k, "X")


def test_check_shape_explains_when_wide():
    message = r"shape \(2, 3\), more columns than rows: no 2-by-3 matrix.*at most k = 2"
    with pytest.raises(ValueError, match=message):
        check_shape(2, 3, "X")
    check_shape(1, 1, "X")
    check_shape(3, 3, "X")


@pytest.mark.parametrize("value", ["1", None, np.nan, [1.0]])
def test_check_range_explains_when_not_a_number(value):
    with pytest.raises(TypeError, match=r"`tol=.*` is not a number"):
        check_range(value, "tol", low=0.0)


def test_check_range_explains_when_outside():
    with pytest.raises(ValueError, match=r"`tol=-1` is out of range: it must be at least 0\.$"):
        check_range(-1, "tol", low=0.0)
    with pytest.raises(ValueError, match=r"at least 0 and at most 1\.$"):
        check_range(1.5, "memory", low=0.0, high=1.0)
    for inside in (0.0, 1, np.float32(0.5), np.int64(1)):
        check_range(inside, "memory", low=0.0, high=1.0)


@pytest.mark.parametrize("value", [0, -2.0, -np.inf])
def test_numbers_that_are_not_positive_get_one_sentence(value):
    with pytest.raises(ValueError, match=r"`q=.*` is out of range: it must be positive and finite"):
        check_positive(value, "q")
    with pytest.raises(ValueError, match=r"it must be positive\.$"):
        check_positive(value, "q", finite=False)
    check_positive(1e-300, "q")
    check_positive(np.inf, "q", finite=False)


@pytest.mark.parametrize("value", [-2.0, 0, 1, np.inf])
def test_growth_is_above_one(value):
    with pytest.raises(ValueError, match=r"`q=.*` is out of range: it must be above 1 and finite"):
        check_growth(value, "q")
    check_growth(1.0001, "q")


def test_check_choice_lists_the_words():
    with pytest.raises(ValueError, match=r"`rule='x'` is unknown\. Choose one of long, short\."):
        check_choice("x", "rule", ("long", "short"))
    check_choice("long", "rule", ("long", "short"))


@pytest.mark.parametrize("k", [2.0, 1.5, "2", None, True])
def test_number_of_columns_is_a_whole_number(k):
    with pytest.raises(TypeError, match=f"`k={k!r}` is not an integer"):
        op.problems.TraceMin(np.eye(3), k)


@pytest.mark.parametrize("k", [np.int8(2), np.uint64(2)])
def test_number_of_columns_becomes_an_integer_that_cannot_overflow(k):
    A = np.random.default_rng(0).random((6, 6))
    problems = op.problems
    kinds = (problems.ONMF, problems.KLONMF, problems.KMeans, problems.ProjectiveKL)
    made = [kind(A, k) for kind in kinds]
    made += [kind(A + A.T, k) for kind in (problems.TraceMin, problems.SymmetricONMF)]
    assert {type(problem.k) for problem in made} == {int}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", ["fit", "KMeans", "list"])
def test_numbers_near_the_end_of_the_range_are_refused_without_a_warning(call):
    A = 1e308 * np.random.default_rng(0).random((12, 5))
    calls = {
        "fit": lambda: op.OrthogonalNMF(2).fit(A),
        "KMeans": lambda: op.problems.KMeans(A, 2),
        "list": lambda: op.OrthogonalNMF(2).fit([[10**400, 1]] * 5),
    }
    with pytest.raises(op.InputError, match=r"as large as 9\.97e\+307|no float64 can hold"):
        calls[call]()


@pytest.mark.parametrize("rng", [-1, "seed", 0.5])
def test_bad_seed_is_explained(rng):
    with pytest.raises(TypeError, match=f"`rng` must be .* it is {rng!r}"):
        as_generator(rng)


def test_generator_goes_through_and_no_seed_is_zero():
    rng = np.random.default_rng(5)
    assert as_generator(rng) is rng
    assert as_generator(None).random() == np.random.default_rng(0).random()


def _wide(shape, top):
    """Return nonnegative entries of all magnitudes down to the smallest, the largest near top."""
    A = np.random.default_rng(1).uniform(-300, 0, shape)
    return 10.0 ** (A - A.max() + np.log10(top))


def _symmetric(shape, scale):
    A = np.random.default_rng(0).standard_normal(shape)
    return scale * (A + A.T)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda: op.solve(op.problems.nonnegative_pca(_wide((9, 3), 1e-300), 2)),
        lambda: op.solve(op.problems.nonnegative_pca(_symmetric((6, 6), 1e100), 2)),
        lambda: op.NonnegativePCA(2).fit(_wide((12, 3), 1e200)),
        lambda: op.NonnegativePCA(2).fit(csr_array(_symmetric((5, 5), 1e160))),
        lambda: op.problems.discriminative_spectral(np.eye(4), 1.0, 2, A=np.full((4, 1), 1e90)),
    ],
)  # fmt: skip
def test_features_whose_products_overflow_or_underflow_are_refused(call):
    with pytest.raises(
        op.InputError, match=r"products of such numbers are outside the floating-point range"
    ):
        call()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda: op.solve(op.problems.nonnegative_pca(_wide((9, 3), 1.0), 2)),
        lambda: op.solve(op.problems.KMeans(_symmetric((5, 5), 1e-100), 2)),
        lambda: op.solve(
            op.problems.laplacian_embedding(_wide((6, 1), 1.0) @ _wide((6, 1), 1.0).T, 2)
        ),
        lambda: op.OrthogonalNMF(2).fit(_wide((7, 5), 1e30)).result_,
        lambda: op.OrthogonalNMF(2).fit(np.diag([2e-13, 4e-43, 0.0]).astype("f4")).result_,
        lambda: op.OrthogonalNMF(2, allow_negative=True).fit(_wide((3, 2), 1e-8)).result_,
    ],
)  # fmt: skip
def test_data_of_all_magnitudes_are_answered_without_a_warning(call):
    assert call().violation <= 1e-5


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_ranks_of_data_of_all_magnitudes_are_chosen_without_a_warning():
    assert op.select_rank(_wide((8, 5), 1e-20), [2, 3], n_splits=2).k in (2, 3)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_gradient_whose_squares_overflow_is_compared_without_a_warning():
    A = _symmetric((8, 8), 1e80)
    assert abs(op.quadratic_assignment(A, A).fun) < np.inf
