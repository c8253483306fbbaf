"""All benchmarks of the core in one run: ``make bench``."""

import os
import runpy
from pathlib import Path

# One BLAS thread: the comparisons are about the kernels, and a busy machine disturbs less.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
SCRIPTS = ["micro/import_time.py", "micro/penalty_step.py", "micro/overhead.py", "solvers.py"]

if __name__ == "__main__":
    for script in SCRIPTS:
        print(f"== {script}", flush=True)
        runpy.run_path(str(HERE / script), run_name="__main__")
        print(flush=True)
