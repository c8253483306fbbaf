"""Measurements in processes of their own: the peak memory of a process never falls."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from orthoplus.bench.table import Figures

Process = subprocess.Popen[str]


def start_process(measure: Callable[..., Figures], *arguments: Any) -> Process:
    """Start ``measure(*arguments)``, a function of a module with arguments that JSON can hold."""
    name = f"{measure.__module__}:{measure.__name__}"
    words = [sys.executable, "-m", "orthoplus.bench.processes", name, json.dumps(arguments)]
    threads = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=os.environ | threads)


def end_process(process: Process) -> dict[str, Any]:
    """Wait for the figures; an error there is a RuntimeError with its last line here."""
    output, errors = process.communicate()
    if process.returncode:
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise RuntimeError(lines[-1])
    figures: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return figures


def in_process(measure: Callable[..., Figures], *arguments: Any) -> dict[str, Any]:
    """Return the figures of ``measure(*arguments)`` in a process of its own."""
    return end_process(start_process(measure, *arguments))


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    found = getattr(import_module(module), function)(*json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(found) + "\n")
