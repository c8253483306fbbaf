"""The table of results is made from rows, never typed."""

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def results_table(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import results_table

    yield results_table
    sys.modules.pop("results_table")


def row(method, case, purity, paper=None, cpu=1.0):
    return {
        "table": "text",
        "case": case,
        "method": method,
        "figures": {"purity": purity, "cpu": cpu},
        "paper": {} if paper is None else {"purity": paper},
    }


def test_mean_is_over_the_cases_that_all_methods_have(results_table):
    rows = [row("ours", "a", 80.0, 81.0), row("ours", "b", 60.0), row("other", "a", 70.0)]
    lines = results_table.render(rows).splitlines()
    assert lines[2] == "| documents and images: purity, %, 1 case | ours | **80** | 81 | 1 |"
    assert lines[3] == "|  | other | 70 |  | 1 |"


def test_best_comes_first_when_less_is_better(results_table):
    rows = [
        {"table": "qap", "case": "x", "method": name, "figures": {"gap": gap}, "paper": {}}
        for name, gap in (("faq", 3.0), ("ours", 0.0))
    ]
    assert "| ours | **0** |" in results_table.render(rows).splitlines()[2]


def test_missing_rows_are_said_to_be_missing(results_table):
    assert results_table.render([]) == results_table.EMPTY


def test_incomplete_row_is_named(results_table, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"table": "text"}) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1 has no case, method, figures"):
        results_table.read_rows(path)


def test_page_without_marks_is_an_error(results_table):
    with pytest.raises(ValueError, match="put these two lines in"):
        results_table.fill("nothing here", "table")


def test_summary_sets_ours_beside_the_paper_and_the_best_other(results_table):
    rows = [
        row("default", "a", 80.0, cpu=0.5),
        row("EP4Orth+", "a", 79.0, 81.0, cpu=4.0),
        row("EP4Orth+ 1.05", "a", 99.0),
        row("OPNMF", "a", 60.0),
        row("K-means", "a", 70.0, cpu=2.0),
    ]
    line = results_table.summarise(rows).splitlines()[2]
    assert line == (
        "| documents and images: purity, %, 1 case | **80** | 79 | 81 | 70 (K-means) | 0.5, 4, 2 |"
    )


def test_summary_without_others_leaves_their_places_empty(results_table):
    line = results_table.summarise([row("default", "a", 80.0)]).splitlines()[2]
    assert line == "| documents and images: purity, %, 1 case | **80** |  |  |  | 1 |"


def test_pages_are_up_to_date(results_table):
    rows = results_table.read_rows(results_table.RESULTS)
    tables = {
        results_table.README: results_table.summarise(rows),
        results_table.PAGE: results_table.render(rows),
    }
    for path, table in tables.items():
        page = path.read_text(encoding="utf-8")
        assert results_table.fill(page, table) == page, "run: python docs/results_table.py"
