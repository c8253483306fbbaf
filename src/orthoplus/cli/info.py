"""``orthoplus info``: show versions, threads, linear algebra, kernels and their cache."""

import os
import platform
from importlib.util import find_spec
from typing import Any

import typer

from orthoplus.cli import options as opt
from orthoplus.cli.ending import DONE, guarded
from orthoplus.cli.kernel_cache import cached_files, kernel_cache, kernel_version
from orthoplus.cli.record import versions
from orthoplus.cli.summary import print_lines
from orthoplus.cli.terminal import console
from orthoplus.cli.writing import to_json

_CACHES = {
    "package": "next to the source",
    "user": "the user's cache folder or NUMBA_CACHE_DIR",
    "temporary": "no other folder is writable",
    "none": "no folder is writable",
}


@guarded
def info(json: opt.Json = False) -> int:
    """Show versions, threads, linear algebra and the kernel cache, for bug reports."""
    found = collect()
    if json:
        typer.echo(to_json(found))
        return DONE
    for title, lines in found.items():
        console().print(title, style="bold")
        print_lines({name: str(value) for name, value in lines.items()})
    return DONE


def collect() -> dict[str, dict[str, Any]]:
    """Collect versions and settings."""
    from orthoplus.io import memory_limit

    optional = {name: "present" if find_spec(name) else "absent" for name in ("jax", "torch")}
    return {
        "versions": versions() | optional,
        "machine": {
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            "largest array read": f"{memory_limit() / 1e9:.3g} GB",
        },
        "threads": _threads(),
        "kernels": _kernels(),
        "data": {"ORTHOPLUS_DATA": os.environ.get("ORTHOPLUS_DATA", "not set")},
    }


def _threads() -> dict[str, Any]:
    import numpy  # noqa: F401  (threadpoolctl sees only libraries that are loaded)
    from threadpoolctl import threadpool_info

    from orthoplus.kernels.threads import n_threads

    pools = {
        f"{pool['internal_api']} ({pool['user_api']})": (
            f"{pool['num_threads']} threads, version {pool.get('version') or 'unknown'}"
        )
        for pool in threadpool_info()
    }
    return {"orthoplus": f"{n_threads()} for large passes"} | pools


def _kernels() -> dict[str, Any]:
    name, cache, files = kernel_version(), kernel_cache(), cached_files()
    size = sum(path.stat().st_size for path in files)
    kept = f"{cache.folder}: {len(files)} files, {size / 1e6:.1f} MB"
    return {
        "version": f"{name} ({'compiled by Numba' if name == 'fused' else 'plain NumPy'})",
        "cache": f"{cache.kind} ({_CACHES[cache.kind]})",
        "cache folder": "none (every process compiles)" if cache.folder is None else kept,
    }
