"""Check invariances of partitions: order of the rows, scale, and labels of equal rows."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from orthoplus import problems
from orthoplus.bench.measure import timed
from orthoplus.bench.table import Figures, Items, Session, one_row
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.datasets import planted_onmf
from orthoplus.run.api import solve

INSTANCES, QUICK_INSTANCES = 20, 2
N, R, K = 40, 8, 3
NOISE = 0.5
# About 1e12. Products with a power of two are exact, so labels differ only if some constant of a
# method depends on a scale, not because of rounding errors.
LARGE = 2.0**40


class Model(NamedTuple):
    """A model as a function of the data; symmetric data are permuted on both sides."""

    data: Callable[[FloatArray], FloatArray]
    problem: Callable[[FloatArray, int], Problem]
    is_symmetric: bool = False

    def labels(self, data: FloatArray) -> IntArray:
        """Return the labels of the default call."""
        return solve(self.problem(data, K), rng=0).labels

    def permuted(self, data: FloatArray, order: IntArray) -> FloatArray:
        """Return the data with permuted rows."""
        return data[np.ix_(order, order)] if self.is_symmetric else data[order]


def _own_function(A: FloatArray, k: int) -> Problem:
    """Return -||A'X||^2 as a user would write it."""
    return problems.Smooth(
        lambda X: -float(((A.T @ X) ** 2).sum()),
        (len(A), k),
        jac=lambda X: -2.0 * (A @ (A.T @ X)),
    )


def _similarity(A: FloatArray) -> FloatArray:
    squares = ((A[:, None] - A) ** 2).sum(axis=2)
    return np.asarray(np.exp(-squares / squares.mean()))


MODELS: dict[str, Model] = {
    "nonnegative PCA": Model(np.array, problems.nonnegative_pca),
    "own function": Model(np.array, _own_function),
    "KMeans": Model(np.array, problems.KMeans),
    "SymmetricONMF": Model(lambda A: A @ A.T, problems.SymmetricONMF, is_symmetric=True),
    "Laplacian embedding": Model(_similarity, problems.laplacian_embedding, is_symmetric=True),
    "KIndicators": Model(
        lambda A: np.linalg.svd(A, full_matrices=False)[0][:, :K],
        lambda U, k: problems.KIndicators(U),
    ),
    "KLONMF": Model(np.array, problems.KLONMF),
    "ONMF": Model(np.array, problems.ONMF),
}


def make_data(index: int, seed: int) -> FloatArray:
    """Make a planted matrix for an even index, one without structure for an odd one."""
    rng = np.random.default_rng([seed, index])
    return planted_onmf(N, R, K, NOISE, rng).A if index % 2 == 0 else rng.random((N, R))


def has_same_groups(first: IntArray, second: IntArray) -> bool:
    """Return whether two labelings are the same partition: an adjusted Rand index of 1.

    Examples
    --------
    >>> has_same_groups(np.array([0, 0, 1]), np.array([2, 2, 0]))
    True
    >>> has_same_groups(np.array([0, 0, 1]), np.array([0, 1, 1]))
    False
    """
    pairs = len(np.unique(np.stack([first, second]), axis=1).T)
    return pairs == len(np.unique(first)) == len(np.unique(second))


def is_order_free(model: Model, A: FloatArray, rng: np.random.Generator) -> bool:
    """Return whether a permutation of the rows leaves the partition unchanged."""
    data, order = model.data(A), rng.permutation(len(A))
    return has_same_groups(model.labels(data)[order], model.labels(model.permuted(data, order)))


def is_fair(model: Model, A: FloatArray, rng: np.random.Generator) -> bool:
    """Return whether equal rows have equal labels, for data that contain each row twice."""
    twins = rng.permutation(np.repeat(np.arange(len(A) // 2), 2))
    labels = model.labels(model.data(A[twins]))
    return all(len(np.unique(labels[twins == i])) == 1 for i in np.unique(twins))


def is_scale_free(factor: float, model: Model, A: FloatArray, rng: np.random.Generator) -> bool:
    """Return whether the labels do not change if the data are multiplied by a number."""
    data = model.data(A)
    return bool((model.labels(data) == model.labels(factor * data)).all())


CASES: dict[str, Callable[[Model, FloatArray, np.random.Generator], bool]] = {
    "permuted rows, same partition": is_order_free,
    "equal rows, equal labels": is_fair,
    "times 2^-40, same labels": partial(is_scale_free, 1.0 / LARGE),
    "times 2^40, same labels": partial(is_scale_free, LARGE),
}


def tasks(session: Session) -> Items:
    """Yield a task for each invariance and model."""
    for case, holds in CASES.items():
        for name, model in MODELS.items():
            yield one_row(case, name, _measure, session, holds, model)


def _measure(session: Session, holds: Callable[..., bool], model: Model) -> Figures:
    count = session.pick(INSTANCES, QUICK_INSTANCES)
    data = [(make_data(i, session.seed), np.random.default_rng(i)) for i in range(count)]
    run = timed(lambda: [holds(model, A, rng) for A, rng in data])
    return {"count": count, "share": 100.0 * float(np.mean(run.value)), "cpu": run.cpu}
