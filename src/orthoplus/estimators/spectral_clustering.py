"""Nonnegative spectral clustering as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import kneighbors_graph

from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.graphs import graph_matrix, is_graph
from orthoplus.data.similarity import as_similarity
from orthoplus.estimators.callbacks import (
    FitTasks,
    WatchedEstimator,
    warn_unless_converged,
    with_callbacks,
)
from orthoplus.estimators.certified import Certified
from orthoplus.estimators.reading import align_sparse, check_row_count, draw_seed, read_array
from orthoplus.problems import TraceMin, laplacian_embedding

AFFINITIES = ("nearest_neighbors", "rbf", "precomputed")


class NonnegativeSpectralClustering(Certified, ClusterMixin, WatchedEstimator):  # type: ignore[misc]
    r"""Cluster by a nonnegative spectral embedding, which needs no second step.

    .. math:: \min_V \mathrm{tr}(V^\top L V), \qquad V^\top V = I,\ V \ge 0,

    where L is the Laplacian of a similarity graph. Every row of V has at most one positive entry,
    whose column is the cluster, whereas ordinary spectral clustering runs k-means on the rows of V.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k, at most the number of samples.
    affinity : {"nearest_neighbors", "rbf", "precomputed"}
        The similarity graph: the symmetrized graph of nearest neighbors; the dense Gaussian kernel;
        or X itself, a symmetric nonnegative matrix, dense or sparse. If X is an undirected NetworkX
        or igraph graph, it is used directly and this parameter is ignored.
    n_neighbors : int
        Number of neighbors for "nearest_neighbors", including the sample itself.
    gamma : float, optional
        Parameter of exp(-gamma d^2) for "rbf"; by default one over the number of features.
    normalized : bool
        Whether L is :math:`I - D^{-1/2} W D^{-1/2}`, which favors clusters of similar volume, or
        D - W, which tends to split off single vertices of low degree.
    method : object, optional
        The method, such as ``EP4Orth(penalty_growth=1.05)``; by default that of `orthoplus.solve`.
    n_init : int, optional
        Number of runs, of which the best is kept; by default that of `orthoplus.solve`.
    random_state : int, RandomState or None
        Random state of the starts after the first; None means seed 0.
    with_bound : bool
        Whether to compute ``bound_`` and ``gap_``.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample. A zero row of V is assigned to the cluster for which the
        objective increases least. The label is -1 for an isolated vertex of a graph or of
        precomputed similarities, whose row is 0 off the diagonal.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        The matrix V, orthonormal and nonnegative. Isolated vertices are excluded from the problem
        and have zero rows.
    objective_ : float
        The objective tr(V'LV), which is the sum over the clusters of the smallest eigenvalue of
        their block of L.
    bound_, gap_ : float or None
        The sum of the k smallest eigenvalues of L, a lower bound on the objective, and the relative
        gap to it.
    affinity_matrix_ : ndarray or CSR matrix of shape (n_samples, n_samples)
        The similarity matrix W.
    n_iter_ : int
        Number of outer iterations of the best run.
    n_features_in_, feature_names_in_
        Number and names of features seen during `fit`.

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

    labels_: IntArray
    embedding_: FloatArray
    objective_: float
    bound_: float | None
    gap_: float | None
    affinity_matrix_: Any  # dense or sparse
    n_iter_: int

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
        """Cluster samples, or the rows of similarities if ``affinity="precomputed"``.

        For a NetworkX or igraph graph, ``labels_`` is in the order of its vertices. Edges without
        an attribute "weight" have weight 1.
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
        self.affinity_matrix_ = align_sparse(
            as_similarity(A, "X") if is_own else self._similarity(A)
        )
        # Isolated vertices have a zero row of W: the Laplacian does not determine their cluster.
        self._vertices = _linked(A) if is_own else np.arange(A.shape[0])
        n = len(self._vertices)
        if n == 0:
            raise InputError(
                "`X` links no two samples, so there are no clusters. Pass a graph with edges of "
                "positive weight, or similarities of which some off the diagonal are positive."
            )
        if self.n_clusters > n:
            linked = f"the {n} of {A.shape[0]} samples that are linked to another"
            which = f"n_samples = {n}" if n == A.shape[0] else linked
            raise InputError(
                f"`n_clusters={self.n_clusters}` is too many for {which}: each cluster needs a "
                f"sample. Use at most {n}."
            )
        problem = self._problem
        seed = draw_seed(self.random_state)
        tasks = FitTasks(self, X)
        result = tasks.solve(problem, seed, with_bound=self.with_bound)
        self._unpack(problem, result)
        tasks.end()
        warn_unless_converged(result)
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
        """Return the symmetric nonnegative similarity matrix W of the samples."""
        if self.affinity == "rbf":
            with np.errstate(over="ignore", invalid="ignore"):
                W = rbf_kernel(A, gamma=self.gamma)
            if np.isfinite(W).all():
                return W
            raise InputError(
                "The squared distances of the samples exceed the floating-point range. Rescale "
                "the data so that the entries are closer to 1."
            )
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
    links = np.asarray((W != 0).sum(axis=1)).ravel() - (W.diagonal() != 0)
    return np.flatnonzero(links > 0)


def _complete(problem: TraceMin, result: Result) -> IntArray:
    """Return the labels; a zero row joins the cluster for which the objective increases least."""
    labels = result.labels.copy()
    free = labels < 0
    # To first order, a small entry changes the objective by the gradient.
    labels[free] = problem.value_and_gradient(result.X)[1][free].argmin(axis=1)
    return labels
