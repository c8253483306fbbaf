"""The same rows on a terminal, as JSON lines, as Markdown and as a page."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from orthoplus.bench.cells import lines_of, remarks_of
from orthoplus.bench.machine import describe_machine
from orthoplus.bench.output import show, to_markdown, to_page
from orthoplus.bench.pictures import draw_abundances
from orthoplus.bench.records import json_line
from orthoplus.bench.table import Column, Drawing, Outcome, Row, Table
from orthoplus.bench.unmixing import SHOWN, closest

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
        tasks=lambda session: iter(()),
        judge=lambda rows: [f"Ours is best of {len(rows)}."],
        quick_about="one set",
    )
    rows = (
        Row("set one", "ours", {"purity": 84.52, "gap": 0.0, "cpu": 0.1}, PRINTED),
        Row("set one", HOSTILE, {"purity": 80.0, "gap": float("nan")}, note="stopped early"),
        Row("set two", "ours", {"purity": 1.0}),
    )  # fmt: skip
    drawing = Drawing("dots", "Some dots.", b"\x89PNG")
    return Outcome(table, rows, (drawing,), is_quick=False, seconds=75.0)


def test_cells_have_the_paper_in_brackets_and_mark_the_best(outcome):
    first, second, third = lines_of(outcome)
    assert first.cells[0][:2] == ("84.5", "(84.5)")
    assert first.cells[0].is_best
    assert not second.cells[0].is_best
    assert first.cells[1].text == "0"
    assert second.cells[1].text == "-"
    assert first.cells[2][:2] == ("0.10", "")  # this column does not show the paper's
    assert not third.cells[0].is_best  # nothing to compare with
    assert second.method == f"{HOSTILE}*"
    assert remarks_of(outcome)[-1] == f"* stopped early (set one {HOSTILE})"


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
        "→ Ours is best of 3.",
        "purity ↑",
        "CPU s ↓",
        "↓ lower is better, ↑ higher is better",
    ):
        assert part in text


def test_narrow_terminal_cuts_no_number(outcome):
    printed = io.StringIO()
    show(Console(file=printed, width=46, highlight=False, markup=False), outcome)
    assert "…" not in printed.getvalue()
    assert "(84.5)" in printed.getvalue()


def test_quick_run_has_its_own_sizes_and_no_figures_of_the_paper(outcome):
    quick, printed = replace(outcome, is_quick=True), io.StringIO()
    show(Console(file=printed, width=80, highlight=False, markup=False), quick)
    machine = describe_machine()
    pages = (to_markdown([quick], "bench", machine), to_page([quick], "bench", machine))
    for text in (printed.getvalue(), *pages):
        assert "Quick run: one set. In full: Two methods." in text
        assert "(84.5)" not in text
        assert "in brackets" not in text
        assert "84.5" in text
    assert all("lower (↓) or higher (↑) is better" in page for page in pages)


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
    assert "- [A small table](#small), 1 min 15 s" in text
    assert "numpy" in text


def test_page_is_self_contained_and_escapes(outcome):
    page = to_page([outcome], "orthoplus bench small", describe_machine())
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert '<td class="best">84.5 <span class="quiet">(84.5)</span></td>' in page
    assert "data:image/png;base64," in page
    assert "Every table was run in full." in page
    assert "purity ↑" in page
    assert '<a href="#part-1">A small table</a> <span class="quiet">1 min 15 s</span>' in page
    assert '<section id="part-1">' in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_failure_is_shown_instead_of_rows(outcome):
    failed = Outcome(outcome.table, (), (), is_quick=True, failure="There is no data.")
    printed = io.StringIO()
    show(Console(file=printed, width=80), failed)
    assert "→ There is no data." in printed.getvalue()
    assert "Quick run" not in printed.getvalue()


def test_failed_rows_are_counted_and_left_out_of_the_verdict(outcome):
    broken = Row("set two", "other", note="failed, ValueError: no", is_failed=True)
    partly = replace(outcome, rows=(*outcome.rows, broken), is_quick=False)
    assert partly.verdicts == ["Ours is best of 2."]
    page = to_page([partly], "orthoplus bench small", describe_machine())
    assert "Failed rows: 1; each of them states the reason." in page
    assert "failed, ValueError: no (set two other)" in page


def test_machine_knows_its_commit(monkeypatch):
    machine = describe_machine()
    assert machine["commit"] is None or re.fullmatch(r"[0-9a-f]{12}\+?", machine["commit"])
    monkeypatch.setenv("PATH", "")  # no git
    assert describe_machine()["commit"] is None


def test_picture_shows_the_truth_ours_and_the_closest_methods():
    maps = {f"other {j}": np.full((4, 2), float(j)) for j in range(SHOWN, 0, -1)}
    shown = closest(maps | {"default": np.full((4, 2), 99.0), "ground truth": np.zeros((4, 2))})
    assert list(shown) == ["ground truth", "default", *(f"other {j + 1}" for j in range(SHOWN - 2))]


def test_picture_of_noisy_maps_is_small(rng):
    # White noise is the worst case: it takes 305 kB here, and 597 kB with 256 levels and colors.
    maps = {f"method {j}": rng.random((10_000, 5)) for j in range(8)}
    file = io.BytesIO()
    draw_abundances(file, maps, [f"material {j}" for j in range(5)], (100, 100))
    assert len(file.getvalue()) < 350_000
