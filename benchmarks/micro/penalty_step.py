"""Compare the fused penalty step with plain NumPy: gradient, clamp, norms, inner products.

Both sides are timed in turn in one run, some calls in a row as in a solver, and the best counts,
so that a busy machine disturbs them alike. "copies" is the time of the fused step in units of
``X.copy()``.
"""

import time
from collections.abc import Callable

import numpy as np

from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.kernels import blocks, fused, reference

SIZES = [(2000, 10), (2000, 100), (2000, 400), (100_000, 50)]
WEIGHT, ALPHA = 0.1, 0.3
IN_A_ROW = 4


def penalty_step(kernels, X, G, T):
    """Take one projected gradient step on the penalized objective, with all required sums."""
    squares = kernels.gradient_step_into(X, G, WEIGHT, ALPHA, T)
    return kernels.normalize_step_into(T, 1.0 / np.sqrt(squares), X)


def best_times(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """Seconds of each call: the best of ``rounds``, each call a few times in a row within one."""
    best = [np.inf] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            for _ in range(IN_A_ROW):
                start = time.perf_counter()
                call()
                best[index] = min(best[index], time.perf_counter() - start)
    return best


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"Fused penalty step against NumPy ({blocks.n_threads()} threads for the large size)")
    print(f"{'n x k':>14} {'NumPy ms':>10} {'fused ms':>10} {'ratio':>7} {'copies':>7}")
    for n, k in SIZES:
        X, G = random_oblique_plus(n, k, rng), -rng.random((n, k))
        T = np.empty_like(X)
        assert np.allclose(penalty_step(fused, X, G, T), penalty_step(reference, X, G, T.copy()))
        plain, quick, copy = best_times(
            50 if n * k < 1e6 else 10,
            lambda X=X, G=G: penalty_step(reference, X, G, np.empty_like(X)),
            lambda X=X, G=G, T=T: penalty_step(fused, X, G, T),
            X.copy,
        )
        print(
            f"{f'{n} x {k}':>14} {plain * 1e3:>10.3f} {quick * 1e3:>10.3f} "
            f"{plain / quick:>7.1f} {quick / copy:>7.2f}"
        )


if __name__ == "__main__":
    main()
