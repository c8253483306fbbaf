"""Command lines with values that no option expects: results, or one error message."""

import contextlib
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import typer
from typer.testing import CliRunner

# Options that write outside of the folder, or that decide how long a run takes.
LEFT_OUT = {"help", "output", "proof", "prove", "time_limit", "write_back", "checkpoint"}
COMMANDS = {
    "cluster": ["a.csv", "m.npy", "labels.txt"],
    "unmix": ["c.npy"],
    "project": ["m.npy", "a.csv"],
    "parcellate": ["m.npy"],
    "info": [],
}
VALUES = [
    *("nan", "inf", "-inf", "0", "-1", "1", "2", "3", "0.5", "1e400", "1e-400", "9" * 20, "true"),
    *("", "  ", "x", "None", "--", "-", "*", "\n", "\t", ",", ";", "=1+1", "{}", "%s", "a" * 5000),
    *("2-3", "3-2", "1-99999999", "2x2", "0x5", "5%", "1GB", "1XB", "tab", "a", "b", "é"),
    *("\ud83d", "\x1b[31m", "[red]x[/red]", "utf-8", "utf-99", "hex", "frobenius", "kl", "tfidf"),
    *(".", "..", "/", "~", "nowhere", "a.csv", "a.csv:x", "labels.txt", "labels.txt:2"),
    *("m.npy", "c.npy", "/dev/null", "/proc/self/mem"),
]


def write_inputs(folder: Path) -> None:
    """Write a table, a matrix, an image and labels."""
    rng = np.random.default_rng(0)
    A = rng.random((12, 4))
    np.savetxt(folder / "a.csv", A, delimiter=",", header="a,b,c,d", comments="")
    np.save(folder / "m.npy", A)
    np.save(folder / "c.npy", rng.random((4, 5, 6)))
    (folder / "labels.txt").write_text("\n".join("ab" * 6), encoding="utf-8")


def command_line(number: int, seed: int) -> list[str]:
    """Return the words of the command line with this number."""
    from orthoplus.cli.app import app

    rng = np.random.default_rng([seed, number])

    def pick(values: list) -> object:
        return values[rng.integers(len(values))]

    name = str(pick(list(COMMANDS)))
    words = [name]
    if COMMANDS[name]:
        words.append(str(pick(COMMANDS[name] if rng.random() < 0.85 else VALUES)))
    if name not in ("info", "project"):
        is_usual = rng.random() < 0.8
        words += ["-k", str(pick(["2", "3", "2-3"] if is_usual else VALUES)), "--time-limit", "1"]
    words += ["-o", "out"] if name != "info" else []
    options = [x for x in typer.main.get_command(app).commands[name].params
               if x.param_type_name == "option" and x.name not in LEFT_OUT]  # fmt: skip
    for _ in range(rng.integers(1, 4)) if options else ():
        option = pick(options)
        words.append(str(pick([*option.opts, *option.secondary_opts])))
        if not getattr(option, "is_flag", False):
            words.append(str(pick(VALUES)))
    return words


def fault_of(words: list[str]) -> str:
    """Run a command line in this folder and return what is wrong with its end, or nothing."""
    from orthoplus.cli.app import app

    with warnings.catch_warnings(action="ignore"):
        done = CliRunner().invoke(app, words)
    if done.exit_code not in (0, 1, 2):
        return f"exit {done.exit_code}: {done.output.strip()[-200:]}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"
    if "Traceback" in done.output or "Internal error" in done.output:
        return done.output.strip()[-200:]
    is_said = "Error" in done.stderr or "Usage" in done.stderr
    return "" if done.exit_code != 2 or is_said else "refused without an error message"


def attack_commands(tries: int, seed: int) -> dict:
    """Run command lines in a temporary folder."""
    found: dict = {"tries": tries, "faults": []}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        # What is written to the home folder or to folders named by odd values stays in there.
        write_inputs(Path(folder))
        home = os.environ.get("HOME", "")
        os.environ["HOME"] = folder
        try:
            for number in range(tries):
                words = command_line(number, seed)
                if fault := fault_of(words):
                    found["faults"].append({"number": number, "words": words, "fault": fault})
        finally:
            os.environ["HOME"] = home
    return found
