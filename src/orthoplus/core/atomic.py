"""Files that appear under their name only when they are complete."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

# Where Linux lists the open files of this process, by which a file without a name gets one.
_OPEN_FILES = "/proc/self/fd"


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a binary file that has another name or none, then rename it.

    If ``write`` raises, a file that was there before is left as it was, and nothing else is left;
    on Linux not even by a process that is killed. An `OSError` without a file name, such as that of
    a full disk, gets this one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), lambda file: file.write(b"whole"))
    ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    target = Path(path)
    aside = target.with_name(f".{uuid.uuid4().hex}.part")  # as short for a long name
    try:
        with _file_to_be(aside) as file:
            write(file)
        os.replace(aside, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(aside)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        aside.unlink(missing_ok=True)


def path_of(file: IO[bytes]) -> str:
    """Return a path to a file of `write_atomically`, for a library that opens files itself."""
    return file.name if isinstance(file.name, str) else f"{_OPEN_FILES}/{file.fileno()}"


@contextmanager
def _file_to_be(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write, which is at ``path`` after the block.

    Until then it has no name, if that is possible: such a file is gone with its process.
    """
    nameless = _open_nameless(path.parent)
    if nameless is None:
        with open(path, "wb") as file:
            yield file
            _flush(file)
        return
    with nameless as file:
        yield file
        _flush(file)
        folder = os.open(_OPEN_FILES, os.O_RDONLY)
        try:
            os.link(str(file.fileno()), path, src_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)


def _flush(file: IO[bytes]) -> None:
    """Bring a file to the disk: after a power cut the new name must not lead to half of it."""
    file.flush()
    os.fsync(file.fileno())


def _open_nameless(folder: Path) -> IO[bytes] | None:
    """Return a nameless file in this folder, or None if the file system has no such files."""
    if not hasattr(os, "O_TMPFILE") or not os.access(_OPEN_FILES, os.R_OK):
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "wb")
    except OSError:  # of a file system that cannot, or for a reason that a named file meets too
        return None
