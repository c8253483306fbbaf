"""Measure the CPU seconds of a first call with nothing compiled, and of the next one.

Each call has an interpreter of its own and an empty cache; "warm" is the same with the cache that
the first one left. Give folders with other versions of the package to compare them in turn:
``python benchmarks/micro/first_call.py src ../before/src``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import resource, sys
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
import logging
import numpy as np
from sklearn.datasets import load_digits
import orthoplus as op
logging.getLogger("orthoplus").setLevel("ERROR")
rng = np.random.default_rng(0)
digits, C, (A, B) = load_digits().data, rng.standard_normal((2000, 50)), rng.random((2, 30, 30))
before = cpu()
{call}
print(cpu() - before, cpu())
"""
CALLS = {
    "OrthogonalNMF.fit (digits)": "op.OrthogonalNMF(10, random_state=0).fit(digits)",
    "project (2000 x 50)": "op.project(C)",
    "quadratic_assignment (30)": "op.quadratic_assignment(A, B)",
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ORTHOPLUS_NUM_THREADS": "1"}


def seconds(call: str, source: Path, cache: str) -> list[float]:
    """Return the CPU seconds of the call and of its whole process."""
    own = {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", CODE.format(call=call)]
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD | own, check=True, capture_output=True, text=True
    )
    return [float(number) for number in done.stdout.split()]


def main() -> None:
    """Print a row per call and source."""
    here = Path(__file__).parents[2] / "src"
    sources = [Path(given).resolve() for given in sys.argv[1:]] or [here]
    print(f"{'call':30}{'first':>8}{'process':>9}{'warm':>8}  source")
    for name, call in CALLS.items():
        for source in sources:
            with tempfile.TemporaryDirectory() as cache:
                (first, process), (warm, _) = (seconds(call, source, cache) for _ in range(2))
            print(f"{name:30}{first:>8.2f}{process:>9.2f}{warm:>8.2f}  {source}")


if __name__ == "__main__":
    main()
