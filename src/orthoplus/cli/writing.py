"""The files that commands write, each of which appears only when it is complete."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError


@contextmanager
def output_folder(folder: Path) -> Iterator[Path]:
    """Make the folder and see that it can be written to, before hours of work.

    Whatever of it was made and is still empty at an error is removed.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`{folder}` is a file: `--output` needs a folder.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        _remove_empty(made)
        raise InputError(
            f"`{folder}` cannot be written to ({error.strerror}). Choose another `--output`."
        ) from None
    try:
        yield folder
    except BaseException:  # Ctrl-C too
        _remove_empty(made)
        raise


def _remove_empty(folders: Iterable[Path]) -> None:
    with suppress(OSError):  # the first that is not empty, or not there
        for folder in folders:
            folder.rmdir()


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))


def write_json(path: Path, record: dict[str, Any]) -> None:
    write_text(path, to_json(record) + "\n")


def to_json(record: dict[str, Any]) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(plain(record), indent=2, allow_nan=False)


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]], *, is_safe: bool = False
) -> None:
    """Write a table; names with separators, quotes or line ends of any kind are quoted.

    ``is_safe`` keeps spreadsheets from taking names for formulas, see `without_formula`.
    """
    text = _UnixLines()
    writer = csv.writer(text, lineterminator="\r\n")  # so that both of them are quoted
    tame = without_formula if is_safe else _same
    writer.writerow([tame(name) for name in header])
    writer.writerows([tame(cell) for cell in row] for row in rows)
    write_text(path, text.getvalue())


def _same(cell: Any) -> Any:
    return cell


def without_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe before what begins one.

    Examples
    --------
    >>> without_formula("=1+1"), without_formula("-0.5"), without_formula("plain")
    ("'=1+1", '-0.5', 'plain')
    """
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


class _UnixLines(io.StringIO):
    """Text of rows that come one at a time and end with CR LF, which becomes LF."""

    def __init__(self) -> None:
        super().__init__(newline="")

    def write(self, row: str) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def write_npz(path: Path, **arrays: Any) -> None:
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))


def plain(value: Any) -> Any:
    """Return lists, dictionaries, numbers and text only; what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
