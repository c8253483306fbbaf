"""Enumerate all partitions of a few rows to find the best value, which no bound may violate."""

import numpy as np


def partitions(n, k):
    """Yield the labels of every partition of n rows into k nonempty groups."""

    def extend(labels, used):
        if len(labels) == n:
            if used == k:
                yield np.array(labels)
            return
        for label in range(min(used + 1, k)):
            yield from extend([*labels, label], max(used, label + 1))

    yield from extend([], 0)


def group_value(block, has_row_sums=False):
    """The best x'Bx over unit x >= 0, or that of equal entries; B is small."""
    if has_row_sums:
        return block.sum() / len(block)
    best = -np.inf
    for subset in range(1, 2 ** len(block)):
        rows = [i for i in range(len(block)) if subset >> i & 1]
        values, vectors = np.linalg.eigh(block[np.ix_(rows, rows)])
        # A maximizer with this support is an eigenvector of the block there, with one sign.
        for value, vector in zip(values, vectors.T, strict=True):
            if np.all(vector > 0) or np.all(vector < 0) or len(rows) == 1:
                best = max(best, value)
    return best


def best_value(M, k, has_row_sums=False, apart=None):
    """The maximum of <M, XX'> over S+, by all partitions; each group is valued once."""
    known = {}

    def value(rows):
        if rows not in known:
            block = M[np.ix_(rows, rows)]
            is_split = apart is not None and apart[np.ix_(rows, rows)].any()
            known[rows] = -np.inf if is_split else group_value(block, has_row_sums)
        return known[rows]

    return max(
        sum(value(tuple(np.flatnonzero(labels == j).tolist())) for j in range(k))
        for labels in partitions(len(M), k)
    )
