"""Ways to certify a projection onto S+, in one run: why the library keeps the one it has.

All start from the same weights and bound <C, X> by D(w); they differ in how they move w:

* ``pairs``: the library. The relaxation over the pairs near the row maxima, then prices of rows.
* ``frank-wolfe``: one vertex a pass and an exact line search.
* ``corrective``: fully corrective Frank-Wolfe, the best point of the hull of all vertices met.
* ``newton``: Newton's method on D with a soft maximum of falling temperature, O(n k^2) a step.

The prototypes round with the library's local search, and try D at the weights of the assignment. A
pass reads all of C once; a step of Newton's method reads it once and forms a k x k matrix.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from orthoplus import kernels
from orthoplus.datasets import planted_projection
from orthoplus.projection import project_stiefel_plus
from orthoplus.projection.dual import initial_root, pairs_of_labels, scaled_dual
from orthoplus.projection.search import (
    chosen_of_labels,
    evaluate,
    fill_columns,
    labels_of_chosen,
    local_search,
)

TOL = 1e-12
MAX_PASSES = 3000
WINDOW = (0.9, 0.0, 8)  # pairs that the local search may use


class Race:
    """The best value and bound so far, passes and seconds; every alternative runs inside one."""

    def __init__(self, C: np.ndarray, seconds: float) -> None:
        self.C, self.value, self.bound, self.passes = C, -np.inf, np.inf, 0
        self.positive = kernels.column_maxima(C) > 0.0
        self.begin, self.seconds = time.perf_counter(), seconds

    @property
    def gap(self) -> float:
        return max(self.bound - self.value, 0.0) / self.bound

    @property
    def is_over(self) -> bool:
        is_late = time.perf_counter() - self.begin > self.seconds
        return self.gap <= TOL or self.passes >= MAX_PASSES or is_late

    def oracle(self, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One pass at w = root^2: labels and sums of the row maxima; the bound is noted."""
        labels, sums = kernels.assign_rows(self.C, root)
        self.passes += 1
        self.bound = min(self.bound, scaled_dual(root, sums, self.positive)[0])
        return labels, sums

    def round(self, labels: np.ndarray, root: np.ndarray) -> None:
        """Local search from the labels, and the bound at the weights of what it finds."""
        k = self.C.shape[1]
        pairs, _ = kernels.gather_pairs(self.C, root, WINDOW, pairs_of_labels(labels))
        self.passes += 1
        chosen = local_search(pairs, chosen_of_labels(pairs, labels), k, 20)
        best = evaluate(self.C, fill_columns(self.C, labels_of_chosen(pairs, chosen)))
        if best.value > self.value:
            self.value = best.value
            if (best.sums > 0.0).all():
                self.oracle(root_of(best.sums))


def root_of(sums: np.ndarray) -> np.ndarray:
    """sqrt(w) at w = 1 / (2 sqrt(S))."""
    return np.sqrt(0.5 / np.sqrt(np.maximum(sums, 1e-12 * sums.max())))


def line_search(S: np.ndarray, D: np.ndarray) -> float:
    """The maximiser of sum sqrt(S + a D) over [0, 1], by bisection of the slope."""
    low, high = 0.0, 1.0
    for _ in range(50):
        a = 0.5 * (low + high)
        slope = (D / np.sqrt(np.maximum(S + a * D, 1e-300))).sum()
        low, high = (a, high) if slope > 0.0 else (low, a)
    return high


