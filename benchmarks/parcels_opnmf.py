"""Where the package `opnmf` of PyPI ends: voxels by subjects of growing size.

It forms the matrix XX' of all pairs of voxels, 8 n^2 bytes, and multiplies with it in each
iteration. Each run is in a separate process, within a limit of processor seconds. Prints
processor seconds, the memory beyond the matrix, the adjusted Rand index with the planted parcels
and the share of the sum of squares that is explained.

    pip install opnmf orthoplus nibabel   # opnmf 0.0.2 imports distutils: Python 3.11
    python benchmarks/parcels_opnmf.py [limit in seconds] [voxels ...]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.bench.brain import make_images
from orthoplus.bench.measure import (
    OutOfProcessorError,
    peak_bytes,
    processor_limit,
    resident_bytes,
    timed,
)
from orthoplus.bench.onmf_methods import explained_share
from orthoplus.bench.processes import in_process

N_SUBJECTS, N_PARCELS = 300, 20
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)


def run_opnmf(A):
    from opnmf.opnmf import opnmf

    W, _, _ = opnmf(A, N_PARCELS)
    return W.argmax(axis=1), W


def run_orthoplus(A):
    model = op.OrthogonalNMF(N_PARCELS, random_state=0).fit(A)
    return model.labels_, model.orthonormal_


RUNS = {"opnmf": run_opnmf, "orthoplus": run_orthoplus}


def measure(method, folder, limit):
    """Run a method on the stored matrix, after one run that compiles."""
    A = np.load(folder / "matrix.npy").astype(np.float64)
    if method == "orthoplus":
        op.OrthogonalNMF(2).fit(A[:100])
    before = resident_bytes()
    try:
        with processor_limit(limit):
            found = timed(lambda: RUNS[method](A))
    except OutOfProcessorError:
        return {"memory": peak_bytes() - before}
    labels, X = found.value
    memory = peak_bytes() - before
    rand = adjusted_rand_score(np.load(folder / "truth.npy"), labels)
    share = explained_share(A, N_PARCELS, X)
    return {"cpu": found.cpu, "memory": memory, "rand": rand, "share": share}


def main(limit=600.0, *sizes):
    print(f"{N_SUBJECTS} subjects, k = {N_PARCELS}, at most {limit:g} CPU s")
    for n in map(int, sizes or SIZES):
        with tempfile.TemporaryDirectory() as name:
            make_images(Path(name), n, N_SUBJECTS, N_PARCELS, 0)
            for method in RUNS:
                found = in_process(measure, method, Path(name), limit)
                figures = "stopped by the limit"
                if "cpu" in found:
                    figures = (
                        f"{found['cpu']:7.1f} CPU s, adjusted Rand index {found['rand']:.3f}, "
                        f"explained {found['share']:.5f}"
                    )
                print(
                    f"{n:7d} voxels  {method:10s} {found['memory'] / 1e6:7.0f} MB  {figures}",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
