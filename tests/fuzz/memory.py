"""How much memory of its own a call takes, on data in blocks of a `memory_limit` and in memory.

A thread looks at the anonymous memory of this process every millisecond; pages of the data file
belong to the system and do not count. A first call on small data loads the compiled loops.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numba.core import event
from scipy.sparse import csr_array

import orthoplus as op
import orthoplus.data

# Rows, columns, limit in bytes. K is the number of clusters.
SIZES = {"small": (60_000, 40, 8 << 20), "large": (400_000, 40, 24 << 20)}
K = 5
# In memory: bytes of the data, and columns of dense data. Data and call together may take this
# many times the data, plus the constant below.
WHOLE_SIZES = {"whole, small": 24 << 20, "whole": 60 << 20}
DENSE_COLUMNS, USUAL_TIMES = 40, 1.5
# What `docs/reliability.md` allows otherwise: K-indicators clustering holds a dozen matrices with
# one number per row and cluster, and the projection stores numbers per row.
MOST_TIMES, PROJECT_PER_ROW = {"indicators": 2.7}, 120
# Sparse data: columns per cluster, entries of a row among those of its own cluster, and the types
# of values and indices.
WIDTH, OWN = 80, 16
FORMS = {
    "csr": ("float64", "int32"),
    "csr float32": ("float32", "int32"),
    "csr int64": ("float64", "int64"),
}
# What `docs/scaling.md` allows on top of the limit: numbers per row, and a constant.
PER_ROW, CONSTANT = 8 * 12, 16 << 20


def own_memory() -> int:
    """Return the bytes of anonymous memory that this process has now."""
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


class Watch(threading.Thread):
    """Look at the memory until the block ends; ``grown`` is how much it rose by."""

    def __enter__(self):
        self.is_over, self.before = False, own_memory()
        self.peak = self.before
        self.start()
        return self

    def run(self):
        while not self.is_over:
            self.peak = max(self.peak, own_memory())
            time.sleep(0.001)

    def __exit__(self, *_):
        self.is_over = True
        self.join()

    @property
    def grown(self) -> int:
        return self.peak - self.before


class Compilations(event.Listener):
    """Count the loops that are compiled."""

    n = 0

    def on_start(self, _):
        self.n += 1

    def on_end(self, _):
        """Do nothing."""


COMPILATIONS = Compilations()
event.register("numba:compile", COMPILATIONS)


def peak_of(run) -> int:
    """Return by how much the memory rises in a call; in a second one if it compiled loops."""
    for _ in range(2):
        n = COMPILATIONS.n
        _return_memory()
        with Watch(daemon=True) as watch:
            run()
        if COMPILATIONS.n == n:
            break
    return watch.grown


def project(A, limit):
    return op.project(A, memory_limit=limit, time_limit=5.0)


def fit(A, limit):
    return op.OrthogonalNMF(K, memory_limit=limit, random_state=0).fit(A)


def fit_counts(A, limit):
    model = op.OrthogonalNMF(K, loss="kullback-leibler", memory_limit=limit, random_state=0)
    return model.fit(A)


def certify(A, limit):
    labels = np.asarray(op.OrthogonalNMF(K, memory_limit=limit, random_state=0).fit(A).labels_)
    data = op.problems.ONMF(op.data.as_data(A, memory_limit=limit), K)
    return op.certify(data, labels, time_limit=5.0)


def unmix(A, limit):
    # Two columns of the image, so that a line is small.
    return op.unmix(A.reshape(-1, 2, A.shape[1]), K, memory_limit=limit)


CALLS = {
    "project": project,
    "fit": fit,
    "fit_counts": fit_counts,
    "certify": certify,
    "unmix": unmix,
}
# `unmix` also holds so many matrices with one number per pixel and material.
UNMIXING_MATRICES = 30


def make_whole(form: str, n_bytes: int):
    """Return clustered rows of so many bytes, dense or CSR, with no copy of them left over."""
    rng = np.random.default_rng(0)
    if form.startswith("csr"):
        return make_csr(n_bytes, rng, *FORMS[form])
    dtype = np.dtype(form)
    A = np.empty((n_bytes // (dtype.itemsize * DENSE_COLUMNS), DENSE_COLUMNS), dtype)
    centers = rng.random((K, DENSE_COLUMNS)) ** 3
    for start in range(0, len(A), 10_000):
        rows = A[start : start + 10_000]
        rows[:] = centers[rng.integers(K, size=len(rows))] * (0.5 + rng.random((len(rows), 1)))
        rows += (0.05 * rng.random(rows.shape)).astype(dtype)
    return A


def make_csr(n_bytes: int, rng: np.random.Generator, dtype: str, index: str):
    """Return rows of counts in CSR; each has OWN entries in its cluster's columns, K - 1 others."""
    n_entries = OWN + K - 1
    n = n_bytes // (n_entries * (np.dtype(dtype).itemsize + np.dtype(index).itemsize))
    data, indices = np.empty((n, n_entries), dtype), np.empty((n, n_entries), index)
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        size = rows.stop - start
        cluster, others = rng.integers(K, size=size), np.arange(K - 1)
        own = WIDTH // OWN * np.arange(OWN) + rng.integers(WIDTH // OWN, size=(size, OWN))
        other = (others + (others >= cluster[:, None])) * WIDTH + rng.integers(
            WIDTH, size=(size, 1)
        )
        indices[rows] = np.sort(np.hstack([cluster[:, None] * WIDTH + own, other]))
        data[rows] = rng.integers(1, 9, size=(size, n_entries))
    A = csr_array((n, K * WIDTH), dtype=dtype)
    A.data, A.indices = data.ravel(), indices.ravel()  # SciPy would convert indices of int64
    A.indptr = n_entries * np.arange(n + 1, dtype=index)
    return A


