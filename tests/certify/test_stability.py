"""How sure a partition is, against all partitions of a few rows."""

from itertools import permutations

import numpy as np
import pytest
from every_partition import best_of_groups

import orthoplus as op
from orthoplus.certify.model import Model
from orthoplus.problems import ONMF, KMeans


def every_labels(n, k):
    """Yield all labels with k groups, each partition once."""
    for code in range(k**n):
        labels = np.array([code // k**i % k for i in range(n)])
        _, first = np.unique(labels, return_index=True)
        if len(first) == k and (np.diff(first) > 0).all():
            yield labels


def differing_rows(labels, others, k):
    """Return the rows on which two partitions differ, for the matching with the fewest."""
    matched = [np.array(order)[others] for order in permutations(range(k))]
    return min((labels != other for other in matched), key=np.count_nonzero)


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_partitions_at_least_as_good_agree_on_the_sure_rows(problem_type, rng):
    n, n_known = 7, 0
    for _ in range(25):
        k = int(rng.integers(2, 4))
        labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
        A = 3.0 * np.eye(k)[labels] + rng.choice([0.3, 1.0]) * rng.random((n, k))
        problem = problem_type(A, k)
        labels = labels.copy()
        if rng.random() < 0.3:  # an answer that others beat
            labels[-1] = (labels[-1] + 1) % k
        certificate = op.certify(problem, labels, time_limit=1.0)
        model = Model(problem)
        best = best_of_groups(model.dense(), has_row_sums=model.has_row_sums)
        own = model.trace(model.refine(labels))
        sure = certificate.sure_rows()
        for others in every_labels(n, k):
            masks = [int((1 << np.flatnonzero(others == j)).sum()) for j in range(k)]
            if best[masks].sum() < own - 1e-12:
                continue
            differs = differing_rows(labels, others, k)
            assert not (differs & sure).any()
            if certificate.agreement is not None:
                n_known += 1
                assert differs.mean() <= 1.0 - certificate.agreement + 1e-12
    assert n_known > 0


def test_no_row_is_sure_if_nothing_is_known(rng):
    A = rng.random((12, 3))
    certificate = op.certify(ONMF(A, 3), np.arange(12) % 3, time_limit=0.2)
    assert certificate.agreement is None
    assert not certificate.sure_rows().any()


def test_all_rows_of_separated_groups_are_sure(rng):
    labels = np.arange(120) % 4
    A = np.eye(4)[labels] + 0.05 * rng.random((120, 4))
    certificate = op.certify(ONMF(A, 4), labels)
    assert certificate.agreement == 1.0
    assert certificate.sure_rows().all()
