"""The baselines for any smooth f: the contract on every problem, and agreement on tiny ones."""

from itertools import islice

import numpy as np
import pytest

import orthoplus as op
from orthoplus.bench.oracles import global_minimum
from orthoplus.core.method import iterate
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.baselines import ANY_SMOOTH, BASELINES, SEPPG, SupportSet, WenYin
from orthoplus.problems import EXAMPLES, PROBLEMS, Projection, TraceMin

STEPS, ROUNDING = 3, 1e-14

METHODS = {name: BASELINES[name] for name in ANY_SMOOTH} | {
    "seppg_nonsmooth": lambda: SEPPG(penalty="nonsmooth", max_inner=30),
    "support_set_zero": lambda: SupportSet(moves="zero"),
}
# The same with a penalty that grows faster, for whole runs.
QUICK = METHODS | {
    "seppg": lambda: SEPPG(penalty_growth=1.5),
    "seppg_nonsmooth": lambda: SEPPG(penalty="nonsmooth", max_inner=30, penalty_growth=1.5),
}
every_pair = pytest.mark.parametrize(
    ("name", "problem_name"), [(name, problem) for name in METHODS for problem in PROBLEMS]
)
every_method = pytest.mark.parametrize("name", METHODS)


def states_of(method, problem, X, steps=STEPS):
    return list(islice(iterate(problem, method, method.init(problem, X)), steps + 1))


def same_state(one, other):
    return all(
        a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b
        for a, b in zip(one, other, strict=True)
    )


@every_pair
def test_run_is_in_oblique_plus_pure_deterministic_and_resumable(name, problem_name):
    rng = np.random.default_rng(0)
    problem, method = EXAMPLES[problem_name](rng), METHODS[name]()
    X = random_oblique_plus(*problem.shape, rng)
    given = X.copy()
    X.flags.writeable = False
    states = states_of(method, problem, X)
    for state in states:
        assert state.X.min() >= 0
        assert np.abs(np.linalg.norm(state.X, axis=0) - 1).max() <= ROUNDING
        assert np.isfinite(state.value)
        for part in state:
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
    fresh = EXAMPLES[problem_name](np.random.default_rng(0))
    resumed = list(islice(iterate(fresh, method, states[1]), STEPS))
    assert all(same_state(a, b) for a, b in zip(states[1:], resumed, strict=True))
    assert (X == given).all()


@every_method
def test_scale_of_f_does_not_change_the_labels(name, rng):
    C = rng.standard_normal((9, 3))
    M = C @ C.T
    labels = [
        op.solve(TraceMin(-scale * M, 3), method=QUICK[name](), rng=0).labels
        for scale in (1.0, 1e-6, 1e6)
    ]
    assert (labels[0] == labels[1]).all()
    assert (labels[0] == labels[2]).all()


@every_method
@pytest.mark.parametrize("seed", range(4))
def test_well_separated_projection_is_exact(name, seed):
    rng = np.random.default_rng(seed)
    planted = op.geometry.random_stiefel_plus(8, 2, rng)
    problem = Projection(planted + 0.02 * rng.standard_normal((8, 2)))
    result = op.solve(problem, method=QUICK[name]())
    assert result.violation < ROUNDING
    assert np.isclose(result.value, problem.value(op.project(problem.C).X), rtol=1e-10)


@every_method
def test_answer_is_never_below_the_optimum_and_mostly_at_it(name):
    found = 0
    for seed in range(6):
        M = np.random.default_rng(seed).standard_normal((5, 5))
        problem = TraceMin(M + M.T, 2)
        best = global_minimum(problem).value
        value = op.solve(problem, method=QUICK[name](), rng=seed).value
        assert value >= best - 1e-10
        found += value <= best + 1e-8
    assert found >= 3


@pytest.mark.parametrize("cls", [WenYin, SEPPG])
def test_squared_entries_are_for_permutations_only(cls, rng):
    with pytest.raises(ValueError, match="permutation matrices"):
        op.solve(Projection(rng.random((5, 2))), method=cls(squared=True))
    flows, distances = rng.integers(9, size=(2, 5, 5)).astype(float)
    problem = op.problems.QAP(flows, distances)
    quick = {} if cls is WenYin else {"penalty_growth": 1.5}
    result = op.solve(problem, method=cls(squared=True, **quick), rng=0)
    assert result.violation == 0.0
    assert result.value == problem.value_of(result.labels)


@pytest.mark.parametrize("cls", [WenYin, SEPPG])
def test_bad_options_of_the_manifold_methods_are_refused(cls):
    for bad in (
        {"penalty_start": 0.0},
        {"penalty_growth": 1.0},
        {"negativity_tol": -1.0},
        {"inner_tol": -1.0},
        {"max_inner": 0},
        {"max_iter": 0},
    ):
        with pytest.raises(ValueError, match=r"must|out of range"):
            cls(**bad)
