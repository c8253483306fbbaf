"""How much of a full EP4Orth+ solve is spent outside compiled kernels and BLAS.

The compiled functions and the problem's evaluations (BLAS products) are timed from the outside in
one solve, the whole is timed in another without these stopwatches, in turn; what is left is Python.
The least of a few times counts on both sides.
"""

import time

import numpy as np

import orthoplus as op
from orthoplus.datasets import planted_projection
from orthoplus.geometry import random_stiefel_plus
from orthoplus.kernels.fused import oblique
from orthoplus.problems.onmf import FactorFit

N, K = 2000, 100
REPEATS = {"projection": 50, "trace": 1, "ONMF": 1}


class Stopwatch:
    """Adds up the time spent inside wrapped calls."""

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


def share_outside(problem, method, products, repeats) -> tuple[float, float, int]:
    """Seconds of the solve, the share outside kernels and BLAS, and the number of timed calls."""

    def solve_seconds() -> float:
        start = time.perf_counter()
        op.solve(problem, method=method, with_bound=False)
        return time.perf_counter() - start

    solve_seconds()  # compile and warm up
    compiled = [name for name in vars(oblique) if hasattr(getattr(oblique, name), "py_func")]
    targets = [(oblique, name) for name in compiled] + products
    saved = [(owner, name, getattr(owner, name)) for owner, name in targets]
    total, inside = np.inf, np.inf
    for _ in range(repeats):
        total = min(total, solve_seconds())
        watch = Stopwatch()
        try:
            for owner, name, call in saved:
                setattr(owner, name, watch.wrap(call))
            solve_seconds()
        finally:
            for owner, name, call in saved:
                setattr(owner, name, call)
        inside = min(inside, watch.seconds)
    return total, 1.0 - inside / total, watch.calls


def main() -> None:
    rng = np.random.default_rng(0)
    planted = planted_projection(N, K, 0.9, rng)
    A = random_stiefel_plus(N, K, rng) @ rng.random((K, 500)) + 1e-3 * rng.random((N, 500))
    M = rng.standard_normal((N, N))
    # What the problems compute by matrix products, each in a method that does little else.
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
                (FactorFit, "value_and_gradient"),
                (op.problems.ONMF, "freeze"),
                (op.problems.ONMF, "value"),
                (op.problems.ONMF, "refine"),
            ],
        ),
    }
    print(f"Full EP4Orth+ solve at {N} x {K}: time outside kernels and BLAS")
    for name, (problem, method, products) in cases.items():
        total, share, calls = share_outside(problem, method, products, REPEATS[name])
        print(f"{name:>12}  {total:.3f} s, {calls} kernel and BLAS calls, outside {share:.1%}")


if __name__ == "__main__":
    main()
