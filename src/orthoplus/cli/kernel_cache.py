"""Report which kernels are in use, and whether they must be compiled first."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orthoplus.kernels.fused.cache import KernelCache


def kernel_version() -> str:
    """Return the kernels in use: ``fused`` (compiled) or ``reference`` (plain NumPy)."""
    return os.environ.get("ORTHOPLUS_KERNELS", "fused")


def kernel_cache() -> "KernelCache":
    """Return the cache of the compiled kernels."""
    from orthoplus.kernels.fused.cache import CACHE

    return CACHE


def cached_files() -> list[Path]:
    """Return the files of the compiled kernels; none before the first run or without a cache.

    Files older than the package belong to an earlier version and are ignored.
    """
    from orthoplus.kernels.fused import centers

    folder, installed = kernel_cache().folder, os.path.getmtime(centers.__file__)
    files = [] if folder is None else [path for path in folder.glob("*.nb[ci]") if path.is_file()]
    return [path for path in files if path.stat().st_mtime >= installed]


def must_compile() -> bool:
    """Return whether kernels must be compiled, which makes the first iteration slow."""
    return kernel_version() == "fused" and not cached_files()
