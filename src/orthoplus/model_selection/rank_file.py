"""The file from which `select_rank` resumes, with the arrays of the finished tasks."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.archive import holds, reading_archive
from orthoplus.core.checks import check_type
from orthoplus.core.errors import InputError
from orthoplus.run.checkpoint import RANKS, write_arrays

_FORMAT = "orthoplus-ranks-2"
_REFUSAL = (
    "`resume`: {path} is not a file of `select_rank`, or is damaged ({error}). Pass another name, "
    "or delete the file to start a new run."
)

Arrays = dict[str, Any]


def save_tasks(path: str | os.PathLike[str], key: dict[str, Any], done: dict[str, Arrays]) -> None:
    """Write the arrays of the finished tasks and the key of the run."""
    header = json.dumps({"format": _FORMAT, "key": key}).encode()
    flat = {f"{task}/{name}": array for task, part in done.items() for name, array in part.items()}
    write_arrays(path, flat | {RANKS: np.frombuffer(header, dtype=np.uint8)})


def is_rank_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file was written by `save_tasks`."""
    return holds(path, RANKS)


def load_tasks(path: str | os.PathLike[str], key: dict[str, Any]) -> dict[str, Arrays]:
    """Return the arrays of the tasks in a file, or an empty dictionary if it does not exist."""
    check_type(path, "resume", str, os.PathLike)
    if not Path(path).exists():
        return {}
    with reading_archive(path, _REFUSAL) as file:
        header = json.loads(bytes(file[RANKS]))
        stored = dict(header.get("key", {}))
        arrays = {tuple(name.split("/", 1)): file[name] for name in file.files if "/" in name}
    changed = [name for name in key if stored.get(name) != key[name]]
    if header.get("format") != _FORMAT or changed:
        raise InputError(
            f"`resume`: {os.fspath(path)} belongs to another run: it differs in "
            f"{', '.join(changed) or 'format'}. Use the same data and options, or pass another "
            f"name."
        )
    done: dict[str, Arrays] = {}
    for (task, part), array in arrays.items():
        done.setdefault(task, {})[part] = array
    return done
