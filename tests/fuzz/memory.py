"""How much memory of its own a call takes, on data in blocks of a `memory_limit` and in memory.

A thread looks at the anonymous memory of this process every millisecond; pages of the data file
belong to the system and do not count. A first call on small data loads the compiled loops.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy.sparse import random_array

import orthoplus as op
import orthoplus.data

# Rows, columns, limit in bytes. K is the number of clusters.
SIZES = {"small": (60_000, 40, 8 << 20), "large": (400_000, 40, 24 << 20)}
K = 5
# In memory: bytes of the data, and columns of dense and of sparse data. The process may take
# this many times the data beyond what it had before, plus the constant below.
WHOLE_BYTES = 60 << 20
DENSE_COLUMNS, SPARSE_COLUMNS, DENSITY, MOST_TIMES = 40, 400, 0.05, 1.5
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


def project(A, limit):
    return op.project(A, memory_limit=limit, time_limit=20.0)


def fit(A, limit):
    return op.OrthogonalNMF(K, memory_limit=limit, random_state=0).fit(A)


def fit_counts(A, limit):
    model = op.OrthogonalNMF(K, loss="kullback-leibler", memory_limit=limit, random_state=0)
    return model.fit(A)


def certify(A, limit):
    labels = np.asarray(op.OrthogonalNMF(K, memory_limit=limit, random_state=0).fit(A).labels_)
    data = op.problems.ONMF(op.data.as_data(A, memory_limit=limit), K)
    return op.certify(data, labels, time_limit=5.0)


CALLS = {"project": project, "fit": fit, "fit_counts": fit_counts, "certify": certify}


def make_whole(form: str, n_bytes: int):
    """Return clustered rows of so many bytes, dense or CSR, with no copy of them left over."""
    rng = np.random.default_rng(0)
    if form == "csr":
        n = int(n_bytes / (12 * DENSITY * SPARSE_COLUMNS))
        A = random_array((n, SPARSE_COLUMNS), density=DENSITY, format="csr", rng=rng)
        A.data[:] = rng.integers(1, 9, size=A.nnz)
        return A
    dtype = np.dtype(form)
    A = np.empty((n_bytes // (dtype.itemsize * DENSE_COLUMNS), DENSE_COLUMNS), dtype)
    centers = rng.random((K, DENSE_COLUMNS)) ** 3
    for start in range(0, len(A), 10_000):
        rows = A[start : start + 10_000]
        rows[:] = centers[rng.integers(K, size=len(rows))] * (0.5 + rng.random((len(rows), 1)))
        rows += (0.05 * rng.random(rows.shape)).astype(dtype)
    return A


# Forms of data, and what is called on them.
WHOLE_CALLS = {
    f"{name} {form}": (form, call)
    for name, call in {
        "fit": lambda A: op.OrthogonalNMF(K, random_state=0).fit(A),
        "fit_counts": lambda A: op.OrthogonalNMF(
            K, loss="kullback-leibler", random_state=0
        ).fit(A),
        "project": lambda A: op.project(A, time_limit=20.0),
    }.items()
    for form in ("float64", "float32", "csr")
    if (name, form) != ("project", "csr")
}  # fmt: skip


def measure_whole(call: str) -> dict:
    """Return the peak of a call on data in memory, in multiples of the data."""
    form, run = WHOLE_CALLS[call]
    run(make_whole(form, 1 << 20))  # loads the compiled loops
    A = make_whole(form, WHOLE_BYTES)
    n_bytes = A.nbytes if form != "csr" else A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    with Watch(daemon=True) as watch:
        run(A)
    times = 1.0 + watch.grown / n_bytes
    found = {"call": call, "data": n_bytes, "peak": watch.grown, "times": round(times, 2)}
    return found | {"held": watch.grown <= (MOST_TIMES - 1.0) * n_bytes + CONSTANT}


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
        with Watch(daemon=True) as watch:
            CALLS[call](A, limit)
    allowed = limit + PER_ROW * n + CONSTANT
    found = {"call": call, "rows": n, "data": 8 * n * r, "limit": limit, "allowed": allowed}
    return found | {"peak": watch.grown, "held": watch.grown <= allowed}


if __name__ == "__main__":
    is_whole = sys.argv[1] == "whole"
    for call in sys.argv[2:] or (WHOLE_CALLS if is_whole else CALLS):
        found = measure_whole(call) if is_whole else measure(call, sys.argv[1])
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