def certify_whole(A):
    labels = np.asarray(op.OrthogonalNMF(K, random_state=0).fit(A).labels_)
    return op.certify(op.problems.ONMF(A, K), labels, time_limit=5.0)


# What is called, and the forms of data: see FORMS and `make_whole`.
DENSE_FORMS = ("float64", "float32")
WHOLE_CALLS = {
    f"{name} {form}": (form, call)
    for name, (call, forms) in {
        "fit": (
            lambda A: op.OrthogonalNMF(K, random_state=0).fit(A),
            (*DENSE_FORMS, *FORMS),
        ),
        "fit_counts": (
            lambda A: op.OrthogonalNMF(K, loss="kullback-leibler", random_state=0).fit(A),
            (*DENSE_FORMS, *FORMS),
        ),
        "project": (lambda A: op.project(A, time_limit=5.0), DENSE_FORMS),
        "certify": (certify_whole, ("float64", "csr")),
        "indicators": (lambda A: op.KIndicatorsClustering(K, random_state=0).fit(A), ("float64",)),
    }.items()
    for form in forms
}


def measure_whole(call: str, n_bytes: int) -> dict:
    """Return the peak of a call on data in memory, in multiples of the data."""
    form, run = WHOLE_CALLS[call]
    run(make_whole(form, 1 << 20))  # loads the compiled loops
    A = make_whole(form, n_bytes)
    n_bytes = A.nbytes if form in DENSE_FORMS else _csr_bytes(A)
    peak = peak_of(lambda: run(A))
    times = 1.0 + peak / n_bytes
    found = {"call": call, "data": n_bytes, "peak": peak, "times": round(times, 2)}
    allowed = (MOST_TIMES.get(call.split()[0], USUAL_TIMES) - 1.0) * n_bytes + CONSTANT
    if call.startswith("project"):
        allowed = max(allowed, PROJECT_PER_ROW * len(A) + CONSTANT)
    return found | {"allowed": int(allowed), "held": peak <= allowed}


def _csr_bytes(A) -> int:
    return A.data.nbytes + A.indices.nbytes + A.indptr.nbytes


def _return_memory() -> None:
    """Return free memory to the system: what a call takes from there would not be seen."""
    with suppress(AttributeError):  # not the C library of GNU
        ctypes.CDLL(None).malloc_trim(0)


def write_data(path: Path, n: int, r: int, *, is_noise: bool) -> None:
    """Write clustered rows, or the noise that is hardest to project, without holding all of it."""
    rng = np.random.default_rng(0)
    centers = rng.random((K, r)) ** 3
    out = np.lib.format.open_memmap(path, "w+", np.float64, (n, r))
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        size = rows.stop - rows.start
        if is_noise:
            out[rows] = rng.standard_normal((size, r))
            continue
        out[rows] = centers[rng.integers(K, size=size)] * (0.5 + rng.random((size, 1)))
        out[rows] += 0.05 * rng.random((size, r))
    out.flush()


def measure(call: str, size: str) -> dict:
    """Return the peak of a call, and what it may be."""
    n, r, limit = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder, "small.npy"), 3000, r, is_noise=call == "project")
        CALLS[call](np.load(Path(folder, "small.npy"), mmap_mode="r"), 1 << 18)
        write_data(Path(folder, "A.npy"), n, r, is_noise=call == "project")
        A = np.load(Path(folder, "A.npy"), mmap_mode="r")
        peak = peak_of(lambda: CALLS[call](A, limit))
    allowed = limit + PER_ROW * n + CONSTANT
    if call == "unmix":
        allowed += 8 * UNMIXING_MATRICES * K * n
    found = {"call": call, "rows": n, "data": 8 * n * r, "limit": limit, "allowed": allowed}
    return found | {"peak": peak, "held": peak <= allowed}


def in_own_process(kind: str, calls: Iterable[str]) -> list[dict]:
    """Return the measurements of these calls in a process of their own with one BLAS thread.

    The buffers of further threads are allocated once per process, at the first large product.
    """
    source = Path(op.__file__).parents[1]
    path = {"PYTHONPATH": os.pathsep.join([str(source), *sys.path])}
    words = [sys.executable, __file__, kind, *calls]
    done = subprocess.run(
        words, env=os.environ | path | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for call in sys.argv[2:]:
        size = WHOLE_SIZES.get(sys.argv[1])
        found = measure(call, sys.argv[1]) if size is None else measure_whole(call, size)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
