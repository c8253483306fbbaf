"""What a case gave, in one line of text; and how two of them are compared.

There are two levels. *Bits*: a digest of all numbers, judged only if the record was written in the
same environment. *Meaning*: labels and status are equal, numbers agree within a tolerance; this
holds on any machine.
"""

import hashlib
import os
import platform
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

# (value, other numbers), relative, for float64 and float32. Values such as ||A - XY'||^2 are small
# differences of large numbers: in float32 their error is up to 3e-4. And if a value is unstable.
_UNSTABLE_TOL = 1e-6
TOLERANCES = {"float64": (1e-9, 1e-6), "float32": (1e-3, 1e-3)}
_SOFTENED = ("value", "labels")
# Labels of more rows are kept as a digest.
_SPELLED_ROWS = 200
_DIGEST = "blake2b "
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SAMPLES = 2
# Characters that are kept of the sentence of an exception.
_SENTENCE = 140


@dataclass(frozen=True)
class Outcome:
    """The answer of one case: labels, arrays of numbers, single numbers, and how it ended."""

    labels: Any
    value: float
    n_iter: int = -1
    status: str = ""
    arrays: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)


def describe(outcome):
    """Return the outcome as a dictionary of short texts and numbers, for JSON."""
    labels = np.asarray(outcome.labels).astype(np.int64).ravel()
    arrays = {name: np.asarray(array) for name, array in outcome.arrays.items()}
    numbers = {name: float(x) for name, x in outcome.numbers.items() if x is not None}
    digest = hashlib.blake2b(digest_size=8)
    parts = [labels, *arrays.values(), np.array([outcome.value, *numbers.values()], dtype=float)]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(f"{outcome.n_iter} {outcome.status}".encode())
    described = {
        "labels": spell(labels),
        "value": float(outcome.value),
        "status": outcome.status,
        "n_iter": int(outcome.n_iter),
        "bits": digest.hexdigest(),
    }
    described |= {name: summarize(array) for name, array in arrays.items()}
    return described | {name: float(f"{x:.10g}") for name, x in numbers.items()}


def describe_refusal(error, folder):
    """Return the type and the sentence of an exception, without the names of temporary files."""
    sentence = str(error).replace(str(folder), "FOLDER")
    sentence = re.sub(r"0x[0-9a-f]{6,}", "0x", " ".join(sentence.split()))
    return {"refused": type(error).__name__, "sentence": sentence[:_SENTENCE]}


def spell(labels):
    """Return labels as a text with one character per row, "." for -1; many rows as a digest."""
    if len(labels) > _SPELLED_ROWS or labels.max(initial=0) >= len(_DIGITS):
        return _DIGEST + hashlib.blake2b(labels.tobytes(), digest_size=8).hexdigest()
    return "".join("." if label < 0 else _DIGITS[label] for label in labels)


def summarize(array):
    """Return numbers that tell two arrays apart: norm, sum, a sum with weights, some entries.

    The first one, the norm, is the unit in which the others are compared.
    """
    entries = np.asarray(array, dtype=np.float64).ravel()
    sampled = entries[np.linspace(0, len(entries) - 1, _SAMPLES).astype(int)]
    waves = np.cos(np.arange(len(entries)))
    sums = [np.linalg.norm(entries), entries.sum(), waves @ entries]
    return [float(f"{x:.8g}") for x in (*sums, *sampled)]


def compare(recorded, found, *, is_single):
    """Return the fields whose meaning changed, by name, each with both contents.

    What the record names as unstable is not in it and left out; a value that is there all the same
    agrees to 1e-6, and labels up to the names of the groups.
    """
    value_tol, array_tol = TOLERANCES["float32" if is_single else "float64"]
    unstable = recorded.get("unstable", ())
    if "value" in unstable:
        value_tol = max(value_tol, _UNSTABLE_TOL)
    names = (recorded.keys() | found.keys()) - {"bits", "n_iter", "unstable"}
    names -= {name for name in unstable if name not in recorded}
    changes = {}
    for name in sorted(names):
        old, new = recorded.get(name), found.get(name)
        if name == "labels" and name in unstable:
            old, new = renamed(old), renamed(new)
        if not _agree(old, new, value_tol if name == "value" else array_tol):
            changes[name] = f"{_shorten(old)} -> {_shorten(new)}"
    return changes


def renamed(labels):
    """Return spelled labels with the groups named in the order in which they appear."""
    if labels.startswith(_DIGEST):
        return labels
    names = {".": "."}
    for label in labels:
        names.setdefault(label, _DIGITS[len(names) - 1])
    return "".join(names[label] for label in labels)


def soften(described, unstable):
    """Return the outcome with these fields, which depend on the rounding, named as unstable.

    Value and labels stay at first, to be compared less closely. The others are dropped.
    """
    known = described.get("unstable", [])
    dropped = {name for name in unstable if name not in _SOFTENED or name in known}
    kept = {name: content for name, content in described.items() if name not in dropped}
    return kept | {"unstable": sorted({*known, *unstable})}


def _agree(old, new, tol):
    if isinstance(old, list) and isinstance(new, list):
        unit = max(abs(old[0]), abs(new[0]), np.finfo(float).tiny)
        return len(old) == len(new) and all(
            abs(a - b) <= tol * unit for a, b in zip(old, new, strict=True)
        )
    if isinstance(old, float) and isinstance(new, float):
        if old != old or new != new:
            return old != old and new != new
        return old == new or abs(old - new) <= tol * max(abs(old), abs(new), 1e-9)
    return old == new


def _shorten(content):
    text = repr(content)
    return text if len(text) <= 100 else f"{text[:97]}..."


def describe_environment():
    """Return what the last bits of an answer depend on: processor, libraries, threads."""
    for module in ("scipy.linalg", "sklearn.cluster", "numba"):  # they bring their own pools
        import_module(module)
    pools = {
        f"{pool['internal_api']} {pool.get('version')} {pool.get('architecture', '')} "
        f"x{pool['num_threads']}"
        for pool in threadpool_info()
    }
    names = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "dask", "h5py", "zarr")
    return {
        "processor": _processor(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "pools": sorted(pools),
        "versions": {name: version(name) for name in names},
    }


def _processor():
    import llvmlite.binding as llvm
    import numba

    chosen = numba.config.CPU_NAME or llvm.get_host_cpu_name()
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
    return f"{platform.machine()} {chosen} {disabled}".strip()
