"""Nonnegative spectral clustering as a scikit-learn estimator."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import kneighbors_graph

from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.method import OuterMethod
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.core.types import IntArray
from orthoplus.data.graphs import graph_matrix, is_graph
from orthoplus.estimators.callbacks import FitTasks, WatchedEstimator, with_callbacks
from orthoplus.estimators.certified import Certified
from orthoplus.estimators.reading import align_sparse, check_row_count, draw_seed, read_array
from orthoplus.problems import TraceMin, laplacian_embedding
from orthoplus.run.api import solve

AFFINITIES = ("nearest_neighbors", "rbf", "precomputed")


class NonnegativeSpectralClustering(Certified, ClusterMixin, WatchedEstimator):  # type: ignore[misc]
    r"""Spectral clustering without a second step: the embedding itself is the clustering.

    .. math:: \min_V \mathrm{tr}(V^\top L V), \qquad V^\top V = I,\ V \ge 0,

    L being the Laplacian of a similarity graph. Every row of V has at most one positive entry: its
    column is the group, where ordinary spectral clustering has to run k-means on the rows of V.

    Parameters
    ----------
    n_clusters : int
        k, at most the number of samples.
    affinity : {"nearest_neighbors", "rbf", "precomputed"}
        The graph: each sample with its nearest neighbors, made symmetric; the Gaussian kernel,
        dense; or X itself, a symmetric nonnegative matrix, dense or sparse. An undirected graph of
        NetworkX or igraph is its own affinity, whatever stands here.
    n_neighbors : int
        Of "nearest_neighbors", the sample itself included; at most all are taken.
    gamma : float, optional
        Of "rbf": exp(-gamma d^2); by default one over the number of features.
    normalized : bool
        Whether L is :math:`I - D^{-1/2} W D^{-1/2}`, for groups of like volume, or D - W, which
        tends to split off single vertices of low degree.
    method : object, optional
        Such as ``EP4Orth(penalty_growth=1.05)``; by default that of `orthoplus.solve`.
    n_init : int, optional
        Number of runs, of which the best is kept; by default that of `orthoplus.solve`.
    random_state : int, RandomState or None
        None is the seed 0. For the starts after the first.
    with_bound : bool
        Whether to compute ``bound_`` and ``gap_``.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The group of each sample; a row of zeros of V goes where it costs least. -1 for an isolated
        vertex: a row of a graph, or of precomputed similarities, that is 0 off the diagonal.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        V, exactly orthonormal and nonnegative; rows of zeros for isolated vertices, which the
        problem leaves out.
    objective_ : float
        tr(V'LV): the sum over the groups of the smallest eigenvalue of their block of L.
    bound_, gap_ : float or None
        The sum of the k smallest eigenvalues of L, a lower bound of the objective, and the relative
        distance to it.
    affinity_matrix_ : ndarray or CSR matrix of shape (n_samples, n_samples)
        W.
    n_iter_ : int
        Outer iterations of the run that was kept.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    A step costs O(nnz(W) k) for a graph W.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> labels = NonnegativeSpectralClustering(2, affinity="rbf").fit_predict(X)
    >>> len(set(labels[:3])), len(set(labels[3:])), labels[0] != labels[3]
    (1, 1, np.True_)
    """

    def __init__(  # noqa: PLR0913
        self,
        n_clusters: int = 2,
        *,
        affinity: str = "nearest_neighbors",
        n_neighbors: int = 10,
        gamma: float | None = None,
        normalized: bool = True,
        method: OuterMethod | None = None,
        n_init: int | None = None,
        random_state: Any = None,
        with_bound: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.normalized = normalized
        self.method = method
        self.n_init = n_init
        self.random_state = random_state
        self.with_bound = with_bound

    @with_callbacks
    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster X: samples by features, or similarities if ``affinity="precomputed"``.

        For a graph of NetworkX or igraph, ``labels_`` has the order of its vertices; edges without
        an attribute "weight" have the weight 1.
        """
        check_choice(self.affinity, "affinity", AFFINITIES)
        check_count(self.n_clusters, "n_clusters", low=1)
        is_own = is_graph(X)
        A = read_array(
            self,
            graph_matrix(X, "X") if is_own else X,
            accept_sparse="csr",
            ensure_min_samples=2,
        )
        is_own = is_own or self.affinity == "precomputed"
        self.affinity_matrix_ = align_sparse(A if is_own else self._similarity(A))
        self._vertices = _linked(A) if is_own else np.arange(A.shape[0])
        n = len(self._vertices)
        if self.n_clusters > n:
            alone = f", of which {n} are linked to another," if n < A.shape[0] else ""
            raise InputError(
                f"`n_clusters={self.n_clusters}` is too many for n_samples = {A.shape[0]}{alone}: "
                f"each group needs a sample. Use at most {n}."
            )
        problem = self._problem
        seed = draw_seed(self.random_state)
        tasks = FitTasks(self, X)
        result = solve(
            problem,
            method=self.method,
            n_init=self.n_init,
            rng=seed,
            with_bound=self.with_bound,
            **tasks.watch(),
        )
        self._unpack(problem, result)
        tasks.end()
        if not result.success and result.status is not Status.CALLBACK:
            warnings.warn(result.message, ConvergenceWarning, stacklevel=3)
        return self

    @property
    def _problem(self) -> TraceMin:
        W, rows = self.affinity_matrix_, self._vertices
        linked = W if len(rows) == W.shape[0] else W[rows][:, rows]
        return laplacian_embedding(linked, self.n_clusters, normalized=self.normalized)

    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Problem, SupportPoint]:
        if not is_graph(X):
            check_row_count(X, len(self.embedding_))
        return self._problem, SupportPoint.of(self.embedding_[self._vertices])

    def _similarity(self, A: Any) -> Any:
        """Return W of samples by features, symmetric and nonnegative."""
        if self.affinity == "rbf":
            return rbf_kernel(A, gamma=self.gamma)
        check_count(self.n_neighbors, "n_neighbors", low=1)
        n_neighbors = min(self.n_neighbors, A.shape[0])
        graph = kneighbors_graph(A, n_neighbors, include_self=True)
        return 0.5 * (graph + graph.T)

    def _unpack(self, problem: TraceMin, result: Result) -> None:
        n = self.affinity_matrix_.shape[0]
        self.embedding_ = np.zeros((n, self.n_clusters), dtype=result.X.dtype)
        self.embedding_[self._vertices] = result.X
        self.labels_ = np.full(n, -1, dtype=np.int64)
        self.labels_[self._vertices] = _complete(problem, result)
        self.objective_ = result.value
        self.bound_, self.gap_ = result.bound, result.gap
        self.n_iter_ = result.n_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.input_tags.positive_only = self.affinity == "precomputed"
        return tags


def _linked(W: Any) -> IntArray:
    """Return the rows that have an entry off the diagonal."""
    if W.shape[0] != W.shape[1]:  # the problem will say so
        return np.arange(W.shape[0])
    links = np.asarray((W != 0).sum(axis=1)).ravel() - (W.diagonal() != 0)
    return np.flatnonzero(links > 0)


def _complete(problem: TraceMin, result: Result) -> IntArray:
    """Return the labels; a row of zeros goes where the objective falls most or rises least."""
    labels = result.labels.copy()
    free = labels < 0
    labels[free] = problem.value_and_gradient(result.X)[1][free].argmin(axis=1)
    return labels
