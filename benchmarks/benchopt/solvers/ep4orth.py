"""EP4Orth+ with the paper's parameters, iteration by iteration."""

from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

from orthoplus import EP4Orth, problems
from orthoplus.core.status import Status
from orthoplus.linalg.starts import svd_start


class Solver(BaseSolver):
    """EP4Orth+; a point of the curve is an outer iteration, one value of the penalty."""

    name = "EP4Orth"
    sampling_strategy = "callback"
    stopping_criterion = NoCriterion()  # the method's own rule ends the run
    parameters = {"inner": ["second order", "first order"]}
    requirements = ["pip::orthoplus"]

    def set_objective(self, A, n_components):
        self.A, self.k = A, n_components

    def run(self, callback):
        problem = problems.ONMF(self.A, self.k)
        changes = {} if self.inner == "second order" else {"second_order": None}
        method = EP4Orth.for_onmf(size=problem.total, **changes)
        state, stop = method.init(problem, svd_start(self.A, self.k, "clipped")), method.stop()
        self.X = state.X
        while callback() and stop(state) is Status.RUNNING:
            state = method.step(problem, state)
            self.X = state.X

    def get_result(self):
        return {"X": self.X}
