"""Print the gap that the certified projection leaves with the usual budget, 10 and 100 times it.

    python benchmarks/projection_gaps.py
    python benchmarks/projection_gaps.py --seconds 5

The matrices are those where the relaxation alone is not enough: rank one, equal rows, zeros and
ones, few rows per column, columns without positive entry, Gaussian scores of real data, low rank.
A run ends after ``--seconds`` at the latest.
"""

import argparse
from time import perf_counter

import numpy as np

import orthoplus as op

BUDGETS = (100, 1000, 10_000)


def gaussian_scores(name, rows_per_column, width=1.0):
    """Return exp(-d^2 / s) for the distances d of standardized data to some of its points.

    s is the median of d^2 times ``width``: a large one makes the scores nearly constant.
    """
    from sklearn import datasets

    A = getattr(datasets, f"load_{name}")().data
    A = (A - A.mean(axis=0)) / np.maximum(A.std(axis=0), 1e-12)
    k = len(A) // rows_per_column
    centers = A[np.random.default_rng(1).choice(len(A), k, replace=False)]
    squares = ((A[:, None] - centers) ** 2).sum(axis=2)
    return np.exp(-squares / (width * np.median(squares)))


def cases():
    """Yield names and matrices."""
    rng = np.random.default_rng
    yield "constant 4001 x 50", np.ones((4001, 50))
    yield "equal rows 203 x 10", np.tile(rng(3).random(10) + 0.2, (203, 1))
    yield "30 kinds of rows 300 x 10", rng(4).random((30, 10))[rng(5).integers(30, size=300)]
    yield "binary 103 x 6", (rng(7).random((103, 6)) < 0.3).astype(float)
    yield "binary 2003 x 50", (rng(9).random((2003, 50)) < 0.05).astype(float)
    yield "integers 0..3 200 x 8", rng(10).integers(0, 4, (200, 8)).astype(float)
    yield "rank one 30 x 4", np.outer(rng(10).random(30), rng(11).random(4))
    yield "rank one 40 x 5", np.outer(np.linspace(0.1, 1.0, 40), np.linspace(1.0, 2.0, 5))
    yield "rank one 2000 x 50", np.outer(rng(0).random(2000), rng(1).random(50) + 0.5)
    for name in ("wine", "breast_cancer", "digits"):
        for rows_per_column in (20, 60, 120):
            C = gaussian_scores(name, rows_per_column)
            yield f"scores of {name} {C.shape[0]} x {C.shape[1]}", C
    for name, rows_per_column in (("wine", 20), ("breast_cancer", 20), ("digits", 60)):
        for width in (10.0, 1000.0):
            C = gaussian_scores(name, rows_per_column, width)
            yield f"wide x{width:g} {name} {C.shape[0]} x {C.shape[1]}", C
    yield "rank 5 2000 x 50", rng(20).standard_normal((2000, 5)) @ rng(21).standard_normal((5, 50))
    yield "uniform 400 x 20", rng(31).random((400, 20))
    yield "uniform 2000 x 50", rng(31).random((2000, 50))
    yield "normal 31 x 30", rng(2).standard_normal((31, 30))
    yield "negative columns 40 x 6", rng(1).random((40, 6)) * [1, 1, -1, 1, -1, -1]
    few = np.where(rng(3).random((40, 8)) < 0.1, 1.0, -1.0) * rng(4).random((40, 8))
    yield "few positive 40 x 8", few


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    op.project(np.ones((31, 4)))  # compile
    op.project(np.random.default_rng(0).random((60, 8)), max_passes=200)
    heads = (f"{f'max_passes={budget}':>20s}" for budget in BUDGETS)
    print(f"{'gap, seconds':32s}", *heads)
    for name, C in cases():
        cells = []
        for budget in BUDGETS:
            begin = perf_counter()
            result = op.project(C, max_passes=budget, time_limit=seconds)
            word = "certified" if result.success else f"{result.gap:.1e}"
            cells.append(f"{word:>11s} {perf_counter() - begin:6.2f} s")
            if result.success:
                break
        print(f"{name:32s}", *cells, flush=True)


if __name__ == "__main__":
    main()
