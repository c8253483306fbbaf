"""Compare ways to certify a projection onto S+, to justify the one in the library.

All start from the same weights and bound <C, X> by D(w); they differ in how they move w:

* ``pairs``: the library. The relaxation over the pairs near the row maxima, then prices of rows.
* ``frank-wolfe``: one vertex per pass and an exact line search.
* ``corrective``: fully corrective Frank-Wolfe, the best point of the hull of all vertices met.
* ``newton``: Newton's method on D with a soft maximum of falling temperature, O(n k^2) per step.

The prototypes round with the library's local search, and try D at the weights of the assignment. A
pass reads all of C once; a step of Newton's method reads it once and forms a k x k matrix.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from orthoplus import kernels
from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.datasets import planted_projection
from orthoplus.projection import project_stiefel_plus, search
from orthoplus.projection.dual import initial_root, pairs_of_labels, scaled_dual

INSTANCES, QUICK_INSTANCES = 3, 1
N, QUICK_N = 2000, 300
COLUMNS, QUICK_COLUMNS = (50, 200, 400), (10,)
TOL = 1e-12
MAX_PASSES = 3000
WINDOW = (0.9, 0.0, 8)  # pairs that the local search may use


class Race:
    """The best value and bound so far, with passes and seconds, for one prototype."""

    def __init__(self, C: FloatArray, seconds: float) -> None:
        self.C: FloatArray = C
        self.value: float = -np.inf
        self.bound: float = np.inf
        self.passes: int = 0
        self.maxima: FloatArray = kernels.column_maxima(C)
        self.end: float = time.process_time() + seconds

    @property
    def gap(self) -> float:
        """Return (bound - value) / bound, the relative gap of a maximum."""
        return max(self.bound - self.value, 0.0) / self.bound

    @property
    def is_over(self) -> bool:
        """Return whether the gap is closed, or the passes or the CPU time are used up."""
        is_late = time.process_time() > self.end
        return self.gap <= TOL or self.passes >= MAX_PASSES or is_late

    def oracle(self, root: FloatArray) -> tuple[IntArray, FloatArray]:
        """Make one pass at w = root^2: labels and sums of the row maxima; the bound is noted."""
        labels, sums = kernels.assign_rows(self.C, root)
        self.passes += 1
        self.bound = min(self.bound, scaled_dual(root, sums, self.maxima > 0.0)[0])
        return labels, sums

    def round(self, labels: IntArray, root: FloatArray) -> None:
        """Search locally from the labels, and compute the bound at the weights of the result."""
        pairs, _ = kernels.gather_pairs(self.C, root, WINDOW, pairs_of_labels(labels))
        self.passes += 1
        chosen = search.local_search(
            pairs, search.chosen_of_labels(pairs, labels), self.C.shape[1], 20
        )
        best = search.evaluate(
            self.C, search.fill_columns(self.C, search.labels_of_chosen(pairs, chosen))
        )
        if best.value > self.value:
            self.value = best.value
            if (best.sums > 0.0).all():
                self.oracle(root_of(best.sums))


def root_of(sums: FloatArray) -> FloatArray:
    """Return sqrt(w) at w = 1 / (2 sqrt(S))."""
    return np.asarray(np.sqrt(0.5 / np.sqrt(np.maximum(sums, 1e-12 * sums.max()))))


def line_search(S: FloatArray, D: FloatArray) -> float:
    """Return the maximizer of sum sqrt(S + a D) over [0, 1], by bisection of the slope."""
    low, high = 0.0, 1.0
    for _ in range(50):
        a = 0.5 * (low + high)
        slope = (D / np.sqrt(np.maximum(S + a * D, 1e-300))).sum()
        low, high = (a, high) if slope > 0.0 else (low, a)
    return high


def frank_wolfe(race: Race) -> Iterator[None]:
    """Move toward one vertex per pass, and round occasionally."""
    labels, S = race.oracle(initial_root(race.C, race.maxima))
    look, step = 8, 1
    while True:
        labels, vertex = race.oracle(root_of(S))
        S, step = S + line_search(S, vertex - S) * (vertex - S), step + 1
        if step == look:
            race.round(labels, root_of(S))
            look += max(8, look // 4)
        yield


def corrective(race: Race) -> Iterator[None]:
    """Move to the best point of the hull of all vertices found so far."""
    root = initial_root(race.C, race.maxima)
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


def soft_dual(race: Race, P: FloatArray, w: FloatArray, heat: float) -> tuple[float, FloatArray]:
    """Return the smoothed dual and the shares of the rows."""
    priced = w * P
    top = priced.max(axis=1, keepdims=True)
    share = np.exp((priced - top) / heat)
    total = share.sum(axis=1, keepdims=True)
    race.passes += 1
    return float(top.sum() + heat * np.log(total).sum() + (0.25 / w).sum()), share / total


def newton(race: Race) -> Iterator[None]:
    """Take three steps of Newton's method at each temperature."""
    P = np.maximum(race.C, 0.0) ** 2
    root = initial_root(race.C, race.maxima)
    w = scaled_dual(root, race.oracle(root)[1], race.maxima > 0.0)[1]
    heat = 0.1 * float((w * P).max(axis=1).mean())
    while True:
        for _ in range(3):
            value, share = soft_dual(race, P, w, heat)
            held = share * P
            slope = held.sum(axis=0) - 0.25 / w**2
            hessian = (np.diag((held * P).sum(axis=0)) - held.T @ held) / heat
            step = -np.linalg.solve(hessian + np.diag(0.5 / w**3), slope)
            length = min(1.0, 0.9 / max(float((-step / w).max()), 1e-300))
            while length > 1e-4 and soft_dual(race, P, w + length * step, heat)[0] > value:
                length *= 0.5
            w = w + length * step
            yield
        labels, _ = race.oracle(np.sqrt(w))
        race.round(labels, np.sqrt(w))
        heat = max(0.4 * heat, 1e-9)


