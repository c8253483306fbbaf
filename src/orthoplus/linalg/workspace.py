"""Work arrays of a run, reused as soon as they are no longer referenced.

Every step of a method allocates an n x k array and frees one. If each came from the system, mapping
its pages would cost about as much as the step itself. A `Workspace` belongs to one run, whose
monitor creates it; lower-level code calls `empty_like`, which uses the active workspace.
"""

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray


class _Memory(np.ndarray):
    """A flat array that owns memory and is never handed out itself.

    NumPy sets the ``base`` of a view of a view to the innermost array of the *same type*. A plain
    array over a `_Memory` is therefore the base of every view made from it, and lives exactly as
    long as someone can reach the memory.
    """

    __slots__ = ()


class _Loan(weakref.ref[FloatArray]):
    """A weak reference to the plain array over lent memory."""

    __slots__ = ("memory",)
    memory: _Memory


class _Shelf(NamedTuple):
    """The loans of one size and type: those that have ended, and all that are kept.

    A loan ends when its array is destroyed. The callback of the weak reference is ``ended.append``,
    which runs no Python code, so that no signal handler or other thread can interrupt it. No lock
    is needed, because ``append``, ``pop`` and item access are atomic.
    """

    ended: deque[_Loan]
    kept: dict[int, _Loan]  # by id; a weak reference that is dropped never calls back


class Workspace:
    """Memory for the work arrays of one run.

    Memory is reused only after its array and all views of it are gone, whether they were referenced
    by a state, a callback or another thread. Threads may share a workspace.

    Examples
    --------
    >>> workspace = Workspace()
    >>> first = workspace.empty_like(np.ones((200, 5)))
    >>> address = first.ctypes.data
    >>> workspace.empty_like(first).ctypes.data == address
    False
    >>> del first
    >>> workspace.empty_like(np.ones((200, 5))).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._shelves: dict[tuple[int, str], _Shelf] = {}

    def empty_like(self, X: FloatArray) -> FloatArray:
        """Return an uninitialized C-ordered array of the shape and type of X."""
        key = (X.size, X.dtype.char)
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._shelves.setdefault(key, _Shelf(deque(), {}))
        try:
            ended = shelf.ended.pop()
        except IndexError:
            memory = _Memory(X.size, X.dtype)
        else:
            memory = shelf.kept.pop(id(ended)).memory
        array = memory.view(np.ndarray)
        loan = _Loan(array, shelf.ended.append)
        loan.memory = memory
        shelf.kept[id(loan)] = loan
        return array.reshape(X.shape)

    @contextmanager
    def lending(self) -> Iterator[None]:
        """Make this the active workspace of `empty_like` within a block, then `release` it."""
        token = _in_use.set(self)
        try:
            yield
        finally:
            _in_use.reset(token)
            self.release()

    def release(self) -> None:
        """Return unused memory to the system; referenced memory follows with its last reference."""
        self._shelves = {}


_in_use: ContextVar[Workspace | None] = ContextVar("orthoplus_workspace", default=None)


def empty_like(X: FloatArray) -> FloatArray:
    """Return an uninitialized C-ordered array of the shape and type of X.

    Its memory comes from the active `Workspace`, or from the system if there is none.
    """
    workspace = _in_use.get()
    return np.empty(X.shape, dtype=X.dtype) if workspace is None else workspace.empty_like(X)
