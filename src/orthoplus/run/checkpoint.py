"""Saving of states as plain arrays in an ``.npz`` file, without pickles, written atomically."""

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from orthoplus.core.archive import holds, reading_archive
from orthoplus.core.atomic import write_atomically
from orthoplus.core.checks import check_type
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethodBase, OuterState
from orthoplus.methods import METHODS

# Arrays that mark the files of a run, and those of `select_rank`.
STATE, RANKS = "__state__", "__ranks__"
_FAMILY = "orthoplus-state-"
_FORMAT = f"{_FAMILY}4"
_REFUSAL = (
    "`{path}` is not a saved state or is damaged ({error}). Start a new run, or pass a file "
    "written by `save_state`."
)


@cache
def _state_types() -> dict[str, Any]:
    """Return the state types of all methods and baselines by name."""
    from orthoplus.methods.baselines import BASELINES

    methods = (METHODS | BASELINES).values()
    types = [method.state_type for method in methods if issubclass(method, OuterMethodBase)]
    return {kind.__name__: kind for kind in types}


def save_state(
    path: str | os.PathLike[str], state: OuterState, made_for: Mapping[str, Any] | None = None
) -> None:
    """Write a state that `load_state` restores bit for bit.

    The file is written atomically. ``made_for`` is the fingerprint of the run, which
    ``solve(checkpoint=...)`` adds; see `orthoplus.run.fingerprint`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, orthoplus as op
    >>> result = op.solve(op.problems.Projection(np.eye(4, 2)))
    >>> name = Path(tempfile.mkdtemp()) / "run.npz"
    >>> save_state(name, result.state)
    >>> bool((load_state(name).X == result.state.X).all())
    True
    """
    arrays: dict[str, Any] = {}
    fields: dict[str, Any] = state._asdict()  # type: ignore[attr-defined]
    header = {
        "format": _FORMAT,
        "type": type(state).__name__,
        "tree": _describe(fields, "", arrays),
        "made_for": made_for,
    }
    arrays[STATE] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    write_arrays(path, arrays)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays atomically to an ``.npz`` file."""
    write_atomically(path, lambda file: np.savez(file, **arrays))


def check_writable(path: str | os.PathLike[str], name: str) -> None:
    """Raise if the file cannot or must not be written, before any work is done."""
    check_type(path, name, str, os.PathLike)
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"`{name}={os.fspath(path)!r}` is in a folder that does not exist. Create the folder "
            f"first."
        )
    if os.path.isdir(path):
        raise InputError(f"`{name}={os.fspath(path)!r}` is a folder. Pass the name of a file.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(
            f"`{name}={os.fspath(path)!r}` is a device or a pipe. Pass the name of a file."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f"`{name}={os.fspath(path)!r}` cannot be written: permission denied for its folder. "
            f"Choose another folder."
        )
    if os.path.exists(path) and os.path.getsize(path) and not holds(path, STATE, RANKS):
        raise InputError(
            f"`{name}={os.fspath(path)!r}` is not a checkpoint and would be overwritten. Pass "
            f"another name, or delete the file."
        )


def load_state(path: str | os.PathLike[str]) -> OuterState:
    """Read a state written by `save_state`; raise a ValueError if the file is not valid.

    ``solve(resume=path)`` also checks that the file belongs to the same run; for a loaded state
    this is not checked.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, orthoplus as op
    >>> problem = op.problems.TraceMin(np.diag([3.0, 1.0, 2.0, 4.0]), 2)
    >>> name = Path(tempfile.mkdtemp()) / "run.npz"
    >>> half = op.solve(problem, callback=lambda state: state.n_iter == 1, checkpoint=name)
    >>> load_state(name).n_iter
    1
    >>> bool((op.solve(problem, resume=load_state(name)).X == op.solve(problem).X).all())
    True
    """
    return read_checkpoint(path)[0]


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[OuterState, Mapping[str, Any] | None]:
    """Return the state in a file, and the fingerprint of its run if there is one."""
    with reading_archive(path, _REFUSAL) as file:
        header = json.loads(bytes(file[STATE]))
        if header["format"] != _FORMAT:
            raise KeyError(_foreign(header["format"]))
        state = _state_types()[header["type"]](**_restore(header["tree"], file))
        return state, header["made_for"]


def _foreign(name: Any) -> str:
    is_ours = isinstance(name, str) and name.startswith(_FAMILY)
    return f"format {name}" + (f" of another version, this one writes {_FORMAT}" * is_ours)


def _describe(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Return JSON for a tree of dictionaries and numbers, moving arrays to ``arrays``."""
    if isinstance(value, Mapping):
        return {key: _describe(item, f"{name}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"__array__": name}
    if isinstance(value, float):
        return {"__float__": value.hex()}
    return None if hasattr(value, "graph") else value  # a vector of a Dask array is not saved


def _restore(tree: Any, file: Mapping[str, Any]) -> Any:
    if isinstance(tree, dict):
        if "__array__" in tree:
            return file[tree["__array__"]]
        if "__float__" in tree:
            return float.fromhex(tree["__float__"])
        return {key: _restore(item, file) for key, item in tree.items()}
    return tree
