"""`select_rank` on planted groups at three noise levels: which k each criterion names.

Rows are multiples of one of k random centres with noise added; the noise level is the size of the
noise as a share of that of the rows without it. Five instances of each cell, groups of unequal
size. A count such as 5/5 says how often the planted k was named.
"""

import time

import numpy as np

import orthoplus as op

N_ROWS, N_COLUMNS, N_INSTANCES = 300, 50, 5
RANKS = range(2, 16)
NOISES = (0.1, 0.3, 0.6)


def planted(k: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The data, and the group of each row."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.5, 1.5, size=k)
    groups = rng.permutation(np.r_[np.arange(k), rng.choice(k, N_ROWS - k, p=sizes / sizes.sum())])
    rows = rng.uniform(0.5, 1.5, size=(N_ROWS, 1)) * rng.random((k, N_COLUMNS))[groups]
    added = rng.random(rows.shape)
    return rows + noise * np.linalg.norm(rows) / np.linalg.norm(added) * added, groups


def main() -> None:
    op.select_rank(planted(2, 0.1, 0)[0], [2], n_splits=2)  # compiles the kernels
    print("  k  noise  chosen  held-out  stability  knee      s")
    for k in (3, 6, 10):
        for noise in NOISES:
            start, found = time.perf_counter(), []
            for seed in range(N_INSTANCES):
                found.append(op.select_rank(planted(k, noise, seed)[0], RANKS))
            seconds = (time.perf_counter() - start) / N_INSTANCES
            hits = [sum(one.k == k for one in found)] + [
                sum(one.named[name] == k for one in found)
                for name in ("held-out", "stability", "knee")
            ]
            cells = [f"{hit}/{N_INSTANCES}" for hit in hits]
            print(
                f"{k:3d} {noise:6.1f} {cells[0]:>7} {cells[1]:>9} {cells[2]:>10} {cells[3]:>5} "
                f"{seconds:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
