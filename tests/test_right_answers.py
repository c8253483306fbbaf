"""The general solver finds what is there: optima, clusters and partitions that others find too."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.bench import invariances
from orthoplus.bench.invariances import Model
from orthoplus.bench.oracles import global_minimum, range_of
from orthoplus.bench.tiny_instances import FAMILIES, instances
from orthoplus.geometry.stiefel import labels_of
from orthoplus.problems import (
    KLONMF,
    ONMF,
    QAP,
    KIndicators,
    KMeans,
    Smooth,
    SymmetricONMF,
    TraceMin,
    nonnegative_pca,
)

TINY_INSTANCES = 8
# In units of the range of f: what a refined point leaves to rounding, and to its own tolerance.
OPTIMAL = 1e-6


def own_function(A, k):
    """-||A'X||^2 as a user writes it."""
    return Smooth(
        lambda X: -float(((A.T @ X) ** 2).sum()),
        (len(A), k),
        jac=lambda X: -2.0 * (A @ (A.T @ X)),
    )


# Problems in data A of nonnegative entries, whose f is concave.
CONCAVE = {
    "nonnegative_pca": nonnegative_pca,
    "trace_min": lambda A, k: TraceMin(-(A @ A.T), k),
    "k_means": KMeans,
    "symmetric_onmf": lambda A, k: SymmetricONMF(A @ A.T, k),
    "own_function": own_function,
}
# Models whose f has terms of several degrees in the data: of data that are too small or too large
# nothing is left in f beside a constant.
MIXED_DEGREE = ("SymmetricONMF", "KIndicators")


class Remembered(Model):
    """A model that solves nothing twice: several tests look at the same answer."""

    def labels(self, data):
        key = self.problem, data.shape, data.tobytes()
        if key not in KNOWN_LABELS:
            KNOWN_LABELS[key] = super().labels(data)
        return KNOWN_LABELS[key]


KNOWN_LABELS = {}
MODELS = {name: Remembered(*model) for name, model in invariances.MODELS.items()}


def planted(n, r, k, noise, seed):
    return op.datasets.planted_onmf(n, r, k, noise, np.random.default_rng(seed)).A


def blobs(k, size, rng):
    """Well separated clusters in three dimensions, in a random order, and their labels."""
    labels = rng.permutation(np.repeat(np.arange(k), size))
    centers = 20.0 * np.array([[np.cos(t), np.sin(t), np.cos(2 * t)] for t in range(k)])
    return centers[labels] + rng.standard_normal((k * size, 3)), labels


def groups(n, r, k, rng):
    """Rows near to k profiles that are far apart in angle and distance, and the labels."""
    labels = rng.permutation(np.arange(n) % k)
    profiles = 0.1 + 3.0 * np.eye(k, r)
    return profiles[labels] + 0.2 * rng.random((n, r)), labels


@pytest.mark.parametrize("name", CONCAVE)
def test_labels_are_not_those_of_the_random_start(name):
    for seed in range(4):
        A = np.random.default_rng(seed).random((60, 10))
        problem = CONCAVE[name](A, 4)
        start = labels_of(op.Problem.start(problem, np.random.default_rng(seed)))
        assert adjusted_rand_score(start, op.solve(problem, rng=seed).labels) < 0.5


@pytest.mark.parametrize(
    ("A", "k"),
    [
        (np.random.default_rng(0).random((60, 10)), 4),
        (np.random.default_rng(1).random((60, 10)), 4),
        (np.random.default_rng(2).random((120, 20)), 5),
        (np.random.default_rng(3).exponential(size=(80, 12)) ** 2, 4),
        (planted(80, 20, 5, 0.3, 0), 5),
        (planted(150, 30, 6, 1.0, 1), 6),
    ],
    ids=["random", "random again", "random, larger", "heavy tails", "planted", "planted, noisy"],
)
def test_components_leave_the_residual_of_onmf(A, k):
    residual = float((A**2).sum()) + op.solve(nonnegative_pca(A, k), rng=0).value
    assert residual <= 1.001 * op.solve(ONMF(A, k), rng=0).value


