"""Write the files of commands; a file appears only when it is complete."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError
from orthoplus.io import split_key

# Files that each command writes into its folder, apart from run.json and those of BIDS.
_OUTPUTS_OF = {
    "cluster": ("labels.csv", "components.csv", "components.npz", "proof.npz", "report.html"),
    "project": ("labels.csv", "X.npz"),
    "unmix": (
        "fractions.hdr", "fractions.img", "fractions.tif", "materials.hdr", "materials.img",
        "materials.tif", "materials.tif.aux.xml", "spectra.csv", "spectra.png", "spectra.hdr",
        "spectra.sli", "maps.npz", "maps.png", "report.html",
    ),
    "parcellate": ("values.csv", "parcels.png", "report.html"),
}  # fmt: skip
OUTPUTS = tuple(dict.fromkeys(name for names in _OUTPUTS_OF.values() for name in names))
# Options that name files, which the results of a run must not replace.
_FILE_OPTIONS = ("labels", "row_names", "column_names", "checkpoint", "resume")

# Maximum size of the run.json of an earlier run.
_MOST_RECORD = 1 << 24


@contextmanager
def output_folder(folder: Path) -> Iterator[Path]:
    """Create the output folder and check that it is writable before the work starts.

    After an error, folders that were created and are still empty are removed.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`--output {folder}` is a file; a folder is expected.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        _remove_empty(made)
        raise InputError(
            f"`{folder}` is not writable ({error.strerror}). Choose another `--output`."
        ) from None
    try:
        yield folder
    except BaseException:  # Ctrl-C too
        _remove_empty(made)
        raise


def check_inputs(
    command: str, folder: Path, sources: Iterable[Path], options: Mapping[str, Any]
) -> None:
    """Raise `InputError` if the results would replace or remove a file that the run needs."""
    removed = Leftovers(folder).listed.intersection(OUTPUTS)
    results = {os.path.realpath(folder / name) for name in ("run.json", *removed)}
    results |= {os.path.realpath(folder / name) for name in _OUTPUTS_OF[command]}
    named = (options.get(name) for name in _FILE_OPTIONS)
    for path in (*sources, *(split_key(str(name))[0] for name in named if name is not None)):
        if os.path.realpath(path) in results:
            raise InputError(
                f"`{path}` is a file of this run that its results would replace. Choose another "
                f"`--output`, or rename the file."
            )


class Leftovers:
    """The files that an earlier run wrote into a folder, to be removed unless they are replaced.

    Otherwise the report or the proof of the earlier run would stand next to other labels. Only
    files that the record of the earlier run lists are removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     write_text(folder / "report.html", "of three clusters")
    ...     write_json(folder / "run.json", {"files": ["labels.csv", "report.html"]})
    ...     earlier = Leftovers(folder)
    ...     write_text(folder / "labels.csv", "of four clusters")
    ...     earlier.replaced_by(folder)
    (['labels.csv'], ['report.html'])
    """

    def __init__(self, folder: Path) -> None:
        self.stamps = _stamps(folder)
        self.listed: set[str] = set()
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            # At the name there may be anything, also a pipe, which would never end.
            if (file := folder / "run.json").is_file() and file.stat().st_size <= _MOST_RECORD:
                self.listed = set(json.loads(file.read_text(encoding="utf-8"))["files"])

    def replaced_by(self, folder: Path) -> tuple[list[str], list[str]]:
        """Return the files written since then, and the earlier files, which are removed."""
        now = _stamps(folder)
        written = [name for name in OUTPUTS if name in now and now[name] != self.stamps.get(name)]
        gone = [name for name in OUTPUTS if name in self.listed & now.keys() - set(written)]
        for name in gone:
            (folder / name).unlink()
        return written, gone


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what changes if an output file is written again."""
    found = {name: folder / name for name in OUTPUTS if (folder / name).is_file()}
    stats = {name: path.stat() for name, path in found.items()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def _remove_empty(folders: Iterable[Path]) -> None:
    with suppress(OSError):  # stop at the first folder that is not empty or does not exist
        for folder in folders:
            folder.rmdir()


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8 atomically; lone surrogates become question marks."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a record as a JSON file, followed by a newline."""
    write_text(path, to_json(record) + "\n")


def to_json(record: dict[str, Any]) -> str:
    """Convert the record to strict JSON; numbers that are not finite become null."""
    return json.dumps(plain(record), indent=2, allow_nan=False)


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]], *, is_safe: bool = False
) -> None:
    """Write a table; cells with separators, quotes or line breaks of any kind are quoted.

    ``is_safe`` keeps spreadsheets from running names as formulas, see `without_formula`.
    """
    text = _UnixLines()
    # The writer quotes cells that contain a character of its line terminator: both CR and LF.
    writer = csv.writer(text, lineterminator="\r\n")
    tame = without_formula if is_safe else lambda cell: cell
    writer.writerow([tame(name) for name in header])
    writer.writerows([tame(cell) for cell in row] for row in rows)
    write_text(path, text.getvalue())


def without_formula(cell: Any) -> Any:
    """Put an apostrophe before a cell that a spreadsheet would run as a formula.

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
    """Collect rows written one at a time, and replace their final CR LF by LF."""

    def __init__(self) -> None:
        super().__init__(newline="")

    def write(self, row: str) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def write_npz(path: Path, **arrays: Any) -> None:
    """Write named arrays to a compressed npz file atomically."""
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))


def plain(value: Any) -> Any:
    """Convert to lists, dictionaries, numbers and text; values that are not finite become None."""
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
