"""Orthogonal NMF as a scikit-learn estimator."""

import dataclasses
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from orthoplus.certify.certificate import Certificate
from orthoplus.core.bounds import relative_gap
from orthoplus.core.checks import check_count
from orthoplus.core.errors import InputError
from orthoplus.core.foreign import as_label_array
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.estimators import fitted, fitted_counts
from orthoplus.estimators.callbacks import (
    FitTasks,
    WatchedEstimator,
    warn_unless_converged,
    with_callbacks,
)
from orthoplus.estimators.certified import Certified
from orthoplus.estimators.factorize import (
    Model,
    RunOptions,
    factorize_data,
    finish_from,
    residual_norm,
    share_weights,
)
from orthoplus.estimators.reading import (
    check_components,
    check_loss,
    draw_seed,
    read_coordinates,
    read_samples,
    read_weights,
    weigh_rows,
)
from orthoplus.estimators.row_fits import RowFits, fit_rows, group_sums
from orthoplus.estimators.scaling import Scaling, fit_scaling, note_mixed_units

# Labels, coefficients and scores by the loss.
_FITTED: dict[str, Any] = {"frobenius": fitted, "kullback-leibler": fitted_counts}


class OrthogonalNMF(
    Certified,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    WatchedEstimator,
):
    r"""Factorize X by orthogonal NMF, to cluster the rows or to find disjoint parts.

    .. math:: \min_{W, H \ge 0} \|X - WH\|_F^2, \qquad W^\top W = I
              \ \text{(samples)} \quad \text{or} \quad HH^\top = I \ \text{(features)},

    or, for counts, with the Kullback-Leibler divergence :math:`D(X \,\|\, WH)` instead.

    Parameters
    ----------
    n_components : int
        Number k of clusters or parts, at most the number of samples (or features).
    loss : {"frobenius", "kullback-leibler"}
        The loss to minimize. "kullback-leibler" is the negative log-likelihood of counts (words in
        documents, events, reads), see `orthoplus.problems.KLONMF`: a sample is assigned to the
        component under which it is most likely, independently of its length. It needs nonnegative
        data without missing entries.
    orthogonal : {"samples", "features"}
        Which factor is orthonormal. With "samples", the setting of the paper, every sample belongs
        to one component, with a weight. With "features", every feature belongs to at most one
        component, so that the components are disjoint parts.
    method : {"auto", "ep4orth", "unmixing"} or object
        "auto" is `SwapSearch`, a search over partitions of the samples, and `KLAlternating` for the
        Kullback-Leibler divergence. "ep4orth" is the penalty method with
        the paper's parameters for text and images, "unmixing" with those for hyperspectral images,
        both for the Frobenius loss. An object such as ``EP4Orth(penalty_growth=1.5)`` has its own
        parameters.
    n_init : int, optional
        Number of searches or runs, of which the best is kept. The first starts from the singular
        vectors of X, the others at random. By default three searches for "auto" (four for the
        Kullback-Leibler divergence, more if X is tiny), and one run otherwise.
    max_iter : int, optional
        Maximum number of iterations; by default that of the method.
    tol : float, optional
        Tolerance of the method, for the penalty method the violation of orthogonality at which it
        stops; by default that of the method.
    random_state : int, RandomState or None
        Random state of the starts and of everything that "auto" samples; None means seed 0.
    with_bound : bool
        Whether to compute ``bound_`` and ``gap_``, which costs a truncated SVD.
    allow_negative : bool
        Whether the data may have any sign. If True, only the orthonormal factor is nonnegative. A
        sample whose coefficient would be negative gets 0.
    missing : {"error", "mask"}
        How to treat NaN in X: raise an error, or ignore the entry as unobserved, which is not the
        same as 0. Entries that a sparse X does not store are observed zeros.
    row_scale : {None, "l1", "l2"}
        If not None, divide each sample by the sum of its absolute values or by its norm before the
        factorization, so that all samples have the same influence. With "l2" and the Frobenius
        loss, this is spherical k-means with weights.
    column_scale : {None, "std", "max"}
        If not None, first divide each feature by its standard deviation or its largest absolute
        value in the training data, for features in different units. Nothing is subtracted, so that
        0 stays 0. New samples are divided by the same numbers.
    n_jobs : int, optional
        Number of parallel runs, each in its own process; -1 uses all processors. The result does
        not depend on it. The searches of "auto" form one run, which uses threads if X is large.
    memory_limit : int or str, optional
        Memory in bytes, or a string such as "512MB". If given, X, a memory map or any array, is
        read in blocks of rows that fit, see `orthoplus.data.as_data`, and no array of the size of X
        or of its coefficients is formed. h5py datasets and Zarr arrays are always read in blocks,
        by default with "1GB"; Dask arrays are read by their chunks.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The matrix H, in the original units of the data: WH approximates X for the W of `transform`.
    scaled_components_ : ndarray of shape (n_components, n_features)
        The components in the units of the scaled features; equal to `components_` without
        ``column_scale``.
    labels_ : ndarray of shape (n_samples,)
        The component of each sample, as in ``predict(X)``; -1 for a sample of zeros. For
        "features", this is the component with the largest coefficient.
    orthonormal_ : ndarray of shape (n_samples, n_components) or (n_features, n_components)
        The orthonormal factor, which is nonnegative with at most one positive entry per row and
        unit columns up to rounding. With sample weights w, row i of W is multiplied by the square
        root of w_i. Computed lazily from `result_`.
    result_ : Result
        The factorization; its ``labels`` and ``weights`` are those of the orthonormal factor.
    reconstruction_err_ : float
        The Frobenius norm of X - WH over the observed entries, with rows multiplied by the square
        roots of their weights; or the divergence D(X || WH), with rows multiplied by their weights.
        If scaling is used, the error of the scaled data.
    bound_, gap_ : float or None
        A proven lower bound on ``reconstruction_err_`` over all feasible factorizations, and the
        relative gap to it. None without ``with_bound``, if entries are missing, or for the
        Kullback-Leibler divergence, for which no bound is known.
    n_iter_ : int
        Number of outer iterations of the best run.
    n_features_in_, feature_names_in_
        Number and names of the features seen during `fit`.

    Notes
    -----
    ``fit_transform(X)`` equals ``transform(X)``, because rows and components are alternated at the
    end until no row fits another component better. Sparse input stays sparse. The estimator behaves
    as a clusterer, but does not inherit from ``ClusterMixin``, whose checks use negative data. An
    alternation costs O(nnz(X) k).

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.1, 3.0]])
    >>> model = OrthogonalNMF(n_components=2).fit(X)
    >>> model.labels_[0] == model.labels_[1], model.labels_[2] == model.labels_[3]
    (np.True_, np.True_)
    """

    components_: FloatArray
    labels_: Any  # a Dask array if the data are one
    result_: Result
    reconstruction_err_: float
    bound_: float | None
    gap_: float | None
    n_iter_: int

    def __init__(  # noqa: PLR0913
        self,
        n_components: int = 2,
        *,
        loss: str = "frobenius",
        orthogonal: str = "samples",
        method: str | OuterMethod = "auto",
        n_init: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        with_bound: bool = False,
        allow_negative: bool = False,
        missing: str = "error",
        row_scale: str | None = None,
        column_scale: str | None = None,
        n_jobs: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.orthogonal = orthogonal
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.with_bound = with_bound
        self.allow_negative = allow_negative
        self.missing = missing
        self.row_scale = row_scale
        self.column_scale = column_scale
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Factorize X.

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (n_samples, n_features)
            The data, nonnegative unless ``allow_negative`` is True, with NaN for missing entries if
            ``missing="mask"``. h5py datasets, Zarr arrays and Dask arrays of dense or SciPy sparse
            chunks are also accepted; for a Dask array, ``labels_`` is a Dask array.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples. A sample of weight 2 counts as two samples.
        """
        self._fit(X, sample_weight)
        return self

    def fit_watched(self, X: Any, sample_weight: Any = None, **watch: Any) -> Self:
        """Factorize X as in `fit`, with options of `solve` to monitor the run.

        The options are ``callback, time_limit, resume, checkpoint, checkpoint_every``. No warning
        is issued; see ``result_`` for the status.
        """
        self._fit(X, sample_weight, watch)
        return self

    def improve(self, X: Any, certificate: Certificate, sample_weight: Any = None) -> Self:
        """Adopt the best partition of a certificate if it is better than the fitted one.

        Parameters
        ----------
        X : data
            The data passed to ``fit``.
        certificate : Certificate
            A certificate from ``certify(X)``, which does not change the estimator.
        sample_weight : array of shape (n_samples,), optional
            The weights passed to ``fit``.
        """
        problem, result = self._solved(X, {"sample_weight": sample_weight})
        better = finish_from(problem, result, certificate.best_X(problem))
        if better is not result:
            A = self._validated(X)
            self._unpack(better, residual_norm(problem, better), A.dtype)
            self.labels_ = self._assign(A)
        return self

    def fit_predict(self, X: Any, y: object = None, sample_weight: Any = None) -> IntArray:
        """Factorize X and return the component of each sample."""
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X: Any, y: object = None, sample_weight: Any = None) -> FloatArray:
        """Factorize X and return W, which equals ``transform(X)``."""
        return self._coefficients(self._fit(X, sample_weight))

    def transform(self, X: Any) -> FloatArray:
        r"""Return W for these samples, with the fitted components.

        For "samples", each row has one entry, at the component with the largest cosine:
        :math:`w_{ij} = x_i^\top h_j / \|h_j\|^2`, or 0 if that is negative. For "features",
        :math:`W = XH^\top`. Missing entries of a sample are ignored. For the Kullback-Leibler
        divergence, the entry is at the component with the largest likelihood :math:`\sum_l x_{il}
        \log (h_{jl} / \sum_m h_{jm})`, :math:`w_{ij} = \sum_l x_{il} / \sum_l h_{jl}`; for
        "features", the same sums run over the features of each part. A sample is assigned to the
        component under which the fewest of its counts are impossible.
        """
        return self._coefficients(self._validated(X))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return the samples WH for coefficients ``X = W``, (n_samples, n_components)."""
        check_is_fitted(self)
        return np.asarray(read_coordinates(X, len(self.components_)) @ self.components_)

    def predict(self, X: Any) -> IntArray:
        """Return the component of each sample; -1 for a sample of zeros."""
        return self._assign(self._validated(X))

    def row_fits(self, X: Any) -> RowFits:
        """Return how well each sample fits its component, and which one is the second best.

        Parameters
        ----------
        X : data
            The training data or new samples.

        Returns
        -------
        RowFits
            Arrays with one entry per sample: ``weights`` (the multiple of the component),
            ``cosines``, ``second_best``, and ``margins``: the cosine with the own component minus
            the largest cosine with another one, or for the Kullback-Leibler divergence the
            difference of the log-likelihoods per count. A small margin indicates a doubtful sample.
            The values are NaN and -1 for a sample of zeros.
        """
        A = self._validated(X)
        H, sums = self.scaled_components_, None
        if self.loss == "kullback-leibler":
            labels, weights = np.asarray(self.result_.labels), np.asarray(self.result_.weights)
            is_disjoint = self.orthogonal == "features"
            # The likelihood of a row needs the counts of its cluster, not the normalized profile.
            sums = H if is_disjoint else group_sums(H, labels, weights)
        return fit_rows(A, self._assign(A), H, sums)

    def top_features(self, names: Any = None, n: int = 10) -> list[list[Any]]:
        """Return the features with the largest entries of each component, largest first.

        Parameters
        ----------
        names : sequence of length n_features, optional
            Names of the features, such as ``vectorizer.get_feature_names_out()``; by default
            ``feature_names_in_``, or indices if there are none.
        n : int
            Maximum number of features per component; features with an entry of 0 are omitted.

        Examples
        --------
        >>> X = np.array([[5.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
        >>> OrthogonalNMF(2).fit(X).top_features(["cat", "mouse", "stock"])
        [['cat', 'mouse'], ['stock']]
        """
        check_is_fitted(self)
        check_count(n, "n", low=1)
        width = self.components_.shape[1]
        if names is None:
            names = getattr(self, "feature_names_in_", range(width))
        else:
            names = as_label_array(names, "names").tolist()
        if len(names) != width:
            raise InputError(
                f"`names` has {len(names)} entries; expected one for each of the {width} features."
            )
        largest = np.argsort(-self.components_, axis=1, kind="stable")[:, :n]
        return [
            [names[i] for i in row if component[i] > 0]
            for component, row in zip(self.components_, largest.tolist(), strict=True)
        ]

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        r"""Return the share of X that is explained, :math:`1 - \|X - WH\|_F^2 / \|X\|_F^2`.

        For the Kullback-Leibler divergence, the score is :math:`1 - D(X \,\|\, WH) / D(X \,\|\,
        M)`, where M is the independence model of X, (row sums) x (column sums) / total. It is minus
        infinity if a sample has a count that is impossible under its component. If scaling is used,
        the score refers to the scaled data. A sample of weight 2 counts as two equal samples, as in
        `fit`.
        """
        A = self._scaling.samples(self._validated(X))
        A = weigh_rows(A, read_weights(A, sample_weight), self.loss)
        return float(self._fitted.explained_share(A, self.scaled_components_, self.orthogonal))

    @property
    def _fitted(self) -> Any:
        return _FITTED[self.loss]

    @property
    def scaled_components_(self) -> FloatArray:
        """Return the components in the units of the scaled data that were factorized."""
        check_is_fitted(self)
        return self._scaling.from_data(self.components_)

    def _assign(self, A: DataMatrix) -> IntArray:
        return self._fitted.assign(A, self.scaled_components_)

    def _coefficients(self, A: DataMatrix) -> FloatArray:
        return self._fitted.coefficients(A, self.scaled_components_, self.orthogonal)

    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Any, Result]:
        A = self._scaling.samples(self._validated(X))
        weights = read_weights(A, options.pop("sample_weight", None))
        A = weigh_rows(A, weights, self.loss)
        return self._model.problem(A), self.result_

    @property
    def _model(self) -> Model:
        return Model(self.n_components, self.orthogonal, self.allow_negative, self.loss)

    @with_callbacks
    def _fit(self, X: Any, sample_weight: Any, watch: Any = None) -> DataMatrix:
        check_loss(self.loss, missing=self.missing, allow_negative=self.allow_negative)
        A = read_samples(self, X, reset=True)
        check_components(self.n_components, self.orthogonal, A.shape)
        rng = np.random.default_rng(draw_seed(self.random_state))
        tasks = FitTasks(self, X, sample_weight)
        options = RunOptions.of(self.get_params(deep=False), tasks.watch(watch, self.n_jobs))
        weights = read_weights(A, sample_weight)
        self._scaling: Scaling = fit_scaling(A, weights, self.row_scale, self.column_scale)
        notes = note_mixed_units(A, self._scaling)
        # New rows are scaled by feature as well; scales and weights of samples only affect the fit.
        A = self._scaling.features(A)
        weighted = weigh_rows(self._scaling.samples(A), weights, self.loss)
        result, missed = factorize_data(weighted, self._model, options, rng)
        if weights is not None and self.loss != "frobenius" and self.orthogonal == "samples":
            result = share_weights(result, weights)
        result = dataclasses.replace(result, notes=(*result.notes, *notes))
        self._unpack(result, missed, A.dtype)
        self.labels_ = self._assign(A)
        tasks.end()
        if watch is None:
            warn_unless_converged(result, stacklevel=5)
        return A

    def _unpack(self, result: Result, missed: float, dtype: Any) -> None:
        weights = result.weights.astype(dtype, copy=False)
        point = dataclasses.replace(result.point, weights=weights)
        components = point.dense() if self.orthogonal == "features" else np.asarray(result.Y)
        self.result_ = dataclasses.replace(result, point=point, state=None)
        scaled = np.ascontiguousarray(components.T, dtype=dtype)
        self.components_ = self._scaling.to_data(scaled)
        self.reconstruction_err_ = missed
        self.bound_ = None if result.bound is None else float(np.sqrt(result.bound))
        # Keep a gap that is 0 or None: the square roots would amplify the rounding.
        self.gap_ = result.gap and relative_gap(missed, self.bound_)
        self.n_iter_ = result.n_iter

    @property
    def orthonormal_(self) -> FloatArray:
        """Return the factor with orthonormal columns, in S+."""
        check_is_fitted(self)
        return self.result_.X

    def _validated(self, X: Any) -> DataMatrix:
        """Return the checked data with columns scaled as in the fit."""
        check_is_fitted(self)
        return self._scaling.features(read_samples(self, X, reset=False))

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
