"""What ``import orthoplus`` costs on top of NumPy and SciPy, in fresh interpreters."""

import subprocess
import sys
import time

ROUNDS = 7
LAZY = ("numba", "sklearn", "matplotlib", "jax", "torch")


def best_seconds(code: str) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    base = best_seconds("import numpy, scipy, scipy.sparse.linalg")
    ours = best_seconds("import numpy, scipy, scipy.sparse.linalg; import orthoplus")
    check = f"import sys, orthoplus; print([m for m in {LAZY!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)
    print(f"NumPy and SciPy {base:.3f} s, with orthoplus {ours:.3f} s: {ours - base:+.3f} s on top")
    print(f"loaded of {', '.join(LAZY)}: {loaded.stdout.decode().strip()}")


if __name__ == "__main__":
    main()
