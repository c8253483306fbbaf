"""The same rows on a terminal, as JSON lines, as Markdown and as a page."""

import io
import json

import pytest
from rich.console import Console

from orthoplus.bench.cells import lines_of, notes_of
from orthoplus.bench.output import (
    command_of,
    describe_machine,
    json_line,
    show,
    to_markdown,
    to_page,
)
from orthoplus.bench.table import Column, Outcome, Picture, Row, Table

PRINTED = {"purity": 84.5, "cpu": 4.0}
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def outcome():
    table = Table(
        name="small",
        title="A small table",
        about="Two methods.",
        columns=(
            Column("purity", "purity", ".1f", "most", "in percent"),
            Column("gap", "gap", ".1e", "least"),
            Column("cpu", "CPU s", ".2f", "least", with_paper=False),
        ),
        run=lambda session: iter(()),
        judge=lambda rows: [],
        quick_about="one set",
    )
    rows = (
        Row("set one", "ours", {"purity": 84.52, "gap": 0.0, "cpu": 0.1}, PRINTED),
        Row("set one", HOSTILE, {"purity": 80.0, "gap": float("nan")}, note="stopped early"),
        Row("set two", "ours", {"purity": 1.0}),
    )  # fmt: skip
    picture = Picture("dots", "Some dots.", lambda file: file.write(b"\x89PNG"))
    return Outcome(table, rows, (picture,), ("Ours is best.",), is_quick=True)


def test_cells_have_the_paper_in_brackets_and_mark_the_best(outcome):
    first, second, third = lines_of(outcome)
    assert first.cells[0].text == "84.5 (84.5)"
    assert first.cells[0].is_best
    assert not second.cells[0].is_best
    assert first.cells[1].text == "0"
    assert second.cells[1].text == "-"
    assert first.cells[2].text == "0.10"  # this column does not show the paper's
    assert not third.cells[0].is_best  # nothing to compare with
    assert second.mark == "*"
    assert notes_of(outcome) == [f"* stopped early (set one {HOSTILE})"]


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_table_fits(outcome, width):
    printed = io.StringIO()
    show(Console(file=printed, width=width, highlight=False, markup=False), outcome)
    text = printed.getvalue()
    assert max(map(len, text.splitlines())) <= width
    for part in (
        "A small table",
        "set one",
        "84.5 (84.5)",
        "→ Ours is best.",
        "Quick run: one set",
    ):
        assert part in text


def test_json_lines_are_strict(outcome):
    line = json_line("small", outcome.rows[1], {"quick": True})
    record = json.loads(line, parse_constant=pytest.fail)
    assert record["figures"] == {"purity": 80.0, "gap": None}
    assert record["table"] == "small"
    assert record["quick"] is True


def test_markdown_has_every_row_and_escapes(outcome):
    text = to_markdown([outcome], "orthoplus bench small", describe_machine())
    assert "| set one | ours | **84.5** (84.5) | 0 | 0.10 |" in text
    assert "![Some dots.](dots.png)" in text
    assert "\\* stopped early (set one \\<script>" in text
    assert "numpy" in text


def test_page_is_self_contained_and_escapes(outcome):
    page = to_page([outcome], "orthoplus bench small", describe_machine())
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert '<td class="best">84.5 <span class="quiet">(84.5)</span></td>' in page
    assert "data:image/png;base64," in page
    assert "Not every table was run in full." in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_failure_is_shown_instead_of_rows(outcome):
    failed = Outcome(outcome.table, (), (), (), is_quick=True, failure="There is no data.")
    printed = io.StringIO()
    show(Console(file=printed, width=80), failed)
    assert "→ There is no data." in printed.getvalue()
    assert "Quick run" not in printed.getvalue()


def test_command_can_be_pasted():
    assert command_of(["bench", "text", "--data", "my data"]) == (
        "orthoplus bench text --data 'my data'"
    )
