"""``orthoplus cluster -k 2-12``: the number of clusters chosen from a range."""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import orthoplus as op
from orthoplus.cli import ranking
from orthoplus.cli.app import app
from orthoplus.cli.options import parse_count, parse_ranks
from orthoplus.cli.ranking import sentence
from orthoplus.cli.record import command_line
from orthoplus.core.status import Status
from orthoplus.model_selection import rank_path
from orthoplus.model_selection.rank_file import is_rank_file
from waiting import PATIENCE, killed_in_the_end, read_terminal

ROOT = Path(__file__).resolve().parents[2]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def planted(rng, tmp_path, monkeypatch):
    """Write 60 rows in four clusters, in units that differ between the columns, and return them."""
    monkeypatch.chdir(tmp_path)
    truth = np.arange(60) % 4
    X = rng.uniform(0.5, 1.5, (60, 1)) * rng.random((4, 16))[truth] + 0.2 * rng.random((60, 16))
    np.save("x.npy", X)
    return X


def test_range_goes_on_with_the_recommendation_and_says_why(planted):
    done = run("cluster", "x.npy", "-k", "2-7", "--seed", 3)
    assert done.exit_code == 0
    expected = op.select_rank(planted, range(2, 8), random_state=3)
    assert expected.k == 4
    assert "Choosing k from 2 to 7" in done.stderr
    assert "of 66 fits" in done.stderr
    lines = [
        line for line in done.stderr.splitlines() if line.startswith("Chose k = 4 from 2 to 7")
    ]
    assert lines == [sentence(expected)]
    assert "x.npy: 60 x 16 in 4 clusters" in done.stderr
    record = json.loads(Path("x-k2-7/run.json").read_text())
    ranks = record["ranks"]
    assert (ranks["k"], ranks["split"], ranks["named"]) == (4, "rows", expected.named)
    assert ranks["reasons"] == list(expected.reasons)
    assert [row["k"] for row in ranks["curves"]] == list(range(2, 8))
    assert [row["stability"] for row in ranks["curves"]] == [r.stability for r in expected.rows]
    assert len(record["result"]["cluster_sizes"]) == 4
    page = Path("x-k2-7/report.html").read_text(encoding="utf-8")
    assert "<svg" in page.split("How many clusters")[1].split("</section>")[0]
    # The command does the same again, from the choice on.
    again = run(*shlex.split(record["command"])[1:], "-o", "again", "-q")
    assert (again.exit_code, again.stderr) == (0, "")
    assert Path("again/labels.csv").read_bytes() == Path("x-k2-7/labels.csv").read_bytes()


def test_scaled_data_choose_among_scaled_data(planted):
    np.save("x.npy", planted * np.geomspace(1, 1e4, 16))
    words = ("--scale-columns", "max", "--scale-rows", "l2", "--no-report", "-q")
    assert run("cluster", "x.npy", "-k", "2-6", *words).exit_code == 0
    scaled = planted / planted.max(axis=0)
    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    curves = json.loads(Path("x-k2-6/run.json").read_text())["ranks"]["curves"]
    expected = op.select_rank(scaled, range(2, 7)).rows
    np.testing.assert_allclose([row["heldout"] for row in curves], [r.heldout for r in expected])


