"""Reading and checking of the data passed to estimators, in any storage."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse, isspmatrix
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from orthoplus.core.checks import check_choice, check_count, describe
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import as_numbers, check_names, check_not_foreign
from orthoplus.core.sparse_checks import as_compressed
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, as_data, as_nonnegative_data
from orthoplus.data.observed import as_observed
from orthoplus.data.read import reads_in_blocks

LOSSES = ("frobenius", "kullback-leibler")
# Advice added to error messages of scikit-learn, for estimators with the option and for others.
_ADVICE = {
    "Negative values in data": (
        "allow_negative",
        "Shift or clip the data, or set `allow_negative=True` if only the orthonormal factor must "
        "be nonnegative.",
        "Shift or clip the data.",
    ),
    "contains NaN": (
        "missing",
        'If NaN stands for entries that were not observed, set `missing="mask"`.',
        "Remove or impute these entries.",
    ),
}


def read_samples(estimator: Any, X: Any, *, reset: bool) -> DataMatrix:
    """Return the checked X for an estimator with ``memory_limit, missing, allow_negative``.

    With ``missing="mask"``, missing entries are represented such that they are ignored. Training
    data, with ``reset``, that are read in blocks are checked when they are factorized.
    """
    check_choice(estimator.missing, "missing", ("error", "mask"))
    is_masked = estimator.missing == "mask"
    if reads_in_blocks(X, estimator.memory_limit):
        A = as_data(X, "X", memory_limit=estimator.memory_limit, check=False)
        _check_width(estimator, A, reset=reset)
        A = as_observed(A) if is_masked else A
        return A if reset else _check_entries(estimator, A)
    values = read_array(
        estimator,
        X,
        accept_sparse=("csr", "csc"),
        ensure_all_finite="allow-nan" if is_masked else True,
        ensure_non_negative=not estimator.allow_negative,
        reset=reset,
    )
    A = as_data(values, "X", check=False)
    A = as_observed(A) if is_masked else A
    if A.has_gaps and not estimator.allow_negative and A.least_and_largest()[1] < 0:
        name = type(estimator).__name__  # NaN disables the check of signs above
        raise _explained(InputError(f"Negative values in data passed to {name}"), estimator)
    return A if reset else _check_entries(estimator, A)


def _check_entries(estimator: Any, A: DataMatrix) -> DataMatrix:
    """Return data for a fitted model, checked as they would be for a fit."""
    return as_data(A, "X") if estimator.allow_negative else as_nonnegative_data(A, "X")


def read_array(estimator: Any, X: Any, **checks: Any) -> Any:
    """Return X checked by scikit-learn, in float32 if it has that dtype, else in float64.

    For an object of a known library that is not a matrix, the error says what to pass instead. The
    indices of a sparse X are checked first, because compiled loops rely on them.
    """
    check_not_foreign(X, "X")
    X = as_compressed(X, "X") if issparse(X) else as_numbers(X)
    check_names(X, "X")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # the check for infinities sums them
            return validate_data(estimator, X, dtype=[np.float64, np.float32], **checks)
    except ValueError as error:
        raise _explained(error, estimator) from error


def align_sparse(values: Any) -> Any:
    """Convert to a sparse matrix or array according to scikit-learn's ``sparse_interface``.

    Dense values are unchanged, as are all values before scikit-learn 1.9.
    """
    interface = get_config().get("sparse_interface")
    if interface is None or not issparse(values):
        return values
    if isspmatrix(values) == (interface == "spmatrix"):
        return values
    return csr_matrix(values) if interface == "spmatrix" else csr_array(values)


def as_random_state(random_state: Any) -> np.random.RandomState:
    """Return the RandomState as in scikit-learn, except that None means seed 0."""
    try:
        return check_random_state(0 if random_state is None else random_state)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"`random_state` must be None, a nonnegative integer seed or a "
            f"numpy.random.RandomState; it is {describe(random_state)}."
        ) from error


def draw_seed(random_state: Any) -> int:
    """Draw the seed of a fit."""
    return int(as_random_state(random_state).randint(np.iinfo(np.int32).max))


def _explained(error: ValueError, estimator: Any) -> ValueError:
    """Return the error, with advice if there is any."""
    for sign, (option, own, other) in _ADVICE.items():
        if sign in str(error):
            advice = own if hasattr(estimator, option) else other
            return InputError(f"{str(error).splitlines()[0].rstrip('.')}. {advice}")
    return error


def _check_width(estimator: Any, A: DataMatrix, *, reset: bool) -> None:
    if reset:
        estimator.n_features_in_ = A.shape[1]
    elif A.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {A.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def check_values(values: Any, **checks: Any) -> Any:
    """Return values checked by scikit-learn, in float32 if they have that dtype, else in float64.

    Examples
    --------
    >>> check_values([[1, 2]])
    array([[1., 2.]])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the check for infinities sums them
        return check_array(values, dtype=[np.float64, np.float32], **checks)


