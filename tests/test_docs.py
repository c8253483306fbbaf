"""The code of the documentation runs: each page in order, and prints what the page says.

A ``python`` block is run; a ``text`` block right after it is what it prints, ``...`` standing for
anything, as in doctests. In a block ``text about`` any number stands for any other.
"""

import contextlib
import doctest
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
OPTIONAL = (
    "jax",
    "torch",
    "matplotlib",
    "dask",
    "xarray",
    "anndata",
    "networkx",
    "igraph",
    "polars",
    "nibabel",
)
# What needs an optional package without an import of it.
NEEDS = {"nibabel": r"op\.brain\."}

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+```text(?P<about> about)?\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"\b\d[\d.]*(?:e[+-]?\d+)?")
_LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    line: int
    code: str
    output: str | None
    is_about: bool


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start("code")),
            found["code"],
            found["output"],
            bool(found["about"]),
        )
        for found in _BLOCK.finditer(text)
    ]


def missing(code: str) -> list[str]:
    """The optional packages that the code imports and this machine does not have."""
    wanted = [
        name
        for name in OPTIONAL
        if re.search(rf"^(import|from) {name}\b", code, re.M)
        or (name in NEEDS and re.search(NEEDS[name], code))
    ]
    return [name for name in wanted if find_spec(name) is None]


def source_of(target: str) -> Path:
    """The file behind a link; a page of the gallery is made from its example."""
    folder, _, name = target.partition("/")
    if folder == "auto_examples":
        return DOCS.parent / "examples" / ("README.rst" if name == "index" else f"{name}.py")
    return DOCS / target


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_page_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    if missing(blocks(page)[0].code):
        pytest.skip("a page of an extra that is not installed")
    for block in blocks(page):
        if missing(block.code):
            continue
        printed = io.StringIO()
        # Blank lines first, so that a traceback shows the line of the page.
        source = "\n" * block.line + block.code
        with contextlib.redirect_stdout(printed):
            exec(compile(source, os.fspath(DOCS / page), "exec"), names)
        if block.output is not None:
            texts = block.output, printed.getvalue()
            wanted, got = (_NUMBER.sub("#", t) if block.is_about else t for t in texts)
            matches = doctest.OutputChecker().check_output(wanted, got, _LOOSE)
            assert matches, f"{page}, line {block.line} prints:\n{printed.getvalue()}"


@pytest.mark.parametrize("page", PAGES)
def test_page_has_a_next_step(page):
    text = (DOCS / page).read_text(encoding="utf-8").lower()
    assert "next step" in text


@pytest.mark.parametrize("page", PAGES)
def test_local_links_exist(page):
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    assert [t for t in targets if not source_of(t).exists()] == []
