"""The README's code runs as pasted, and its links lead somewhere."""

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orthoplus as op

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_readme_has_code():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("code", BLOCKS, ids=["digits", "jax"])
def test_block_runs_as_pasted(code):
    if "jax" in code:
        pytest.importorskip("jax")
    names: dict[str, Any] = {}
    # A proof uses all of its time; a part of it shows that the code runs.
    exec(compile(code.replace("time_limit=10", "time_limit=2"), "README.md", "exec"), names)
    assert names["result"].success
    assert names["result"].violation < 1e-12
    if "truth" in names:  # the hidden groups are found
        assert len(set(zip(names["truth"], names["result"].labels, strict=True))) == 3


# A package index shows the README alone, so its links are absolute.
REPOSITORY = re.compile(
    r"https://(?:github|raw\.githubusercontent)\.com/orthoplus/orthoplus/(?:blob/)?main/"
)


def targets_of(page):
    """What the links of a page lead to."""
    return re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_to_the_repository_exist(page):
    targets = [REPOSITORY.sub("", target) for target in targets_of(page)]
    assert targets
    assert [t for t in targets if "://" not in t and not (ROOT / t).exists()] == []


def test_links_of_the_readme_are_absolute():
    assert [target for target in targets_of("README.md") if "://" not in target] == []


def test_readme_has_no_formulas_that_an_index_shows_as_source():
    prose = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    assert "$" not in prose


@pytest.mark.parametrize(
    ("inner", "n_matrices"), [(op.ProjectedGradient(), 20), (op.RegularizedNewton(), 30)]
)
def test_solver_holds_as_many_matrices_as_promised(inner, n_matrices, rng):
    assert "up to twenty matrices of its size (thirty with Newton steps)" in README

    def solve_linear(n, k):
        C, no_curvature = rng.standard_normal((n, k)), np.zeros((n, k))
        op.minimize(
            lambda X: -np.vdot(C, X),
            (n, k),
            jac=lambda X: -C,
            hessp=lambda X, D: no_curvature,
            method=op.EP4Orth(inner=inner, max_iter=3),
            search=False,
        )

    solve_linear(20, 8)  # compiles the loops, which takes memory as well
    tracemalloc.start()
    try:
        solve_linear(20_000, 8)  # large enough that small arrays do not count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= (n_matrices + 2) * 8 * 20_000 * 8  # and the two matrices of f
