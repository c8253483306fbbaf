"""Description of f as a function of one trace, which certificates need."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class TraceForm:
    r"""f over S+ as a decreasing function of :math:`\langle M, XX^\top \rangle`.

    Attributes
    ----------
    k : int
        Number of columns of X.
    bound : callable
        ``bound(v)`` is at most f(X) for each X of S+ with :math:`\langle M, XX^\top \rangle \le v`.
    size : float
        Sum of the absolute values of the terms of f, which bounds its rounding error.
    least : float
        A trivial lower bound of f.
    factor : DataMatrix or None
        A of shape (n, r) if M = AA'.
    is_nonnegative : bool
        Whether A has no negative entry.
    matrix : object or None
        M itself, with products ``matrix @ X``, if ``factor`` is None.
    has_row_sums : bool
        Whether X must satisfy XX'e = e as in k-means: the positive entries of a column are equal,
        and no row is zero.
    is_exact : bool
        Whether ``bound`` is f itself.

    Examples
    --------
    >>> import numpy as np
    >>> from orthoplus.problems import ONMF
    >>> form = ONMF(np.eye(3), 2).trace_form()
    >>> form.bound(2.0), form.factor.shape, form.is_exact
    (1.0, (3, 3), True)
    """

    k: int
    bound: Callable[[float], float]
    size: float
    least: float = -math.inf
    factor: Any = None
    is_nonnegative: bool = False
    matrix: Any = None
    has_row_sums: bool = False
    is_exact: bool = True
