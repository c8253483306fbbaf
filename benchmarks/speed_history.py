"""Append the processor seconds of a few calls to a file, one JSON line per run of this script.

    python benchmarks/speed_history.py [history.jsonl]

A line has the commit, the machine and the versions, and per case the least of three runs after one
that compiles. Then every case of this machine is printed commit by commit, in the order of the
file: a slow commit shows as a jump in its column.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import orthoplus as op
from orthoplus.bench.machine import describe_machine

ROUNDS = 3


def cases():
    """Return name -> call; each takes less than a few seconds."""
    rng = np.random.default_rng(0)
    groups = np.arange(2000) % 8
    dense = rng.random((8, 100))[groups] + 0.3 * rng.random((2000, 100))
    counts = rng.poisson(0.3 * rng.gamma(0.5, size=(8, 500))[groups])
    sparse = sp.csr_array(counts.astype(float))
    graph = sp.csr_array((dense[:400] @ dense[:400].T > 35) * 1.0)
    A, B = rng.random((2, 30, 30))
    return {
        "fit dense": lambda: op.OrthogonalNMF(8).fit(dense),
        "fit sparse": lambda: op.OrthogonalNMF(8).fit(sparse),
        "fit counts": lambda: op.OrthogonalNMF(8, loss="kullback-leibler").fit(sparse),
        "project": lambda: op.project(dense[:500, :8]),
        "spectral": lambda: op.NonnegativeSpectralClustering(4, affinity="precomputed").fit(graph),
        "assignment": lambda: op.quadratic_assignment(A, B),
    }


def measure(call):
    """Return the least processor seconds of a few calls, after one that compiles."""
    call()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return round(min(spent), 4)


def show(path, machine):
    """Print the lines of this machine."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["machine"]["processor"] == machine["processor"]]
    names = list(rows[-1]["seconds"])
    print(f"{'commit':14s}" + "".join(f"{name:>13s}" for name in names))
    for row in rows:
        cells = "".join(f"{row['seconds'].get(name, float('nan')):13.3f}" for name in names)
        print(f"{row['machine']['commit'] or 'installed':14s}" + cells)


def main(path="speed-history.jsonl"):
    machine = describe_machine()
    row = {"machine": machine, "seconds": {name: measure(call) for name, call in cases().items()}}
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    show(Path(path), machine)


if __name__ == "__main__":
    main(*sys.argv[1:])
