"""The hot loops: call them as ``kernels.name``; Numba loads at the first call.

``ORTHOPLUS_KERNELS=reference`` in the environment selects the plain NumPy version.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoplus.kernels.reference import __all__  # the names, once

if TYPE_CHECKING:
    from orthoplus.kernels.reference import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _interrupted_later():
        module = import_module(f"{__name__}.{os.environ.get('ORTHOPLUS_KERNELS', 'fused')}")
        globals().update({kernel: getattr(module, kernel) for kernel in __all__})
    return globals()[name]


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C wait for the end of this block: Numba, half imported, cannot be imported again."""
    # Only the main thread is interrupted; a handler that is not Python's could not be restored.
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
