"""K-indicators as a scikit-learn estimator."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.manifold import spectral_embedding
from sklearn.neighbors import kneighbors_graph

from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_data
from orthoplus.data.read import reads_in_blocks
from orthoplus.estimators.callbacks import (
    FitTasks,
    WatchedEstimator,
    warn_unless_converged,
    with_callbacks,
)
from orthoplus.estimators.certified import Certified
from orthoplus.estimators.reading import as_random_state, check_row_count, read_array
from orthoplus.linalg.starts import signed_left_vectors
from orthoplus.problems import KIndicators

_MAX_SEED = np.iinfo(np.int32).max
EMBEDDINGS = ("svd", "laplacian", "precomputed")


class KIndicatorsClustering(Certified, ClusterMixin, WatchedEstimator):  # type: ignore[misc]
    r"""Cluster samples by rotating an embedding as close as possible to indicator vectors.

    .. math:: \min_{H, Y} \|UY - H\|_F^2, \qquad H^\top H = I,\ H \ge 0,\ Y^\top Y = I,

    where the orthonormal matrix U, with one column per cluster, embeds the samples. Unlike k-means
    on the same embedding, it needs no random start.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    embedding : {"svd", "laplacian", "precomputed"}
        How to compute U from X: the k leading left singular vectors; an orthonormal basis of the k
        bottom eigenvectors of the normalized Laplacian of the nearest-neighbor graph; or
        "precomputed" if X is U, with exactly k columns.
    n_neighbors : int
        Number of neighbors for "laplacian", not counting the sample itself.
    method : object, optional
        The method; by default ``EP4Orth.for_indicators(k)``, the paper's alternation with a polish.
    n_init : int
        Number of runs, of which the best is kept. The first starts from U, the others at random.
    random_state : int, RandomState or None
        Random state of the starts and the eigensolver; None means seed 0.
    memory_limit : int or str, optional
        Memory for blocks of rows in bytes, or a string such as "512MB"; see
        `orthoplus.data.as_data`. U and about ten matrices of its size are needed in addition.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample; -1 for a row of zeros in X, except for "laplacian", where it is
        a point like others. No cluster is empty if enough samples have data.
    indicators_ : ndarray of shape (n_samples, n_clusters)
        The matrix H, which is nonnegative with at most one positive entry per row and unit columns
        up to rounding.
    rotation_ : ndarray of shape (n_clusters, n_clusters)
        The rotation Y.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        The embedding U.
    objective_ : float
        The squared distance between UY and H.
    n_iter_ : int
        Number of outer iterations of the best run.
    n_features_in_, feature_names_in_
        Number and names of features seen during `fit`.

    Notes
    -----
    A sample whose row of UY has no positive entry has no weight in H and is assigned to the column
    of its largest entry. If X has fewer singular vectors than clusters, the missing columns of U
    are zero. After the embedding, an alternation costs O(nk^2), or O(nk) once H is sparse. See
    Chen, Yang, Xu, Zhang and Zhang, *Big-data clustering: K-means or K-indicators?* (2019).

    Examples
    --------
    >>> X = np.array([[1.0, 0.1], [2.0, 0.1], [0.1, 1.0], [0.0, 3.0]])
    >>> labels = KIndicatorsClustering(n_clusters=2).fit_predict(X)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_
    """

    labels_: Any  # a Dask array if the data are one
    indicators_: FloatArray
    rotation_: FloatArray
    embedding_: Any
    objective_: float
    n_iter_: int
    n_features_in_: int

    def __init__(  # noqa: PLR0913
        self,
        n_clusters: int = 2,
        *,
        embedding: str = "svd",
        n_neighbors: int = 10,
        method: OuterMethod | None = None,
        n_init: int = 1,
        random_state: Any = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.method = method
        self.n_init = n_init
        self.random_state = random_state
        self.memory_limit = memory_limit

    @with_callbacks
    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster the rows of X, dense or sparse, or of the embedding U for "precomputed".

        h5py datasets, Zarr arrays, Dask arrays and, with a ``memory_limit``, any data are read in
        blocks of rows, except for "laplacian". The embedding is held in memory. For a Dask array,
        ``labels_``, ``indicators_`` and ``embedding_`` are Dask arrays.
        """
        A = self._read(X)
        self._check_parameters(*A.shape)
        random = as_random_state(self.random_state)
        U = self._embed(A, random)
        rng = np.random.default_rng(random.randint(_MAX_SEED))
        tasks = FitTasks(self, X)
        result = tasks.solve(KIndicators(U), rng, with_bound=False)
        point = A.point(A.scatter(result.labels), A.scatter(result.weights), self.n_clusters)
        self.indicators_, self.rotation_ = point.dense(), np.asarray(result.Y)
        self.embedding_ = A.collect(A.scatter(U), A.dtype, self.n_clusters)
        self.labels_ = A.collect(A.scatter(_assign_all(result, U)), np.int64)
        self.objective_ = result.value
        self.n_iter_ = max(result.n_iter, 1)
        tasks.end()
        # The default ends with a polish, which converges wherever the penalty method stopped.
        if self.method is not None:
            warn_unless_converged(result)
        return self

    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Problem, SupportPoint]:
        check_row_count(X, len(self.labels_))
        return KIndicators(np.asarray(self.embedding_)), SupportPoint.of(
            np.asarray(self.indicators_)
        )

    def _read(self, X: Any) -> DataMatrix:
        if reads_in_blocks(X, self.memory_limit):
            A = as_data(X, "X", memory_limit=self.memory_limit)
            self.n_features_in_ = A.shape[1]
            return A
        accepted = False if self.embedding == "precomputed" else "csr"
        values = read_array(self, X, accept_sparse=accepted, ensure_min_samples=2)
        return as_data(values, "X", check=False)

    def _check_parameters(self, n_samples: int, n_features: int) -> None:
        check_choice(self.embedding, "embedding", EMBEDDINGS)
        for name in ("n_clusters", "n_neighbors", "n_init"):
            check_count(getattr(self, name), name, low=1)
        if self.n_clusters > n_samples:
            raise InputError(
                f"`n_clusters={self.n_clusters}` is too many for n_samples = {n_samples}: no "
                f"cluster may be empty. Use at most {n_samples}."
            )
        if self.embedding == "precomputed" and n_features != self.n_clusters:
            raise InputError(
                f'`X` has {n_features} columns, but with embedding="precomputed" it is U, which '
                f"has one for each of the {self.n_clusters} clusters. Pass its first "
                f'{self.n_clusters} columns if they are ordered, or use embedding="svd".'
            )

    def _embed(self, A: DataMatrix, random: np.random.RandomState) -> FloatArray:
        """Return U of shape (n_samples, n_clusters)."""
        if self.embedding == "precomputed":
            return A.to_dense()
        if self.embedding == "laplacian":
            return self._embed_graph(A, random)
        rng = np.random.default_rng(random.randint(_MAX_SEED))
        U = self._padded(signed_left_vectors(A, self.n_clusters, rng), A)
        U[A.empty_rows()] = 0.0  # instead of rounding errors
        return U

    def _padded(self, vectors: FloatArray, A: DataMatrix) -> FloatArray:
        """Return the vectors, padded by columns of zeros to one per cluster."""
        U = np.zeros((len(A), self.n_clusters), dtype=A.dtype)
        U[:, : vectors.shape[1]] = vectors
        return U

    def _embed_graph(self, A: DataMatrix, random: np.random.RandomState) -> FloatArray:
        """Return an orthonormal basis of the bottom eigenvectors of I - D^-1/2 W D^-1/2."""
        if not A.has_cheap_products:
            raise InputError(
                'embedding="laplacian" finds nearest neighbors among rows in memory. Pass the data '
                "as an array in memory and omit `memory_limit`, or pass your own embedding with "
                'embedding="precomputed".'
            )
        n_neighbors = min(self.n_neighbors, len(A) - 1)
        rows: Any = A.in_memory()
        graph = kneighbors_graph(rows.values, n_neighbors)
        with warnings.catch_warnings():
            # For a disconnected graph, the vectors contain the indicators of its components.
            warnings.filterwarnings("ignore", message="Graph is not fully connected")
            vectors = spectral_embedding(
                0.5 * (graph + graph.T),
                n_components=min(self.n_clusters, len(A) - 1),
                random_state=random,
                drop_first=False,
            )
        return self._padded(np.linalg.svd(vectors, full_matrices=False)[0], A)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.embedding != "precomputed"
        return tags


def _assign_all(result: Result, U: FloatArray) -> IntArray:
    """Return the labels; a row without weight gets the largest entry of its row of UY.

    A row of zeros in U has no cluster.
    """
    labels = result.labels.copy()
    rows = np.flatnonzero(labels < 0)
    labels[rows] = (U[rows] @ np.asarray(result.Y)).argmax(axis=1)
    labels[~U.any(axis=1)] = -1
    return labels
