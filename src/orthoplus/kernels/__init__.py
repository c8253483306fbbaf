"""The inner loops of the package, called as ``kernels.name``; Numba is imported at the first call.

Set the environment variable ``ORTHOPLUS_KERNELS=reference`` to use the plain NumPy version.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoplus.kernels.reference import __all__  # the only list of names

if TYPE_CHECKING:
    from orthoplus.kernels.reference import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with interrupted_later():
        module = import_module(f"{__name__}.{os.environ.get('ORTHOPLUS_KERNELS', 'fused')}")
        globals().update({kernel: getattr(module, kernel) for kernel in __all__})
    return globals()[name]


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Delay Ctrl-C until the end of this block, because a partial import of Numba is not undone."""
    # Only the main thread receives Ctrl-C. If `getsignal` returns None, the handler was not
    # installed from Python and could not be restored.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(came[0])  # SIGTERM may have been passed on to this handler
