"""A user's own problem, inner solver, outer method and penalty, as the documentation shows them."""

import dataclasses
import inspect
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.method import (
    Known,
    ObliqueMethodBase,
    WarmStart,
    as_oblique_method,
    minimize_oblique,
)
from orthoplus.core.outer_method import Diagnostics, OuterMethodBase, as_outer_method
from orthoplus.core.status import Status
from orthoplus.methods.theory import unmet_conditions
from orthoplus.penalty import GeneralPenalty, Penalized, PowerPenalty
from orthoplus.problems import EXAMPLES, Projection, TraceMin
from orthoplus.run.monitor import Budget, CountedProblem

ROOT = Path(__file__).parents[2]
EXTEND = ROOT / "examples" / "extend"
FILES = sorted(path.stem for path in EXTEND.glob("*.py"))


def names_of(stem):
    """The names that a file of the documentation defines."""
    return runpy.run_path(str(EXTEND / f"{stem}.py"))


QuarticFit = names_of("own_problem")["QuarticFit"]
HalvingGradient = names_of("own_solver")["HalvingGradient"]
FeasibleGradient = names_of("own_method")["FeasibleGradient"]
LogPenalty = names_of("own_penalty")["LogPenalty"]


@pytest.mark.parametrize("stem", FILES)
def test_file_prints_what_its_page_says(stem, capsys):
    runpy.run_path(str(EXTEND / f"{stem}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("add-a-*.md")]
    quoting = [page for page in pages if f"examples/extend/{stem}.py" in page]
    assert quoting
    assert all(f"```text\n{printed}```" in page for page in quoting)


# Inner solvers


@pytest.mark.parametrize("name", ["projection", "trace_min", "onmf", "smooth", "k_indicators"])
def test_own_solver_runs_inside_the_penalty_method(name):
    problem = EXAMPLES[name](np.random.default_rng(0))
    result = op.solve(problem, method=op.EP4Orth(inner=HalvingGradient()))
    assert result.violation < 1e-12
    assert result.success
    assert all(row.n_inner >= 0 and row.is_descent for row in result.history)
    carried = result.state.carries["HalvingGradient"]
    assert carried.keys() == {"alpha"}


def test_own_solver_agrees_with_the_built_in_one(rng):
    problem = Projection(rng.random((12, 3)))
    own = op.solve(problem, method=op.EP4Orth(inner=HalvingGradient(max_iter=2000)))
    assert own.value == pytest.approx(op.solve(problem, method=op.EP4Orth()).value, rel=1e-9)


def test_own_solver_resumes_bit_for_bit():
    problem = EXAMPLES["trace_min"](np.random.default_rng(0))
    method = op.EP4Orth(inner=HalvingGradient())
    whole = op.solve(problem, method=method)
    half = op.solve(problem, method=method, callback=lambda state: state.n_iter == 3)
    assert (op.solve(problem, method=method, resume=half.state).X == whole.X).all()


def test_own_solver_may_take_the_warm_start():
    """A solver that derives from the base class sees f where the last one left it."""
    seen = []

    class Remembering(ObliqueMethodBase):
        own = op.ProjectedGradient(max_iter=20)
        init, step = own.init, own.step

        def stop(self, tol=None):
            return self.own.stop(tol)

        def start(self, problem, X, warm):
            assert isinstance(warm, WarmStart)
            seen.append((warm.known, problem.problem.value_and_gradient(X)))
            return super().start(problem, X, warm)

        def known(self, problem, state):
            return self.own.known(problem, state)

    problem = EXAMPLES["trace_min"](np.random.default_rng(0))
    assert op.solve(problem, method=op.EP4Orth(inner=Remembering(), safeguard=False)).success
    assert seen[0][0] is None
    for known, (value, gradient) in seen[1:]:
        assert known.value == pytest.approx(value, rel=1e-12)
        np.testing.assert_array_equal(known.gradient, gradient)


def test_known_start_saves_the_evaluation(rng):
    problem, X = TraceMin(np.diag([3.0, 1.0, 2.0]), 2), op.geometry.random_oblique_plus(3, 2, rng)
    meter, penalty = Budget(), PowerPenalty(2.0)
    model = Penalized(CountedProblem(problem, meter), penalty)
    known = Known(*problem.value_and_gradient(X), penalty.energy(X))
    method = op.ProjectedGradient(max_iter=1)
    cold, warm = (
        minimize_oblique(model, method, X, warm=WarmStart(known=k)) for k in (None, known)
    )
    assert cold.state.X.tobytes() == warm.state.X.tobytes()
    n_eval = meter.n_eval
    minimize_oblique(model, method, X)
    assert meter.n_eval - n_eval == n_eval // 2 + 1


@pytest.mark.parametrize("missing", ["init", "step", "stop", "carry"])
def test_solver_without_a_method_is_refused_by_its_name(missing):
    members = {name: lambda self: None for name in {"init", "step", "stop", "carry"} - {missing}}
    with pytest.raises(TypeError, match=rf"`inner` must be a solver over OB\+.* `{missing}`\. It"):
        op.EP4Orth(inner=type("Half", (), members)())


def test_class_is_refused_where_an_object_is_needed():
    with pytest.raises(TypeError, match=r"HalvingGradient is a class. Pass an instance, for"):
        op.EP4Orth(inner=HalvingGradient)
    with pytest.raises(TypeError, match=r"`method` must be .*FeasibleGradient is a class"):
        op.solve(Projection(np.eye(3, 2)), method=FeasibleGradient)


def test_base_class_names_the_method_that_is_missing():
    with pytest.raises(TypeError, match="step"):
        type("Half", (ObliqueMethodBase,), {"init": None, "stop": None})()
    with pytest.raises(TypeError, match="step"):
        type("Half", (OuterMethodBase,), {"init": None, "stop": None})()


def test_own_solver_is_not_said_to_satisfy_the_theory():
    with pytest.raises(ValueError, match=r"`inner` does not say that it meets \(4.1\)"):
        op.EP4Orth.for_theory(inner=HalvingGradient())
    built_in = op.ProjectedGradient()
    assert as_oblique_method(built_in) is built_in


# Outer methods


@pytest.mark.parametrize("name", ["projection", "trace_min", "onmf", "smooth"])
def test_own_method_is_solved_with(name):
    problem = EXAMPLES[name](np.random.default_rng(0))
    result = op.solve(problem, method=FeasibleGradient(), n_init=2, rng=0)
    assert result.violation < 1e-12
    assert [row.n_iter for row in result.history] == list(range(1, result.n_iter + 1))
    row = result.history[0]
    assert np.isnan(row.sigma)
    assert (row.n_inner, row.is_stationary, row.is_descent) == (1, None, None)


def test_own_method_resumes_from_its_state_and_watches_the_clock():
    problem = EXAMPLES["trace_min"](np.random.default_rng(0))
    whole = op.solve(problem, method=FeasibleGradient(), search=False)
    half = op.solve(problem, method=FeasibleGradient(), callback=lambda s: s.n_iter == 2)
    resumed = op.solve(problem, method=FeasibleGradient(), resume=half.state, search=False)
    assert (resumed.X == whole.X).all()
    late = op.solve(problem, method=FeasibleGradient(), time_limit=1e-9)
    assert late.status is Status.TIME_LIMIT


@pytest.mark.parametrize("missing", ["init", "step", "stop"])
def test_method_without_a_method_is_refused_by_its_name(missing):
    members = {name: lambda self: None for name in {"init", "step", "stop"} - {missing}}
    with pytest.raises(TypeError, match=rf"`method` must be an object.* `{missing}`\. It needs"):
        op.solve(Projection(np.eye(3, 2)), method=type("Half", (), members)())


class Bare(NamedTuple):
    X: np.ndarray
    value: float
    n_iter: int


def test_state_without_a_violation_is_refused_by_its_name():
    class Short(FeasibleGradient):
        def init(self, problem, X, carry=None):
            return Bare(X, 0.0, 0)

    with pytest.raises(TypeError, match="The state of Short has no `violation`"):
        op.solve(Projection(np.eye(3, 2)), method=Short())


@dataclass(frozen=True)
class Told(OuterMethodBase):
    """A method that uses every default of the base class but two."""

    own = FeasibleGradient()
    seed: int = 0
    ends_with_search = False

    def init(self, problem, X, carry=None):
        return self.own.init(problem, X)

    def step(self, problem, state):
        return self.own.step(problem, state)

    def stop(self):
        return self.own.stop()

    def diagnostics(self, state):
        return Diagnostics(sigma=2.0, n_inner=state.n_iter)


def test_method_of_the_base_class_fills_the_history():
    problem = EXAMPLES["trace_min"](np.random.default_rng(0))
    result = op.solve(problem, method=Told())
    assert all((row.sigma, row.n_inner) == (2.0, row.n_iter) for row in result.history)
    assert result.is_row_optimal is None
    assert as_outer_method(Told()) == Told()


@dataclasses.dataclass(frozen=True)
class PlainSearch:
    """A method without the base class, with a seed and what the base class has defaults for."""

    state_type = dict
    ends_with_search = False
    seed: int = 0

    def init(self, problem, X, carry=None):
        raise NotImplementedError

    def step(self, problem, state):
        raise NotImplementedError

    def stop(self):
        raise NotImplementedError


def test_plain_method_keeps_what_it_has_under_the_names_of_the_defaults():
    plain = as_outer_method(PlainSearch())
    assert not plain.ends_with_search
    assert plain.state_type is dict
    assert plain.reseeded(np.random.default_rng(0)).method.seed > 0
    own = as_outer_method(FeasibleGradient())
    assert own.reseeded(np.random.default_rng(0)) is own


# Penalties


@pytest.mark.parametrize("name", ["projection", "trace_min", "onmf", "smooth"])
@pytest.mark.parametrize("inner", [op.ProjectedGradient(max_iter=100), op.RegularizedNewton()])
def test_own_penalty_drives_the_columns_apart(name, inner):
    problem = EXAMPLES[name](np.random.default_rng(0))
    result = op.solve(problem, method=op.EP4Orth(penalty=LogPenalty(1.0), inner=inner))
    assert result.violation < 1e-12
    assert result.history[-1].violation <= 1e-8
    assert result.success


def test_penalty_of_powers_is_that_of_the_options(rng):
    problem = Projection(rng.random((9, 3)))
    V = np.full((3, 1), 3**-0.5)
    options = op.solve(problem, method=op.EP4Orth(p=2.0, q=1.0, V=V, max_iter=20))
    given = PowerPenalty(5.0, V, p=2.0, q=1.0)  # its sigma is that of the schedule
    result = op.solve(problem, method=op.EP4Orth(penalty=given, max_iter=20))
    assert (result.X == options.X).all()
    assert [row[:5] for row in result.history] == [row[:5] for row in options.history]


def test_smoothing_of_a_penalty_starts_the_schedule(rng):
    penalty = GeneralPenalty(1.0, psi=lambda z: (z, 1.0, 0.0), k=2, eps=0.25)
    method = op.EP4Orth(penalty=penalty, smoothing_decay=0.5)
    problem = Projection(rng.random((6, 2)))
    state = method.init(problem, problem.start(rng))
    first = method.step(problem, state)
    assert [state.eps, first.eps, method.step(problem, first).eps] == [0.25, 0.25, 0.125]


def test_penalty_excludes_the_options_that_it_replaces():
    for clash in ({"p": 2.0}, {"q": 1.0}, {"V": np.full((2, 1), 0.5**0.5)}):
        with pytest.raises(ValueError, match="cannot be combined with `p`"):
            op.EP4Orth(penalty=LogPenalty(1.0), **clash)
    with pytest.raises(TypeError, match="`penalty` must be an object of type Penalty"):
        op.EP4Orth(penalty=LogPenalty)
    assert any(
        "`penalty`" in text for text in unmet_conditions(op.EP4Orth(penalty=LogPenalty(1.0)))
    )


# Problems


def test_own_problem_is_solved_by_every_general_method(rng):
    problem = QuarticFit(rng.random((12, 3)))
    values = [
        op.solve(problem, method=method).value
        for method in (
            None,
            op.EP4Orth.for_projection(inner=op.ProjectedGradient()),
            op.methods.Polish(),
        )
    ]
    assert np.ptp(values) <= 0.2 * max(values)


def public_members(kind):
    return [name for name in dir(kind) if not name.startswith("_")]


@pytest.mark.parametrize("name", public_members(op.Problem))
def test_counted_problem_forwards_every_public_member(name):
    """Each hook is written out on the wrapper, and gives what the problem itself gives."""
    assert name in vars(CountedProblem), f"`Problem.{name}` is lost: forward it in CountedProblem"

    class Spy:
        shape = (3, 2)

        def __getattr__(self, asked):
            calls.append(asked)
            return Echo()

    class Echo:
        def __call__(self, *arguments):
            return self

    calls = []
    spy, own = Spy(), inspect.getattr_static(op.Problem, name)
    found = getattr(CountedProblem(spy, Budget()), name)
    if name == "shape":
        assert found == (3, 2)
    elif callable(own):
        n_arguments = len(inspect.signature(own).parameters) - 1
        found(*[np.zeros((3, 2))] * n_arguments)
        assert calls[0] == ("hessian" if name == "hessp" else name)
    else:
        assert calls == [name]


# Registries

_CONTRACT = "tests/methods/test_contract.py"
JOINED = [
    f"{_CONTRACT}::test_resumed_run_equals_uninterrupted[1-toy_solver-toy_problem]",
    f"{_CONTRACT}::test_resumed_run_equals_uninterrupted[1-toy_method-onmf]",
    f"{_CONTRACT}::test_run_is_deterministic[ep4orth-toy_problem]",
    "tests/problems/test_problems.py::test_derivative_slopes[toy_problem-0]",
    "tests/methods/baselines/test_baseline_contract.py::test_planted_groups_are_found[0-toy_baseline]",
]


def test_new_entries_of_the_registries_join_the_contract():
    """A plugin puts the files of the documentation into the registries; the tests run them."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "registry_toys", "-p", "no:cacheprovider", *JOINED],
        cwd=ROOT,
        # Plugins of other packages take longer to load than these tests to run.
        env=os.environ | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert f"{len(JOINED)} passed" in done.stdout
