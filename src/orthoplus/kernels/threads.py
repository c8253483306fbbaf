"""Control the number of threads of the compiled loops and of BLAS."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_most_threads: ContextVar[int | None] = ContextVar("orthoplus_threads", default=None)


def n_threads() -> int:
    """Return the number of threads for large passes.

    It is ``ORTHOPLUS_NUM_THREADS`` if set, else the number of available processors, and at most
    the limit of an enclosing `limited_threads`.
    """
    most = _most_threads.get()
    return _wanted_threads() if most is None else min(most, _wanted_threads())


def _wanted_threads() -> int:
    wanted = os.environ.get("ORTHOPLUS_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_most_threads(most: int) -> None:
    """Limit `n_threads` for the rest of the current context, as in the threads of a pool."""
    _most_threads.set(most)


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Limit `n_threads` within this block, for work that runs in parallel with other work.

    Examples
    --------
    >>> with limited_threads(1):
    ...     n_threads()
    1
    """
    token = _most_threads.set(most)
    try:
        yield
    finally:
        _most_threads.reset(token)


@cache
def _blas_libraries() -> Any:
    # The search takes milliseconds, so cache it. All libraries that we use are loaded by now.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _is_per_thread(library: Any) -> bool:
    """Return whether the number of BLAS threads is set per calling thread (OpenMP)."""
    return getattr(library, "threading_layer", "") == "openmp"


class _Lowered:
    """Libraries that were set to one thread, with their previous numbers of threads."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, int]] = []

    def lower(self, *, per_thread: bool) -> None:
        for library in _blas_libraries():
            number = library.num_threads
            if _is_per_thread(library) is per_thread and number != 1:
                self.before.append((library, number))
                _set_threads(library, 1)

    def restore(self) -> None:
        # Remove an entry only after its library is restored: if Ctrl-C interrupts the loop, the
        # next thread to leave continues it. A number that other code has set meanwhile is kept.
        while self.before:
            library, number = self.before[-1]
            if library.num_threads == 1:
                _set_threads(library, number)
            self.before.pop()


def _set_threads(library: Any, number: int) -> None:
    library.set_num_threads(number)
    # Since version 3.8, threadpoolctl lets only the thread that set the number last change it,
    # until that thread releases control. Here a different thread may have to restore it.
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread()


class BlasLimit:
    """Keep BLAS at one thread while any thread is inside a ``with`` block of this object.

    The number of BLAS threads is usually a setting of the process. The first thread to enter saves
    it and sets it to one; the last thread to leave restores it, in whatever order they leave. If
    each thread has its own setting (OpenMP), each thread saves and restores its own. Use this in
    the thread that distributes work, so that BLAS does not oversubscribe the processors.

    Examples
    --------
    >>> limit = BlasLimit()
    >>> with limit, limit:
    ...     limit.n_inside
    2
    >>> limit.n_inside
    0
    """

    def __init__(self) -> None:
        self.n_inside = 0
        self._lock = threading.Lock()
        self._shared = _Lowered()
        self._own = _Own()

    def __enter__(self) -> None:
        with self._lock:
            self.n_inside += 1
            self._own.depth += 1
            try:
                if self.n_inside == 1:
                    self._shared.lower(per_thread=False)
                if self._own.depth == 1:
                    self._own.lowered.lower(per_thread=True)
            except BaseException:
                self._leave()
                raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        self.n_inside -= 1
        self._own.depth -= 1
        if self._own.depth == 0:
            self._own.lowered.restore()
        if self.n_inside == 0:
            self._shared.restore()

    def after_fork(self) -> None:
        """Reset the state in the child of a fork, where only the current thread exists."""
        self._lock = threading.Lock()
        self.n_inside = self._own.depth
        if self.n_inside == 0:
            self._shared.restore()


class _Own(threading.local):
    """State of `BlasLimit` for the current thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.lowered = _Lowered()


single_blas = BlasLimit()  # one per process, like the number of BLAS threads
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_blas.after_fork)
