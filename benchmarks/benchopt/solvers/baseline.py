"""Every method of `orthoplus.baselines` for orthogonal NMF, iteration by iteration."""

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

from orthoplus import baselines, problems
from orthoplus.core.status import Status

NAMES = ("uonmf", "yoo_choi", "opnmf", "onpmf", "em_onmf", "hals_onmf", "k_means", "nmf")


class Solver(BaseSolver):
    """A baseline with the options of its paper; K-means and NMF take a single step."""

    name = "baseline"
    sampling_strategy = "callback"
    stopping_criterion = NoCriterion()  # the method's own rule ends the run
    parameters = {"method": list(NAMES)}
    requirements = ["pip::orthoplus"]

    def set_objective(self, A, n_components):
        self.problem = problems.ONMF(A, n_components)

    def run(self, callback):
        method = baselines.BASELINES[self.method]()
        start = self.problem.start(np.random.default_rng(0))
        state, stop = method.init(self.problem, start), method.stop()
        self.X = state.X
        while callback() and stop(state) is Status.RUNNING:
            state = method.step(self.problem, state)
            self.X = state.X

    def get_result(self):
        return {"X": self.X}
