"""Without an extra the library works, and what needs the extra says how to install it."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.errors import MissingPackageError
from orthoplus.core.extras import check_installed, require
from waiting import complaints

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# What the core does not need; a subprocess in which these cannot be imported stands for an
# environment without extras.
BLOCK = """
import sys

class Blocked:
    names = {"typer", "rich", "jinja2", "matplotlib", "pooch", "h5py", "pandas", "pyarrow",
             "openpyxl", "dask", "distributed", "jax", "torch", "zarr"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_without_extras(code, *words):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code, *map(str, words)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_core_works_without_extras(tmp_path):
    code = """
import numpy as np, orthoplus as op
from pathlib import Path
from orthoplus.io import read_matrix
A = np.kron(np.eye(3), np.ones((4, 5))) + 0.01
C = A[:, ::5].copy()
print(op.minimize(lambda X: -(C * X).sum(), C.shape, jac=lambda X: -C).success)
print(op.solve(op.problems.ONMF(A, 3)).success, op.project(C).success)
print(len(set(op.OrthogonalNMF(3).fit_predict(A))))
path = Path(sys.argv[1], "a.csv")
np.savetxt(path, A, delimiter=",")
print(read_matrix(path).values.shape)
"""
    done = run_without_extras(code, tmp_path)
    assert complaints(done.stderr) == ""
    assert done.stdout.split("\n") == ["True", "True True", "3", "(12, 15)", ""]


@pytest.mark.parametrize("words", [("--help",), ("cluster", "a.csv"), ()])
def test_command_without_typer_is_one_sentence(words):
    code = "from orthoplus.cli import main; sys.argv = ['orthoplus', *sys.argv[1:]]; main()"
    done = run_without_extras(code, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: The command `orthoplus` needs `typer`, which is not installed. Install it with "
        '`pip install "orthoplus[cli]"`.\n'
    )


NEEDY = [
    ("read_matrix(path)", "h5py", "hdf5"),
    ("read_matrix(path.with_suffix('.xlsx'))", "openpyxl", "tables"),
    ("read_matrix(path.with_suffix('.parquet'))", "pyarrow", "tables"),
    ("op.datasets.fetch('Yale', path.parent)", "pooch", "cli"),
    ("op.select_rank(A, (2, 3), n_splits=2).plot()", "matplotlib", "cli"),
    ("from orthoplus.report.svg import canvas; canvas('a', 1, 1).__enter__()", "matplotlib", "cli"),
    ("op.autodiff.from_jax(abs, (3, 2))", "jax", "autodiff"),
]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """Code -> the line at the end of its traceback; one process runs all of them."""
    path = tmp_path_factory.mktemp("files") / "a.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    path.with_suffix(".xlsx").touch()
    path.with_suffix(".parquet").touch()
    code = """
import json, traceback
import numpy as np, orthoplus as op
from pathlib import Path
from orthoplus.io import read_matrix
path, A = Path(sys.argv[1]), np.random.default_rng(0).random((12, 6))
found = {}
for code in json.loads(sys.argv[2]):
    try:
        exec(code)
    except Exception as error:
        found[code] = traceback.format_exception_only(error)[-1]
print(json.dumps(found))
"""
    done = run_without_extras(code, path, json.dumps([code for code, _, _ in NEEDY]))
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize(("code", "package", "extra"), NEEDY)
def test_missing_package_is_named_with_its_extra(refusals, code, package, extra):
    assert f"needs `{package}`, which is not installed." in refusals[code]
    assert refusals[code].endswith(f'`pip install "orthoplus[{extra}]"`.\n')
    assert any(line.startswith(package) for line in EXTRAS[extra])


def test_missing_h5py_is_a_sentence_of_the_command(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from orthoplus.cli.app import app

    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").touch()
    done = CliRunner().invoke(app, ["cluster", str(tmp_path / "a.h5"), "-k", "2"])
    assert done.exit_code == 2
    assert done.stderr.endswith('Install it with `pip install "orthoplus[hdf5]"`.\n')


def test_package_that_lacks_something_itself_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        require("half_there", "A test", extra="cli")
    with pytest.raises(MissingPackageError, match="needs `no_such_thing`"):
        check_installed(("math", "no_such_thing"), "A test", extra="cli")


def test_all_and_dev_bring_every_extra():
    brought = EXTRAS["all"][0].partition("[")[2].rstrip("]").split(",")
    assert {*brought, "all", "dev", "docs", "bench"} == set(EXTRAS)
    assert "orthoplus[all]" in EXTRAS["dev"]
    assert np.isfinite(op.project(np.eye(3, 2)).value)