def frank_wolfe(race: Race) -> Iterator[None]:
    root, S = initial_root(race.C, kernels.column_maxima(race.C)), None
    look, step = 8, 0
    while True:
        labels, vertex = race.oracle(root)
        S = vertex if S is None else S + line_search(S, vertex - S) * (vertex - S)
        root, step = root_of(S), step + 1
        if step == look:
            race.round(labels, root)
            look += max(8, look // 4)
        yield


def corrective(race: Race) -> Iterator[None]:
    root = initial_root(race.C, kernels.column_maxima(race.C))
    vertices, shares = np.empty((0, race.C.shape[1])), np.empty(0)
    while True:
        labels, vertex = race.oracle(root)
        vertices, shares = np.vstack([vertices, vertex]), np.append(0.9 * shares, 0.1)
        for _ in range(300):  # a fixed point is the maximum of sum_j sqrt(S_j) over the hull
            S = shares @ vertices
            slope = vertices @ (1.0 / np.sqrt(np.maximum(S, 1e-300)))
            shares *= (slope / (shares @ slope)) ** 1.5
            shares /= shares.sum()
        keep = shares > 1e-9
        vertices, shares = vertices[keep], shares[keep] / shares[keep].sum()
        root = root_of(shares @ vertices)
        race.round(labels, root)
        yield


def newton(race: Race) -> Iterator[None]:
    P = np.maximum(race.C, 0.0) ** 2
    w = initial_root(race.C, kernels.column_maxima(race.C)) ** 2
    _, sums = race.oracle(np.sqrt(w))
    w = scaled_dual(np.sqrt(w), sums, race.positive)[1]
    heat = 0.1 * float((w * P).max(axis=1).mean())

    def soft(w: np.ndarray, heat: float) -> tuple[float, np.ndarray]:
        """The smoothed dual and the shares of the rows."""
        priced = w * P
        top = priced.max(axis=1, keepdims=True)
        share = np.exp((priced - top) / heat)
        total = share.sum(axis=1, keepdims=True)
        race.passes += 1
        value = top.sum() + heat * np.log(total).sum() + (0.25 / w).sum()
        return float(value), share / total

    while True:
        for _ in range(3):
            value, share = soft(w, heat)
            held = share * P
            slope = held.sum(axis=0) - 0.25 / w**2
            hessian = (np.diag((held * P).sum(axis=0)) - held.T @ held) / heat
            step = -np.linalg.solve(hessian + np.diag(0.5 / w**3), slope)
            length = min(1.0, 0.9 / max(float((-step / w).max()), 1e-300))
            while length > 1e-4 and soft(w + length * step, heat)[0] > value:
                length *= 0.5
            w = w + length * step
            yield
        labels, _ = race.oracle(np.sqrt(w))
        race.round(labels, np.sqrt(w))
        heat = max(0.4 * heat, 1e-9)


ALTERNATIVES: dict[str, Callable[[Race], Iterator[None]]] = {
    "frank-wolfe": frank_wolfe,
    "corrective": corrective,
    "newton": newton,
}


def run_race(name: str, C: np.ndarray, seconds: float) -> tuple[float, float, float]:
    """(passes, seconds, gap) of one method on one matrix."""
    begin = time.perf_counter()
    if name == "pairs":
        found = project_stiefel_plus(C, tol=TOL)
        return found.passes, time.perf_counter() - begin, found.gap
    race = Race(C, seconds)
    for _ in ALTERNATIVES[name](race):
        if race.is_over:
            break
    return race.passes, time.perf_counter() - begin, race.gap


def cells(columns: list[int]) -> Iterator[tuple[str, Callable[[np.random.Generator], np.ndarray]]]:
    for k in columns:
        for xi in (0.98, 1.0):
            name = f"planted 2000 x {k}, {xi:.2f}"
            yield name, lambda rng, k=k, xi=xi: planted_projection(2000, k, xi, rng).C
    yield "uniform 2000 x 50", lambda rng: rng.random((2000, 50))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--columns", type=int, nargs="+", default=[50, 200, 400])
    parser.add_argument("--seconds", type=float, default=20.0, help="limit for a prototype")
    options = parser.parse_args()
    names = ["pairs", *ALTERNATIVES]
    small = np.random.default_rng(0).random((40, 5))
    for name in names:  # compile
        run_race(name, small, 1.0)
    print(f"Mean passes and seconds to a gap of {TOL:.0e}, or to the gap that is left (largest)")
    print(f"{'':24s}" + "".join(f"{name:>26s}" for name in names))
    for cell, make in cells(options.columns):
        parts = []
        for name in names:
            rngs = (np.random.default_rng(seed) for seed in range(options.instances))
            runs = np.array([run_race(name, make(rng), options.seconds) for rng in rngs])
            passes, seconds, _ = runs.mean(axis=0)
            parts.append(f"{passes:8.1f} {seconds:8.3f} {runs[:, 2].max():8.0e}")
        print(f"{cell:24s}" + "".join(parts), flush=True)


if __name__ == "__main__":
    main()
