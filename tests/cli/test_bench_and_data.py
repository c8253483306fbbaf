"""``orthoplus bench`` and ``orthoplus data`` in process."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orthoplus.bench import GROUPS, TABLES, projection
from orthoplus.bench.table import Column, Picture, Row, Table, Task
from orthoplus.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def small_projection(monkeypatch, tmp_path):
    """The quickest table of all, in an empty folder."""
    monkeypatch.setattr(projection, "N", 60)
    monkeypatch.setattr(projection, "QUICK_COLUMNS", (10,))
    monkeypatch.setattr(projection, "QUICK_SECONDS", 0.02)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORTHOPLUS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_bench_writes_page_markdown_and_rows(small_projection):
    done = run("bench", "projection", "--quick", "-o", "out", "--jsonl", "mine.jsonl")
    assert done.exit_code == 0
    assert "Projection onto S+" in done.stdout
    assert f"Open {Path('out/results.html').resolve().as_uri()}" in done.stdout
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "results.html",
        "results.md",
        "rows.jsonl",
        "tables.jsonl",
    ]
    rows = [json.loads(line) for line in Path("mine.jsonl").read_text().splitlines()]
    assert rows == [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert len(rows) == 6 * len(projection.METHODS)
    assert rows[0]["machine"]["versions"]["numpy"] == np.__version__
    assert rows[0]["quick"] is True
    assert "orthoplus bench projection --quick" in Path("out/results.md").read_text()


@pytest.fixture
def short_tables(small_projection, monkeypatch):
    """Three tables of one row each, the second of which fails; what was computed is counted."""
    calls = []

    def table_of(name):
        def compute():
            calls.append(name)
            if name == "text" and calls.count(name) == 1:
                raise RuntimeError("no luck")
            return [Row("a case", "a method", {"cpu": 1.5}, {"cpu": 2.0})]

        def tasks(session):
            yield Task("a case", ("a method",), compute)
            yield Picture(f"dots-{name}", "Dots.", lambda file: file.write(b"\x89PNG dots"))

        columns = (Column("cpu", "CPU s", ".1f"),)
        return Table("About.", columns, tasks, "less", lambda rows: [], name, f"Table {name}")

    for module in ("run", "records"):
        monkeypatch.setattr(f"orthoplus.bench.{module}.load_table", table_of)
    monkeypatch.setitem(GROUPS, "all", ("projection", "text", "qap"))
    return calls


def test_failing_row_is_written_and_the_others_too(short_tables):
    done = run("bench", "all", "-o", "out")
    assert done.exit_code == 1
    assert "text: a case, a method  failed, RuntimeError: no luck" in done.stderr
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert [row["is_failed"] for row in rows] == [False, True, False]
    assert "failed, RuntimeError: no luck" in Path("out/results.md").read_text()


def test_resumed_run_computes_only_what_is_missing(short_tables):
    run("bench", "all", "-o", "out")
    assert short_tables == ["projection", "text", "qap"]
    assert run("bench", "all", "-o", "out", "--resume").exit_code == 0
    assert short_tables == ["projection", "text", "qap", "text"]
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert sorted(row["table"] for row in rows) == ["projection", "qap", "text"]
    page = Path("out/results.html").read_text()
    assert [page.count(f"<h2>Table {name}") for name in ("projection", "text", "qap")] == [1, 1, 1]
    assert page.count("data:image/png") == 3
    assert run("bench", "all", "-o", "out", "--resume", "--seed", 1).exit_code == 0
    assert len(short_tables) == 7  # another seed: nothing of it is there


def test_resumed_run_keeps_tables_of_other_limits_that_it_was_not_asked_for(short_tables):
    run("bench", "qap", "-o", "out", "--limit", 30)
    assert run("bench", "projection", "-o", "out", "--resume", "--limit", 10).exit_code == 0
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert {row["table"]: row["limit"] for row in rows} == {"qap": 30.0, "projection": 10.0}
    text = Path("out/results.md").read_text()
    first, second = text.index("## Table projection"), text.index("## Table qap")
    assert first < text.index("at most 10 CPU s per run") < second
    assert second < text.index("at most 30 CPU s per run")
    assert run("bench", "qap", "-o", "out", "--resume", "--limit", 10).exit_code == 0
    assert short_tables == ["qap", "projection", "qap"]  # asked for: its options must agree


def test_resumed_run_bears_a_line_that_was_cut_off(short_tables):
    run("bench", "all", "-o", "out", "-q")
    for name in ("rows.jsonl", "tables.jsonl"):
        text = Path("out", name).read_text()
        Path("out", name).write_text(text[:-20])
    assert run("bench", "all", "-o", "out", "--resume").exit_code == 0
    assert len(Path("out/rows.jsonl").read_text().splitlines()) == 3


def test_table_that_gained_a_method_is_run_again(short_tables, monkeypatch):
    run("bench", "qap", "-o", "out")
    from orthoplus.bench import records

    made = records.load_table

    def newer(name):
        return replace(made(name), judge=lambda rows: [rows.by_case()["a case"]["a new method"]])

    monkeypatch.setattr("orthoplus.bench.records.load_table", newer)
    assert run("bench", "qap", "-o", "out", "--resume").exit_code == 0
    assert short_tables == ["qap", "qap"]


def test_tables_of_several_commits_are_not_said_to_be_one_run(short_tables, monkeypatch):
    monkeypatch.setattr("orthoplus.bench.machine._commit", lambda: "aaa")
    run("bench", "qap", "-o", "out")
    assert "Created by `orthoplus bench qap`" in Path("out/results.md").read_text()
    monkeypatch.setattr("orthoplus.bench.machine._commit", lambda: "bbb")
    assert run("bench", "projection", "-o", "out", "--resume").exit_code == 0
    assert short_tables == ["qap", "projection"]
    records = [json.loads(line) for line in Path("out/tables.jsonl").read_text().splitlines()]
    found = {record["table"]: record["machine"]["commit"] for record in records}
    assert found == {"qap": "aaa", "projection": "bbb"}
    text = Path("out/results.md").read_text()
    assert "Created by" not in text
    assert "created in 2 parts that differ in code" in text.lower()
    first, second = text.index("## Table projection"), text.index("## Table qap")
    assert first < text.index(", commit bbb,") < second < text.index(", commit aaa,")
    page = Path("out/results.html").read_text()
    assert page.count("<h2>Table qap") == page.count("<h2>Table projection") == 1
    assert "2 commits" in page
    assert Path("out/dots-qap.png").read_bytes() == b"\x89PNG dots"


def test_interrupted_run_goes_on_in_another_process(short_tables, monkeypatch):
    from orthoplus.bench import run as running

    whole = running._run

    def interrupted(name, session, on_row):
        found = whole(name, session, on_row)
        return replace(found, failure=running.INTERRUPTED) if name == "text" else found

    monkeypatch.setattr(running, "_run", interrupted)
    assert run("bench", "all", "-o", "out").exit_code == 130
    monkeypatch.setattr(running, "_run", whole)
    assert run("bench", "all", "-o", "out", "--resume").exit_code == 0
    assert short_tables == ["projection", "text", "text", "qap"]
    assert len(Path("out/rows.jsonl").read_text().splitlines()) == 3
    assert "Every table was run in full." in Path("out/results.md").read_text()


def test_help_has_every_table_with_its_title():
    words = " ".join(run("bench", "--help").stdout.split())
    for name, title in TABLES.items():
        assert f"{name} {title}" in words


def test_bench_is_silent_when_asked(small_projection):
    done = run("bench", "projection", "--quick", "--quiet", "--jsonl", "rows.jsonl")
    assert (done.exit_code, done.stdout) == (0, ""), Path("rows.jsonl").read_text()


def test_bench_without_data_says_what_to_do(small_projection):
    done = run("bench", "text", "--quick")
    assert done.exit_code == 2
    assert "The data set T-l10 was not found" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "texts"], "`texts` is not a table"),
        (["bench", "text", "--data", "nowhere"], "`--data nowhere` is not a folder"),
        (["bench", "text", "--resume"], "`--resume` requires `--output DIR`"),
        (["data", "path", "Iris"], "Unknown data set `Iris`"),
        (["data", "fetch", "UrbanCrop"], "UrbanCrop cannot be downloaded: it was made from"),
        (["data", "path", "Yale"], "Run `orthoplus data fetch Yale`"),
    ],
)
def test_bad_request_is_one_sentence(small_projection, words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_data_list_says_what_is_here(small_projection):
    Path("sets").mkdir()
    Path("sets/Yale.npz").touch()
    done = run("data", "list", "--data", "sets")
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert " yes " in lines["Yale"]
    assert " fetch " in lines["MNIST"]
    assert " by hand " in lines["UrbanCrop"]


def test_data_path_is_the_cache_by_default(small_projection, tmp_path, monkeypatch):
    assert run("data", "path").stdout.strip() == str(tmp_path / "cache" / "orthoplus")
    monkeypatch.setenv("ORTHOPLUS_DATA", str(tmp_path))
    assert run("data", "path").stdout.strip() == str(tmp_path)


@pytest.mark.parametrize("base", ["http://127.0.0.1:9", "nowhere", "file:///nowhere"])
def test_fetch_without_connection_says_so(small_projection, base):
    done = run("data", "fetch", "Yale", "--base", base, "--data", "sets")
    assert done.exit_code == 2
    assert f"Yale could not be downloaded from {base}/" in done.stderr
    assert list(Path("sets").iterdir()) == []
