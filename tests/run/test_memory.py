"""No temporary beyond a fixed number of n x k arrays: measured with tracemalloc."""

import tracemalloc

import numpy as np
import pytest

import orthoplus as op
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized

SHAPE = (20_000, 20)
ARRAY = 8 * SHAPE[0] * SHAPE[1]
# Measured peaks, in n x k arrays: a step holds X, its gradient and the next two; the run adds the
# start, X^feas, the rounded and the refined point. The margin of one is for what is O(n) or O(k).
STEP = {"linear": 2, "onmf": 4}
RUN = {"linear": 7, "onmf": 13}
MARGIN = 1


def build(name):
    n, k = SHAPE
    rng = np.random.default_rng(0)
    X0 = random_oblique_plus(n, k, rng)
    if name == "linear":
        return op.problems.Projection(rng.standard_normal(SHAPE)), X0
    groups = np.eye(k)[rng.integers(k, size=n)] * (0.1 + rng.random((n, 1)))
    return op.problems.ONMF(groups @ rng.random((k, 10)) + 0.05 * rng.random((n, 10)), k), X0


def peak_of(work):
    """Memory at its highest during ``work()``, in n x k arrays, beyond what there was before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return (tracemalloc.get_traced_memory()[1] - before) / ARRAY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", STEP)
def test_step_holds_a_fixed_number_of_arrays(name):
    problem, X = build(name)
    h = Penalized(problem.freeze(X), PowerPenalty(1.0))
    h.value_and_gradient(X)  # what the problem keeps for itself
    method = op.ProjectedGradient()

    def work():
        state = method.init(h, X)
        for _ in range(4):
            state = method.step(h, state)

    assert peak_of(work) <= STEP[name] + MARGIN


@pytest.mark.parametrize("name", RUN)
def test_run_holds_a_fixed_number_of_arrays(name):
    problem, X0 = build(name)
    method = op.EP4Orth(penalty_growth=3.0, max_iter=4)
    op.solve(problem, X0, method=method, with_bound=False)  # loads the kernels
    results = []
    peak = peak_of(lambda: results.append(op.solve(problem, X0, method=method, with_bound=False)))
    assert peak <= RUN[name] + MARGIN
    assert results[0].violation <= 1e-12


def test_memory_does_not_grow_with_the_iterations():
    problem, X0 = build("linear")
    peaks = [
        peak_of(
            lambda count=count: op.solve(
                problem,
                X0,
                method=op.EP4Orth(penalty_growth=1.1, max_iter=count),
                with_bound=False,
            )
        )
        for count in (2, 12)
    ]
    assert peaks[1] <= peaks[0] + MARGIN
