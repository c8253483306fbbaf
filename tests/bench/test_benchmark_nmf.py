"""The solver for the public benchmark of NMF, run as benchopt does; a stand-in if it is missing."""

import runpy
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "benchmark_nmf" / "solvers"


@pytest.fixture
def solver_class(monkeypatch):
    if find_spec("benchopt") is None:
        benchopt = ModuleType("benchopt")
        benchopt.BaseSolver = type("BaseSolver", (), {})
        monkeypatch.setitem(sys.modules, "benchopt", benchopt)
    return runpy.run_path(str(FOLDER / "orthoplus.py"))["Solver"]


def test_solver_returns_factors_that_the_benchmark_can_judge(solver_class, rng):
    groups = np.arange(40) % 3
    X = rng.random((3, 12))[groups] * (0.5 + rng.random((40, 1))) + 1e-3 * rng.standard_normal(
        (40, 12)
    )
    for values in product(*solver_class.parameters.values()):
        solver = solver_class()
        for name, value in zip(solver_class.parameters, values, strict=True):
            setattr(solver, name, value)
        solver.set_objective(X=X, rank=3, factors_init=None)
        solver.warm_up()
        solver.run(None)
        W, H = solver.get_result()["W"], solver.get_result()["H"]
        assert W.shape == (40, 3)
        assert H.shape == (3, 12)
        assert min(W.min(), H.min()) >= 0
        one_each = W if solver.orthogonal == "samples" else H.T
        assert ((one_each > 0).sum(axis=1) <= 1).all()
        if solver.orthogonal == "samples":  # the planted model but for the noise
            assert np.linalg.norm(X - W @ H) < 0.02 * np.linalg.norm(X)
