"""The contract: every method on every small problem. A new registry entry joins by itself."""

from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import pytest

from orthoplus.core.method import iterate
from orthoplus.core.problem import Problem
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods import METHODS, PALM, TAKES
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import EXAMPLES, PROBLEMS

STEPS = 6
# Column norms of an iterate are one up to a few roundoffs.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Watched(Problem):
    """A problem that lends X out read-only: whoever writes to it, raises."""

    problem: Problem

    @property
    def shape(self):
        return self.problem.shape

    def value_and_gradient(self, X):
        value, gradient = self.problem.value_and_gradient(read_only(X))
        return value, read_only(gradient)

    def hessp(self, X, D):
        return self.problem.hessp(read_only(X), read_only(D))

    def freeze(self, X):
        return Watched(self.problem.freeze(read_only(X)))


def read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


def arrays_of(state):
    return {name: value for name, value in state._asdict().items() if isinstance(value, np.ndarray)}


def same_bits(one, other):
    """Whether two states agree in every field, arrays bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return one == other or (one != one and other != other)  # NaN agrees with NaN


def pairs(methods):
    """Every method with every problem it takes."""
    found = [
        pytest.param(METHODS[method](), problem, id=f"{method}-{problem}")
        for method in methods
        for problem in PROBLEMS
        if problem in TAKES.get(method, (problem,))
    ]
    return pytest.mark.parametrize(("method", "problem_name"), found)


every_pair = pairs(METHODS)


def is_inner(method):
    """Whether a method works over OB+: only such a one hands something on."""
    return hasattr(method, "carry")


def setting(method, problem_name, seed=0):
    """A problem, penalized for the methods over OB+, and a start."""
    rng = np.random.default_rng(seed)
    problem = EXAMPLES[problem_name](rng)
    if is_inner(method):
        problem = Penalized(problem, PowerPenalty(0.5))
    return problem, random_oblique_plus(*problem.shape, rng)


def run_of(method, problem, X, steps=STEPS):
    return list(islice(iterate(problem, method, method.init(problem, X)), steps + 1))


@cache
def known_run(method, problem_name, seed=0):
    """The states of a run, which several tests look at."""
    return tuple(run_of(method, *setting(method, problem_name, seed)))


@cache
def guarded_run(method, problem_name):
    """Return the states of a second run, and whether it left its input and earlier states as given.

    Nothing that a step is given can be written to.
    """
    problem, X = setting(method, problem_name)
    given = X.copy()
    X.flags.writeable = False
    states, is_untouched = [method.init(problem, X)], True
    for _ in range(STEPS):
        arrays = arrays_of(states[-1])
        before = {name: array.copy() for name, array in arrays.items()}
        for array in arrays.values():
            array.flags.writeable = False
        states.append(method.step(problem, states[-1]))
        is_untouched &= all((before[name] == array).all() for name, array in arrays.items())
    return states, is_untouched and bool((X == given).all())


def test_registries_name_the_same_problems():
    assert EXAMPLES.keys() == PROBLEMS.keys()
    assert TAKES.keys() <= METHODS.keys()
    assert set().union(*TAKES.values()) <= PROBLEMS.keys()
    assert all(
        type(EXAMPLES[name](np.random.default_rng(0))) is PROBLEMS[name] for name in PROBLEMS
    )


@pytest.mark.parametrize("method_name", TAKES)
def test_method_for_some_problems_refuses_another_by_a_sentence(method_name):
    method = METHODS[method_name]()
    problem, X = setting(method, "projection")
    with pytest.raises(TypeError, match=r"(got|cannot solve) Projection"):
        method.init(problem, X)


@every_pair
@pytest.mark.parametrize("seed", range(3))
def test_iterates_stay_in_oblique_plus(method, problem_name, seed):
    for state in known_run(method, problem_name, seed):
        assert state.X.min() >= 0
        assert np.abs(np.linalg.norm(state.X, axis=0) - 1).max() <= ROUNDING
        assert np.isfinite(state.value)


@every_pair
def test_run_is_deterministic(method, problem_name):
    first, (second, _) = known_run(method, problem_name), guarded_run(method, problem_name)
    assert all(same_bits(a._asdict(), b._asdict()) for a, b in zip(first, second, strict=True))


@pairs(name for name in METHODS if name != "ep4orth")  # there sigma changes: see test_ep4orth
@pytest.mark.parametrize("seed", range(3))
def test_value_is_never_above_the_start(method, problem_name, seed):
    states = known_run(method, problem_name, seed)
    # Differences of a few roundoffs of the value are forgiven by the line searches, once a step.
    slack = STEPS * 1e-14 * max(1.0, abs(states[0].value))
    assert all(state.value <= states[0].value + slack for state in states)


@every_pair
def test_input_and_earlier_states_are_untouched(method, problem_name):
    assert guarded_run(method, problem_name)[1]


@every_pair
def test_step_is_pure(method, problem_name):
    problem, _ = setting(method, problem_name)
    states = known_run(method, problem_name)
    assert same_bits(method.step(problem, states[2])._asdict(), states[3]._asdict())


@every_pair
@pytest.mark.parametrize(("middle", "end"), [(0, STEPS), (1, 3), (4, STEPS)], ids=["0", "1", "4"])
def test_resumed_run_equals_uninterrupted(method, problem_name, middle, end):
    states = known_run(method, problem_name)[middle : end + 1]
    fresh, _ = setting(method, problem_name)  # nothing is remembered outside the state
    resumed = islice(iterate(fresh, method, states[0]), len(states))
    assert all(same_bits(a._asdict(), b._asdict()) for a, b in zip(states, resumed, strict=True))


@pytest.mark.parametrize("method_name", [name for name in METHODS if name not in TAKES])
@pytest.mark.parametrize("problem_name", [name for name in PROBLEMS if name != "two_block"])
def test_methods_write_neither_to_what_they_lend_nor_to_what_they_get(method_name, problem_name):
    method = METHODS[method_name]()
    problem, X = setting(method, problem_name)
    problem = problem.problem if is_inner(method) else problem
    run_of(method, Watched(problem), X, steps=3)


@pytest.mark.parametrize("method_name", [n for n, m in METHODS.items() if issubclass(m, PALM)])
def test_alternating_method_refuses_one_block(method_name):
    method = METHODS[method_name]()
    problem, X = setting(method, "projection")
    with pytest.raises(TypeError, match="needs a TwoBlock problem, got Projection"):
        method.init(problem, X)
