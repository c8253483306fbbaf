"""Which loops are in use, and whether this is a first run that must compile them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orthoplus.kernels.fused.cache import KernelCache


def kernel_version() -> str:
    """Return the loops in use: ``fused`` (compiled) or ``reference`` (plain NumPy)."""
    return os.environ.get("ORTHOPLUS_KERNELS", "fused")


def kernel_cache() -> "KernelCache":
    """Return the cache of the compiled loops."""
    from orthoplus.kernels.fused.cache import CACHE

    return CACHE


def cached_files() -> list[Path]:
    """Return the files of the compiled loops; none before the first run, or without a cache.

    What is older than the package was left behind by a former version, and is not counted.
    """
    from orthoplus.kernels.fused import centers

    folder, installed = kernel_cache().folder, os.path.getmtime(centers.__file__)
    files = [] if folder is None else [path for path in folder.glob("*.nb[ci]") if path.is_file()]
    return [path for path in files if path.stat().st_mtime >= installed]


def must_compile() -> bool:
    """Return whether nothing has been compiled yet, so that the first iteration takes long."""
    return kernel_version() == "fused" and not cached_files()
