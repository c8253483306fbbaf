"""Orthogonal NMF as a scikit-learn estimator."""

import warnings
from typing import Any, Self

import numpy as np
from scipy.sparse import diags_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    validate_data,
)

from orthoplus.checks import check_choice, check_count
from orthoplus.estimators.factorise import choose_method, factorise
from orthoplus.loop import OuterMethod
from orthoplus.metrics import residual
from orthoplus.problems import ONMF
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.result import Result
from orthoplus.row_groups import best_column


class OrthogonalNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Orthogonal nonnegative matrix factorisation: cluster the rows, or find disjoint parts.

    .. math:: \min_{W, H \ge 0} \|X - WH\|_F^2, \qquad W^\top W = I
              \ \text{(samples)} \quad \text{or} \quad HH^\top = I \ \text{(features)}.

    Parameters
    ----------
    n_components : int
        k, the number of clusters or parts; at most the number of samples (or features).
    orthogonal : {"samples", "features"}
        Which factor is orthonormal. "samples", the setting of the paper: every sample belongs to
        one component, with a weight. "features": every feature belongs to at most one component, so
        that components are parts that do not overlap.
    method : {"auto", "ep4orth", "unmixing"} or object
        "auto" is `SwapSearch`, which finds the best objective in the least time. "ep4orth" is the
        penalty method with the paper's parameters for text and images, "unmixing" with those for
        hyperspectral images. An object such as ``EP4Orth(penalty_growth=1.5)`` has its own.
    n_init : int, optional
        Number of searches or runs, of which the best is kept: the first from the singular vectors
        of X, the others at random. By default three searches for "auto", one run otherwise.
    max_iter, tol : int, float, optional
        Iterations, and for the penalty method the violation at which they end; by default the
        method's own.
    random_state : int, RandomState or None
        For the random starts, and all that "auto" samples.
    with_bound : bool
        Whether to compute ``bound_`` and ``gap_``, which costs a truncated SVD.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        H.
    labels_ : ndarray of shape (n_samples,)
        The component of each sample, ``predict(X)``; every sample has one. For "features" the
        component with the largest coefficient.
    orthonormal_ : ndarray of shape (n_samples, n_components) or (n_features, n_components)
        The orthonormal factor: no negative entry, at most one positive entry a row, unit columns to
        the last digit. With sample weights w, row i of W times the root of w_i.
    reconstruction_err_ : float
        The Frobenius norm of X - WH (rows times the root of their weights).
    bound_, gap_ : float or None
        A proven lower bound of ``reconstruction_err_`` over all matrices of this kind, and the
        relative distance to it; None without ``with_bound``.
    n_iter_ : int
        Outer iterations of the run that was kept.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    ``fit_transform(X)`` is ``transform(X)``: after the method ends, rows and components are
    alternated until no row fits another component better. Sparse input stays sparse. It is a
    clusterer in all but the base class ``ClusterMixin``, whose checks want negative data.
    An alternation costs O(nnz(X) k).

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.1, 3.0]])
    >>> model = OrthogonalNMF(n_components=2).fit(X)
    >>> model.labels_[0] == model.labels_[1], model.labels_[2] == model.labels_[3]
    (np.True_, np.True_)
    """

    def __init__(  # noqa: PLR0913
        self,
        n_components: int = 2,
        *,
        orthogonal: str = "samples",
        method: str | OuterMethod = "auto",
        n_init: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        with_bound: bool = False,
    ) -> None:
        self.n_components = n_components
        self.orthogonal = orthogonal
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.with_bound = with_bound

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Factorise X.

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (n_samples, n_features)
            Nonnegative.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A sample of weight 2 counts as two samples.
        """
        self._fit(X, sample_weight)
        return self

    def fit_predict(self, X: Any, y: object = None, sample_weight: Any = None) -> IntArray:
        """Factorise X; the component of each sample."""
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X: Any, y: object = None, sample_weight: Any = None) -> FloatArray:
        """Factorise X; W, as ``transform(X)`` gives it."""
        A = self._fit(X, sample_weight)
        return self._coefficients(A)

    def transform(self, X: Any) -> FloatArray:
        r"""W for these samples, with the components as they are.

        For "samples", each row has one entry, at the component with the largest cosine:
        :math:`w_{ij} = x_i^\top h_j / \|h_j\|^2`. For "features", :math:`W = XH^\top`.
        """
        return self._coefficients(self._validated(X))

    def inverse_transform(self, X: Any) -> FloatArray:
        """The samples WH that belong to ``X = W``, of shape (n_samples, n_components)."""
        check_is_fitted(self)
        W = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if W.shape[1] != len(self.components_):
            raise ValueError(
                f"`X` has {W.shape[1]} columns: one for each of the {len(self.components_)} "
                f"components is needed, as `transform` gives them."
            )
        return np.asarray(W @ self.components_)

    def predict(self, X: Any) -> IntArray:
        """The component of each sample; the first one for a sample of zeros."""
        return self._assign(self._validated(X))[0]

    def score(self, X: Any, y: object = None) -> float:
        r"""The share of X that is explained, :math:`1 - \|X - WH\|_F^2 / \|X\|_F^2`."""
        A = self._validated(X)
        W, H = self._coefficients(A), self.components_
        total = float(np.linalg.norm(A.data if issparse(A) else A)) ** 2
        # ||X - WH||^2 = ||X||^2 - 2 <XH', W> + <W'W, HH'>
        explained = 2.0 * float(np.vdot(A @ H.T, W)) - float(np.vdot(W.T @ W, H @ H.T))
        return explained / total if total else 1.0

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        A = validate_data(
            self,
            X,
            accept_sparse=("csr", "csc"),
            dtype=[np.float64, np.float32],
            ensure_non_negative=True,
        )
        self._check_parameters(*A.shape)
        weighted = _scale_rows(A, sample_weight)
        problem = ONMF(weighted.T if self.orthogonal == "features" else weighted, self.n_components)
        method = choose_method(problem, self.method, max_iter=self.max_iter, tol=self.tol)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        result = factorise(
            problem,
            method,
            n_init=self.n_init,
            rng=np.random.default_rng(seed),
            with_bound=self.with_bound,
        )
        self._unpack(problem, result, A.dtype)
        self.labels_ = self._assign(A)[0]
        if not result.success:
            warnings.warn(result.message, ConvergenceWarning, stacklevel=3)
        return A

    def _check_parameters(self, n_samples: int, n_features: int) -> None:
        check_choice(self.orthogonal, "orthogonal", ("samples", "features"))
        check_count(self.n_components, "n_components", low=1)
        most = n_samples if self.orthogonal == "samples" else n_features
        if self.n_components > most:
            raise ValueError(
                f"`n_components={self.n_components}` is too many for n_{self.orthogonal} = {most}: "
                f"no {most}-by-{self.n_components} matrix has orthonormal columns that are "
                f"nonnegative. Use at most {most}."
            )

    def _unpack(self, problem: ONMF, result: Result, dtype: Any) -> None:
        factor, other = result.X, np.asarray(result.Y)
        components = factor if self.orthogonal == "features" else other
        self.orthonormal_ = factor.astype(dtype, copy=False)
        self.components_ = np.ascontiguousarray(components.T, dtype=dtype)
        self.reconstruction_err_ = residual(problem.A, factor)
        self.bound_ = None if result.bound is None else float(np.sqrt(result.bound))
        self.gap_ = None
        if self.bound_ is not None:
            self.gap_ = (self.reconstruction_err_ - self.bound_) / (self.bound_ or 1.0)
        self.n_iter_ = result.n_iter

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(
            self,
            X,
            accept_sparse=("csr", "csc"),
            dtype=[np.float64, np.float32],
            ensure_non_negative=True,
            reset=False,
        )

    def _assign(self, A: Any) -> tuple[IntArray, FloatArray]:
        """The component of each row, and its coefficient there."""
        norms = np.linalg.norm(self.components_, axis=1)
        norms[norms == 0] = 1.0
        fits = np.asarray(A @ (self.components_ / norms[:, None]).T)
        labels = best_column(fits)
        return labels, fits[np.arange(len(fits)), labels] / norms[labels]

    def _coefficients(self, A: Any) -> FloatArray:
        if self.orthogonal == "features":
            return np.asarray(A @ self.components_.T)
        labels, weights = self._assign(A)
        W = np.zeros((len(labels), len(self.components_)), dtype=weights.dtype)
        W[np.arange(len(labels)), labels] = weights
        return W

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _scale_rows(A: Any, sample_weight: Any) -> Any:
    """Rows times the root of their weights: the squares of the residual are then weighted."""
    if sample_weight is None:
        return A
    weights = _check_sample_weight(sample_weight, A, dtype=A.dtype, ensure_non_negative=True)
    root = np.sqrt(weights)
    return diags_array(root) @ A if issparse(A) else A * root[:, None]
