"""Orthogonal NMF in memory, from disk and on a cluster: seconds, memory, and the same labels.

    python benchmarks/scaling.py            2,000,000 x 100 in float32, 800 MB on disk
    python benchmarks/scaling.py --quick    a tenth of the rows

Every run is a process of its own, so that its peak memory is its own. The file with the data is
made in a temporary folder and removed in the end.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

R, K = 100, 10
LIMIT, WORKER_MEMORY = "512MB", "1.5GB"
CHUNK = 50_000


def make_data(path, n):
    """Rows near K planted spectra with noise, written in chunks."""
    file = np.lib.format.open_memmap(path, "w+", np.float32, (n, R))
    spectra = np.random.default_rng(0).random((K, R)) ** 3
    for number, start in enumerate(range(0, n, CHUNK)):
        rng = np.random.default_rng([1, number])
        labels = rng.integers(K, size=min(CHUNK, n - start))
        rows = (0.2 + rng.random((len(labels), 1))) * spectra[labels]
        file[start : start + len(labels)] = rows + 0.25 * rng.random(rows.shape)
    file.flush()


def load_rows(path, start, stop):
    """A copy of some rows of the file."""
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def peak_memory():
    """Most memory this process has had, in MB; Linux tells it of this program alone."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return round(int(line.split()[1]) / 1000)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def fit(X, labels_path=None, **options):
    """Fit X; seconds, value and iterations."""
    from orthoplus.estimators import OrthogonalNMF

    start = time.perf_counter()
    model = OrthogonalNMF(K, random_state=0, **options).fit(X)
    seconds = time.perf_counter() - start
    if labels_path:
        np.save(labels_path, np.asarray(model.labels_).astype(np.int8))
    return {"seconds": round(seconds, 1), "error": model.reconstruction_err_}


def warm_up():
    """Compile, and load what is loaded once: neither grows with the data."""
    fit(np.random.default_rng(0).random((500, R), dtype=np.float32))
    return peak_memory()


def run_memory(path, n, labels_path):
    base = warm_up()
    return fit(np.load(path)[:n], labels_path) | {"base_mb": base, "peak_mb": peak_memory()}


def run_mapped(path, n, labels_path):
    base = warm_up()
    X = np.load(path, mmap_mode="r")[:n]
    found = fit(X, labels_path, memory_limit=LIMIT)
    return found | {"base_mb": base, "peak_mb": peak_memory()}


def run_cluster(path, n, labels_path, workers=2):
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    warm_up()
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=WORKER_MEMORY,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm_up)
        bases = sorted(client.run(peak_memory).values())
        height = -(-n // (8 * workers))
        load = dask.delayed(load_rows)
        parts = [(start, min(start + height, n)) for start in range(0, n, height)]
        blocks = [
            da.from_delayed(load(path, low, high), (high - low, R), dtype=np.float32)
            for low, high in parts
        ]
        X = client.persist(da.concatenate(blocks))
        found = fit(X, labels_path)
        peaks = sorted(client.run(peak_memory).values())
    return found | {"base_mb": bases, "peak_mb": [peak_memory(), *peaks]}


def run_one_worker(path, n, labels_path):
    return run_cluster(path, n, labels_path, workers=1)


RUNS = {
    "in memory": run_memory,
    "mapped": run_mapped,
    "two workers": run_cluster,
    "one worker": run_one_worker,
}


def measure(name, path, n, folder):
    """One run in a process of its own."""
    labels = Path(folder) / f"{name}-{n}.npy"
    command = [sys.executable, __file__, "--child", name, str(path), str(n), str(labels)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    row = json.loads(done.stdout.strip().splitlines()[-1])
    print(
        f"{name:>12} {n:>9} rows  {row['seconds']:>7} s  peak {row['peak_mb']} MB "
        f"(before the data: {row['base_mb']})",
        flush=True,
    )
    return row | {"labels": np.load(labels)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", default=None, help="where to make the data; else a new one")
    parser.add_argument("--child", nargs=4, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, path, n, labels = given.child
        print(json.dumps(RUNS[name](path, int(n), labels)))
        return
    n = 200_000 if given.quick else 2_000_000
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "A.npy"
        make_data(path, n)
        size = os.path.getsize(path) / 1e6
        print(f"{n} x {R} float32, {size:.0f} MB, k = {K}, {os.cpu_count()} processors")
        rows = {name: measure(name, path, n, folder) for name in list(RUNS)[:3]}
        first = rows["in memory"]
        for name, row in rows.items():
            different = int((row["labels"] != first["labels"]).sum())
            error = abs(row["error"] / first["error"] - 1)
            print(f"{name:>12}: {different} labels differ, error differs by {error:.1e}")
        print("growth with the rows, in memory and mapped:")
        for part in (n // 10, n // 3):
            for name in ("in memory", "mapped"):
                measure(name, path, part, folder)
        print("weak scaling:")
        measure("one worker", path, n // 8, folder)
        measure("two workers", path, n // 4, folder)


if __name__ == "__main__":
    main()
