"""Seconds of one pass of the certified projection over C, fused against NumPy."""

import time

import numpy as np

from orthoplus import kernels
from orthoplus.projection.dual import no_pairs

SHAPES = [(2000, 50), (20_000, 10), (20_000, 50), (20_000, 200), (200_000, 50)]


def least_seconds(call, repeats=5):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    print(f"{'n x k':>14} {'assign ms':>10} {'gather ms':>10} {'NumPy ms':>10} {'ns/entry':>9}")
    for n, k in SHAPES:
        C, root, keep = np.random.default_rng(0).random((n, k)), np.ones(k), no_pairs(n)
        calls = (
            lambda C=C, root=root: kernels.assign_rows(C, root),
            lambda C=C, r=root, p=keep: kernels.gather_pairs(C, r, (0.999, 0.0, 32), p),
            lambda C=C, root=root: (np.maximum(C, 0) ** 2 * root).argmax(axis=1),
        )
        assign, gather, plain = (1e3 * least_seconds(call) for call in calls)
        entry = 1e6 * assign / (n * k)
        print(f"{f'{n} x {k}':>14} {assign:>10.3f} {gather:>10.3f} {plain:>10.3f} {entry:>9.2f}")


if __name__ == "__main__":
    main()
