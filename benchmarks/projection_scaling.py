"""How the certified projection onto S+ scales: gaps with nothing planted, seconds a pass, memory.

python benchmarks/projection_scaling.py [--quick]
"""

import argparse
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from orthoplus import kernels
from orthoplus.datasets import planted_projection
from orthoplus.projection import CertifiedProjection, project_stiefel_plus
from orthoplus.projection.dual import no_pairs

PLAIN: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "gaussian": lambda rng, n, k: rng.standard_normal((n, k)),
    "stiefel": lambda rng, n, k: np.linalg.qr(rng.standard_normal((n, k)))[0],
    "heavy tails": lambda rng, n, k: rng.standard_t(2, (n, k)),
    "rank 3": lambda rng, n, k: rng.standard_normal((n, 3)) @ rng.standard_normal((3, k)),
    "rank 5": lambda rng, n, k: rng.standard_normal((n, 5)) @ rng.standard_normal((5, k)),
    "rank 20": lambda rng, n, k: rng.standard_normal((n, 20)) @ rng.standard_normal((20, k)),
}


def timed(C: np.ndarray, **options: float) -> tuple[CertifiedProjection, float]:
    """The projection and the seconds it took."""
    start = time.perf_counter()
    result = project_stiefel_plus(C, **options)
    return result, time.perf_counter() - start


def planted_runs(
    k: int, xi: float, instances: int, n: int = 2000
) -> Iterator[tuple[bool, CertifiedProjection, float]]:
    """Whether the planted point was found, the projection and the seconds, for seeds 0, 1, ..."""
    for seed in range(instances):
        planted = planted_projection(n, k, xi, np.random.default_rng([seed, k, round(1000 * xi)]))
        result, seconds = timed(planted.C)
        yield bool((result.labels == planted.labels).all()), result, seconds


def print_planted(instances: int) -> None:
    print(f"\nPlanted, n = 2000, {instances} instances a cell: found, certified, largest gap, mean")
    print("  k    xi   found  certified  max gap  passes  seconds")
    for k in (10, 50, 100, 200, 300, 400):
        for xi in (0.5, 0.7, 0.9, 0.95, 0.98, 1.0):
            found, results, seconds = zip(*planted_runs(k, xi, instances), strict=True)
            certified = sum(result.status.success for result in results)
            gap, passes = max(r.gap for r in results), np.mean([r.passes for r in results])
            print(
                f"{k:4d}  {xi:4.2f}  {sum(found):5d}  {certified:9d}  {gap:7.1e}  {passes:6.1f}  "
                f"{np.mean(seconds):7.4f}"
            )


def print_plain(instances: int) -> None:
    shapes = [(500, 5), (400, 10), (2000, 10), (2000, 50), (4000, 100), (20000, 10), (20000, 100)]
    shapes += [(500, 50), (1000, 100)]
    print(f"\nNothing planted, {instances} instances: largest gap (certified)")
    print("              " + "".join(f"{n:>8d} x {k:<5d}" for n, k in shapes))
    for name, make in PLAIN.items():
        cells = []
        for n, k in shapes:
            results = [timed(make(np.random.default_rng(s), n, k))[0] for s in range(instances)]
            certified = sum(result.status.success for result in results)
            cells.append(f"{max(r.gap for r in results):9.1e} ({certified:2d})  ")
        print(f"{name:12s}  " + "".join(cells))


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """The least seconds of some runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def print_pass_times(max_rows: int) -> None:
    shapes = [(n, 50) for n in (2000, 20000, 200000, 2000000) if n <= max_rows]
    shapes += [(20000, k) for k in (10, 25, 50, 100, 200, 400)]
    print(
        "\nSeconds a pass, float64: assign_rows, gather_pairs; NumPy; nanoseconds an entry (assign)"
    )
    for n, k in shapes:
        C, root = np.random.default_rng(0).random((n, k)), np.ones(k)
        keep, window = no_pairs(n), (0.999, 0.0, 32)
        assign = best_of(5, lambda C=C, root=root: kernels.assign_rows(C, root))
        gather = best_of(5, lambda C=C, r=root, w=window, p=keep: kernels.gather_pairs(C, r, w, p))
        plain = best_of(2, lambda C=C, root=root: (np.maximum(C, 0) ** 2 * root).argmax(axis=1))
        entry = assign / (n * k) * 1e9
        print(f"{n:8d} x {k:<4d} {assign:9.5f} {gather:9.5f} {plain:9.5f}   {entry:5.2f}")


def resident_bytes() -> int:
    """Memory of this process now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


class PeakMemory:
    """The largest resident memory while the block runs, looked at every few milliseconds."""

    def __enter__(self) -> "PeakMemory":
        self.peak, self._stop = resident_bytes(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, resident_bytes())

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


def print_large(n: int, k: int) -> None:
    print(f"\n{n} x {k} float32, uniform")
    timed(np.random.default_rng(0).random((40 * k * 40, k), dtype=np.float32))  # compile
    before = resident_bytes()
    C = np.empty((n, k), dtype=np.float32)
    rng = np.random.default_rng(0)
    for row in range(0, n, 10000):
        C[row : row + 10000] = rng.random(C[row : row + 10000].shape, dtype=np.float32)
    for tol in (1e-6, 1e-12):
        with PeakMemory() as memory:
            result, seconds = timed(C, tol=tol)
        ratio = (memory.peak - before) / C.nbytes
        print(
            f"  tol {tol:.0e}: gap {result.gap:.1e}, {result.status.name}, {result.passes:.1f} "
            f"passes, {seconds:.2f} s, peak memory {ratio:.2f} of C"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, few instances")
    quick = parser.parse_args().quick
    timed(np.random.default_rng(0).random((200, 5)))  # compile
    print_planted(2 if quick else 50)
    print_plain(1 if quick else 10)
    print_pass_times(20000 if quick else 2000000)
    print_large(100000 if quick else 1000000, 100)


if __name__ == "__main__":
    sys.exit(main())
