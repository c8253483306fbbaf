"""The code of the documentation runs: each page in order, and prints what the page says.

``docs/run_page.py`` finds the blocks and runs them, here as in an environment of a reader.
"""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
RUN = runpy.run_path(str(DOCS / "run_page.py"))
blocks, missing = RUN["blocks"], RUN["missing"]
# The guides of a field: a reader writes at most this many statements for the first result.
GUIDES = ("cluster.md", "parcellate.md", "single-cell.md", "spectral.md", "text.md", "unmix.md")
MAX_STATEMENTS = 6


def source_of(target: str) -> Path:
    """The file behind a link; a page of the gallery is made from its example."""
    folder, _, name = target.partition("/")
    if folder == "auto_examples":
        return DOCS.parent / "examples" / ("README.rst" if name == "index" else f"{name}.py")
    return DOCS / target


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_page_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if missing(blocks(page)[0].code):
        pytest.skip("a page of an extra that is not installed")
    assert RUN["run_page"](page).n_run > 0


def test_block_that_prints_something_else_is_an_error(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="prints:\n2"):
        RUN["run_page"](str(page))


@pytest.mark.parametrize("page", GUIDES)
def test_first_example_of_a_guide_is_short(page):
    written = RUN["first_example"](page)
    assert 2 <= len(written) <= MAX_STATEMENTS, written


@pytest.mark.parametrize("page", PAGES)
def test_page_has_a_next_step(page):
    text = (DOCS / page).read_text(encoding="utf-8").lower()
    assert "next step" in text


@pytest.mark.parametrize("page", PAGES)
def test_local_links_exist(page):
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    assert [t for t in targets if not source_of(t).exists()] == []
