r"""Verification of a certificate from the data of the problem, in plain NumPy.

It shares no code with the search. A proof is a symmetric S with nonnegative entries, and
nonnegative multipliers of cuts. Verification checks these signs, the values of the answer and of
the best partition, that the gap is that of value and bound, and that the bound follows from the
leading eigenvalues of M + S, using

* all eigenvalues of the n x n matrix for small n, a Cholesky factorization for larger n;
* the eigenvalues of a matrix of order r + k^2 with the same spectrum, if A has few columns;
* those of a matrix of order r + k^2 + m for m micro groups;
* otherwise Ritz values from Lanczos with a different start than that of the search.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus.certify.verify_bounds import MOST_LISTED, upper_between, upper_of_all, upper_of_parts
from orthoplus.certify.verify_compression import upper_compressed
from orthoplus.certify.verify_data import BrokenProofError, CheckedData, Upper, rounding_of
from orthoplus.core.bounds import relative_gap
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    from orthoplus.certify.certificate import Certificate

# Sums over the same data in another storage differ by less than this many roundings.
_ROUNDINGS = 64.0
# Relative differences of values that are computed twice, by iterations or in another storage.
_SAME_VALUE = 1e-6
# Largest margin for the rounding errors of a proof, relative to the terms of f. Those of the search
# are below 1e-9.
_MOST_ROUNDING = 1e-6


@dataclass(frozen=True)
class Verification:
    """Report whether a certificate holds; its truth value is the outcome.

    Attributes
    ----------
    failures : tuple of str
        The failed checks, one sentence each.
    value, bound : float
        The recomputed value and bound; the bound is NaN if it could not be computed.
    is_rigorous : bool
        False if the matrix is too large to compute all eigenvalues. Then the leading ones come from
        an iteration with a different start than that of the search, which might miss one.

    Examples
    --------
    >>> bool(Verification((), 1.0, 1.0)), bool(Verification(("S is negative.",), 1.0, 1.0))
    (True, False)
    """

    failures: tuple[str, ...]
    value: float
    bound: float
    is_rigorous: bool = True

    def __bool__(self) -> bool:
        return not self.failures


# --- identifying the data
# ---------------------------------------------------------------------------


def fingerprint_of(problem: Problem) -> FloatArray:
    """Return the shapes and the kind of f, its constant, an allowed difference, and sums of data.

    The sums are the size of the data and two products with fixed vectors, in float64. In another
    storage, they differ by less than the allowed difference, which is for rounding alone.
    """
    form: Any = problem.trace_form()
    (n, k), A, eps = problem.shape, form.factor, float(np.finfo(np.float64).eps)
    left = np.cos(1.7 * np.arange(n) + 0.3)
    if A is None:
        image = np.asarray(form.matrix @ left[:, None], dtype=np.float64)[:, 0]
        r, sums = n, [np.linalg.norm(image), left @ image, np.sin(left) @ image]
    else:
        r, eps = A.shape[1], eps if A.has_entries else float(np.finfo(A.dtype).eps)
        right = np.cos(2.3 * np.arange(r)[:, None] + np.array([0.1, 0.7]))
        rows = A.scatter(np.zeros(n, dtype=np.int64)), A.scatter(left)
        sums = [A.squared_norm() ** 0.5, *(A.group_sums(*rows, 1)[0] @ right)]
    allowed = _ROUNDINGS * eps * sums[0] * (n * r) ** 0.5
    kind = [n, k, r, form.has_row_sums, form.bound(0.0)]
    return np.array([*kind, allowed, *sums], dtype=np.float64)


def is_same_data(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two fingerprints belong to the same problem, up to storage and rounding."""
    if len(one) != len(other) or (one[:4] != other[:4]).any():
        return False
    is_same_f = np.isclose(one[4], other[4], rtol=_SAME_VALUE, atol=0.0, equal_nan=True)
    return bool(is_same_f and np.abs(one[6:] - other[6:]).max() <= max(one[5], other[5]))


# --- the checks -----------------------------------------------------------------------------------


