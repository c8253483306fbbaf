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
    line = results_table.summarize(rows).splitlines()[2]
    assert line == (
        "| documents and images: purity, %, 1 case | **80** | 79 | 81 | 70 (K-means) | 0.5, 4, 2 |"
    )


def test_summary_without_others_leaves_their_places_empty(results_table):
    line = results_table.summarize([row("default", "a", 80.0)]).splitlines()[2]
    assert line == "| documents and images: purity, %, 1 case | **80** |  |  |  | 1 |"


def test_pages_are_up_to_date(results_table):
    for path, blocks in results_table.pages().items():
        page = path.read_text(encoding="utf-8")
        for name, table in blocks.items():
            assert results_table.fill(page, table, name) == page, (
                "run: python docs/results_table.py"
            )


def test_origin_has_a_line_for_each_commit(results_table):
    def record(table, commit, **more):
        versions = {"python": "3.11", "numpy": "2.0", "numba": "0.60"}
        machine = {"commit": commit, "processor": "P", "started": "now", "versions": versions}
        return {"table": table, "machine": machine, **more}

    tables = [record("text", "aaa"), record("qap", "bbb"), record("hard", "aaa", quick=True)]
    first, second = results_table.origin(tables).splitlines()
    assert first.startswith("- `text`, `hard` (quick): commit aaa, begun now, P, python 3.11")
    assert second.startswith("- `qap`: commit bbb")


@pytest.fixture
def comparison(results_table):
    import comparison_table

    yield comparison_table
    sys.modules.pop("comparison_table")


def test_every_case_that_ours_loses_is_shown(comparison):
    rows = [
        row("default", "a", 80.0), row("EP4Orth+", "a", 80.0 + 1e-9), row("K-means", "a", 70.0),
        row("default", "b", 60.0, cpu=0.5), row("EP4Orth+", "b", 61.0), row("K-means", "b", 65.0),
        row("K-means", "c", 99.0),
    ]  # fmt: skip
    lines = comparison.behind(rows).splitlines()[2:]
    title = "documents and images: purity, %"
    assert lines == [f"| {title} | b | 60 | 65 (K-means) | 2 of 2 | 0.5, 1 |"]
    standing = next(line for line in comparison.standing(rows).splitlines() if title in line)
    assert standing == f"| {title} | 2 | 1 | 1 | K-means 1 |"


def test_nothing_lost_is_said(comparison):
    assert "best or tied in every" in comparison.behind([row("default", "a", 80.0)])


def test_tables_that_are_not_recorded_are_named(comparison):
    assert "orthoplus bench general-methods" in comparison.general([])
    assert "orthoplus bench claims" in comparison.claims([])
    assert "orthoplus bench qap" in comparison.standing([])


def measured(table, case, method, note="", **figures):
    return {"table": table, "case": case, "method": method, "figures": figures, "note": note}


def test_methods_for_any_f_are_compared_in_equal_time(comparison):
    name = "general-methods"
    rows = [
        measured(name, "tiny", "EP4Orth+", share=90.0), measured(name, "tiny", "SEPPG", share=50.0),
        measured(name, "big", "EP4Orth+", equal=0.2, excess=0.4, cpu=1.0),
        measured(name, "big", "SEPPG", equal=0.1, excess=0.3, cpu=4.0),
        measured(name, "big", "Wen-Yin", note="failed, no luck"),
    ]  # fmt: skip
    text = comparison.general(rows)
    assert "| SEPPG | 50 | 0.3 | 0.1 | 4 | 1, 0 of 1 |" in text
    assert "| EP4Orth+ | 90 | 0.4 | 0.2 | 1 |  |" in text
    assert "| big | 0.200, 1 | 0.100, 4 | failed, no luck |" in text


def test_claims_have_their_verdicts(comparison):
    rows = [
        measured("claims", "it is fast", "one", own=1.0, other=2.0, verdict="held"),
        measured("claims", "it is fast", "two", note="failed, no luck"),
    ]
    assert comparison.claims(rows).splitlines()[2:] == [
        "| it is fast | one | 1 | 2 | held |",
        "|  | two |  |  | failed, no luck |",
    ]
