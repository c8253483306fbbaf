"""K-indicators at the size of the paper's largest set: seconds of an iteration, and of U'X.

The table itself is ``orthoplus bench indicators``.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

import orthoplus as op
from orthoplus.projection import project_stiefel_plus

LARGE = (17853, 1623)


def least_seconds(call: Callable[[], object], rounds: int) -> float:
    """Processor seconds, the best of some calls."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def print_large(n: int, k: int, steps: int) -> None:
    """A planted U of n x k, some iterations of the alternation and one step of the polish."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(n) % k)
    X = op.geometry.assemble(groups, rng.uniform(0.5, 1.5, n), k)
    noisy = X + rng.standard_normal((n, k)) / (10 * np.sqrt(n))
    # Orthonormal columns, Q R^-1 by Cholesky, in a random rotation.
    rotation = np.linalg.qr(rng.standard_normal((k, k)))[0]
    U = noisy @ np.linalg.solve(np.linalg.cholesky(noisy.T @ noisy).T, rotation)
    problem = op.problems.KIndicators(U)
    print(f"\nPlanted U, {n} x {k}, processor seconds")
    dense, sparse = (
        least_seconds(call, 2) for call in (lambda: problem.U.T @ X, lambda: problem.cross(X))
    )
    print(f"U'X dense, O(nk^2): {dense:.3f}; X with one entry a row, O(nk): {sparse:.3f}")
    method = op.EP4Orth.for_indicators(k).inner
    model = op.penalty.Penalised(problem, op.penalty.PowerPenalty(10.0))
    state = method.init(model, problem.start(rng))
    for number in range(1, steps + 1):
        start = time.process_time()
        state = method.step(model, state)
        seconds = time.process_time() - start
        share = np.count_nonzero(state.X) / n
        print(f"alternation {number}: {seconds:.2f}, {share:.1f} entries a row", flush=True)
    start = time.process_time()
    found = project_stiefel_plus(problem.majoriser(state.X), tol=1e-5, max_passes=12)
    seconds = time.process_time() - start
    print(
        f"certified X-step: {seconds:.2f}, gap {found.gap:.0e}; purity "
        f"{100 * op.metrics.purity(groups, found.labels):.2f}"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, nargs=2, default=LARGE, metavar=("N", "K"))
    parser.add_argument("--steps", type=int, default=3, help="alternations")
    options = parser.parse_args(arguments)
    print_large(*options.large, options.steps)


if __name__ == "__main__":
    main(sys.argv[1:])
