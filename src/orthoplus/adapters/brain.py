"""Parcellate brain images by orthogonal NMF, with an interface like nilearn's."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import InputTags
from sklearn.utils.validation import check_is_fitted

from orthoplus.adapters.brain_images import (
    ImageMatrix,
    Series,
    as_series,
    is_same_mask,
    load_surface,
    make_masker,
    read_columns,
    read_matrix,
)
from orthoplus.adapters.brain_table import look_up_table
from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.extras import check_installed
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.stored import DEFAULT_LIMIT, parse_memory
from orthoplus.estimators import OrthogonalNMF
from orthoplus.estimators.reading import check_values
from orthoplus.model_selection import RankSelection, select_rank

__all__ = ["ImageMatrix", "Parcellation", "load_surface"]

NEGATIVE = ("error", "clip", "allow")


@dataclass
class ImageTags(InputTags):  # type: ignore[misc]
    """Declare in nilearn's tags that volume and surface images are accepted."""

    niimg_like: bool = True
    surf_img: bool = True


class Parcellation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Divide the voxels or vertices of brain images into parcels that vary together.

    The matrix A has one row per voxel and one column per subject or time point, as in OPNMF, and

    .. math:: \min_X \|A - XX^\top A\|_F^2, \qquad X^\top X = I, \ X \ge 0

    assigns each voxel to one parcel with a weight; no threshold is needed. Parameters that
    `nilearn.regions.Parcellations` also has are named as there.

    Parameters
    ----------
    n_parcels : int, default=50
        The number of parcels.
    mask : image, path or nilearn masker, default=None
        The voxels or vertices to use. A NiftiMasker or SurfaceMasker (or its Multi variant) is
        used with its own options instead of those below. By default, a MultiNiftiMasker computes
        the mask of volumes, and all vertices of surfaces are used.
    negative : {"error", "clip", "allow"}, default="error"
        How to treat negative values: "error" raises, "clip" sets them to zero, and "allow" keeps
        them, which suits standardized time series. In the last case only the weights are
        nonnegative, while the values of parcels may have any sign.
    method : {"auto", "ep4orth"} or object, default="auto"
        As in `OrthogonalNMF`.
    n_init : int, default=None
        Number of starts, of which the best is kept; the default depends on the method.
    random_state : int, RandomState or None, default=0
        Source of randomness; the same seed gives the same parcels.
    smoothing_fwhm : float, default=None
        Full width at half maximum of a Gaussian smoothing, in millimeters.
    standardize : {"zscore_sample", "psc", True, False, None}, default=None
        As in nilearn, over the time points of each 4D image, or over all 3D images. A z-score has
        negative values.
    standardize_confounds : bool, default=True
        Whether confounds are z-scored.
    detrend : bool, default=False
        Whether to remove linear trends over time.
    low_pass : float, default=None
        The highest frequency that is kept, in Hertz.
    high_pass : float, default=None
        The lowest frequency that is kept, in Hertz.
    t_r : float, default=None
        Repetition time: seconds between two time points.
    target_affine : array, default=None
        Affine of the grid to which images are resampled.
    target_shape : tuple of int, default=None
        Shape of that grid.
    mask_strategy : str, default="background"
        How to compute the mask if none is given.
    mask_args : dict, default=None
        Additional arguments for computing the mask.
    with_bound : bool, default=False
        Whether `estimator_` computes a bound on the objective of any parcellation.
    memory_limit : int or str, default="1GB"
        Size in bytes or as in "512MB". A larger matrix of voxels by samples is kept in a
        temporary file and read in blocks of rows.
    memory : joblib.Memory or str, default=None
        Cache of the masker.
    memory_level : int, default=0
        How much the masker caches.
    n_jobs : int, default=1
        Number of processes for computing masks and for methods with several runs.
    verbose : int, default=0
        Verbosity of the masker.

    Attributes
    ----------
    estimator_ : OrthogonalNMF
        The fitted factorization. Its ``components_`` are the values of each parcel in the samples
        of the fit; its labels start at 0.
    labels_img_ : Nifti1Image or SurfaceImage
        The parcel of each voxel, counted from 1; 0 for the background and for voxels that are 0 in
        all images.
    lut_ : DataFrame
        A look-up table as in nilearn and BIDS: ``index, name, color``, and ``size``, the number of
        voxels or vertices. Its first row is the background.
    mask_img_ : Nifti1Image or SurfaceImage
        The mask.
    masker_ : nilearn masker
        The fitted masker, which converts between images and rows of the matrix.
    n_elements_ : int
        The number of parcels.
    n_negative_ : int
        Number of negative values inside the mask in the images of the fit.
    weights_img_ : Nifti1Image or SurfaceImage
        How strongly each voxel belongs to its parcel; the mean over a parcel is 1.

    Notes
    -----
    3D images, one per subject, form one series together; each 4D image is a series, and
    `transform` returns a list if there are several. Volumes are read a few at a time, but a series
    that is cleaned over time (``standardize``, ``detrend``, filters, confounds) is loaded as a
    whole.

    Examples
    --------
    >>> from nibabel import Nifti1Image  # doctest: +SKIP
    >>> halves = np.indices((6, 6, 6))[0] // 3  # doctest: +SKIP
    >>> levels = 1.0 + np.random.default_rng(0).random((8, 2))  # doctest: +SKIP
    >>> subjects = levels[:, halves].astype("float32")  # doctest: +SKIP
    >>> images = [Nifti1Image(values, np.eye(4)) for values in subjects]  # doctest: +SKIP
    >>> mask = Nifti1Image(np.ones((6, 6, 6), dtype="uint8"), np.eye(4))  # doctest: +SKIP
    >>> model = Parcellation(2, mask=mask).fit(images)  # doctest: +SKIP
    >>> model.labels_img_.get_fdata()[:, 0, 0]  # doctest: +SKIP
    array([1., 1., 1., 2., 2., 2.])
    >>> model.transform(images).shape  # doctest: +SKIP
    (8, 2)
    """

    estimator_: OrthogonalNMF
    labels_img_: Any
    lut_: Any
    mask_img_: Any
    masker_: Any
    n_elements_: int
    n_negative_: int
    weights_img_: Any

    def __init__(  # noqa: PLR0913
        self,
        n_parcels: int = 50,
        *,
        mask: Any = None,
        negative: str = "error",
        method: Any = "auto",
        n_init: int | None = None,
        random_state: Any = 0,
        smoothing_fwhm: float | None = None,
        standardize: Any = None,
        standardize_confounds: bool = True,
        detrend: bool = False,
        low_pass: float | None = None,
        high_pass: float | None = None,
        t_r: float | None = None,
        target_affine: Any = None,
        target_shape: Any = None,
        mask_strategy: str = "background",
        mask_args: Any = None,
        with_bound: bool = False,
        memory_limit: int | str = DEFAULT_LIMIT,
        memory: Any = None,
        memory_level: int = 0,
        n_jobs: int | None = 1,
        verbose: int = 0,
    ) -> None:
        self.n_parcels = n_parcels
        self.mask = mask
        self.negative = negative
        self.method = method
        self.n_init = n_init
        self.random_state = random_state
        self.smoothing_fwhm = smoothing_fwhm
        self.standardize = standardize
        self.standardize_confounds = standardize_confounds
        self.detrend = detrend
        self.low_pass = low_pass
        self.high_pass = high_pass
        self.t_r = t_r
        self.target_affine = target_affine
        self.target_shape = target_shape
        self.mask_strategy = mask_strategy
        self.mask_args = mask_args
        self.with_bound = with_bound
        self.memory_limit = memory_limit
        self.memory = memory
        self.memory_level = memory_level
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, imgs: Any, y: object = None, confounds: Any = None) -> Self:
        """Compute the parcels of images.

        Parameters
        ----------
        imgs : image, path, pattern, list of images or paths, or ImageMatrix
            3D images of subjects or 4D images, in files or in memory, or surface images; or the
            matrix returned by `read`.
        y : ignored
        confounds : list, default=None
            As in nilearn: a table for each 4D image, or one for all 3D images.
        """
        return self._fit(imgs, confounds, None)

    def fit_watched(self, imgs: Any, confounds: Any = None, **watch: Any) -> Self:
        """Fit like `fit`, with options of `solve` that monitor the run, such as a callback."""
        return self._fit(imgs, confounds, watch)

    def read(self, imgs: Any, confounds: Any = None) -> ImageMatrix:
        """Read images to a matrix of voxels by samples, which `fit` and `reproducibility` accept.

        This sets ``masker_`` and ``mask_img_``.
        """
        check_installed(("nibabel", "nilearn"), "A parcellation of images", extra="brain")
        check_choice(self.negative, "negative", NEGATIVE)
        series = as_series(imgs, confounds)
        self.masker_ = make_masker(self, series)
        self.mask_img_ = self.masker_.mask_img_
        found = read_matrix(
            self.masker_, series, self.memory_limit, is_clipped=self.negative == "clip"
        )
        if found.n_negative and self.negative == "error":
            raise InputError(
                f"The images have {found.n_negative} negative values inside the mask (the smallest "
                f'is {found.least:.3g}); pass `negative="clip"` to set them to zero, or '
                f'`negative="allow"` to keep them; then only the weights are nonnegative.'
            )
        return found

    def reproducibility(
        self, imgs: Any, ranks: Iterable[int], confounds: Any = None, **options: Any
    ) -> RankSelection:
        """Compare parcellations of two halves of the subjects for several numbers of parcels.

        Parameters
        ----------
        imgs, confounds
            As in `fit`. A subject is a 3D image, a volume of a single 4D image, or one of several
            4D images.
        ranks : iterable of int
            The numbers of parcels to try, such as ``range(5, 31)``.
        **options
            ``n_splits, n_init, n_jobs, callback, resume`` of `orthoplus.select_rank`.

        Returns
        -------
        RankSelection
            For each number of parcels, the adjusted Rand index of the two halves (``stability``),
            the mean cosine of their matched weight maps (``cosine``), and the error of one half in
            predicting hidden values of the other (``heldout``); and a recommendation. ``plot()``
            draws the curves.
        """
        data = self._matrix(imgs, confounds)
        own: dict[str, Any] = {"n_jobs": self.n_jobs, "allow_negative": self.negative == "allow"}
        if isinstance(self.random_state, (int, np.integer)):
            own["random_state"] = int(self.random_state)
        return select_rank(
            data.values, ranks, split="columns", groups=data.groups, **(own | options)
        )

    def transform(self, imgs: Any, confounds: Any = None) -> Any:
        """Return the value of each parcel in each image.

        It is the least-squares coefficient of the weights of the parcel, a weighted mean.
        nilearn's ``NiftiLabelsMasker(labels_img_)`` computes means without weights.

        Returns
        -------
        signals : ndarray of shape (n_samples, n_parcels)
            A list of arrays if ``imgs`` has several 4D images.
        """
        check_is_fitted(self)
        series = as_series(imgs, confounds)
        maps, limit = self._maps(), parse_memory(self.memory_limit)
        sizes = np.asarray(maps.multiply(maps).sum(axis=1)).ravel()
        inverse = np.divide(1.0, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        signals = [self._signals(part, maps, inverse, limit) for part in series]
        return signals[0] if len(signals) == 1 else signals

    def _signals(
        self, series: Series, maps: csr_array, inverse: FloatArray, limit: int
    ) -> FloatArray:
        found = []
        for block in read_columns(self._fitted_masker, series, limit):
            block = np.maximum(block, 0) if self.negative == "clip" else block
            dtype = np.float32 if block.dtype == np.float32 else np.float64
            found.append(((maps @ block.T).T * inverse).astype(dtype, copy=False))
        return np.concatenate(found)

    def fit_transform(self, imgs: Any, y: object = None, confounds: Any = None) -> Any:
        """Compute the parcels, and return their values in the same images."""
        return self.fit(imgs, confounds=confounds).transform(imgs, confounds)

    def inverse_transform(self, signals: Any) -> Any:
        """Convert values of parcels to images: the value times the weight of each voxel.

        Parameters
        ----------
        signals : array of shape (n_samples, n_parcels) or (n_parcels,), or list of arrays
        """
        check_is_fitted(self)
        if isinstance(signals, (list, tuple)) and not all(np.ndim(own) == 0 for own in signals):
            images = [self.inverse_transform(own) for own in signals]
            return images[0] if len(images) == 1 else images
        if np.asarray(signals).dtype == bool:
            warnings.warn("Casting boolean input to float64.", UserWarning, stacklevel=2)
        values = check_values(signals, ensure_2d=False)
        if values.ndim not in (1, 2) or values.shape[-1] != self.n_elements_:
            raise InputError(
                f"Input to 'inverse_transform' has wrong shape. It is {values.shape}: the last "
                f"axis must have one value for each of the {self.n_elements_} parcels."
            )
        labels, weights = self._labels_and_weights()
        return self._fitted_masker.inverse_transform(
            # voxels without a parcel have the label -1 and the weight 0
            values[..., np.maximum(labels, 0)] * weights.astype(values.dtype)
        )

    def _fit(self, imgs: Any, confounds: Any, watch: dict[str, Any] | None) -> Self:
        check_count(self.n_parcels, "n_parcels", low=1)
        data = self._matrix(imgs, confounds)
        if self.n_parcels > len(data.values):
            raise InputError(
                f"`n_parcels={self.n_parcels}` is larger than the {len(data.values)} voxels of the "
                f"mask; use at most {len(data.values)}."
            )
        self.estimator_ = OrthogonalNMF(
            self.n_parcels,
            method=self.method,
            n_init=self.n_init,
            random_state=self.random_state,
            with_bound=self.with_bound,
            allow_negative=self.negative == "allow",
            n_jobs=self.n_jobs,
            memory_limit=data.memory_limit,
        )
        if watch is None:
            self.estimator_.fit(data.values)
        else:
            self.estimator_.fit_watched(data.values, **watch)
        self.n_negative_, self.n_elements_ = data.n_negative, self.n_parcels
        # Other images may be read later with another mask; the parcels belong to this one.
        self._fitted_masker = self.masker_
        self._make_images()
        return self

    def _matrix(self, imgs: Any, confounds: Any) -> ImageMatrix:
        if not isinstance(imgs, ImageMatrix):
            return self.read(imgs, confounds)
        is_own = hasattr(self, "masker_") and (
            imgs.mask_img is None or is_same_mask(imgs.mask_img, self.mask_img_)
        )
        if not is_own:
            raise InputError(
                "This matrix was read by another `Parcellation`, or with another mask; call `read` "
                "of this one."
            )
        return imgs

    def _make_images(self) -> None:
        labels, weights = self._labels_and_weights()
        sizes = np.bincount(labels + 1, minlength=self.n_parcels + 1)
        self.lut_ = look_up_table(sizes)
        self.labels_img_ = self._fitted_masker.inverse_transform((labels + 1).astype(np.int32))
        self.weights_img_ = self._fitted_masker.inverse_transform(weights.astype(np.float32))
        n_empty = int(np.count_nonzero(sizes[1:] == 0))
        if n_empty:
            warnings.warn(
                f"{n_empty} of the {self.n_parcels} parcels are empty; a smaller `n_parcels` "
                f"describes the images equally well.",
                UserWarning,
                stacklevel=4,
            )

    def _labels_and_weights(self) -> tuple[IntArray, FloatArray]:
        """Return the parcel of each row, -1 for none, and weights of mean 1 per parcel."""
        labels, found = self.estimator_.labels_, self.estimator_.result_
        weights = np.where(labels == found.labels, found.weights, 0.0).astype(np.float64)
        used = labels >= 0
        sums = np.bincount(labels[used], weights[used], minlength=self.n_parcels)
        counts = np.bincount(labels[used], minlength=self.n_parcels)
        scale = np.divide(counts, sums, out=np.zeros(self.n_parcels), where=sums > 0)
        return labels, np.where(used, weights * scale[np.maximum(labels, 0)], 0.0)

    def _maps(self) -> csr_array:
        """Return the weights as a sparse matrix of parcels by voxels."""
        labels, weights = self._labels_and_weights()
        rows = np.flatnonzero(labels >= 0)
        shape = (self.n_parcels, len(labels))
        return csr_array((weights[rows], (labels[rows], rows)), shape=shape)

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """Return the names of the parcels, the columns of `transform`."""
        check_is_fitted(self)
        return np.asarray(self.lut_["name"][1:], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_img_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = ImageTags(positive_only=self.negative == "error")
        return tags
