"""Array types and constants of floating-point arithmetic."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.integer[Any]]

# A linear map of n x k matrices.
Linear = Callable[[FloatArray], FloatArray]

# Values passed from one penalty parameter to the next: a step length, tau, a second block.
Carry = Mapping[str, Any]

# The machine epsilon of the two types: the distance from 1 to the next larger number. Tolerances
# are multiples of it.
ROUNDOFF = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float32, np.float64)}
EPS = ROUNDOFF[np.dtype(np.float64)]

# The smallest normal number: as a floor of denominators it makes 0 / 0 = 0.
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

# Changes of a value or an entry below this many unit roundoffs, relative to its size, are rounding.
STEP_ROUNDOFFS = 10

# Central differences balance truncation t^2 against rounding eps / t at t = eps^(1/3).
DIFFERENCE_STEP = float(np.cbrt(EPS))
