"""Metrics of clusterings (section 6.2.2), spectra (6.2.3) and factorizations (6.2.1).

Labels may be of any sortable type. The label -1, "no cluster", counts as a separate cluster, so
that rows left out by a method are not ignored.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from orthoplus.core.checks import as_matrix, check_shape
from orthoplus.core.errors import InputError
from orthoplus.core.foreign import as_label_array
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import as_data
from orthoplus.geometry import violation
from orthoplus.geometry.stiefel import round_to_stiefel_plus
from orthoplus.problems import ONMF


def purity(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    r"""Return the fraction of rows in the most common class of their cluster; 1 is best.

    .. math:: \frac{1}{n} \sum_{j} \max_i n_{ij}, \qquad n_{ij} = |C_i \cap C'_j|.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [5, 5, 5, 7])
    0.75
    """
    counts = _contingency(labels_true, labels_pred)
    return float(counts.max(axis=0).sum() / counts.sum())


def entropy(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    r"""Return the entropy of the clusters, between 0 (pure, best) and 1.

    .. math:: -\frac{1}{n \log_2 k} \sum_j \sum_i n_{ij} \log_2 \frac{n_{ij}}{n'_j},

    where k is the number of classes in ``labels_true``; 0 if there is only one.

    Examples
    --------
    >>> entropy([0, 0, 1, 1], [0, 0, 1, 1]), entropy([0, 1, 0, 1], [0, 0, 1, 1])
    (0.0, 1.0)
    """
    counts = _contingency(labels_true, labels_pred)
    if len(counts) == 1:
        return 0.0
    sizes = counts.sum(axis=0)
    mixed = float(entr(counts / sizes).sum(axis=0) @ sizes)
    return max(0.0, mixed) / float(sizes.sum() * np.log(len(counts)))  # never -0.0


def nmi(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    r"""Return the normalized mutual information, divided by the larger entropy; 1 is best.

    .. math:: \frac{1}{\max(H(C), H(C'))} \sum_{ij} \frac{n_{ij}}{n}
              \log_2 \frac{n\, n_{ij}}{n_i n'_j}.

    It is 1 if both clusterings have a single cluster. It is computed by scikit-learn's
    ``normalized_mutual_info_score``.

    Examples
    --------
    >>> nmi([0, 0, 1, 1], [1, 1, 0, 0]), nmi([0, 1, 0, 1], [0, 0, 1, 1])
    (1.0, 0.0)
    """
    from sklearn.metrics import normalized_mutual_info_score  # slow to import

    labels = _checked_labels(labels_true, labels_pred)
    return float(normalized_mutual_info_score(*labels, average_method="max"))


def spectral_angle_distance(
    estimated: npt.ArrayLike, reference: npt.ArrayLike, *, matched: bool = True
) -> float:
    r"""Return the mean angle between spectra in radians; 0 is best, scale does not matter.

    .. math:: \frac{1}{k} \sum_{i=1}^k
              \arccos \frac{y_i^\top \hat y_i}{\|y_i\| \|\hat y_i\|}.

    Parameters
    ----------
    estimated, reference : array of shape (k, n_bands)
        Spectra, one per row.
    matched : bool
        Whether to pair the spectra such that the mean is smallest, as in `match_spectra`; if False,
        row i is compared with row i.

    Notes
    -----
    The cost is O(k^2 n_bands + k^3), for all pairs and an optimal matching.

    Examples
    --------
    >>> spectral_angle_distance([[0.0, 2.0], [3.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    0.0
    """
    estimated, reference = _unit_spectra(estimated, reference)
    if matched:
        estimated = estimated[_match(estimated, reference)]
    # Use Kahan's formula, because arccos loses half the digits of a small angle.
    apart = np.linalg.norm(estimated - reference, axis=1)
    return float((2.0 * np.arctan2(apart, np.linalg.norm(estimated + reference, axis=1))).mean())


def match_spectra(estimated: npt.ArrayLike, reference: npt.ArrayLike) -> IntArray:
    """Match the rows of ``estimated`` to those of ``reference`` with the smallest mean angle.

    Examples
    --------
    >>> match_spectra([[0.0, 2.0], [3.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([1, 0])
    """
    return _match(*_unit_spectra(estimated, reference))


def feasibility(X: FloatArray) -> float:
    r"""Return the violation :math:`\|X^\top X - I\|_F + \|\min(X, 0)\|_F`, section 6.2.1.

    Examples
    --------
    >>> feasibility(np.eye(3, 2))
    0.0
    """
    return violation(X)


def residual(A: Any, X: FloatArray, *, refit: bool = False, relative: bool = False) -> float:
    r"""Return the residual :math:`\|A - X^R (X^R)^\top A\|_F`, section 6.2.1.

    Parameters
    ----------
    A : array or SciPy sparse matrix of shape (n, r)
        The data; sparse data are used through products only.
    X : array of shape (n, k)
        A nonnegative matrix, not necessarily feasible; X^R is its rounding by Procedure 1.
    refit : bool
        Whether to replace each column of X^R by the leading singular vector of its rows first,
        which is optimal for that support; needs A >= 0. This removes the effect of the weights, so
        that only the clusters count.
    relative : bool
        Whether to divide by ||A||_F; the result is 0 for A = 0.

    Notes
    -----
    For dense A the squared differences are summed, in blocks of rows, so that an exact
    factorization has a residual at rounding level. For sparse A, where the difference would be
    dense, the residual is :math:`(\|A\|^2 - 2 \|W\|^2 + \|XW^\top\|^2)^{1/2}` with
    :math:`W = A^\top X^R`; values below about 1e-8 ||A|| are only rounding.
    The cost is O(nnz(A) k).

    Examples
    --------
    >>> A = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(residual(A, X), 12), round(residual(A, X, refit=True), 12)
    (0.707106781187, 0.0)
    """
    data = as_data(A)
    X = as_matrix(X, "X").astype(np.float64, copy=False)
    if len(X) != len(data):
        raise InputError(
            f"`X` has {len(X)} rows, `A` has {len(data)}: they must be equal, one row of X for "
            f"each row of A. Transpose `A` if X is a factor of its columns."
        )
    check_shape(X.shape[0], X.shape[1], "X")
    if X.min() < 0:
        raise InputError(
            f"`X` has negative entries (the smallest is {X.min():.3g}): Procedure 1 rounds a "
            f"nonnegative matrix. Pass `np.maximum(X, 0)` if that is what you mean."
        )
    X = round_to_stiefel_plus(X)
    if refit:
        X = ONMF(data, X.shape[1]).refine(X)
    point = SupportPoint.of(X)
    labels, weights = data.scatter(point.labels), data.scatter(point.weights)
    W = data.group_sums(labels, weights, point.k)
    squares = data.missed_squares(labels, weights, W)
    size = data.squared_norm() ** 0.5 if relative else 1.0
    return float(np.sqrt(squares)) / (size or 1.0)


def _contingency(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return n_ij, the number of rows of class i in cluster j."""
    classes, clusters = _checked_labels(labels_true, labels_pred)
    counts = np.zeros((int(classes.max()) + 1, int(clusters.max()) + 1), dtype=np.int64)
    np.add.at(counts, (classes, clusters), 1)
    return counts


def _checked_labels(
    labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike
) -> tuple[IntArray, IntArray]:
    """Return both label arrays with the labels renumbered as 0, 1, ... in sorted order."""
    classes = _as_labels(labels_true, "labels_true")
    clusters = _as_labels(labels_pred, "labels_pred")
    if len(classes) != len(clusters):
        raise InputError(
            f"`labels_true` has {len(classes)} labels, `labels_pred` has {len(clusters)}: both "
            f"must label the same rows."
        )
    return classes, clusters


def _as_labels(labels: npt.ArrayLike, name: str) -> IntArray:
    array = as_label_array(labels, name)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"`{name}` has shape {array.shape}: a nonempty one-dimensional array with one label "
            f"per row is needed."
        )
    return np.unique(array, return_inverse=True)[1]


def _unit_spectra(
    estimated: npt.ArrayLike, reference: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    spectra = [
        as_matrix(values, name).astype(np.float64, copy=False)
        for values, name in ((estimated, "estimated"), (reference, "reference"))
    ]
    if spectra[0].shape != spectra[1].shape:
        raise InputError(
            f"`estimated` has shape {spectra[0].shape}, `reference` {spectra[1].shape}: both need "
            f"the same shape, one spectrum per row. Transpose them if the spectra are columns."
        )
    if 0 in spectra[0].shape:
        raise InputError(f"`estimated` has shape {spectra[0].shape}: it has no spectra to compare.")
    for values, name in zip(spectra, ("estimated", "reference"), strict=True):
        zero = np.flatnonzero(~values.any(axis=1))
        if len(zero):
            raise InputError(
                f"`{name}` has a spectrum of zeros, row {zero[0]}: its angle is undefined. Remove "
                f"the row."
            )
    scaled = [values / np.abs(values).max(axis=1, keepdims=True) for values in spectra]
    first, second = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in scaled)
    return first, second


def _match(estimated: FloatArray, reference: FloatArray) -> IntArray:
    from scipy.optimize import linear_sum_assignment  # slow to import

    angles = np.arccos(np.clip(reference @ estimated.T, -1.0, 1.0))
    return np.asarray(linear_sum_assignment(angles)[1])
