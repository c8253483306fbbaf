"""Orthogonal NMF in memory, from disk and on a cluster: seconds, memory, and the same labels.

    python benchmarks/scaling.py            2,000,000 x 100 in float32, 800 MB on disk
    python benchmarks/scaling.py --quick    a tenth of the rows

Every run is a process of its own, so that its peak memory is its own. The file with the data is
made in a temporary folder and removed in the end.

Weak scaling gives every worker the same rows, so that one and two workers take the same passes. Two
processes that fit those rows at once, each by itself, show what the machine has to give: no cluster
can be faster than they are. Seconds of processor tell work from waiting for a busy machine.
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
DASK_CHUNK = 125_000  # rows: 50 MB, so that a pass is long beside what the scheduler adds to it


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

    start, cpu = time.perf_counter(), time.process_time()
    model = OrthogonalNMF(K, random_state=0, **options).fit(X)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if labels_path:
        np.save(labels_path, np.asarray(model.labels_).astype(np.int8))
    return {"seconds": round(seconds, 1), "cpu": round(cpu, 1), "error": model.reconstruction_err_}


def warm_up():
    """Compile, and load what is loaded once: neither grows with the data."""
    fit(np.random.default_rng(0).random((500, R), dtype=np.float32))
    return peak_memory()


def run_memory(path, n, labels_path):
    base = warm_up()
    return fit(load_rows(path, 0, n), labels_path) | {"base_mb": base, "peak_mb": peak_memory()}


def run_mapped(path, n, labels_path):
    from orthoplus.data.stored import Stored

    base, passes, read = warm_up(), [], Stored.blocks
    Stored.blocks = lambda rows: passes.append(0) or read(rows)
    X = np.load(path, mmap_mode="r")[:n]
    found = fit(X, labels_path, memory_limit=LIMIT)
    return found | {"base_mb": base, "peak_mb": peak_memory(), "passes": len(passes)}


def run_alone(path, n, labels_path):
    """One process, one thread: what a worker is given to do, without a cluster."""
    os.environ["ORTHOPLUS_NUM_THREADS"] = "1"
    return run_memory(path, n, labels_path)


def run_two_alone(path, n, labels_path):
    """The slower of two such processes that run at once."""
    command = [sys.executable, __file__, "--child", "alone", str(path), str(n), str(labels_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [json.loads(process.communicate()[0].strip().splitlines()[-1]) for process in running]
    return max(found, key=lambda row: row["seconds"])


def lazy_rows(path, n, copies):
    """The first n rows, so many times over, as a Dask array that is loaded where it is used."""
    import dask
    import dask.array as da

    load = dask.delayed(load_rows)
    parts = [(low, min(low + DASK_CHUNK, n)) for low in range(0, n, DASK_CHUNK)] * copies
    return da.concatenate(
        [
            da.from_delayed(load(path, low, high, pure=False), (high - low, R), dtype=np.float32)
            for low, high in parts
        ]
    )


def run_cluster(path, n, labels_path, workers=2, copies=1):
    from distributed import Client, LocalCluster, wait

    warm_up()
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=WORKER_MEMORY,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm_up)
        bases = sorted(client.run(peak_memory).values())
        X = client.persist(lazy_rows(path, n, copies))
        wait(X)
        before = client.run(time.process_time)
        found = fit(X, labels_path)
        after = client.run(time.process_time)
        peaks = sorted(client.run(peak_memory).values())
    work = [round(after[name] - before[name], 1) for name in after]
    measured = {"base_mb": bases, "peak_mb": [peak_memory(), *peaks], "cpu": [found["cpu"], *work]}
    return found | measured


def run_one_worker(path, n, labels_path):
    return run_cluster(path, n, labels_path, workers=1)


def run_twice_the_rows(path, n, labels_path):
    return run_cluster(path, n, labels_path, workers=2, copies=2)


RUNS = {
    "in memory": run_memory,
    "mapped": run_mapped,
    "two workers": run_cluster,
    "one worker": run_one_worker,
    "two, twice": run_twice_the_rows,
    "alone": run_alone,
    "two alone": run_two_alone,
}


def measure(name, path, n, folder):
    """One run in a process of its own."""
    labels = Path(folder) / f"{name}-{n}.npy"
    command = [sys.executable, __file__, "--child", name, str(path), str(n), str(labels)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    row = json.loads(done.stdout.strip().splitlines()[-1])
    passes = f", {row['passes']} passes" if "passes" in row else ""
    print(
        f"{name:>12} {n:>9} rows  {row['seconds']:>7} s ({row['cpu']} of processor)  "
        f"peak {row['peak_mb']} MB (before the data: {row['base_mb']}){passes}",
        flush=True,
    )
    return row | {"labels": np.load(labels)}


def weak_scaling(path, n, folder):
    """One worker with n rows, two with as many each; and the same without a cluster."""
    seconds = {
        name: measure(name, path, n, folder)["seconds"]
        for name in ("alone", "two alone", "one worker", "two, twice")
    }
    ceiling = seconds["alone"] / seconds["two alone"]
    reached = seconds["one worker"] / seconds["two, twice"]
    print(f"efficiency of two processes {ceiling:.2f}, of two workers {reached:.2f}")


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
        print("weak scaling, the same rows for every process:")
        weak_scaling(path, n // 4, folder)


if __name__ == "__main__":
    main()
