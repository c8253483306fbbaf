"""Orthogonal NMF: min ||A - XX'A||^2 over nonnegative X with orthonormal columns."""

import numpy as np
from benchopt import BaseObjective

from orthoplus import metrics
from orthoplus.geometry.stiefel import violation


class Objective(BaseObjective):
    """Evaluate a result: its residual after rounding and refitting, and its distance to S+."""

    name = "Orthogonal NMF"
    requirements = ["pip::orthoplus"]
    min_benchopt_version = "1.6"

    def set_data(self, A, n_components, labels=None):
        self.A, self.k, self.labels = A, n_components, labels

    def get_objective(self):
        """Return the input of every solver: a nonnegative matrix, dense or sparse, and k."""
        return {"A": self.A, "n_components": self.k}

    def evaluate_result(self, X):
        """X: a nonnegative n x k matrix; it need not be orthonormal, and is rounded here."""
        X = np.maximum(np.asarray(X, dtype=float), 0.0)
        residual = metrics.residual(self.A, X, relative=True)
        figures = {
            "value": metrics.residual(self.A, X, refit=True, relative=True) ** 2,
            "rounded": residual**2,
            "violation": violation(X),
        }
        if self.labels is not None:
            found = X.argmax(axis=1)
            figures["purity"] = metrics.purity(self.labels, found)
            figures["nmi"] = metrics.nmi(self.labels, found)
        return figures

    def get_one_result(self):
        """Return a point of the right shape, for benchopt's own tests."""
        return {"X": np.eye(self.A.shape[0], self.k)}
