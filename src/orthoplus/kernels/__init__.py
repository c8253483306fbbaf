"""The hot loops: call them as ``kernels.name``; Numba loads at the first call.

``ORTHOPLUS_KERNELS=reference`` in the environment selects the plain NumPy version.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoplus.kernels.reference import __all__  # the names, once

if TYPE_CHECKING:
    from orthoplus.kernels.reference import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{os.environ.get('ORTHOPLUS_KERNELS', 'fused')}")
    globals().update({kernel: getattr(module, kernel) for kernel in __all__})
    return globals()[name]
