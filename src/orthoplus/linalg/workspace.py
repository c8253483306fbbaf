"""Work arrays of a run, used again once nobody holds them.

Every step of a method asks for an n x k array and drops one. Taken anew from the system each time,
its pages cost about as much as the step itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from sys import getrefcount

import numpy as np

from orthoplus.core.types import FloatArray

# The flat arrays that were lent, by size and type. Each is the base of every view of it.
_Loans = dict[tuple[int, str], list[FloatArray]]

_loans: ContextVar[_Loans | None] = ContextVar("orthoplus_memory", default=None)


# What the interpreter counts for an array that only its list holds.
_ALONE = [np.empty(0)]
_IDLE = getrefcount(_ALONE[0])


@contextmanager
def reused_memory() -> Iterator[None]:
    """Within this block `empty_like` reuses memory; at its end the idle memory is given back."""
    token = _loans.set({})
    try:
        yield
    finally:
        _loans.reset(token)


def empty_like(X: FloatArray) -> FloatArray:
    """An uninitialised C-ordered array of the shape and type of X; nobody else holds its memory.

    Examples
    --------
    >>> with reused_memory():
    ...     first = empty_like(np.ones((200, 5)))
    ...     address = first.ctypes.data
    ...     del first
    ...     empty_like(np.ones((200, 5))).ctypes.data == address
    True
    """
    loans = _loans.get()
    if loans is None:
        return np.empty(X.shape, dtype=X.dtype)
    lent = loans.setdefault((X.size, X.dtype.char), [])
    for number in range(len(lent)):
        if getrefcount(lent[number]) == _IDLE:
            return lent[number].reshape(X.shape)
    lent.append(np.empty(X.size, dtype=X.dtype))
    return lent[-1].reshape(X.shape)
