"""Document clusters by the Kullback-Leibler divergence and by the Frobenius norm.

python benchmarks/kl_documents.py [folder of the real data]
"""

import sys
import time
from pathlib import Path

import orthoplus as op
from orthoplus.datasets.real import TEXT_SETS


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{'set':>9} {'model':>10} {'purity':>7} {'NMI':>6} {'seconds':>8} {'divergence':>12}")
    for name in TEXT_SETS:
        data = op.datasets.load_labelled(name, folder)
        A, truth, k = data.A, data.labels, data.n_classes
        counts = op.problems.KLONMF(A, k)
        runs = {
            "KL": (counts, None),
            "Frobenius": (op.problems.ONMF(A, k), op.EP4Orth()),
        }
        for model, (problem, method) in runs.items():
            X0 = op.starts.svd_start(A, k, "clipped") if method else None
            clock = time.process_time()
            X = op.solve(problem, X0, method=method, search=not method, with_bound=False).X
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
