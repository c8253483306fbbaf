"""Hard matrices: each kind has the difficulty it is named for."""

import numpy as np
import pytest

from orthoplus.core.errors import InputError
from orthoplus.datasets import HARD_KINDS, hard_clusters


@pytest.mark.parametrize("kind", HARD_KINDS)
def test_every_kind_is_nonnegative_and_depends_on_the_seed_alone(kind):
    one, same, other = (
        hard_clusters(kind, 80, 9, 6, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert one.A.shape == (80, 9)
    assert (one.A >= 0).all()
    assert set(one.labels) <= set(range(6))
    np.testing.assert_array_equal(one.A, same.A)
    assert not np.array_equal(one.A, other.A)


def test_pareto_rows_hold_most_of_the_norm(rng):
    squares = np.sort((hard_clusters("pareto", 5000, 10, 5, rng).A ** 2).sum(axis=1))
    assert squares[-50:].sum() > 0.5 * squares.sum()


def test_many_clusters_have_falling_sizes(rng):
    counts = np.bincount(hard_clusters("many", 5000, 10, 20, rng).labels, minlength=20)
    assert counts[0] > 5 * counts[-1]


def test_duplicates_come_in_families(rng):
    drawn = hard_clusters("duplicates", 4000, 50, 8, rng)
    means = np.array([drawn.A[drawn.labels == j].mean(axis=0) for j in range(8)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means.T
    within = cosines[:4, :4][np.triu_indices(4, 1)].min()
    assert within > cosines[:4, 4:].max()


def test_one_direction_dominates(rng):
    squares = np.linalg.svd(hard_clusters("dominant", 300, 20, 5, rng).A, compute_uv=False) ** 2
    assert squares[0] > 0.95 * squares.sum()


def test_an_unknown_kind_is_refused(rng):
    with pytest.raises(InputError, match="kind"):
        hard_clusters("easy", 10, 3, 2, rng)
