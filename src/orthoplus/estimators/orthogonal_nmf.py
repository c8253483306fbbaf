"""Orthogonal NMF as a scikit-learn estimator."""

import dataclasses
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
    check_non_negative,
    validate_data,
)

from orthoplus.core.bounds import relative_gap
from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.method import OuterMethod
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.groups import best_column
from orthoplus.data.stored import RowBlocks, as_row_blocks
from orthoplus.estimators.factorize import choose_method, factorise
from orthoplus.estimators.missing import assign, coefficients, factorise_observed, observe
from orthoplus.metrics import residual
from orthoplus.problems import ONMF

# What scikit-learn's own words for bad data do not say.
_ADVICE = {
    "Negative values in data": "Shift or clip the data, or set `allow_negative=True` if only the "
    "orthonormal factor must be nonnegative.",
    "contains NaN": 'If NaN stands for entries that were not observed, set `missing="mask"`.',
}


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
    allow_negative : bool
        True for data of any sign: then only the orthonormal factor is nonnegative, the other has
        any sign. A sample whose coefficient would be negative gets 0. Not for Dask arrays.
    missing : {"error", "mask"}
        What NaN in a dense X means: an error, or an entry that was not observed and counts nowhere,
        which is not the same as 0. Not for data that are read in blocks of rows.
    n_jobs : int, optional
        Runs at a time, each in a process of its own; -1 for all processors. The answer does not
        depend on it. The searches of "auto" are one run, which uses threads where X is large.
    memory_limit : int or str, optional
        In bytes, or as in "512MB": X, a memory map or any array, is then read in blocks of rows
        that fit into it, see `orthoplus.data.stored.as_row_blocks`, and nothing of the size of X or
        of its coefficients is made. Datasets of h5py and arrays of Zarr are always read so, with
        "1GB" where nothing else is said; Dask arrays by their chunks.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        H.
    labels_ : ndarray of shape (n_samples,)
        The component of each sample, ``predict(X)``; every sample has one. For "features" the
        component with the largest coefficient.
    orthonormal_ : ndarray of shape (n_samples, n_components) or (n_features, n_components)
        The orthonormal factor: no negative entry, at most one positive entry a row, unit columns to
        the last digit. With sample weights w, row i of W times the root of w_i. Made when asked for
        from `result_`.
    result_ : Result
        The factorisation; its ``labels`` and ``weights`` are those of the orthonormal factor.
    reconstruction_err_ : float
        The Frobenius norm of X - WH (rows times the root of their weights), over the entries that
        were observed.
    bound_, gap_ : float or None
        A proven lower bound of ``reconstruction_err_`` over all matrices of this kind, and the
        relative distance to it; None without ``with_bound``, or where entries are missing.
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
        allow_negative: bool = False,
        missing: str = "error",
        n_jobs: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.orthogonal = orthogonal
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.with_bound = with_bound
        self.allow_negative = allow_negative
        self.missing = missing
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Factorise X.

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (n_samples, n_features)
            Nonnegative, unless ``allow_negative``; with NaN for ``missing="mask"``. Or a dataset of
            h5py, an array of Zarr, or a Dask array of dense or SciPy sparse chunks, on whatever
            scheduler it has: then ``labels_`` is a Dask array too.
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
        :math:`w_{ij} = x_i^\top h_j / \|h_j\|^2`, 0 where that is negative.
        For "features", :math:`W = XH^\top`. Of a sample with missing entries only the others count.
        """
        return self._coefficients(self._validated(X))

    def inverse_transform(self, X: Any) -> FloatArray:
        """The samples WH that belong to ``X = W``, of shape (n_samples, n_components)."""
        check_is_fitted(self)
        W = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if W.shape[1] != len(self.components_):
            raise InputError(
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
        if self._has_gaps(A):
            W, H = self._coefficients(A), self.components_
            missed = np.nansum((A - W @ H) ** 2, dtype=np.float64)
            total = float(np.nansum(A * A, dtype=np.float64))
            return 1.0 - float(missed) / total if total else 1.0
        args = (self.components_, self.orthogonal)
        in_blocks = isinstance(A, RowBlocks)
        sums = A.reduce(_explained, args=args) if in_blocks else _explained(A, *args)
        return float(sums[0] / sums[1]) if sums[1] else 1.0

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        A = self._read(X, reset=True)
        self._check_parameters(*A.shape)
        weighted = self._weighted(A, sample_weight)
        result = self._solve(weighted.T if self.orthogonal == "features" else weighted)
        self._unpack(result, A.dtype)
        self.labels_ = self._assign(A)[0]
        if not result.success:
            warnings.warn(result.message, ConvergenceWarning, stacklevel=3)
        return A

    def _solve(self, A: Any) -> Result:
        """The orthonormal factor of A, and ``reconstruction_err_``."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        rng = np.random.default_rng(seed)

        def run(problem: ONMF) -> Result:
            return factorise(
                problem,
                choose_method(problem, self.method, max_iter=self.max_iter, tol=self.tol),
                n_init=self.n_init,
                rng=rng,
                n_jobs=self.n_jobs,
                with_bound=self.with_bound and not has_gaps,
            )

        if has_gaps := self._has_gaps(A):
            result = factorise_observed(
                observe(A), self.n_components, allow_negative=self.allow_negative, run=run
            )
            self.reconstruction_err_ = float(np.sqrt(max(result.value, 0.0)))
        else:
            result = run(ONMF(A, self.n_components, allow_negative=self.allow_negative))
            in_blocks = isinstance(A, RowBlocks)
            missed = float(np.sqrt(max(result.value, 0.0))) if in_blocks else residual(A, result.X)
            self.reconstruction_err_ = missed
        return result

    def _weighted(self, A: Any, sample_weight: Any) -> Any:
        if not isinstance(A, RowBlocks):
            return _scale_rows(A, sample_weight)
        if sample_weight is not None or self.orthogonal == "features":
            given = "`sample_weight`" if sample_weight is not None else '`orthogonal="features"`'
            raise InputError(
                f"{given} is not for data that are read in blocks of rows. Scale the rows by the "
                f"roots of their weights, or store the transpose, or bring the data into memory."
            )
        return A

    def _check_parameters(self, n_samples: int, n_features: int) -> None:
        check_choice(self.orthogonal, "orthogonal", ("samples", "features"))
        check_count(self.n_components, "n_components", low=1)
        most = n_samples if self.orthogonal == "samples" else n_features
        if self.n_components > most:
            raise InputError(
                f"`n_components={self.n_components}` is too many for n_{self.orthogonal} = {most}: "
                f"no {most}-by-{self.n_components} matrix has orthonormal columns that are "
                f"nonnegative. Use at most {most}."
            )

    def _unpack(self, result: Result, dtype: Any) -> None:
        components = result.X if self.orthogonal == "features" else np.asarray(result.Y)
        self.result_ = dataclasses.replace(
            result, weights=result.weights.astype(dtype, copy=False), state=None
        )
        self.components_ = np.ascontiguousarray(components.T, dtype=dtype)
        self.bound_ = None if result.bound is None else float(np.sqrt(result.bound))
        # A gap that is 0 or unknown within rounding stays so: the roots would show the rounding.
        self.gap_ = result.gap and relative_gap(self.reconstruction_err_, self.bound_)
        self.n_iter_ = result.n_iter

    @property
    def orthonormal_(self) -> FloatArray:
        check_is_fitted(self)
        return self.result_.X

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _read(self, X: Any, *, reset: bool) -> Any:
        """X as an array, a sparse matrix or row blocks, checked."""
        check_choice(self.missing, "missing", ("error", "mask"))
        rows = as_row_blocks(X, "X", memory_limit=None if issparse(X) else self.memory_limit)
        if rows is not None:
            self._check_rows(rows, reset=reset)
            return rows
        try:
            A = validate_data(
                self,
                X,
                accept_sparse=("csr", "csc"),
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan" if self.missing == "mask" else True,
                ensure_non_negative=not self.allow_negative,
                reset=reset,
            )
            _check_gaps(A)
            if self._has_gaps(A) and not self.allow_negative:  # NaN hides the sign above
                check_non_negative(observe(A).values, type(self).__name__)
            return A
        except ValueError as error:
            for sign, advice in _ADVICE.items():
                if sign in str(error):
                    raise InputError(
                        f"{str(error).splitlines()[0].rstrip('.')}. {advice}"
                    ) from error
            raise

    def _check_rows(self, rows: RowBlocks, *, reset: bool) -> None:
        if self.missing == "mask":
            raise InputError(
                '`missing="mask"` is not for data that are read in blocks of rows: it needs all of '
                "them at once. Impute what is missing, or bring the data into memory."
            )
        if reset:
            self.n_features_in_ = rows.shape[1]
        elif rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    def _assign(self, A: Any) -> tuple[IntArray, FloatArray]:
        """The component of each row, and its coefficient there."""
        if isinstance(A, RowBlocks):
            labels, weights = A.map(_assign, args=(self.components_,), n_vectors=2)
            return A.as_array(labels, np.int64), A.as_array(weights, A.dtype)
        if self._has_gaps(A):
            return assign(observe(A), self.components_)[:2]
        return _assign(A, self.components_)

    def _coefficients(self, A: Any) -> FloatArray:
        args = (self.components_, self.orthogonal)
        if isinstance(A, RowBlocks):
            return A.as_array(A.map(_coefficients, args=args), A.dtype, width=len(self.components_))
        if not self._has_gaps(A):
            return _coefficients(A, *args)
        if self.orthogonal == "features":  # disjoint supports: a least-squares problem for each
            return coefficients(observe(A), self.components_)[0]
        return _spread(*self._assign(A), len(self.components_))

    def _has_gaps(self, A: Any) -> bool:
        is_masked = self.missing == "mask" and isinstance(A, np.ndarray)
        return is_masked and bool(np.isnan(A).any())

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.input_tags.positive_only = not self.allow_negative
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _assign(A: Any, components: FloatArray) -> tuple[IntArray, FloatArray]:
    """The component of each row, and its coefficient there."""
    norms = np.linalg.norm(components, axis=1)
    norms[norms == 0] = 1.0
    fits = np.asarray(A @ (components / norms[:, None]).T)
    labels = best_column(fits)
    weights = np.maximum(fits[np.arange(len(fits)), labels], 0.0)
    return labels, weights / norms[labels]


