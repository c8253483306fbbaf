"""Orthogonal NMF by `orthoplus`, for the public benchmark of nonnegative matrix factorization.

Copy this file into the folder ``solvers`` of ``benchopt/benchmark_nmf``.
"""

import warnings

import numpy as np
from benchopt import BaseSolver

from orthoplus import OrthogonalNMF


class Solver(BaseSolver):
    """Each row (or column) of X in one component: a feasible point of NMF with one more constraint.

    The run has its own start and its own end, so there is one point in the curve.
    """

    name = "orthoplus"
    sampling_strategy = "run_once"
    requirements = ["pip::orthoplus"]
    parameters = {"orthogonal": ["samples", "features"], "loss": ["frobenius", "kullback-leibler"]}

    def set_objective(self, X, rank, factors_init=None, **_):
        """Keep the data; the shared start is not used. Noise below 0 is what no factors can fit."""
        self.X = np.maximum(X, 0.0)
        self.rank = rank

    def warm_up(self):
        """Compile before the clock runs."""
        self.fit(self.X[: max(20, 2 * self.rank)])

    def run(self, _):
        self.W, self.H = self.fit(self.X)

    def fit(self, X):
        """Return nonnegative factors W and H of X."""
        model = OrthogonalNMF(self.rank, orthogonal=self.orthogonal, loss=self.loss, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit_transform(X), model.components_

    def get_result(self):
        return {"W": self.W, "H": self.H}
