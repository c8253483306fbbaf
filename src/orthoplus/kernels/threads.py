"""How many threads the compiled loops and BLAS may take."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_most_threads: ContextVar[int | None] = ContextVar("orthoplus_threads", default=None)


def n_threads() -> int:
    """Return the threads for large passes: ``ORTHOPLUS_NUM_THREADS``, else the processors.

    Within `limited_threads` it is at most the number given there.
    """
    most = _most_threads.get()
    return _wanted_threads() if most is None else min(most, _wanted_threads())


def _wanted_threads() -> int:
    wanted = os.environ.get("ORTHOPLUS_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_most_threads(most: int) -> None:
    """Limit `n_threads` for the rest of the current context, as in the threads of a pool."""
    _most_threads.set(most)


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Limit `n_threads` within this block, because others run beside it.

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
    # Looking for the libraries takes milliseconds: once. All that we use are loaded by now.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _is_per_thread(library: Any) -> bool:
    """Return whether each thread has a number of BLAS threads of its own."""
    return getattr(library, "threading_layer", "") == "openmp"


class _Lowered:
    """Libraries that were set to one thread, with their former numbers."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, int]] = []

    def lower(self, *, per_thread: bool) -> None:
        for library in _blas_libraries():
            number = library.num_threads
            if _is_per_thread(library) is per_thread and number != 1:
                self.before.append((library, number))
                _set_threads(library, 1)

    def restore(self) -> None:
        # Each entry goes only after its library is restored: if Ctrl-C comes in between, the next
        # one to leave goes on here. A number that somebody else has set since then stays.
        while self.before:
            library, number = self.before[-1]
            if library.num_threads == 1:
                _set_threads(library, number)
            self.before.pop()


def _set_threads(library: Any, number: int) -> None:
    library.set_num_threads(number)
    # From version 3.8 on, threadpoolctl ignores all threads but the one that set a number last,
    # until that one gives up control. Here another thread may be the one to restore it.
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread()


class BlasLimit:
    """Keep BLAS at one thread while any thread is inside a ``with`` block of this object.

    The number of BLAS threads usually belongs to the process. The first thread to enter stores it
    and sets one; the last to leave restores it, whatever the order in between. Where each thread
    has its own number (OpenMP), each stores and restores its own. Use it in the thread that hands
    out work: with all our threads at work, further ones of BLAS would be too many.

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
        """Forget the threads that the child of a fork does not have; the one it has stays in."""
        self._lock = threading.Lock()
        self.n_inside = self._own.depth
        if self.n_inside == 0:
            self._shared.restore()


class _Own(threading.local):
    """What `BlasLimit` knows of the current thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.lowered = _Lowered()


single_blas = BlasLimit()  # one for the process, as the number of threads is
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_blas.after_fork)
