"""Run the code of a page of the documentation from top to bottom, as a reader pastes it.

    python docs/run_page.py parcellate.md [page.md ...]

It needs the package and what the page says to install, and nothing else: run it in a fresh
environment, ``pip install "orthoplus[brain]"`` for this page. For each page it prints how many
blocks ran, the statements of the first example that a reader writes for it, and processor seconds.
A block whose output is not what the page says ends the run with an error.

A ``python`` block is run; a ``text`` block right after it is what it prints, ``...`` standing for
anything, as in doctests. In a block ``text about`` any number stands for any other.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
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
NEEDS = {"nibabel": r"op\.brain\.", "matplotlib": r"\.plot\("}

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+```text(?P<about> about)?\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"\b\d[\d.]*(?:e[+-]?\d+)?")
_LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of code, the line of the page before it, and what it prints."""

    line: int
    code: str
    output: str | None
    is_about: bool


class Outcome(NamedTuple):
    """How many blocks of a page ran, and the packages that others would need."""

    n_run: int
    missing: list[str]


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are run."""
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
    """Return the optional packages that the code imports and this machine does not have."""
    wanted = [
        name
        for name in OPTIONAL
        if re.search(rf"^(import|from) {name}\b", code, re.M)
        or (name in NEEDS and re.search(NEEDS[name], code))
    ]
    return [name for name in wanted if find_spec(name) is None]


def run_page(page: str) -> Outcome:
    """Run the blocks of a page in order; raise AssertionError if one prints something else.

    Blocks that need a package which is not installed are left out.
    """
    names: dict[str, Any] = {"__name__": page}
    lacking: list[str] = []
    n_run = 0
    for block in blocks(page):
        if absent := missing(block.code):
            lacking += absent
            continue
        printed = io.StringIO()
        # Blank lines first, so that a traceback shows the line of the page.
        source = "\n" * block.line + block.code
        with contextlib.redirect_stdout(printed):
            exec(compile(source, os.fspath(DOCS / page), "exec"), names)
        n_run += 1
        if block.output is not None:
            texts = block.output, printed.getvalue()
            wanted, got = (_NUMBER.sub("#", t) if block.is_about else t for t in texts)
            matches = doctest.OutputChecker().check_output(wanted, got, _LOOSE)
            assert matches, f"{page}, line {block.line} prints:\n{printed.getvalue()}"
    return Outcome(n_run, sorted(set(lacking)))


def own_statements(code: str) -> list[str]:
    """Return the statements that use the package or its results; the data belong to the reader."""
    used: set[str] = set()
    found = []
    for node in ast.parse(code).body:
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        if isinstance(node, ast.Import) and any(a.name == "orthoplus" for a in node.names):
            used |= {a.asname or a.name for a in node.names if a.name == "orthoplus"}
        elif not any(n.id in used for n in names):
            continue
        used |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
        found.append(ast.unparse(node))
    return found


def first_example(page: str) -> list[str]:
    """Return the statements that a reader writes for the first example of a page."""
    return next(filter(None, (own_statements(block.code) for block in blocks(page))))


def main(pages: list[str]) -> None:
    """Run pages one after the other, each in its own folder."""
    for page in pages:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found = run_page(page)
        left_out = f", left out for lack of {', '.join(found.missing)}" if found.missing else ""
        print(
            f"{page}: {found.n_run} of {len(blocks(page))} blocks ran{left_out}; "
            f"{len(first_example(page))} statements in the first example, "
            f"{time.process_time() - start:.1f} CPU s",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
