"""Where Numba keeps the compiled loops, and whether this is a first run that must make them."""

import os
from pathlib import Path


def kernel_version() -> str:
    """The loops in use: ``fused`` (compiled) or ``reference`` (plain NumPy)."""
    return os.environ.get("ORTHOPLUS_KERNELS", "fused")


def cached_files() -> tuple[Path, list[Path]]:
    """The folder of the compiled loops and the files in it; none before the first run.

    Numba chooses the folder: beside the package where that can be written, else the user's cache.
    What is older than the package was left behind by a former version, and is not counted.
    """
    from orthoplus.kernels.fused import centres

    folder, installed = Path(centres._swaps.stats.cache_path), os.path.getmtime(centres.__file__)
    files = [path for path in folder.glob("*.nb[ci]") if path.is_file()]
    return folder, [path for path in files if path.stat().st_mtime >= installed]


def must_compile() -> bool:
    """Whether nothing has been compiled yet, so that the first iteration is long in coming."""
    return kernel_version() == "fused" and not cached_files()[1]
