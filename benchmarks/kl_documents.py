"""Document clusters by the Kullback-Leibler divergence and by the Frobenius norm.

python benchmarks/kl_documents.py [folder of the real data]
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

import orthoplus as op

SETS = ("T-l10", "T-t10", "R-t10", "T-l20", "T-t20", "R-t20", "NewsG-t5")
FOLDER = Path(
    (sys.argv[1:] or [os.environ.get("ORTHOPLUS_DATA", "")])[0]
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def load(name: str) -> tuple[csr_array, np.ndarray]:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as parts:
        data, indices = parts["data"].astype(float), parts["indices"].astype(np.int32)
        A = csr_array((data, indices, parts["indptr"]), shape=tuple(parts["shape"]))
        return A, np.unique(parts["labels"], return_inverse=True)[1]


def main() -> None:
    if not FOLDER.is_dir():
        print(f"no real data in {FOLDER}: set ORTHOPLUS_DATA")
        return
    print(f"{'set':>9} {'model':>10} {'purity':>7} {'NMI':>6} {'seconds':>8} {'divergence':>12}")
    for name in SETS:
        A, truth = load(name)
        k = int(truth.max()) + 1
        counts = op.problems.KLONMF(A, k)
        runs = {
            "KL": (counts, None),
            "Frobenius": (op.problems.ONMF(A, k), op.EP4Orth()),
        }
        for model, (problem, method) in runs.items():
            X0 = op.starts.svd_start(A, k, "clipped") if method else None
            clock = time.process_time()
            X = op.solve(problem, X0, method=method, with_bound=False).X
            if method:
                X = op.solve(problem, X, method=op.methods.Polish(), with_bound=False).X
            seconds = time.process_time() - clock
            labels = op.geometry.labels_of(X)
            print(
                f"{name:>9} {model:>10} {100 * op.metrics.purity(truth, labels):>7.1f} "
                f"{100 * op.metrics.nmi(truth, labels):>6.1f} {seconds:>8.2f} "
                f"{counts.value(counts.refine(X)):>12.1f}"
            )


if __name__ == "__main__":
    main()
