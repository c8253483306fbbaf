"""Agreement of several runs of orthogonal NMF: matched components, voted clusters, a score."""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from orthoplus.core.checks import check_count
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import as_data
from orthoplus.data.groups import unit_rows
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.search.swap_search import SwapSearch
from orthoplus.model_selection.rank_path import PathPoint, nearest_centers, solve_to_the_end
from orthoplus.problems import ONMF
from orthoplus.run.processes import run_all


@dataclass(frozen=True, eq=False)
class Consensus:
    """Result of `consensus`.

    Attributes
    ----------
    score : float
        Mean adjusted Rand index of pairs of runs: 1 if all agree, about 0 by chance.
    stability : ndarray of shape (k,)
        For each cluster, the average share of runs that keep two of its rows together; 1 for a
        cluster of one row.
    labels : ndarray of shape (n,)
        The cluster that most runs assign to each row; the first one in a tie, and -1 for a row of
        zeros.
    agreement : ndarray of shape (n,)
        The share of the runs that agree with ``labels``.
    components : ndarray of shape (k, r)
        Mean of the matched components of all runs, normalized to unit norm.
    cosines : ndarray of shape (k,)
        Mean cosine of the matched components with those of the best run.
    matches : ndarray of shape (n_runs, k)
        ``matches[s, j]`` is the component of run s that is matched to component j.
    unexplained : ndarray of shape (n_runs,)
        Share of ||X||^2 that each run does not explain.

    Examples
    --------
    >>> found = consensus(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 2, n_runs=2)
    >>> isinstance(found, Consensus), found.score
    (True, 1.0)
    """

    score: float
    stability: FloatArray
    labels: IntArray = field(repr=False)
    agreement: FloatArray = field(repr=False)
    components: FloatArray = field(repr=False)
    cosines: FloatArray = field(repr=False)
    matches: IntArray = field(repr=False)
    unexplained: FloatArray = field(repr=False)