def test_columns_can_be_halved_and_beware_is_a_note(planted):
    words = ("-k", "2-3", "--split", "columns", "--no-report", "--json")
    record = json.loads(run("cluster", "x.npy", *words).stdout)
    expected = op.select_rank(planted, range(2, 4), split="columns")
    assert record["ranks"]["reasons"] == list(expected.reasons)
    assert "The columns were halved." in record["ranks"]["sentence"]
    assert [note for note in record["notes"] if "is the largest that was tried" in note]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-k", "three"), "`-k three` is not a number of clusters; pass an integer such as 8, or"),
        (("-k", "2-"), "`-k 2-` is not a number of clusters"),
        (("-k", "9-2"), "write the smaller number first, `-k 2-9`"),
        (("-k", "0-3"), "at least 1 cluster"),
        (("-k", "2-31"), "End the range at 30"),
        (("-k", "2-61", "--split", "columns"), "exceeds the 60 rows"),
        (("-k", "3", "--split", "rows"), "a range such as `-k 2-12`"),
        (("-k", "2-4", "--split", "both"), "`--split both` is unknown; choose one of rows, col"),
        (("-k", "2-4", "--split", "columns", "--loss", "kl"), "requires `--loss frobenius`"),
    ],
)
def test_bad_range_is_one_sentence_with_code_2(planted, words, message):
    done = run("cluster", "x.npy", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir() == ["x.npy"]


def test_gaps_and_a_range_are_refused(planted):
    Path("x.csv").write_text("a,b\n1,2\n,3\n4,1\n1,5\n", encoding="utf-8")
    done = run("cluster", "x.csv", "-k", "1-2", "--missing", "mask")
    assert done.exit_code == 2
    assert "`-k 1-2` cannot be combined with `--missing mask`" in done.stderr


def test_numbers_of_clusters_and_materials():
    assert parse_ranks(" 2 - 4 ") == range(2, 5)
    assert parse_count(" 3 ") == 3
    with pytest.raises(op.InputError, match="not a number of materials"):
        parse_count("2-4")
    with pytest.raises(op.InputError, match="at least 1 material"):
        parse_count("0")


def test_command_repeats_lists_and_negations():
    options = {"drop": ["a b", "c"], "header": False, "transpose": False, "key": None}
    words = command_line("cluster", "x.csv", options)
    assert words == "orthoplus cluster x.csv --drop 'a b' --drop c --no-header"


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of its own")
def test_line_moves_on_a_terminal(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((80, 20)))
    words = [sys.executable, "-m", "orthoplus", "cluster", "x.npy", "-k", "2-4", "--no-report"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1",
        "TERM": "xterm", "COLUMNS": "100",
    }  # fmt: skip
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    with killed_in_the_end(child):
        text = read_terminal(ours)
        assert child.wait(timeout=PATIENCE) == 0
    for part in ("Choosing k from 2 to 4", "/33", "fits", "Chose k ="):
        assert part in text


def test_ctrl_c_while_choosing_k_saves_the_fits_and_says_how_to_go_on(planted, monkeypatch):
    @contextmanager
    def interrupted(title, *, silent):
        def follow(progress):
            if progress.n_done == 30:
                raise KeyboardInterrupt

        yield follow

    with monkeypatch.context() as patch:
        patch.setattr(ranking, "following", interrupted)
        done = run("cluster", "x.npy", "-k", "2-6", "--checkpoint", "c.npz", "-o", "out")
    assert done.exit_code == 130
    assert not Path("out").exists()
    assert is_rank_file("c.npz")
    command = done.stderr.splitlines()[-1].strip()
    assert "--resume c.npz" in command
    again = run(*shlex.split(command)[1:])
    assert again.exit_code == 0, again.output
    fits = re.search(r"(\d+) of 55 fits", again.stderr)
    assert int(fits[1]) > 10  # the others were read
    assert run("cluster", "x.npy", "-k", "2-6", "-o", "whole", "-q").exit_code == 0
    assert Path("out/labels.csv").read_bytes() == Path("whole/labels.csv").read_bytes()
    # The file is that of a fit now, for one k.
    wrong = run("cluster", "x.npy", "-k", "2-6", "--resume", "c.npz")
    assert (wrong.exit_code, "pass that number instead of `-k 2-6`" in wrong.output) == (2, True)


def test_ctrl_c_in_a_fit_ends_the_choice(planted, monkeypatch):
    def interrupted(problem, X0=None, **options):
        return dataclasses.replace(op.solve(problem, X0, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr(rank_path, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        op.select_rank(planted, range(2, 5))
