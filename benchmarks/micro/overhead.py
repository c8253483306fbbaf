"""Measure how much of a full EP4Orth+ solve is spent outside compiled kernels and BLAS.

The compiled functions and the problem's evaluations (BLAS products) are timed from outside, within
the solve that is timed as a whole: what is left is Python and NumPy. Each has two stopwatches, one
around the other. What the outer one shows more is the cost of a stopwatch, and that of both is
taken off. The quartiles are over the solves of one run.
"""

import time

import numpy as np

import orthoplus as op
from orthoplus.datasets import planted_projection
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.kernels.fused import oblique
from orthoplus.problems.onmf import FactorFit

N, K = 2000, 100
REPEATS = {"projection": 100, "trace": 1, "ONMF": 3}


class Stopwatch:
    """Add up the time spent inside wrapped calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def wrap(self, call):
        def timed(*arguments):
            start = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds += time.perf_counter() - start
                self.calls += 1

        return timed


def measure(problem, method, targets) -> tuple[float, float, int]:
    """Return the seconds of one solve, those outside the targets, and the calls of the targets."""
    inner, outer = Stopwatch(), Stopwatch()
    saved = [(owner, name, getattr(owner, name)) for owner, name in targets]
    try:
        for owner, name, call in saved:
            setattr(owner, name, outer.wrap(inner.wrap(call)))
        start = time.perf_counter()
        result = op.solve(problem, method=method, search=False, with_bound=False)
        total = time.perf_counter() - start
    finally:
        for owner, name, call in saved:
            setattr(owner, name, call)
    del result  # only now: giving back its memory is no part of the solve
    stopwatch = outer.seconds - inner.seconds
    outside = total - outer.seconds - stopwatch
    return inner.seconds + outside, outside, inner.calls


def main() -> None:
    rng = np.random.default_rng(0)
    planted = planted_projection(N, K, 0.9, rng)
    A = random_stiefel_plus(N, K, rng) @ rng.random((K, 500)) + 1e-3 * rng.random((N, 500))
    M = rng.standard_normal((N, N))
    # What the problems compute by BLAS and LAPACK, each in a method that does little else.
    cases = {
        "projection": (
            op.problems.Projection(planted.C),
            op.EP4Orth.for_projection(),
            [(op.problems.Projection, "value"), (op.problems.Projection, "value_and_gradient")],
        ),
        "trace": (
            op.problems.TraceMin(M + M.T, K),
            op.EP4Orth(max_iter=2),
            [(op.problems.TraceMin, "value"), (op.problems.TraceMin, "value_and_gradient")],
        ),
        "ONMF": (
            op.problems.ONMF(A / np.linalg.norm(A), K),
            op.EP4Orth(),
            [
                (op.problems.ONMF, "start"),
                (FactorFit, "value_and_gradient"),
                (op.problems.ONMF, "freeze"),
                (op.problems.ONMF, "value"),
                (op.problems.ONMF, "refine"),
            ],
        ),
    }
    kernels = [(oblique, name) for name, call in vars(oblique).items() if hasattr(call, "py_func")]
    print(f"Full EP4Orth+ solve at {N} x {K}: time outside kernels and BLAS")
    for name, (problem, method, products) in cases.items():
        measure(problem, method, kernels + products)  # compile and warm up
        times = [measure(problem, method, kernels + products) for _ in range(REPEATS[name])]
        shares = np.quantile([outside / total for total, outside, _ in times], [0.25, 0.5, 0.75])
        low, share, high = (f"{100 * quartile:.1f}" for quartile in shares)
        seconds, calls = np.median([total for total, _, _ in times]), times[0][2]
        print(
            f"{name:>12}  {seconds:.3f} s, {calls} kernel and BLAS calls, outside {share} % "
            f"(quartiles of {len(times)}: {low} to {high} %)"
        )


if __name__ == "__main__":
    main()
