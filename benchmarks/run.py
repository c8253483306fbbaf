"""The benchmarks in one run: ``make bench``, or ``python benchmarks/run.py core`` for a part.

The scripts here measure the library against itself and its own past. The tables of the paper are
part of the package, ``orthoplus bench TABLE``; a suite ends with those that belong to it.
"""

import os
import runpy
import sys
from pathlib import Path

# One BLAS thread: the comparisons are about the kernels, and a busy machine disturbs less.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
SUITES = {
    "core": ["micro/import_time.py", "micro/penalty_step.py", "micro/overhead.py", "solvers.py"],
    "projection": ["projection_scaling.py", "projection_alternatives.py"],
    "rivals": ["rivals.py", "kl_documents.py"],
    "spectral": ["spectral_table.py"],
    "indicators": ["indicators_large.py"],
    "assignment": ["graph_matching.py"],
    "ranks": ["rank_table.py"],
    "scaling": ["scaling.py"],
}
TABLES = {"projection": "projection", "indicators": "indicators", "assignment": "qap"}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(SUITES)
    sys.argv = sys.argv[:1]  # the scripts read their own options
    for suite in chosen:
        for script in SUITES[suite]:
            print(f"== {script}", flush=True)
            runpy.run_path(str(HERE / script), run_name="__main__")
            print(flush=True)
        if suite in TABLES:
            from orthoplus.cli.app import app

            app(["bench", TABLES[suite]], standalone_mode=False)
