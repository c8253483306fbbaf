"""Measure the time of ``import orthoplus`` on top of NumPy and SciPy, in fresh interpreters.

As after an installation: the first import, which compiles to bytecode, is not counted. Both sides
take turns, and the least time of each counts.
"""

import os
import subprocess
import sys
import tempfile
import time

ROUNDS = 15
LAZY = ("numba", "sklearn", "matplotlib", "jax", "torch")
BASE = "import numpy, scipy, scipy.sparse.linalg"
OURS = f"{BASE}; import orthoplus"


def seconds(code: str, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = dict(os.environ, PYTHONPYCACHEPREFIX=bytecode)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds(OURS, environment)
        times = [(seconds(BASE, environment), seconds(OURS, environment)) for _ in range(ROUNDS)]
    base, ours = map(min, zip(*times, strict=True))
    check = f"import sys, orthoplus; print([m for m in {LAZY!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)
    print(f"NumPy and SciPy {base:.3f} s, with orthoplus {ours:.3f} s: {ours - base:+.3f} s on top")
    print(f"loaded of {', '.join(LAZY)}: {loaded.stdout.decode().strip()}")


if __name__ == "__main__":
    main()