def read_coordinates(W: Any, k: int, *, accept_sparse: Any = "csr") -> Any:
    """Return coordinates of samples as ``transform`` gives them, one column per component."""
    check_not_foreign(W, "X")
    if issparse(W):
        W = as_compressed(W, "X")
    W = check_values(W, accept_sparse=accept_sparse)
    if W.shape[1] != k:
        raise InputError(
            f"`X` has {W.shape[1]} columns; expected one for each of the {k} components, as "
            f"returned by `transform`."
        )
    return W


def check_row_count(X: Any, n: int) -> None:
    """Raise unless X has as many rows as the data of the fit."""
    if len(np.shape(X)) == 0 or np.shape(X)[0] != n:
        raise InputError(
            f"`X` has shape {np.shape(X)}, but the estimator was fitted to {n} samples. Pass the "
            f"data of the fit."
        )


def check_loss(loss: str, *, missing: str, allow_negative: bool) -> None:
    """Raise if the loss is unknown or does not support data of this kind."""
    check_choice(loss, "loss", LOSSES)
    if loss == "frobenius":
        return
    if missing == "mask":
        raise InputError(
            f'`missing="mask"` needs `loss="frobenius"`. For {loss!r}, impute the missing '
            f"entries or remove their samples."
        )
    if allow_negative:
        raise InputError(
            f'`allow_negative=True` needs `loss="frobenius"`: {loss!r} is a divergence of counts.'
        )


def read_weights(A: DataMatrix, sample_weight: Any) -> FloatArray | None:
    """Return the checked weights of the rows; None means that all are 1."""
    if sample_weight is None:
        return None
    check_not_foreign(sample_weight, "sample_weight", "one weight per row")
    weights = sample_weight if issparse(sample_weight) else np.asarray(sample_weight)
    if issparse(weights) or weights.ndim != 1:
        raise InputError(
            f"`sample_weight` has shape {weights.shape}. Pass one weight per row, in a "
            f"one-dimensional array."
        )
    weights = as_numbers(weights)  # missing values are refused below
    # scikit-learn only looks at the number of rows, so a view of one zero is enough.
    rows = np.broadcast_to(np.zeros(1), (len(A), 1))
    return _check_sample_weight(weights, rows, dtype=A.dtype, ensure_non_negative=True)


def weigh_rows(A: DataMatrix, weights: FloatArray | None, loss: str = "frobenius") -> DataMatrix:
    """Scale the rows so that their share of the loss is multiplied by the weight.

    The factor is the square root of the weight for squared residuals, and the weight for the
    divergence.
    """
    if weights is None:
        return A
    return A.scale_rows(np.sqrt(weights) if loss == "frobenius" else weights)


def check_components(n_components: int, orthogonal: str, shape: tuple[int, int]) -> None:
    """Raise if data of this shape cannot have this many components."""
    check_choice(orthogonal, "orthogonal", ("samples", "features"))
    check_count(n_components, "n_components", low=1)
    most = shape[0] if orthogonal == "samples" else shape[1]
    if n_components > most:
        raise InputError(
            f"`n_components={n_components}` is too many for n_{orthogonal} = {most}: "
            f"no {most}-by-{n_components} matrix has orthonormal columns that are "
            f"nonnegative. Use at most {most}."
        )
