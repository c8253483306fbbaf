"""The benchmarks in one run: ``make bench``, or ``python benchmarks/run.py core`` for a part."""

import os
import runpy
import sys
from pathlib import Path

# One BLAS thread: the comparisons are about the kernels, and a busy machine disturbs less.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
SUITES = {
    "core": ["micro/import_time.py", "micro/penalty_step.py", "micro/overhead.py", "solvers.py"],
    "projection": [
        "projection_table.py",
        "projection_scaling.py",
        "projection_alternatives.py",
    ],
    "rivals": ["rivals.py", "kl_documents.py"],
    "spectral": ["spectral_table.py"],
    "indicators": ["indicators_table.py"],
    "assignment": ["qap_table.py"],
    "ranks": ["rank_table.py"],
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(SUITES)
    sys.argv = sys.argv[:1]  # the scripts read their own options
    for suite in chosen:
        for script in SUITES[suite]:
            print(f"== {script}", flush=True)
            runpy.run_path(str(HERE / script), run_name="__main__")
            print(flush=True)
