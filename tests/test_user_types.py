"""A program of a user, with mistakes, as a strict type checker sees it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import numpy as np

import orthoplus as op

A = np.random.default_rng(0).random((30, 8))
model = op.OrthogonalNMF(n_components=3, random_state=0).fit(A)
parts: op.OrthogonalNMF = model
components = model.components_ @ model.components_.T
error: float = model.reconstruction_err_
gap: float | None = model.gap_

problem = op.problems.ONMF(A, 3)
result = op.solve(problem, method=op.EP4Orth(penalty_growth=1.5), n_init=2)
value: float = result.value
message: str = result.status.message
certificate = op.certify(problem, result, time_limit=1.0)
is_optimal: bool = certificate.is_optimal


def balance(X: np.ndarray) -> float:
    return float(-np.vdot(X, A @ (A.T @ X)))


best = op.minimize(balance, (30, 3), jac=lambda X: -2 * A @ (A.T @ X))
pca = op.NonnegativePCA(2).fit(A)
variance: float = float(pca.explained_variance_.sum())
print(components.shape, error, gap, value, message, is_optimal, best.X.shape, variance, parts)
"""
MISTAKES = {
    "op.OrthogonalNFM(3)": "has no attribute",
    "op.solve(problem, n_init='two')": "Argument",
    "op.EP4Orth(penalty_grow=1.5)": "Unexpected keyword argument",
    "result.valeu": "has no attribute",
    "text: str = result.value": "Incompatible types",
    "count: str = model.n_iter_": "Incompatible types",
}
# The options of a user: none of those in pyproject.toml. mypy reads of an installed package only
# the signatures, and says nothing about the package itself; here the package is the source.
CONFIG = """
[mypy]
strict = True
ignore_missing_imports = True

[mypy-orthoplus.*]
follow_imports = silent
"""


def run_mypy(program: str, folder: Path) -> list[str]:
    """Return what mypy prints about a program, line by line."""
    (folder / "program.py").write_text(program)
    (folder / "mypy.ini").write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary",
               "--cache-dir", "cache", "program.py"]  # fmt: skip
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.slow
def test_type_checker_accepts_a_program_and_finds_each_mistake(tmp_path):
    wrong = PROGRAM + "\n".join(MISTAKES) + "\n"
    first = wrong.splitlines().index(next(iter(MISTAKES))) + 1
    found = [line for line in run_mypy(wrong, tmp_path) if line.startswith("program.py:")]
    errors = {int(line.split(":")[1]) - first: line for line in found if ": error:" in line}
    assert sorted(errors) == list(range(len(MISTAKES)))  # none in the program itself
    for place, words in enumerate(MISTAKES.values()):
        assert words in errors[place]
