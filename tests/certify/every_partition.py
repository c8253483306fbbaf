"""Compute the optimum of <M, XX'> over S+ for tiny n by enumerating all groups of rows."""

import numpy as np


def best_of_groups(M, *, has_row_sums=False):
    """Return the best x'Mx over the unit x >= 0 on each set of rows, by its bit mask."""
    n = len(M)
    best = np.full(1 << n, -np.inf)
    for mask in range(1, 1 << n):
        rows = [i for i in range(n) if mask >> i & 1]
        block = M[np.ix_(rows, rows)]
        if has_row_sums:
            best[mask] = block.sum() / len(rows)
            continue
        values, vectors = np.linalg.eigh(block)
        x = vectors[:, -1] * np.sign(vectors[:, -1].sum() or 1.0)
        best[mask] = values[-1] if x.min() >= -1e-9 else -np.inf
        for i in rows:  # fewer rows may be better if M has negative entries
            best[mask] = max(best[mask], best[mask & ~(1 << i)])
    return best


def best_trace(M, k, *, has_row_sums=False):
    """Return max <M, XX'> over S+; with row sums, over the indicators of k clusters of all rows."""
    n = len(M)
    single = best_of_groups(M, has_row_sums=has_row_sums)
    found = single
    for _ in range(k - 1):
        following = np.full(1 << n, -np.inf)
        for mask in range(1, 1 << n):
            part = (mask - 1) & mask
            while part:
                following[mask] = max(following[mask], found[part] + single[mask ^ part])
                part = (part - 1) & mask
        found = following
    # Rows that are left out are in no group, unless every row has to be in one.
    return float(found[-1] if has_row_sums else found.max())


def random_labels(n, k, rng):
    """Return labels with every group."""
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return rng.permutation(labels)