def consensus(
    X: Any,
    n_components: int,
    *,
    n_runs: int = 10,
    allow_negative: bool = False,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Consensus:
    """Factorize X from several random starts, match the components, and measure the agreement.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (n, r)
        As for `OrthogonalNMF`.
    n_components : int
        Number of components k.
    n_runs : int
        Number of runs, at least two. Each is one search from a random start.
    allow_negative : bool
        As in `OrthogonalNMF`.
    n_jobs : int, optional
        Number of processes, as in joblib.
    random_state : int
        Seed of all random numbers; the same seed gives the same result.

    Returns
    -------
    Consensus

    Notes
    -----
    Components are matched to those of the run with the smallest error, by linear assignment of
    their cosines. Co-assignment is counted from contingency tables, in O(n) per run and without an
    n-by-n matrix.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.1, 3.0]])
    >>> found = consensus(X, 2)
    >>> found.score, found.stability
    (1.0, array([1., 1.]))
    """
    check_count(n_components, "n_components", low=1)
    check_count(n_runs, "n_runs", low=2)
    check_count(random_state, "random_state")
    problem = ONMF(as_data(X, "X"), n_components, allow_negative=allow_negative)
    seeds = np.random.SeedSequence(random_state).generate_state(n_runs).tolist()
    return summarize_runs(list(run_all(_run, ((problem, seed) for seed in seeds), n_jobs)))


def _run(problem: ONMF, seed: int) -> PathPoint:
    X0 = random_oblique_plus(*problem.shape, np.random.default_rng(seed))
    X0 = X0.astype(problem.A.dtype, copy=False)
    result = solve_to_the_end(problem, X0, method=SwapSearch(n_init=1, seed=seed))
    centers = unit_rows(np.asarray(result.Y, dtype=np.float64).T)
    labels = nearest_centers(problem.A, centers)
    return PathPoint(problem.k, centers, labels, max(0.0, result.value) / (problem.total or 1.0))


def summarize_runs(runs: list[PathPoint]) -> Consensus:
    """Match the components of the runs, vote on labels, and score the agreement."""
    best = runs[int(np.argmin([run.unexplained for run in runs]))]
    matches = np.array([match_components(best.centers, run.centers) for run in runs])
    # Renumber the labels of each run by the components of the best one (inverse matching).
    votes = np.array([_renumbered(run.labels, m) for run, m in zip(runs, matches, strict=True)])
    labels, agreement = _vote(votes, len(best.centers))
    aligned = np.array([run.centers[match] for run, match in zip(runs, matches, strict=True)])
    pairs = [partition_agreement(one, two) for one, two in combinations(votes, 2)]
    return Consensus(
        score=float(np.mean(pairs)),
        stability=co_assignment(labels, votes, len(best.centers)),
        labels=labels,
        agreement=agreement,
        components=unit_rows(aligned.mean(axis=0)),
        cosines=np.einsum("skr,kr->sk", aligned, best.centers).mean(axis=0),
        matches=matches,
        unexplained=np.array([run.unexplained for run in runs]),
    )


def partition_agreement(labels: IntArray, others: IntArray) -> float:
    """Return the adjusted Rand index of the rows that have a cluster in both partitions.

    Rows of zeros, with the label -1, would agree for any partitions.

    Examples
    --------
    >>> partition_agreement(np.array([0, 0, 1, 1, -1, -1]), np.array([1, 1, 0, 0, -1, -1]))
    1.0
    """
    both = (labels >= 0) & (others >= 0)
    return float(adjusted_rand_score(labels[both], others[both]))


def _renumbered(labels: IntArray, match: IntArray) -> IntArray:
    """Return the labels in the numbers of the reference; -1 stays."""
    return np.where(labels >= 0, match.argsort()[labels], -1)


def match_components(reference: FloatArray, centers: FloatArray) -> IntArray:
    """Return, for each row of the reference, the index of the matched row of ``centers``.

    The matching is one to one and maximizes the sum of cosines; all rows have unit norm.

    Examples
    --------
    >>> match_components(np.eye(3), np.eye(3)[[2, 0, 1]])
    array([1, 2, 0])
    """
    return np.asarray(linear_sum_assignment(reference @ centers.T, maximize=True)[1])


def matched_cosine(
    labels: tuple[IntArray, IntArray], weights: tuple[FloatArray, FloatArray], k: int
) -> float:
    r"""Return the mean cosine of the columns of two weighted partitions, matched one to one.

    Column j of each holds the weights of the rows with label j. The cost is O(n + k^3).

    Examples
    --------
    >>> same, other = np.array([0, 0, 1]), np.array([1, 1, 0])
    >>> round(matched_cosine((same, other), (np.ones(3), np.ones(3)), 2), 12)
    1.0
    """
    # Contingency table of the two labelings, weighted by x_i y_i.
    # Entry (a, b) of the products sums w_i w'_i over the rows with the labels a and b.
    # Rows of zeros have the weight 0, and their label -1 counts as k.
    a, b = (np.where(own >= 0, own, k) for own in labels)
    products = np.bincount((k + 1) * a + b, weights[0] * weights[1], minlength=(k + 1) ** 2)
    products = products.reshape(k + 1, k + 1)[:k, :k]
    sizes = [
        np.sqrt(np.bincount(own, w**2, minlength=k + 1)[:k])
        for own, w in zip((a, b), weights, strict=True)
    ]
    scale = np.outer(*sizes)
    cosines = np.divide(products, scale, out=np.zeros((k, k)), where=scale > 0)
    return float(cosines[linear_sum_assignment(cosines, maximize=True)].mean())


def co_assignment(labels: IntArray, runs: IntArray, k: int) -> FloatArray:
    """Return, for each cluster, the share of its pairs of rows that the runs keep together.

    Examples
    --------
    >>> co_assignment(np.array([0, 0, 0, 1]), np.array([[0, 0, 1, 1], [0, 0, 0, 1]]), 2)
    array([0.66666667, 1.        ])
    """
    rows = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[rows], minlength=k)
    together = np.zeros(k)
    for run in runs[:, rows]:
        table = np.zeros((k, int(run.max(initial=0)) + 1))
        np.add.at(table, (labels[rows], run), 1.0)
        # A cell with c rows keeps c (c - 1) ordered pairs together.
        together += (table * (table - 1.0)).sum(axis=1)
    pairs = len(runs) * sizes * (sizes - 1.0)
    return np.divide(together, pairs, out=np.ones(k), where=pairs > 0)


def _vote(votes: IntArray, k: int) -> tuple[IntArray, FloatArray]:
    # Column 0 counts the label -1 of rows of zeros.
    counts = np.zeros((votes.shape[1], k + 1), dtype=np.int32)
    for run in votes:
        counts[np.arange(len(run)), run + 1] += 1
    labels = counts.argmax(axis=1) - 1
    return labels, counts.max(axis=1) / len(votes)
