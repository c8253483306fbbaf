"""What commands print is in the terms of the shell, and can be typed there."""

import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from orthoplus.cli import summary, words
from orthoplus.cli.app import app
from orthoplus.core.status import Status
from orthoplus.estimators import factorize


def run(*parts):
    return CliRunner().invoke(app, [str(part) for part in parts], catch_exceptions=False)


def options_of_all_commands(command=None):
    """Return the options of a command and of all commands below it."""
    command = command or typer.main.get_command(app)
    own = {name for param in command.params for name in param.opts}
    return own.union(*map(options_of_all_commands, getattr(command, "commands", {}).values()))


def test_every_option_that_words_name_is_there():
    known = options_of_all_commands()
    assert set(words.OPTIONS.values()) <= known
    for status in Status:
        named = re.findall(r"`(--[a-z-]+)`", words.status_words(status))
        assert set(named) <= known


@pytest.mark.parametrize("status", list(Status))
def test_status_names_no_python(status):
    quoted = re.findall(r"`([^`]*)`", words.status_words(status))
    assert all(word.startswith("-") for word in quoted)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`max_iter` and `tol=0.1`", "`--max-iter` and `--tol 0.1`"),
        ("`method='x'`, `X`, `a.csv`", "`--method x`, `X`, `a.csv`"),
        ('`column_scale="std"` (on the command line `--scale-columns std`) gives',
         "`--scale-columns std` gives"),
    ],
)  # fmt: skip
def test_options_of_the_library_become_those_of_the_shell(text, expected):
    assert words.in_shell_terms(text) == expected


def test_file_that_is_called_like_an_option_keeps_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "`method` " in run("cluster", "method", "-k", 2).stderr


@pytest.mark.parametrize("command", ["cluster", "unmix", "project", "bench", "demo", "info"])
def test_help_names_no_types_of_flags_and_ranges(command):
    text = run(command, "--help").stdout
    for word in ("<bool>", "<int", "<float", "unmixing" if command == "cluster" else "<bool>"):
        assert word not in text


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_stopped_run_with_a_checkpoint_prints_what_resumes_it(tmp_path, monkeypatch, n_ranks):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((10, 4))) + 0.3 * rng.random((30, 12))
    np.savez("my data.npz", X=X, Y=X)
    real = factorize.run_starts

    def interrupted(*args, callback, **options):
        def stop(state):
            if state.n_iter == 3:
                raise KeyboardInterrupt

        return real(*args, callback=stop, **options)

    k = 3 if n_ranks == 1 else "2-4"
    parts = ("my data.npz:Y", "-k", k, "--checkpoint", "state.npz", "--no-report", "-o", "part")
    with monkeypatch.context() as patch:
        patch.setattr(factorize, "run_starts", interrupted)
        done = run("cluster", *parts)
    assert done.exit_code == 130
    command = done.stdout.splitlines()[-1].strip()
    assert done.stdout.splitlines()[-2] == "To continue from the checkpoint:"
    assert json.loads(Path("part/run.json").read_text())["resume_command"] == command
    again = shlex.split(command)
    assert again[:3] == ["orthoplus", "cluster", "my data.npz"]
    assert again[again.index("--resume") + 1] == "state.npz"
    assert again[again.index("--components") + 1] == "3"
    assert run(*again[1:], "-o", "rest", "-q").exit_code == 0
    assert run("cluster", "my data.npz:Y", "-k", 3, "-o", "whole", "-q").exit_code == 0
    assert Path("rest/labels.csv").read_bytes() == Path("whole/labels.csv").read_bytes()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_lines_are_wrapped_at_words_on_a_terminal_only(monkeypatch, is_terminal):
    file = io.StringIO()
    screen = Console(file=file, force_terminal=is_terminal, width=41, no_color=True, soft_wrap=True)
    monkeypatch.setattr(summary, "console", lambda: screen)
    summary.print_lines({"bound": "at most 99.99% explained, proven optimal", "n": "3"})
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in file.getvalue().splitlines()]
    text = ["  bound  at most 99.99% explained, proven", "         optimal", "  n      3"]
    assert lines == (text if is_terminal else [f"{text[0]} optimal", text[2]])