PROTOTYPES: dict[str, Callable[[Race], Iterator[None]]] = {
    "frank-wolfe": frank_wolfe,
    "corrective": corrective,
    "newton": newton,
}


def run_race(name: str, C: FloatArray, seconds: float) -> tuple[float, float]:
    """Return passes and gap of one method on one matrix."""
    if name not in PROTOTYPES:
        found = project_stiefel_plus(C, tol=TOL)
        return found.passes, found.gap
    race = Race(C, seconds)
    for _ in PROTOTYPES[name](race):
        if race.is_over:
            break
    return race.passes, race.gap


def tasks(session: Session) -> Items:
    """Yield planted matrices at high noise, and a uniform one."""
    n = session.pick(N, QUICK_N)
    cells: dict[str, Callable[[np.random.Generator], FloatArray]] = {
        f"planted {n} x {k}, xi = {xi:g}": partial(
            lambda k, xi, rng: planted_projection(n, k, xi, rng).C, k, xi
        )
        for k in session.pick(COLUMNS, QUICK_COLUMNS)
        for xi in (0.98, 1.0)
    }
    cells[f"uniform {n} x 50"] = lambda rng: rng.random((n, 50))
    methods = ("pairs", *PROTOTYPES)
    for method in methods:  # compile
        run_race(method, np.random.default_rng(0).random((40, 5)), 1.0)
    for case, make in cells.items():
        for method in methods:
            yield one_row(case, method, _measure, session, make, method)


def _measure(
    session: Session, make: Callable[[np.random.Generator], FloatArray], method: str
) -> Figures:
    made = [make(rng) for rng in session.rngs(INSTANCES, QUICK_INSTANCES)]
    run = timed(lambda: [run_race(method, C, session.seconds) for C in made])
    passes, gaps = np.array(run.value).T
    return {"passes": passes.mean(), "gap": gaps.max(), "cpu": run.cpu / len(made)}


TABLE = Table(
    about=f"{INSTANCES} instances per cell, to a gap of {TOL:g}; a prototype ends after "
    f"{MAX_PASSES} passes or at the limit of seconds.",
    columns=(
        Column("passes", "passes", ".1f", "least", "over C, on average"),
        Column("gap", "gap", ".0e", "least", "the largest remaining gap"),
        Column("cpu", "CPU s", ".3f", "least"),
    ),
    tasks=tasks,
    quick_about=f"n = {QUICK_N}, k = 10, one instance",
)
