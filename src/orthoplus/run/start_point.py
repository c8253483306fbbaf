"""Reading of the start of a run: an array, a shape, or centers."""

import numpy as np

from orthoplus.core.checks import as_matrix, check_shape, describe
from orthoplus.core.errors import InputError
from orthoplus.core.foreign import check_not_foreign
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.data.groups import Centers
from orthoplus.geometry.oblique import project_oblique_plus


def read_start(
    X0: FloatArray | tuple[int, int],
) -> tuple[FloatArray | None, tuple[int, int], tuple[str, ...]]:
    """Return a start in OB+ (None for a random one), its shape, and notes on changes."""
    if isinstance(X0, tuple) and len(X0) == 2 and all(isinstance(i, (int, np.integer)) for i in X0):
        check_shape(int(X0[0]), int(X0[1]), "X0")
        return None, (int(X0[0]), int(X0[1])), ()
    check_not_foreign(X0, "X0")
    if np.shape(X0) == (2,):
        raise InputError(
            f"`X0` has 1 dimension(s), got {describe(X0)}. Pass a matrix of shape (n, k) or, for "
            f"a random start, the shape as a tuple of two integers."
        )
    X = as_matrix(X0, "X0")
    n, k = X.shape
    check_shape(n, k, "X0")
    notes = []
    given = np.asarray(X0).dtype
    if given != X.dtype:
        notes.append(f"X0 of dtype {given} was converted to {X.dtype}.")
    with np.errstate(over="ignore"):  # an overflow is not a unit norm
        unit = np.abs(np.linalg.norm(X, axis=0) - 1.0).max() <= 1e-6
    if X.min() < 0 or not unit:
        notes.append("X0 was not in OB+ (nonnegative, unit columns) and was projected onto it.")
    return project_oblique_plus(X), (n, k), tuple(notes)


def read_any_start(
    X0: FloatArray | Centers | tuple[int, int] | None, problem: Problem
) -> tuple[FloatArray | Centers | None, tuple[str, ...]]:
    """Return the start (None for that of the problem) and notes on changes."""
    if X0 is None or isinstance(X0, Centers):
        return X0, ()
    X, size, notes = read_start(X0)
    if size != problem.shape:
        raise InputError(f"`X0` has shape {size}; expected {problem.shape}.")
    return X, notes
