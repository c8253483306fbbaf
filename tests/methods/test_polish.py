"""The feasible polish: descent without leaving S+, and what a majorizer promises."""

from itertools import pairwise

import numpy as np
import pytest

import orthoplus as op
from brute_force import minimize_over_supports
from orthoplus.core.method import iterate
from orthoplus.geometry.stiefel import random_stiefel_plus, violation
from orthoplus.problems import ONMF, Projection, Smooth, SymmetricONMF, TraceMin, nonnegative_pca

N, K = 12, 3


def problems(rng):
    M = rng.standard_normal((N, N))
    return {
        "onmf": ONMF(rng.random((N, 5)), K),
        "projection": Projection(rng.standard_normal((N, K))),
        "trace": TraceMin(M + M.T, K),
        "pca": nonnegative_pca(M, K),
        "symmetric_onmf": SymmetricONMF(M + M.T, K),
        "smooth": Smooth(
            lambda X: float(np.exp(M @ X).sum()), (N, K), jac=lambda X: M.T @ np.exp(M @ X)
        ),
    }


@pytest.mark.parametrize("name", ["onmf", "projection", "trace", "pca", "symmetric_onmf"])
def test_majorizer_keeps_its_promise(name, rng):
    problem = problems(rng)[name]
    kept = 0
    for _ in range(100):
        X = random_stiefel_plus(N, K, rng)
        C = problem.majorizer(X)
        # Random points, and those that the polish goes to, from where it starts or goes astray.
        astray = rng.choice([0.0, 0.1, 10.0]) * np.linalg.norm(C)
        Z = op.project(C + astray * rng.standard_normal((N, K))).X
        if np.vdot(C, Z) >= np.vdot(C, X):
            kept += 1
            assert problem.value(Z) <= problem.value(X) + 1e-12
    assert kept > 10


@pytest.mark.parametrize("name", ["onmf", "projection", "trace", "pca", "symmetric_onmf", "smooth"])
def test_polish_stays_feasible_and_descends(name, rng):
    problem = problems(rng)[name]
    method = op.methods.Polish()
    X0 = random_stiefel_plus(N, K, rng)
    stop, values = method.stop(), [problem.value(X0)]
    for state in iterate(problem, method, method.init(problem, X0)):
        assert violation(state.X) < 1e-13
        assert state.value == problem.value(state.X)
        values.append(state.value)
        if stop(state) is not op.Status.RUNNING:
            break
    assert stop(state) is op.Status.CONVERGED
    assert all(b <= a + 1e-12 * abs(a) for a, b in pairwise(values))


def test_polish_moves_rows_that_refinement_cannot(rng):
    A = np.kron(np.eye(2), np.ones((4, 3))) + 0.01 * rng.random((8, 6))
    problem = ONMF(A, 2)
    wrong = np.array([0, 0, 0, 1, 1, 1, 1, 1])  # row 3 belongs to the first group
    X0 = op.geometry.assemble(wrong, np.ones(8), 2)
    result = op.solve(problem, X0, method=op.methods.Polish())
    assert len(set(result.labels[:4])) == len(set(result.labels[4:])) == 1
    assert result.value < problem.value(problem.refine(X0))


def test_polish_of_a_projection_is_the_optimum_by_brute_force(rng):
    problem = Projection(rng.standard_normal((5, 2)))
    best = minimize_over_supports(problem)[0]
    assert op.solve(problem, method=op.methods.Polish()).value == pytest.approx(best)


@pytest.mark.parametrize(
    "options", [{"decrease": 0.0}, {"tol": -1.0}, {"max_passes": 0}, {"max_iter": 1.5}]
)
def test_bad_options_are_refused(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        op.methods.Polish(**options)


def test_steps_go_down_the_gradient_when_no_majorizer_is_known(rng):
    # No closed form to refine by either: only the model L X - grad f can move a row.
    C = rng.standard_normal((N, K))
    plain = Smooth(lambda X: -float(np.vdot(C, X)), (N, K), jac=lambda X: -C)
    start = random_stiefel_plus(N, K, rng)
    polish = op.methods.Polish()
    first = polish.init(plain, start)
    assert polish.step(plain, first).value < first.value - 1e-3
    best = op.solve(plain, start, method=polish)
    assert best.value == pytest.approx(-op.project(C).value, rel=1e-9)
