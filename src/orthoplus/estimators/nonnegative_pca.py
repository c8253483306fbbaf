"""Nonnegative PCA as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from orthoplus.core.checks import check_count
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import as_data
from orthoplus.estimators.callbacks import (
    FitTasks,
    WatchedEstimator,
    warn_unless_converged,
    with_callbacks,
)
from orthoplus.estimators.certified import Certified
from orthoplus.estimators.reading import draw_seed, read_array, read_coordinates
from orthoplus.problems import TraceMin, nonnegative_pca


class NonnegativePCA(
    Certified,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    WatchedEstimator,
):
    r"""Compute principal components with nonnegative, non-overlapping loadings.

    .. math:: \max_V \|(X - 1m^\top) V\|_F^2, \qquad V^\top V = I,\ V \ge 0,

    where m is the mean of the samples. Every feature belongs to at most one component, so that a
    component is a weighted group of features that vary together.

    Parameters
    ----------
    n_components : int
        Number of components k, at most the number of features.
    center : bool
        Whether to subtract the mean. Sparse data stay sparse in both cases.
    method : object, optional
        The method, such as ``EP4Orth(penalty_growth=1.05)``; by default that of `orthoplus.solve`.
    n_init : int, optional
        Number of runs, of which the best is kept; by default that of `orthoplus.solve`.
    random_state : int, RandomState or None
        Random state of the starts after the first; None means seed 0.
    with_bound : bool
        Whether to compute ``bound_`` and ``gap_``, which costs the k leading principal components.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V', with orthonormal rows, no negative entries and at most one positive entry per column,
        sorted by decreasing variance.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance of the data along each component (about the mean, or about zero without
        ``center``), and its share of the total variance.
    feature_labels_ : ndarray of shape (n_features,)
        The component of each feature, or -1 if it belongs to none.
    mean_ : ndarray of shape (n_features,)
        The mean of the samples; zeros without ``center``.
    bound_, gap_ : float or None
        Upper bound on the sum of ``explained_variance_``, which is the variance explained by the
        first k ordinary principal components, and the relative gap to it.
    n_iter_ : int
        Number of outer iterations of the best run.
    n_features_in_, feature_names_in_
        Number and names of features seen during `fit`.

    Notes
    -----
    The covariance matrix is never formed; a product with it costs two products with X. A step costs
    O(nnz(X) k).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.standard_normal((100, 2))
    >>> X = factors @ [[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    >>> model = NonnegativePCA(n_components=2).fit(X)
    >>> model.components_.round(3)
    array([[0.6  , 0.8  , 0.   , 0.   ],
           [0.   , 0.   , 0.707, 0.707]])
    """

    components_: FloatArray
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray
    feature_labels_: IntArray
    mean_: FloatArray
    bound_: float | None
    gap_: float | None
    n_iter_: int

    def __init__(
        self,
        n_components: int = 2,
        *,
        center: bool = True,
        method: OuterMethod | None = None,
        n_init: int | None = None,
        random_state: Any = None,
        with_bound: bool = False,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.method = method
        self.n_init = n_init
        self.random_state = random_state
        self.with_bound = with_bound

    @with_callbacks
    def fit(self, X: Any, y: object = None) -> Self:
        """Find the components of X, dense or sparse of shape (n_samples, n_features)."""
        A = self._validated(X, reset=True)
        check_count(self.n_components, "n_components", low=1)
        if self.n_components > A.shape[1]:
            raise InputError(
                f"`n_components={self.n_components}` is too many for n_features = {A.shape[1]}: "
                f"components that do not overlap need one feature each. Use at most {A.shape[1]}."
            )
        problem = self._problem(A)
        seed = draw_seed(self.random_state)
        tasks = FitTasks(self, X)
        result = tasks.solve(problem, seed, with_bound=self.with_bound)
        self._unpack(A, result)
        tasks.end()
        warn_unless_converged(result)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the coordinates (X - m) V of the samples, of shape (n_samples, n_components)."""
        check_is_fitted(self)
        return self._scores(self._validated(X, reset=False))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return the samples X V' + m with the coordinates X."""
        check_is_fitted(self)
        Z = read_coordinates(X, len(self.components_), accept_sparse=False)
        return np.asarray(Z @ self.components_ + self.mean_)

    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Problem, SupportPoint]:
        problem = self._problem(self._validated(X, reset=False))
        return problem, SupportPoint.of(self.components_.T.astype(np.float64))

    def _problem(self, A: Any) -> TraceMin:
        return nonnegative_pca(A.T, self.n_components, center=self.center)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        least = 2 if reset else 1
        return read_array(
            self, X, accept_sparse=("csr", "csc"), ensure_min_samples=least, reset=reset
        )

    def _scores(self, A: Any) -> FloatArray:
        data: Any = as_data(A, check=False)
        return data.centered_scores(self.mean_, self.components_.T)

    def _unpack(self, A: Any, result: Result) -> None:
        mean = np.asarray(A.mean(axis=0), dtype=np.float64).reshape(-1)
        self.mean_ = (mean if self.center else np.zeros_like(mean)).astype(A.dtype)
        self.components_ = np.ascontiguousarray(result.X.T, dtype=A.dtype)
        freedom = A.shape[0] - 1
        variance = (self._scores(A).astype(np.float64) ** 2).sum(axis=0) / freedom
        # Sort the components by decreasing variance, as in ordinary PCA.
        order = np.argsort(-variance, kind="stable")
        self.components_ = self.components_[order]
        self.explained_variance_ = variance[order]
        total = _total_variance(A, self.mean_)
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.feature_labels_ = np.where(
            self.components_.any(axis=0), self.components_.argmax(axis=0), -1
        )
        self.bound_ = None if result.bound is None else -result.bound / freedom
        self.gap_ = result.gap
        self.n_iter_ = result.n_iter

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _total_variance(A: Any, mean: FloatArray) -> float:
    """Return ||A - 1 mean'||^2 / (n - 1)."""
    mean = mean.astype(np.float64)
    data: Any = as_data(A, check=False)
    return data.centered_squares(mean) / (len(data) - 1)
