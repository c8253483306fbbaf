"""The rivals of orthogonal NMF: iterations, CPU seconds, cost of an iteration, residuals.

    python benchmarks/rivals.py [folder of the real data]

On documents (T-l10, where the data are to be had) and on the synthetic data of section 6.2.1,
n = 1000, r = 3000, k = 10, xi = 1. Each run has a limit of iterations, which is printed.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import orthoplus as op
from orthoplus.core.method import run
from orthoplus.datasets import MissingDataError, load_labelled, planted_onmf

LIMIT = 3000
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else None


def data() -> dict[str, tuple[Any, int]]:
    sets: dict[str, tuple[Any, int]] = {}
    try:
        sets["T-l10"] = load_labelled("T-l10", FOLDER).A, 10
    except MissingDataError as error:
        print(error)
    sets["synthetic"] = planted_onmf(1000, 3000, 10, 1.0, np.random.default_rng(0)).A, 10
    return sets


def residual(A: Any, X: np.ndarray, refit: bool) -> float:
    return op.metrics.residual(A, X, refit=refit, relative=True)


def main() -> None:
    print(f"at most {LIMIT} iterations; relative residual, and with the groups refitted")
    header = ("set", "method", "iter", "CPU s", "ms/iter", "violation", "residual", "refit")
    print(" ".join(f"{word:>10}" for word in header))
    for name, (A, k) in data().items():
        problem = op.problems.ONMF(A, k)
        X = problem.start(np.random.default_rng(0))
        for rival, build in op.baselines.BASELINES.items():
            method = build()
            method = replace(method, max_iter=min(method.max_iter, LIMIT))
            method.step(problem, method.init(problem, X))  # kernels and imports
            clock = time.process_time()
            state, _ = run(problem, method, method.init(problem, X), method.stop())
            seconds = time.process_time() - clock
            found = [residual(A, state.X, refit) for refit in (False, True)]
            print(
                f"{name:>10} {rival:>10} {state.n_iter:>10} {seconds:>10.2f} "
                f"{1e3 * seconds / state.n_iter:>10.2f} {state.violation:>10.1e} "
                f"{found[0]:>10.5f} {found[1]:>10.5f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
