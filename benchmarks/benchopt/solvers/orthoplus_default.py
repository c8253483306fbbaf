"""The default of `orthoplus`."""

import warnings

from benchopt import BaseSolver

from orthoplus import OrthogonalNMF


class Solver(BaseSolver):
    """`OrthogonalNMF(n_components)` until it converges."""

    name = "orthoplus"
    sampling_strategy = "run_once"
    requirements = ["pip::orthoplus"]

    def set_objective(self, A, n_components):
        self.A = A
        self.model = OrthogonalNMF(n_components, random_state=0)

    def warm_up(self):
        """Compile before timing starts."""
        OrthogonalNMF(2).fit(self.A[:20])

    def run(self, _):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(self.A)

    def get_result(self):
        return {"X": self.model.orthonormal_}
