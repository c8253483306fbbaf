"""The file from which `select_rank` resumes, with the arrays of the finished tasks."""

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.run.checkpoint import write_arrays

_FORMAT = "orthoplus-ranks-1"

Arrays = dict[str, Any]


def save_tasks(path: str | os.PathLike[str], key: dict[str, Any], done: dict[str, Arrays]) -> None:
    """Write the arrays of the finished tasks and the key of the run."""
    header = json.dumps({"format": _FORMAT, "key": key}).encode()
    flat = {f"{task}/{name}": array for task, part in done.items() for name, array in part.items()}
    write_arrays(path, flat | {"__ranks__": np.frombuffer(header, dtype=np.uint8)})


def is_rank_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file was written by `save_tasks`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "__ranks__.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load_tasks(path: str | os.PathLike[str], key: dict[str, Any]) -> dict[str, Arrays]:
    """Return the arrays of the tasks in a file, or an empty dictionary if it does not exist."""
    if not Path(path).exists():
        return {}
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(bytes(file["__ranks__"]))
            arrays = {name: file[name] for name in file.files if "/" in name}
    except (KeyError, TypeError, ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"`resume`: {os.fspath(path)} is not a file of `select_rank`, or is damaged ({error}). "
            f"Pass another name, or delete the file to start a new run."
        ) from error
    stored = header.get("key", {})
    changed = [name for name in key if stored.get(name) != key[name]]
    if header.get("format") != _FORMAT or changed:
        raise InputError(
            f"`resume`: {os.fspath(path)} belongs to another run: it differs in "
            f"{', '.join(changed) or 'format'}. Use the same data and options, or pass another "
            f"name."
        )
    done: dict[str, Arrays] = {}
    for name, array in arrays.items():
        task, part = name.split("/")
        done.setdefault(task, {})[part] = array
    return done


def fingerprint(A: Any) -> str:
    """Return a digest of the data's shape, dtype and row norms."""
    digest = hashlib.sha256(repr((A.shape, str(A.dtype))).encode())
    digest.update(A.gather(A.row_squares()).tobytes())
    return digest.hexdigest()