def verify(
    problem: Problem, certificate: "Certificate", best: tuple[IntArray, FloatArray]
) -> Verification:
    """Check what a certificate claims; see the top of this module.

    ``best`` holds the labels and weights of a point whose value is to be ``best_value``. It is
    evaluated here, so that it does not matter how it was found.
    """
    data = CheckedData(problem, certificate.unit)
    value = data.value(certificate.answer, certificate.weights)
    slack = rounding_of(data.form.size, data.n + data.r)
    failures = [
        *_wrong_values(certificate, value, data.value(*best), 2.0 * slack),
        *_wrong_gap(certificate, 8.0 * slack),
    ]
    try:
        upper = _upper(data, certificate)
    except BrokenProofError as error:
        return Verification((*failures, str(error)), value, np.nan)
    except (IndexError, ValueError) as error:  # arrays of wrong shapes, or numbers beyond the range
        failures.append(f"The proof cannot be evaluated: {error}")
        return Verification(tuple(failures), value, np.nan)
    bound = data.bound(upper.total, slack)
    # The search adds its own margins, which have the same size.
    computed = upper.total - upper.excess
    most = data.bound(computed - 2.0 * upper.margin, -4.0 * slack)
    # A proof in a wrong unit, or of huge numbers that cancel, has margins that hide any bound. If f
    # has no terms, all answers are equal.
    allowed = _MOST_ROUNDING * data.form.size or np.inf
    if not most - data.bound(computed, slack) <= allowed:
        failures.append("The rounding errors of the proof are too large for its bound.")
    if not certificate.bound <= most:
        failures.append(f"The proof gives the bound {bound:.10g}, not {certificate.bound:.10g}.")
    return Verification(tuple(failures), value, bound, upper.is_rigorous)


def _wrong_values(
    certificate: "Certificate", value: float, least: float, slack: float
) -> Iterator[str]:
    """Yield what is wrong with the values of the answer and of the best partition."""
    if not abs(value - certificate.value) <= slack:
        yield f"The value of the answer is {value:.10g}, not {certificate.value:.10g}."
    # The weights of the best partition are computed again, up to the accuracy of an iteration.
    allowed = slack + _SAME_VALUE * abs(least)
    if not abs(least - certificate.best_value) <= allowed:
        claimed = certificate.best_value
        yield f"The value of the best partition is {least:.10g}, not {claimed:.10g}."
    if certificate.improved != (certificate.best_value < certificate.value):
        yield "`improved` does not say whether the best partition is better than the answer."
    is_used = certificate.answer >= 0
    if not certificate.improved and (certificate.labels != certificate.answer)[is_used].any():
        yield "`labels` is not the partition of the answer."


def _wrong_gap(certificate: "Certificate", rounding: float) -> Iterator[str]:
    """Yield a sentence if the gap is not that of the value and the bound."""
    value, bound, gap = certificate.value, certificate.bound, certificate.gap
    right = relative_gap(value, bound)
    if gap is None:
        is_right = abs(bound) <= rounding
    elif gap == 0.0:
        is_right = value - bound <= rounding
    else:
        is_right = right is not None and abs(gap - right) <= _SAME_VALUE * right
    if not is_right:
        yield f"The gap of value and bound is {right}, not {gap}."


def _upper(data: CheckedData, certificate: "Certificate") -> Upper:
    """Return the upper bound on <M, XX'> that follows from the proof."""
    if certificate.kind == "exact" and data.n <= MOST_LISTED:
        return upper_of_all(data)
    if certificate.confidence is not None or certificate.kind == "exact":
        raise BrokenProofError(f"A certificate of kind {certificate.kind!r} contains no proof.")
    proof = certificate.proof
    if type(proof) is tuple:
        return upper_of_parts(data, proof)
    if hasattr(proof, "micro"):
        return upper_compressed(data, proof)
    if proof is None:
        k = data.k
        nothing = np.zeros((k, k))
        zeros = np.zeros(data.n)
        centers = None if data.A is None else np.zeros((data.r, k))
        scores = None if data.A is not None else np.zeros((data.n, k))
        return upper_between(data, certificate.answer, zeros, nothing, nothing, centers, scores)
    return upper_between(data, *proof[:4], proof.centers, proof.scores)