@pytest.mark.parametrize("seed", range(3))
def test_separated_blobs_are_found(seed):
    A, labels = blobs(5, 40, np.random.default_rng(seed))
    problem = KMeans(A, 5)
    result = op.solve(problem, rng=seed)
    assert adjusted_rand_score(labels, result.labels) == 1.0
    # Weights are free, so f is at most the inertia.
    assert result.value <= problem.inertia(result.labels) * (1.0 + 1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_plain_groups_are_found_in_any_order_of_the_rows(name, rng):
    model, (A, labels) = MODELS[name], groups(48, 6, 3, rng)
    for order in (np.arange(48), rng.permutation(48)):
        found = op.solve(model.problem(model.data(A[order]), 3), rng=0).labels
        assert adjusted_rand_score(labels[order], found) == 1.0


# Of a dense graph without clear groups the embedding has several minima that are nearly as low.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "Laplacian embedding"])
def test_permuted_rows_have_the_same_partition(name, rng):
    for seed in range(2):
        assert invariances.is_order_free(MODELS[name], planted(40, 8, 3, 0.3, seed), rng)


# A function of one's own starts at random, and so in the order of its rows.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "own function"])
def test_permuted_rows_have_the_same_partition_when_there_is_no_structure(name, rng):
    for seed in range(2):
        A = np.random.default_rng(seed).random((40, 8))
        assert invariances.is_order_free(MODELS[name], A, rng)


# The embedding of a graph may part twins: a vertex alone can be a group.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "Laplacian embedding"])
def test_equal_rows_share_a_label(name, rng):
    for A in (rng.random((40, 8)), planted(40, 8, 3, 0.3, 0)):
        assert invariances.is_fair(MODELS[name], A, rng)


# Powers of two: products with them are exact, so that nothing but a constant with a scale of its
# own can change a label.
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in MIXED_DEGREE])
def test_scale_of_the_data_changes_no_label(name, factor, rng):
    for A in (rng.random((40, 8)), planted(40, 8, 3, 0.3, 0)):
        assert invariances.is_scale_free(factor, MODELS[name], A, rng)


@pytest.mark.parametrize("factor", [2.0**-7, 2.0**7])
@pytest.mark.parametrize("name", MIXED_DEGREE)
def test_moderate_scale_changes_no_label_where_f_has_terms_of_several_degrees(name, factor, rng):
    assert invariances.is_scale_free(factor, MODELS[name], planted(40, 8, 3, 0.3, 0), rng)


# Instances without structure, with more local minima than any search sees.
ROUGH = {
    "k_indicators": lambda rng: KIndicators(np.linalg.qr(rng.standard_normal((80, 6)))[0]),
    "kl_onmf": lambda rng: KLONMF(rng.random((80, 10)), 8),
    "trace_min": lambda rng: TraceMin(-np.cov(rng.standard_normal((60, 90))), 8),
    "qap": lambda rng: QAP(*rng.random((2, 30, 30))),
    "own_function": lambda rng: own_function(rng.standard_normal((60, 12)), 8),
}


def solve_rough(name, seed):
    return op.solve(ROUGH[name](np.random.default_rng(0)), rng=seed)


# The answers that several tests look at.
known_rough = cache(solve_rough)


@pytest.mark.parametrize("name", ROUGH)
def test_other_generators_find_other_points(name):
    results = [known_rough(name, seed) for seed in range(3)]
    # The first start is the best that is known; the search after it takes other paths.
    assert len({(result.value, result.n_eval) for result in results}) > 1


@pytest.mark.parametrize("name", ROUGH)
def test_same_generator_finds_the_same_point(name):
    first, second = known_rough(name, 2), solve_rough(name, 2)
    assert (first.labels == second.labels).all()
    assert first.value == second.value


@pytest.mark.parametrize("name", ROUGH)
def test_more_starts_are_never_worse(name):
    problem = ROUGH[name](np.random.default_rng(1))
    one, five = (op.solve(problem, n_init=n, rng=0).value for n in (1, 5))
    assert five <= one + 1e-12 * abs(one)


@pytest.mark.parametrize("family", FAMILIES)
def test_global_optimum_of_tiny_instances_is_found(family):
    missed = 0
    for index, problem in enumerate(instances(family, TINY_INSTANCES, seed=1)):
        optimum = global_minimum(problem).value
        spread = range_of(problem, optimum, np.random.default_rng(index))
        value = op.solve(problem, rng=index).value
        assert value >= optimum - OPTIMAL * spread  # the oracle is right
        missed += value > optimum + OPTIMAL * spread
    assert missed <= 1


@pytest.mark.parametrize("family", ["quadratic, any H", "quartic"])
def test_function_has_the_optimum_of_its_problem(family):
    missed = 0
    for index, problem in enumerate(instances(family, TINY_INSTANCES, seed=2)):
        result = op.minimize(
            problem.value,
            problem.shape,
            jac=lambda X, p=problem: p.value_and_gradient(X)[1],
            rng=index,
        )
        optimum = global_minimum(problem).value
        spread = range_of(problem, optimum, np.random.default_rng(index))
        missed += result.value > optimum + OPTIMAL * spread
    assert missed <= 1


@pytest.mark.parametrize("make", [ONMF, KMeans, nonnegative_pca])
@pytest.mark.parametrize("shape", [(90, 12), (60, 70), (40, 300)])
def test_order_of_the_rows_does_not_change_the_clusters(make, shape):
    """Even without structure, where other clusters are nearly as good."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A, order = rng.random(shape), rng.permutation(shape[0])
        one, other = op.solve(make(A, 4)), op.solve(make(A[order], 4))
        assert other.value == pytest.approx(one.value, rel=1e-9)
        assert adjusted_rand_score(one.labels[order], other.labels) == 1.0
