"""Pytest plugin that registers the methods of ``examples/extend`` and a baseline."""

import runpy
from pathlib import Path

from orthoplus.methods import METHODS, baselines
from orthoplus.problems import EXAMPLES, PROBLEMS

EXTEND = Path(__file__).parents[1] / "examples" / "extend"


def named(stem, name):
    return runpy.run_path(str(EXTEND / f"{stem}.py"))[name]


class ToyBaseline(baselines.UONMF):
    """Another name for a baseline."""


def pytest_configure(config):
    """Register the toys; importing this file alone does nothing."""
    PROBLEMS["toy_problem"] = named("own_problem", "QuarticFit")
    EXAMPLES["toy_problem"] = lambda rng: PROBLEMS["toy_problem"](rng.random((7, 3)))
    METHODS["toy_solver"] = named("own_solver", "HalvingGradient")
    METHODS["toy_method"] = named("own_method", "FeasibleGradient")
    baselines.BASELINES["toy_baseline"] = ToyBaseline
