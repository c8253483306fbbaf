"""Compare the seconds of one pass of the certified projection over C, fused and in NumPy."""

import numpy as np

from orthoplus import kernels
from orthoplus.bench.measure import take_turns
from orthoplus.projection.dual import no_pairs

SHAPES = [(2000, 50), (20_000, 10), (20_000, 50), (20_000, 200), (200_000, 50)]


def main():
    print(f"{'n x k':>14} {'assign ms':>10} {'gather ms':>10} {'NumPy ms':>10} {'ns/entry':>9}")
    for n, k in SHAPES:
        C, root, keep = np.random.default_rng(0).random((n, k)), np.ones(k), no_pairs(n)
        calls = {
            "assign": lambda C=C, root=root: kernels.assign_rows(C, root),
            "gather": lambda C=C, r=root, p=keep: kernels.gather_pairs(C, r, (0.999, 0.0, 32), p),
            "plain": lambda C=C, root=root: (np.maximum(C, 0) ** 2 * root).argmax(axis=1),
        }
        assign, gather, plain = (1e3 * found.wall for found in take_turns(calls, 5).values())
        entry = 1e6 * assign / (n * k)
        print(f"{f'{n} x {k}':>14} {assign:>10.3f} {gather:>10.3f} {plain:>10.3f} {entry:>9.2f}")


if __name__ == "__main__":
    main()
