"""Check certified projections against all supports, for tiny random matrices of many kinds.

    python benchmarks/projection_brute_force.py
    python benchmarks/projection_brute_force.py --count 5000 --seed 1

Each matrix has n <= 7 rows and k <= 4 columns, so the optimum over S+ is the best of at most 4^7
assignments; it is computed in extended precision. Three things are checked: the value is that of
the returned point and no more than the optimum; the bound is not below the optimum, without any
tolerance; a point that is certified is optimal. Matrices this small are searched completely by
default: half of them are solved as large ones are, by passes, prices and branch and bound. Prints
one line per kind and exits with 1 if a check failed.
"""

import argparse
import sys
from collections import Counter
from functools import cache
from itertools import product
from time import perf_counter

import numpy as np

from orthoplus.core.status import Status
from orthoplus.projection import certify, project_stiefel_plus

ROUNDING = 1e-12  # relative to the sum of the absolute values of the columns
LARGEST_SCALE = 30.0  # scales are from 1e-30 to 1e30
TINY_ROWS = certify.TINY_ROWS


def _plain(rng, n, k):
    return rng.standard_normal((n, k))


def _duplicated(rng, n, k):
    kinds = rng.standard_normal((max(1, n // 2), k))
    return kinds[rng.integers(len(kinds), size=n)]


def _negative_columns(rng, n, k):
    C = rng.standard_normal((n, k))
    C[:, rng.random(k) < 0.5] *= -1.0
    columns = rng.random(k) < 0.5
    C[:, columns] = -np.abs(C[:, columns])
    return C


def _scales(rng, shape):
    return 10.0 ** rng.uniform(-LARGEST_SCALE, LARGEST_SCALE, shape)


def _underflow(rng, n, k):
    """Entries so far apart that products of their squares underflow."""
    return rng.random((n, k)) * 10.0 ** rng.choice([-160.0, -90.0, -60.0, 0.0], (n, k))


KINDS = {
    "Gaussian": _plain,
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "integers": lambda rng, n, k: rng.integers(-2, 4, (n, k)).astype(float),
    "binary": lambda rng, n, k: (rng.random((n, k)) < 0.5).astype(float),
    "nearly constant": lambda rng, n, k: 1.0 + 1e-2 * rng.standard_normal((n, k)),
    "rank one": lambda rng, n, k: np.outer(rng.random(n), rng.random(k)),
    "duplicated rows": _duplicated,
    "negative columns": _negative_columns,
    "few positive": lambda rng, n, k: rng.random((n, k)) - 0.85,
    "row scales": lambda rng, n, k: _plain(rng, n, k) * _scales(rng, (n, 1)),
    "column scales": lambda rng, n, k: _plain(rng, n, k) * _scales(rng, k),
    "global scale": lambda rng, n, k: _plain(rng, n, k) * _scales(rng, ()),
    "underflow": _underflow,
    "float32": lambda rng, n, k: _plain(rng, n, k).astype(np.float32),
}


@cache
def row_sets(n, k):
    """Return, for each assignment of n rows to k non-empty columns, each column's rows as bits."""
    labels = np.array(list(product(range(k), repeat=n)))
    sets = np.stack([((labels == j) << np.arange(n)).sum(axis=1) for j in range(k)], axis=1)
    return sets[(sets > 0).all(axis=1)]


def brute_force(C):
    """Return max <C, X> over S+ by trying all supports, in extended precision."""
    n, k = C.shape
    wide = C.astype(np.longdouble)
    squares = np.maximum(wide, 0.0) ** 2
    sums = np.zeros((1 << n, k), dtype=np.longdouble)
    largest = np.full((1 << n, k), -np.inf, dtype=np.longdouble)
    for i in range(n):  # sets whose last row is i, from those of the rows before
        sums[1 << i : 2 << i] = sums[: 1 << i] + squares[i]
        largest[1 << i : 2 << i] = np.maximum(largest[: 1 << i], wide[i])
    gain = np.where(largest > 0.0, np.sqrt(sums), largest)
    sets = row_sets(n, k)
    total = gain[sets[:, 0], 0]
    for j in range(1, k):
        total = total + gain[sets[:, j], j]
    return total.max()


def check(C, result):
    """Return what is wrong with ``result`` as the certified projection of C, as a list of words."""
    best, X = brute_force(C), result.X
    size = max(result.size, float(abs(best)), np.finfo(float).tiny)
    inner = float((C.astype(np.longdouble) * X).sum())
    wrong = []
    if (X < 0.0).any() or np.abs(X.T @ X - np.eye(X.shape[1])).max() > 1e-14:
        wrong.append("point")
    if abs(inner - result.value) > ROUNDING * size or result.value - best > ROUNDING * size:
        wrong.append("value")
    if not (result.bound >= best and result.bound >= result.value and result.gap >= 0.0):
        wrong.append("bound")
    if result.status is Status.CERTIFIED and best - result.value > ROUNDING * size:
        wrong.append("certificate")
    if len(C) <= certify.TINY_ROWS and result.status is not Status.CERTIFIED:
        wrong.append("status")
    return wrong


def run(count, seed):
    """Check ``count`` random matrices; return projections, proofs and faults, counted by kind."""
    rng = np.random.default_rng(seed)
    done, certified, faults = Counter(), Counter(), Counter()
    names = list(KINDS)
    for trial in range(count):
        kind = names[trial % len(names)]
        k = int(rng.integers(1, 5))
        C = KINDS[kind](rng, int(rng.integers(k, 8)), k)
        certify.TINY_ROWS = TINY_ROWS if trial // len(names) % 2 else 0
        result = project_stiefel_plus(C)
        done[kind] += 1
        certified[kind] += result.status is Status.CERTIFIED
        for fault in check(C, result):
            faults[kind, fault] += 1
            print(f"{kind}: wrong {fault}, C =\n{C!r}\n{result!r}", file=sys.stderr)
    certify.TINY_ROWS = TINY_ROWS
    return done, certified, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = perf_counter()
    done, certified, faults = run(options.count, options.seed)
    print(f"{'kind':20s} {'projections':>12s} {'certified':>12s} {'faults':>8s}")
    for kind in done:
        wrong = sum(number for (name, _), number in faults.items() if name == kind)
        print(f"{kind:20s} {done[kind]:12,d} {certified[kind]:12,d} {wrong:8d}")
    total, wrong = sum(done.values()), sum(faults.values())
    seconds = perf_counter() - begin
    print(
        f"{total:,} projections checked in {seconds:.0f} s: {sum(certified.values()):,} "
        f"certified, {wrong} faults"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
