"""Full disks, forbidden files and signals: what is on disk afterwards is whole."""

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import orthoplus as op
from orthoplus import cli
from orthoplus.cli.app import app
from orthoplus.cli.ending import TERMINATION, resumable
from orthoplus.cli.terminal import console
from orthoplus.core import atomic, startup
from waiting import PATIENCE, killed_in_the_end, wait_until

SOURCE = Path(op.__file__).parents[1]
WORDS = ["cluster", "data.csv", "-k", "2", "-o", "out", "--checkpoint", "state.npz", "-q"]


@pytest.fixture
def data(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    np.savetxt("data.csv", rng.random((20, 4)), delimiter=",")


def run(*words):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def check_whole_files(folder="."):
    """Open every file of a run; none is cut off, and nothing else is there."""
    for path in Path(folder).rglob("*"):
        assert not path.name.endswith(".part")
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".npz":
            with np.load(path) as file:
                for name in file.files:
                    file[name]  # with its checksum
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>")


class Faults:
    """Lets the files be written whose number is not ``fatal``, and counts them."""

    def __init__(self, real, fatal, number):
        self.real, self.fatal, self.number, self.count = real, fatal, number, 0

    @contextmanager
    def file(self, *paths):
        self.count += 1
        with self.real(*paths) as file:
            if self.count - 1 == self.fatal:
                file.write(b"half of it")
                raise OSError(self.number, os.strerror(self.number))
            yield file


def test_error_at_every_write_leaves_whole_files(data, monkeypatch):
    def run_with(fatal, number=0):
        faults = Faults(real, fatal, number)
        monkeypatch.setattr(atomic, "_file_to_be", faults.file)
        return run(*WORDS, "--prove", "0.2"), faults.count

    real = atomic._file_to_be
    done, n_writes = run_with(None)
    assert done.exit_code in (0, 1)
    assert n_writes > 6
    for fatal in range(n_writes):
        number = (errno.ENOSPC, errno.EACCES, errno.EIO)[fatal % 3]
        done, _ = run_with(fatal, number)
        if done.exit_code not in (0, 1):  # a slower proof may write less often
            assert done.exit_code == 2
            assert os.strerror(number) in done.stderr
            assert "Traceback" not in done.stderr
        check_whole_files()


@pytest.mark.parametrize(
    "words",
    [
        ("cluster", "labels.csv", "-k", "2"),
        ("cluster", "link.csv", "-k", "2"),
        ("cluster", "data.csv", "-k", "2", "--labels", "components.csv:a"),
        ("cluster", "data.csv", "-k", "2", "--checkpoint", "./proof.npz"),
        ("project", "X.npz"),
        ("unmix", "maps.npz", "-k", "2", "--format", "npz"),
    ],
)
def test_results_never_replace_a_file_of_the_run(data, words):
    table = Path("data.csv").read_text()
    for name in ("labels.csv", "components.csv"):
        Path(name).write_text(f"a,b,c,d\n{table}")
    os.symlink("labels.csv", "link.csv")
    for name in ("X.npz", "maps.npz"):
        np.savez(name, A=np.loadtxt("data.csv", delimiter=","))
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = run(*words, "-o", ".", "-q")
    assert done.exit_code == 2
    assert "is a file of this run that its results would replace" in done.stderr
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_files_of_an_earlier_run_are_not_removed_if_they_are_the_data(data):
    assert run("project", "data.csv", "-o", "out", "-q").exit_code in (0, 1)
    done = run("cluster", "out/X.npz", "-k", "2", "-o", "out", "-q")
    assert done.exit_code == 2
    assert Path("out/X.npz").is_file()
    assert run("cluster", "out/X.npz", "-k", "2", "-o", "other", "-q").exit_code == 0


def test_other_data_are_refused_on_resuming(data, rng):
    assert run(*WORDS, "--max-iter", "1").exit_code in (0, 1)
    assert run(*WORDS, "--resume", "state.npz").exit_code == 0
    np.savetxt("data.csv", rng.random((20, 4)), delimiter=",")
    done = run(*WORDS, "--resume", "state.npz")
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: `--resume`: state.npz belongs to another run, which")
    assert "differs from this one in data" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_sigterm_saves_and_stops(tmp_path):
    np.save(tmp_path / "big.npy", np.random.default_rng(0).random((500, 40)))
    words = [sys.executable, "-m", "orthoplus", "cluster", "big.npy", "-k", "12", "-o", "out"]
    with subprocess.Popen(
        [*words, "--checkpoint", "state.npz", "--max-iter", "100000", "--n-init", "10000"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(SOURCE)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child, killed_in_the_end(child):  # fmt: skip
        wait_until((tmp_path / "state.npz").exists, child)
        child.send_signal(signal.SIGTERM)
        shown, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 143, errors
    assert "Traceback" not in errors
    assert "Best result so far written to out" in shown
    assert "--resume state.npz" in shown
    assert (tmp_path / "out" / "labels.csv").exists()
    check_whole_files(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("is_ignored", [False, True])
def test_sigterm_counts_as_ctrl_c(monkeypatch, is_ignored):
    monkeypatch.setattr(TERMINATION, "is_requested", False)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    if is_ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        TERMINATION.install()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers, strict=True):
            signal.signal(number, handler)
    assert TERMINATION.is_requested
    assert [TERMINATION.code(code) for code in (0, 2, 130)] == [0, 2, 143]


def test_sigterm_before_a_result_has_its_own_exit_code(monkeypatch):
    monkeypatch.setattr(TERMINATION, "is_requested", True)
    with pytest.raises(typer.Exit) as ended, resumable("cluster", "a.csv", {}):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 143


EARLY = """
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.orig_argv = ["python", "-m", "orthoplus"]
import orthoplus.cli
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
orthoplus.cli.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    ("module", "code"), [("numpy", -2), ("orthoplus.run.api", -2), ("orthoplus.cli.app", 130)]
)
def test_ctrl_c_while_modules_load_shows_nothing(module, code):
    done = subprocess.run(
        [sys.executable, "-c", EARLY, module], env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_only_the_command_ends_quietly(monkeypatch):
    for words, is_ours in {
        ("python", "-m", "orthoplus", "info"): True,
        ("python", "/usr/bin/orthoplus", "info"): True,
        ("python", "-m", "pytest"): False,
        ("python", "-c", "import orthoplus"): False,
        ("python",): False,
    }.items():
        monkeypatch.setattr(sys, "orig_argv", list(words))
        assert startup.is_command() is is_ours


def test_names_are_no_formulas_if_that_is_asked_for(data, rng):
    names = ["=1+1", "+x", "-2", "@sum", "plain", '=a,"b"', "\tq", "-y"] + [
        f"r{i}" for i in range(4)
    ]
    values = rng.random((12, 3)).tolist()
    with open("named.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "=cmd()", "b", "c"])
        writer.writerows([name, *row] for name, row in zip(names, values, strict=True))
    words = ["cluster", "named.csv", "-k", "2", "-o", "out", "-q", "--no-report"]
    for more, mark in (([], ""), (["--safe-csv"], "'")):
        assert run(*words, *more).exit_code == 0
        with open("out/labels.csv", newline="", encoding="utf-8") as file:
            written = [row[0] for row in csv.reader(file)][1:]
        assert written[:6] == [
            f"{mark}=1+1",
            f"{mark}+x",
            "-2",
            f"{mark}@sum",
            "plain",
            f'{mark}=a,"b"',
        ]
        with open("out/components.csv", newline="", encoding="utf-8") as file:
            assert next(csv.reader(file))[1] == f"{mark}=cmd()"
        assert run("project", "named.csv", "-o", "near", "-q", *more).exit_code == 0
        with open("near/labels.csv", newline="", encoding="utf-8") as file:
            assert [row[0] for row in csv.reader(file)][1:7] == written[:6]


def test_closed_streams_are_replaced(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)  # what Python does if the stream is closed
    cli._prepare_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.write("to nowhere")
        stream.flush()
    assert sys.stdin.read() == ""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_signs_that_a_terminal_does_not_have_are_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    cli._prepare_streams()
    console().print("\u2713 done")
    sys.stdout.flush()
    assert raw.getvalue() == b"\\u2713 done\n"
