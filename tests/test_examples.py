"""The gallery: each example ends in a picture and asserts its claim; `make docs` runs them all."""

import ast
import runpy
from pathlib import Path

import pytest

import orthoplus as op

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
GALLERY = runpy.run_path(str(ROOT / "docs" / "gallery_setup.py"))
# The quickest ones run here too, so that a broken example is seen before the documentation is made.
QUICK = ("plot_penalty_path", "plot_qap", "plot_unmixing")


def names_of(paths):
    return [path.stem for path in paths]


def test_gallery_has_at_least_ten_examples():
    needed = [GALLERY["WAITING"].get(name, "solve") for name in names_of(EXAMPLES)]
    assert sum(hasattr(op, name) for name in needed) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=names_of(EXAMPLES))
def test_example_shows_a_picture_and_then_asserts(path):
    body = ast.parse(path.read_text(encoding="utf-8")).body
    shown = [i for i, node in enumerate(body) if "plt.show()" in ast.unparse(node)]
    asserted = [
        i for i, node in enumerate(body) if any(isinstance(n, ast.Assert) for n in ast.walk(node))
    ]
    assert len(shown) == 1
    assert asserted
    assert asserted[0] > shown[0]


@pytest.mark.parametrize("path", EXAMPLES, ids=names_of(EXAMPLES))
def test_example_leads_on_and_is_in_the_order_of_the_gallery(path):
    text = path.read_text(encoding="utf-8")
    assert ":doc:`/" in text.rpartition("# %%")[2]
    assert path.name in GALLERY["ORDER"]


@pytest.mark.parametrize("name", QUICK)
def test_quick_example_runs(name):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    plt.close("all")
