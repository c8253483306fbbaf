"""Compare orthogonal NMF in memory, from disk and on a cluster: seconds, memory, labels.

Weak scaling gives every worker the same rows, so that one and two workers take the same passes. Two
independent processes that fit those rows at the same time show what the machine can achieve: no
cluster can be faster. CPU seconds distinguish work from waiting for a busy machine.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from orthoplus.bench.measure import peak_bytes, timed
from orthoplus.bench.processes import in_process, in_processes
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.types import FloatArray
from orthoplus.data.stored import Stored

R, K = 100, 10
ROWS, QUICK_ROWS = 2_000_000, 40_000
LIMIT, WORKER_MEMORY = "512MB", "1.5GB"
CHUNK = 50_000
DASK_CHUNK = (
    125_000  # rows: 50 MB, so that a pass is long compared with the overhead of the scheduler
)
WEAK = "weak scaling"


def make_file(path: Path, n: int) -> None:
    """Write rows near K planted spectra with noise, in chunks."""
    file = np.lib.format.open_memmap(path, "w+", np.float32, (n, R))
    spectra = np.random.default_rng(0).random((K, R)) ** 3
    for number, start in enumerate(range(0, n, CHUNK)):
        rng = np.random.default_rng([1, number])
        labels = rng.integers(K, size=min(CHUNK, n - start))
        rows = (0.2 + rng.random((len(labels), 1))) * spectra[labels]
        file[start : start + len(labels)] = rows + 0.25 * rng.random(rows.shape)
    file.flush()


def load_rows(path: str, start: int, stop: int) -> FloatArray:
    """Return a copy of some rows of the file."""
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def fit(X: Any, path: str, n: int, **options: Any) -> dict[str, Any]:
    """Fit X, and keep the labels next to the data."""
    from orthoplus.estimators import OrthogonalNMF

    found = timed(lambda: OrthogonalNMF(K, random_state=0, **options).fit(X))
    labels = np.asarray(found.value.labels_).astype(np.int8)
    np.save(f"{path}-{os.getpid()}-{n}.npy", labels)
    error = float(found.value.reconstruction_err_)
    figures = {"wall": found.wall, "cpu": found.cpu, "error": error, "labels": os.getpid()}
    return figures | {"peak": peak_bytes() / 1e6}


def warm_up() -> float:
    """Compile and load what does not depend on the data; return the peak memory in MB."""
    from orthoplus.estimators import OrthogonalNMF

    OrthogonalNMF(K, random_state=0).fit(
        np.random.default_rng(0).random((500, R), dtype=np.float32)
    )
    return peak_bytes() / 1e6


def fit_in_memory(path: str, n: int) -> Figures:
    """Fit a copy in memory."""
    base = warm_up()
    return fit(load_rows(path, 0, n), path, n) | {"base": base}


def fit_mapped(path: str, n: int) -> Figures:
    """Fit a memory map within a limit of memory, and count the passes over it."""
    base, read = warm_up(), Stored.blocks
    with mock.patch.object(Stored, "blocks", autospec=True, side_effect=read) as passes:
        found = fit(np.load(path, mmap_mode="r")[:n], path, n, memory_limit=LIMIT)
    return found | {"base": base, "passes": passes.call_count}


def fit_alone(path: str, n: int) -> Figures:
    """Fit in one process with one thread: the work of one worker, without a cluster."""
    os.environ["ORTHOPLUS_NUM_THREADS"] = "1"
    return fit_in_memory(path, n)


def fit_on_cluster(path: str, n: int, workers: int, copies: int) -> Figures:
    """Fit several copies of the rows as a Dask array, persisted on the workers."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    warm_up()
    load = dask.delayed(load_rows)
    parts = [(low, min(low + DASK_CHUNK, n)) for low in range(0, n, DASK_CHUNK)] * copies
    blocks = [
        da.from_delayed(load(path, low, high, pure=False), (high - low, R), dtype=np.float32)
        for low, high in parts
    ]
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True,
            memory_limit=WORKER_MEMORY, dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        base = max(client.run(warm_up).values())
        X = client.persist(da.concatenate(blocks))
        wait(X)
        before = sum(client.run(time.process_time).values())
        found = fit(X, path, n)
        found["cpu"] += sum(client.run(time.process_time).values()) - before
        peak = max(client.run(peak_bytes).values()) / 1e6
    return found | {"base": base, "peak": peak, "note": "memory is that of the largest worker"}


def fit_two_at_once(path: str, n: int) -> Figures:
    """Return the figures of the slower of two processes that fit the same rows at once."""
    return max(in_processes(2, fit_alone, path, n), key=lambda figures: figures["wall"])


STORED: dict[str, Callable[[str, int], Figures]] = {
    "in memory": partial(in_process, fit_in_memory),
    "memory map": partial(in_process, fit_mapped),
    "two workers": lambda path, n: in_process(fit_on_cluster, path, n, 2, 1),
}
WEAKLY: dict[str, Callable[[str, int], Figures]] = {
    "one process": partial(in_process, fit_alone),
    "two processes": fit_two_at_once,
    "one worker": lambda path, n: in_process(fit_on_cluster, path, n, 1, 1),
    "two workers": lambda path, n: in_process(fit_on_cluster, path, n, 2, 2),
}


def tasks(session: Session) -> Items:
    """Yield each storage on all rows and on parts of them, then the weak scaling."""
    n = session.pick(ROWS, QUICK_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "A.npy")
        make_file(Path(path), n)
        for part in (n // 10, n // 3, n):
            for method in STORED if part == n else ("in memory", "memory map"):
                yield one_row(f"{part:,} rows", method, _measure, STORED[method], path, part)
        for method, run in WEAKLY.items():
            yield one_row(WEAK, method, _measure, run, path, n // 4)


def _measure(run: Callable[[str, int], Figures], path: str, n: int) -> Figures:
    """Run, and count the labels that differ from those of the first run with as many rows."""
    figures = dict(run(path, n))
    labels = np.load(f"{path}-{figures.pop('labels')}-{n}.npy")
    first = Path(f"{path}-first-{n}.npy")
    if not first.is_file():
        np.save(first, labels)
    figures["differ"] = int((labels[:n] != np.load(first)[:n]).sum())
    return figures


def judge(rows: Rows) -> list[str]:
    """Report whether all labels agree, and the efficiency of two processes and two workers."""
    cases = rows.by_case()
    differ = sum(int(row.number("differ")) for row in rows if row.case != WEAK)
    lines = [f"{differ} labels differ between memory, disk and cluster."]
    wall = {method: row.number("wall") for method, row in cases.get(WEAK, {}).items()}
    if len(wall) == 4:
        lines.append(
            f"The efficiency of two processes is {wall['one process'] / wall['two processes']:.2f},"
            f" of two workers {wall['one worker'] / wall['two workers']:.2f}."
        )
    return lines


TABLE = Table(
    about=f"Planted spectra in float32, {ROWS:,} x {R}, k = {K}, on disk; the memory map with a "
    f"limit of {LIMIT}, workers with one of {WORKER_MEMORY} each. In the weak scaling each process "
    "or worker has a quarter of the rows.",
    columns=(
        Column("wall", "wall s", ".1f", "least"),
        Column("cpu", "CPU s", ".1f", "", "of all processes"),
        Column("peak", "peak MB", ".0f", "least"),
        Column("base", "base MB", ".0f", "", "peak before the data are loaded"),
        Column("passes", "passes", ".0f", "", "over the file"),
        Column("differ", "differ", ".0f", "", "labels that differ from those of the first method"),
        Column("error", "error", ".6g", "", "of the reconstruction"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_ROWS:,} rows",
)