def _coefficients(A: Any, components: FloatArray, orthogonal: str) -> FloatArray:
    """W for these rows."""
    if orthogonal == "features":
        return np.asarray(A @ components.T)
    return _spread(*_assign(A, components), len(components))


def _spread(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """The matrix of k columns with one entry a row."""
    W = np.zeros((len(labels), k), dtype=weights.dtype)
    W[np.arange(len(labels)), labels] = weights
    return W


def _explained(A: Any, components: FloatArray, orthogonal: str) -> tuple[float, float]:
    """||X||^2 - ||X - WH||^2 = 2 <XH', W> - <W'W, HH'>, and ||X||^2."""
    W, H = _coefficients(A, components, orthogonal), components
    total = float(np.linalg.norm(A.data if issparse(A) else A)) ** 2
    explained = 2.0 * float(np.vdot(A @ H.T, W)) - float(np.vdot(W.T @ W, H @ H.T))
    return explained, total


def _scale_rows(A: Any, sample_weight: Any) -> Any:
    """Rows times the root of their weights: the squares of the residual are then weighted."""
    if sample_weight is None:
        return A
    weights = _check_sample_weight(sample_weight, A, dtype=A.dtype, ensure_non_negative=True)
    root = np.sqrt(weights)
    return diags_array(root) @ A if issparse(A) else A * root[:, None]


def _check_gaps(A: Any) -> None:
    if issparse(A) and np.isnan(A.data).any():
        raise InputError(
            "`X` is sparse and has NaN: missing entries of sparse data are not supported, since "
            "what is not stored is zero. Pass a dense array with NaN where nothing was observed."
        )
