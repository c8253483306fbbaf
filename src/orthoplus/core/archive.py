"""Reading of the ``.npz`` files that this package writes itself: states, certificates, ranks."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from orthoplus.core.checks import describe
from orthoplus.core.errors import InputError, InputTypeError


@contextmanager
def reading_archive(path: str | os.PathLike[str], refusal: str) -> Iterator[Any]:
    """Open an archive of arrays, without pickles; raise `InputError` for any defect.

    Defects are found in this block and wherever its body fails: the file decides what the body
    meets, which may be any exception. In ``refusal``, ``{path}`` and ``{error}`` are filled in.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    ...     np.savez(file, a=np.ones(2))
    ...     _ = file.seek(0)
    ...     with reading_archive(file.name, "`{path}`: {error}") as arrays:
    ...         arrays["a"].tolist()
    [1.0, 1.0]
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"The name of a file is needed; got {describe(path)}.")
    try:
        _check_stored(path)
        # Open the file here: NumPy leaves its own file open if the archive is damaged.
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            yield file
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(refusal.format(path=os.fspath(path), error=reason)) from error


def holds(path: str | os.PathLike[str], *names: str) -> bool:
    """Return whether a file is an archive that contains one of these arrays."""
    if not os.path.isfile(path):  # reading a pipe would never end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return not {f"{name}.npy" for name in names}.isdisjoint(archive.namelist())
    except Exception:  # a damaged archive raises many kinds of exceptions
        return False


def _check_stored(path: str | os.PathLike[str]) -> None:
    """Refuse pipes, which would never end, and archives that hold more bytes than the file."""
    size = os.stat(path).st_size
    if not os.path.isfile(path):
        raise InputError("not a regular file")
    with zipfile.ZipFile(path) as archive:
        # Arrays are stored without compression, so that they cannot be larger than the file.
        held = sum(info.file_size for info in archive.infolist())
    if held > size:
        raise InputError(f"it declares {held} bytes of arrays, but has {size}")
