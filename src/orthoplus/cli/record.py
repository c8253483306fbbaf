"""Make the record of a run, ``run.json``, with everything needed to repeat and check it."""

import dataclasses
import hashlib
import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orthoplus import __version__
from orthoplus.cli.words import in_shell_terms, status_words
from orthoplus.core.result import Result
from orthoplus.core.status import Status

FORMAT = "orthoplus-run-1"
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "matplotlib",
    "typer",
    "rich",
    "h5py",
    "rasterio",
    "nibabel",
    "nilearn",
)

# Flags for which --no-NAME differs from leaving the flag out.
_NEGATED = ("report", "header")


def command_line(command: str, source: str | list[str], options: Mapping[str, Any]) -> str:
    """Return the command that repeats the run, with every option spelled out.

    Examples
    --------
    >>> command_line("cluster", "my data.csv", {"components": 3, "report": False, "key": None})
    "orthoplus cluster 'my data.csv' --components 3 --no-report"
    """
    words = ["orthoplus", command, *([source] if isinstance(source, str) else source)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is False and name in _NEGATED:
            words.append(f"--no-{name}")
        elif value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [word for item in value for word in (flag, str(item))]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return shlex.join(words)


def resume_entry(
    command: str, source: str | list[str], options: Mapping[str, Any], status: Status
) -> dict[str, str]:
    """Return the command that continues a stopped run, if it had a checkpoint.

    If the run stopped before its first state was saved, the command starts it again.
    """
    saved = options.get("checkpoint")
    if saved is None or status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
        return {}
    resumed = {**options, "resume": saved if Path(saved).is_file() else options.get("resume")}
    return {"resume_command": command_line(command, source, resumed)}


def versions() -> dict[str, str]:
    """Return the versions of this package, Python, and the libraries that affect the numbers."""
    found = {"orthoplus": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def describe_data(
    path: Path, key: str | None, values: Any, stored: Path | None = None
) -> dict[str, Any]:
    """Return name, checksum and size of the data; ``stored`` is the file that holds them."""
    with open(stored or path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "file": str(path),
        "key": key,
        "sha256": checksum,
        "shape": list(values.shape),
        "dtype": str(values.dtype),
        "sparse": hasattr(values, "nnz"),
        "nonzeros": getattr(values, "nnz", None),
    }


def describe_method(method: Any) -> dict[str, Any]:
    """Return the class of a method and all its options."""
    found: dict[str, Any] = {"name": type(method).__name__}
    for field in dataclasses.fields(method) if dataclasses.is_dataclass(method) else ():
        value = getattr(method, field.name)
        found[field.name] = describe_method(value) if dataclasses.is_dataclass(value) else value
    return found


def describe_result(result: Result) -> dict[str, Any]:
    """Return the figures of a result; arrays are written to separate files."""
    return {
        "objective": result.value,
        "bound": result.bound,
        "gap": result.gap,
        "violation": result.violation,
        "stationarity": result.stationarity,
        "status": result.status.name,
        "message": " ".join((status_words(result.status), *map(in_shell_terms, result.notes))),
        "success": result.success,
        "iterations": result.n_iter,
        "evaluations": result.n_eval,
        "seconds": result.seconds,
    }


def make_record(
    command: str, source: str | list[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries common to all records."""
    return {
        "format": FORMAT,
        "command": command_line(command, source, options),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": dict(options),
        "versions": versions(),
        "platform": platform.platform(),
    }


def history_of(result: Result) -> list[dict[str, Any]]:
    """Return one dictionary per outer iteration."""
    return [row._asdict() for row in result.history]
