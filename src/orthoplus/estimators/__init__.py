"""The scikit-learn border: estimators, and hyperspectral unmixing."""

from orthoplus.estimators.orthogonal_nmf import OrthogonalNMF
from orthoplus.estimators.unmixing import Unmixing, unmix

__all__ = ["OrthogonalNMF", "Unmixing", "unmix"]
