"""``orthoplus bench`` and ``orthoplus data`` in process."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orthoplus.bench import projection
from orthoplus.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def small_projection(monkeypatch, tmp_path):
    """The quickest table of all, in an empty folder."""
    monkeypatch.setattr(projection, "N", 60)
    monkeypatch.setattr(projection, "QUICK_COLUMNS", (10,))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORTHOPLUS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_bench_writes_page_markdown_and_rows(small_projection):
    done = run("bench", "projection", "--quick", "-o", "out", "--jsonl", "mine.jsonl")
    assert done.exit_code == 0
    assert "Projection onto S+" in done.stdout
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "results.html",
        "results.md",
        "rows.jsonl",
    ]
    rows = [json.loads(line) for line in Path("mine.jsonl").read_text().splitlines()]
    assert rows == [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    assert rows[0]["machine"]["versions"]["numpy"] == np.__version__
    assert rows[0]["quick"] is True
    assert "orthoplus bench projection --quick" in Path("out/results.md").read_text()


def test_bench_is_silent_when_asked(small_projection):
    done = run("bench", "projection", "--quick", "--quiet")
    assert (done.exit_code, done.stdout) == (0, "")


def test_bench_without_data_says_what_to_do(small_projection):
    done = run("bench", "text", "--quick")
    assert done.exit_code == 2
    assert "The data set T-l10 is not there" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "texts"], "`texts` is no table"),
        (["bench", "text", "--data", "nowhere"], "`--data nowhere` is no folder"),
        (["data", "path", "Iris"], "`name='Iris'` is unknown"),
        (["data", "fetch", "UrbanCrop"], "UrbanCrop cannot be downloaded: it was made from"),
        (["data", "path", "Yale"], "`orthoplus data fetch Yale` gets it"),
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


def test_fetch_without_connection_says_so(small_projection):
    done = run("data", "fetch", "Yale", "--base", "http://127.0.0.1:9", "--data", "sets")
    assert done.exit_code == 2
    assert "Yale could not be downloaded from http://127.0.0.1:9/" in done.stderr
    assert list(Path("sets").iterdir()) == []
