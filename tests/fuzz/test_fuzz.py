"""A share of every attack; all of them run by ``make fuzz``."""

import subprocess
import sys
from pathlib import Path

import arrays
import files
import pytest
import typer
from command_lines import attack_commands, fault_of
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import in_own_process
from parallel import WAYS, attack_parallel
from state import attack_kills
from suite import outcome

from waiting import complaints

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are those of Linux")


@linux
def test_spoiled_files_are_read_or_refused():
    found = files.attack_files(150, seed=7, share_on_trial=0.05)
    assert found["faults"] == []
    assert found["tries"] == 150
    assert found["refused"] > 50


def test_calls_answer_or_refuse_whatever_the_data():
    found = arrays.attack_arrays(len(arrays.calls()), seed=7)
    assert found["faults"] == []


def test_command_lines_give_results_or_an_error_message():
    assert attack_commands(60, seed=7)["faults"] == []


def test_faults_of_command_lines_would_be_seen(monkeypatch):
    broken = typer.Typer()

    @broken.command()
    def info():
        raise KeyError("a bug")

    monkeypatch.setattr("orthoplus.cli.app.app", broken)
    assert "KeyError" in fault_of([])


@st.composite
def cases(draw):
    call = draw(st.sampled_from(sorted(arrays.calls())))
    n, r = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    names = [st.sampled_from(list(dict.fromkeys(of))) for of in (arrays.CONTENTS, arrays.LAYOUTS)]
    return arrays.Case(
        call,
        (n, n if call in arrays.SQUARE else r),
        *(draw(name) for name in names),
        draw(st.sampled_from(list(dict.fromkeys(arrays.TYPES)))),
        draw(st.sampled_from(arrays.SCALES) | st.floats(1e-320, 1e308)),
        draw(st.sampled_from(arrays.COUNTS)),
        draw(st.integers(0, 1 << 30)),
    )


@given(cases())
@settings(max_examples=100)
def test_the_smallest_data_that_a_call_cannot_bear_is_found(case):
    assert arrays.fault_of(case) == ""


@pytest.mark.parametrize("way", [way for way in WAYS if way != "fork"])
def test_fits_at_once_have_the_bits_of_one_alone(way):
    assert attack_parallel(way, 2, seed=100)["faults"] == []


@linux
def test_forked_fits_have_the_bits_of_one_alone():
    """In a process of its own: this one may have threads of other libraries, that no fork bears."""
    script = Path(__file__).with_name("attack.py")
    done = subprocess.run(
        [sys.executable, script, "fork", "--tries", "4", "--seed", "100"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert "4 held" in done.stdout


def test_clusters_that_lose_something_answer_or_refuse():
    """In a process of its own: without a scheduler, Dask's threads here would not end."""
    script = Path(__file__).with_name("attack.py")
    done = subprocess.run(
        [sys.executable, script, "dask", "--tries", "4", "--seed", "100"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"same": 1, "refused": 3' in done.stdout


@linux
def test_killed_runs_go_on():
    found = attack_kills(3, seed=0)
    assert found["tries"] == 3
    assert found["faults"] == []


# What is called by kind: data in blocks of a limit, and data in memory.
MEASURED = {
    "small": ("project", "fit"),
    "whole": ("fit float64", "fit csr", "fit_counts csr", "project float64"),
}


@linux
@pytest.mark.parametrize("kind", MEASURED)
def test_memory_limit_holds(kind):
    """Data in blocks of a limit, and data in memory: half as much again as the data.

    All calls of a kind are measured in one process other than this one.
    """
    found = in_own_process(kind, MEASURED[kind])
    assert [call["call"] for call in found] == list(MEASURED[kind])
    assert [call for call in found if not call["held"]] == []


def test_faults_of_readers_would_be_seen(tmp_path, monkeypatch):
    from mutations import write_secret

    import orthoplus.io

    monkeypatch.syspath_prepend(str(Path(files.__file__).parent))
    path = write_secret(tmp_path)
    assert files._read_one(path)["fault"] == "foreign bytes"

    def fail(path):
        raise KeyError(path)

    monkeypatch.setattr(orthoplus.io, "read_matrix", fail)
    assert files._read_one(path)["fault"] == "traceback KeyError"


def test_failures_of_the_suite_would_be_seen():
    passed = "=========== 3 passed, 1 skipped in 61.30s (0:01:01) ===========\n"
    failed = (
        "===== FAILURES =====\n_____ test_it _____\nE  assert 0\n===== short test summary =====\n"
        "FAILED tests/test_one.py::test_it - assert 0\n===== 1 failed, 2 passed in 2.00s =====\n"
    )
    assert outcome(passed, 0) == {"held": True, "summary": "3 passed, 1 skipped", "failed": []}
    assert not outcome(failed, 1)["held"]
    assert outcome(failed, 1)["failed"][0].startswith("FAILED tests/test_one.py::test_it")
    assert outcome(failed, 1)["failed"][1].endswith("_____ test_it _____\nE  assert 0\n")
    assert not outcome("", 0)["held"]  # killed before its summary
    assert not outcome(passed, 1)["held"]
