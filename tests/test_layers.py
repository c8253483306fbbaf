"""Imports point down the layer table, and `import orthoplus` stays light."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

ROOMS = SOURCE.parent / "docs" / "rooms.md"


def read_rooms(page):
    """Return room -> row of the table of rooms, 0 for the first."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, flags=re.MULTILINE)
    return {room: row for row, cell in enumerate(rows) for room in re.findall(r"\w+", cell)}


# First name below `orthoplus` -> layer; an import may go to the same layer or a lower one.
LAYERS = read_rooms(ROOMS.read_text())
# The package itself re-exports what is below: importing it from inside points up.
TOP = len(LAYERS)
# Folders of independent files: one problem, one baseline per file.
ISLANDS = ("orthoplus.problems", "orthoplus.methods.baselines")
HEAVY = (
    "numba", "sklearn", "matplotlib", "jax", "torch", "typer", "rich", "jinja2", "h5py", "dask",
    "joblib", "pandas", "pooch", "nibabel", "nilearn",
)  # fmt: skip


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SOURCE / "orthoplus").rglob("*.py"))}


def layer_of(module):
    """The layer of a dotted name; LookupError says to extend the table."""
    if module == "orthoplus":
        return TOP
    room = module.split(".")[1]
    if room in LAYERS:
        return LAYERS[room]
    raise LookupError(
        f"`{module}` is in no room: add `{room}` to the table in docs/rooms.md, "
        f"in the first row that is below all it imports."
    )


def absolute_name(node, module, is_package):
    """The dotted name a ``from ... import`` starts from."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def imports_of(module, source, is_package=False):
    """(line, target) of every import from orthoplus, those inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = absolute_name(node, module, is_package)
            names = [alias.name for alias in node.names if not alias.name.startswith("__")]
            # `from orthoplus.problems import onmf` names a module, `... import ONMF` does not.
            targets = [f"{start}.{n}" if f"{start}.{n}" in MODULES else start for n in names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "orthoplus":
                yield node.lineno, target


def upward_imports(module, source, is_package=False):
    layer = layer_of(module)
    return [
        f"{module}:{line} (layer {layer}) imports {target} (layer {layer_of(target)})"
        for line, target in imports_of(module, source, is_package)
        if layer_of(target) > layer
    ]


def cross_imports(module, source, is_package=False):
    """Imports from one file of an island to another."""
    return [
        f"{module}:{line} imports {target}"
        for line, target in imports_of(module, source, is_package)
        for island in ISLANDS
        if module.startswith(f"{island}.") and target.startswith(island) and target != module
    ]


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_point_down(module):
    path = MODULES[module]
    assert not upward_imports(module, path.read_text(), path.name == "__init__.py")


@pytest.mark.parametrize("module", MODULES)
def test_problems_and_baselines_do_not_import_each_other(module):
    path = MODULES[module]
    assert not cross_imports(module, path.read_text(), path.name == "__init__.py")


@pytest.mark.parametrize(
    "source",
    [
        "from orthoplus.penalty import Penalized",
        "import orthoplus.penalty",
        "from orthoplus import penalty",
        "from orthoplus import minimize",
        "from .penalty import Penalized",
        "from . import penalty",
        "def later():\n    from orthoplus.problems.onmf import ONMF",
    ],
)
def test_upward_import_is_seen(source):
    assert upward_imports("orthoplus.geometry", source)


def test_downward_and_level_imports_are_allowed():
    source = "import numpy\nfrom orthoplus import kernels\nfrom orthoplus.core.method import run"
    assert not upward_imports("orthoplus.geometry", source)
    assert not upward_imports("orthoplus.cli.main", "from orthoplus import __version__")


def test_cross_import_is_seen_when_one_problem_uses_another():
    assert cross_imports("orthoplus.problems.onmf", "from orthoplus.problems.projection import P")
    assert cross_imports("orthoplus.problems.onmf", "from orthoplus.problems import Projection")
    assert cross_imports("orthoplus.problems.onmf", "from .projection import Projection")
    assert not cross_imports("orthoplus.problems.onmf", "from orthoplus.geometry import violation")


def test_unknown_module_says_to_extend_the_table():
    with pytest.raises(LookupError, match="add `cellar` to the table"):
        layer_of("orthoplus.cellar.wine")


def test_import_orthoplus_loads_no_heavy_package():
    code = f"import sys, orthoplus; print([name for name in {HEAVY!r} if name in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
