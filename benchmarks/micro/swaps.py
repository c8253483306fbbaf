"""Measure the CPU seconds of the compiled swaps and of the alternation before them.

The versions of the package that are given take turns in processes of their own:
``python benchmarks/micro/swaps.py src ../before/src``. Each figure is the least of some runs.
"""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import time
import numpy as np
from orthoplus import kernels

def least(call):
    call()
    seconds = []
    for _ in range(5):
        start = time.process_time()
        answer = call()
        seconds.append(time.process_time() - start)
    return min(seconds), answer[1]

for n, d, k in ((600, 28, 10), (1797, 28, 10), (575, 48, 20), (4096, 48, 20), (2856, 144, 68)):
    rng = np.random.default_rng(0)
    B = np.abs(rng.standard_normal((2 * k, d)))[rng.integers(2 * k, size=n)] + rng.random((n, d))
    first = B[:k] / np.linalg.norm(B[:k], axis=1, keepdims=True)
    draws = rng.random((5 * k, 2))
    alternation, _ = least(lambda: kernels.alternate_centers(B, first, 30))
    swaps, value = least(lambda: kernels.search_swaps(B, first, draws, 4))
    print(f"{n:>6}{d:>5}{k:>4}{1e3 * alternation:>14.2f}{1e3 * swaps:>10.2f}{value:>24.12g}")
"""


def main() -> None:
    """Print a table per source, in milliseconds, with the sum of squares after the swaps."""
    here = Path(__file__).parents[2] / "src"
    for source in [Path(given).resolve() for given in sys.argv[1:]] or [here]:
        print(f"{'n':>6}{'d':>5}{'k':>4}{'alternation':>14}{'swaps':>10}{'sum':>24}  {source}")
        own = os.environ | {"PYTHONPATH": str(source)}
        subprocess.run([sys.executable, "-c", CODE], env=own, check=True)


if __name__ == "__main__":
    main()
