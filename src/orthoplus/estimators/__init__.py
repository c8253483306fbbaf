"""Estimators with the scikit-learn interface, and hyperspectral unmixing."""

from orthoplus.estimators.k_indicators import KIndicatorsClustering
from orthoplus.estimators.nonnegative_pca import NonnegativePCA
from orthoplus.estimators.orthogonal_nmf import OrthogonalNMF
from orthoplus.estimators.spectral_clustering import NonnegativeSpectralClustering
from orthoplus.estimators.unmixing import Unmixing, abundances, unmix

__all__ = [
    "KIndicatorsClustering",
    "NonnegativePCA",
    "NonnegativeSpectralClustering",
    "OrthogonalNMF",
    "Unmixing",
    "abundances",
    "unmix",
]
