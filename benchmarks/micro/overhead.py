"""How much of a full EP4Orth+ solve is spent outside compiled kernels and BLAS.

The compiled functions and the problem's evaluations (BLAS products) are timed from the outside;
what is left of the wall time is Python.
"""

import time

import numpy as np

import orthoplus as op
from orthoplus.datasets import planted_projection
from orthoplus.geometry import random_stiefel_plus
from orthoplus.kernels.fused import oblique
from orthoplus.problems.onmf import FactorFit

N, K = 2000, 100


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


def share_outside(problem, method, products) -> tuple[float, float, int]:
    """Seconds of the solve, the share outside kernels and BLAS, and the number of timed calls."""
    op.solve(problem, method=method, with_bound=False)  # compile and warm up
    watch = Stopwatch()
    compiled = [name for name in vars(oblique) if hasattr(getattr(oblique, name), "py_func")]
    targets = [(oblique, name) for name in compiled] + products
    saved = [(owner, name, getattr(owner, name)) for owner, name in targets]
    try:
        for owner, name, call in saved:
            setattr(owner, name, watch.wrap(call))
        start = time.perf_counter()
        op.solve(problem, method=method, with_bound=False)
        total = time.perf_counter() - start
    finally:
        for owner, name, call in saved:
            setattr(owner, name, call)
    return total, 1.0 - watch.seconds / total, watch.calls


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
            [(op.problems.Projection, "value")],
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
        total, share, calls = share_outside(problem, method, products)
        print(f"{name:>12}  {total:.3f} s, {calls} kernel and BLAS calls, outside {share:.1%}")


if __name__ == "__main__":
    main()
