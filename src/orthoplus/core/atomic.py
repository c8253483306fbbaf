"""Atomic writes: a file appears under its name only after it is complete."""

import errno
import hashlib
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

# Linux lists the open files of a process here; an unnamed file is linked to a name through it.
_OPEN_FILES = "/proc/self/fd"


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Write a binary file under a temporary name or none, then rename it to ``path``.

    If ``write`` raises, an existing file stays unchanged and no temporary file is left behind. On
    Linux this also holds if the process is killed, except in the instant between naming a complete
    file that replaces another and renaming it; the next write to ``path`` removes what is left. An
    `OSError` without a file name, such as the one for a full disk, is raised again with ``path`` as
    its file name.

    As with `open`, the file that a symbolic link points to is written, and the permissions of an
    existing file are kept. Devices and pipes are refused: renaming would replace ``/dev/null``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), lambda file: file.write(b"whole"))
    ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    target = Path(os.path.realpath(path) if os.path.islink(path) else path)
    mode = _existing_mode(target)
    aside = target.with_name(f"{_prefix_aside(target)}{uuid.uuid4().hex}.part")
    try:
        with _file_to_be(aside, target) as file:
            write(file)
            if mode is not None:
                os.chmod(file.fileno() if os.chmod in os.supports_fd else aside, mode)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(aside)):
            raise
        raise OSError(error.errno, error.strerror, str(Path(path))) from error
    finally:
        aside.unlink(missing_ok=True)


def _existing_mode(target: Path) -> int | None:
    """Return the permissions of an existing file; raise `OSError` for a device or a pipe."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is a device or a pipe, not a file", str(target))
    return stat.S_IMODE(mode)


def path_of(file: IO[bytes]) -> str:
    """Return a path to an open file of `write_atomically`, for libraries that only take paths."""
    return file.name if isinstance(file.name, str) else f"{_OPEN_FILES}/{file.fileno()}"


@contextmanager
def _file_to_be(aside: Path, target: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write that is found at ``target`` after the block.

    If the file system allows it, the file has no name until then, so that it disappears with its
    process; otherwise its name is ``aside``.
    """
    nameless = _open_nameless(aside.parent)
    with nameless or open(aside, "wb") as file:
        yield file
        _flush(file)
        if nameless is not None:
            _name_file(file, aside, target)
    if nameless is None:
        os.replace(aside, target)


def _prefix_aside(target: Path) -> str:
    """Return the first part of temporary names for this target.

    It has a fixed length, because a long name plus a suffix may be too long.
    """
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _name_file(file: IO[bytes], aside: Path, target: Path) -> None:
    """Give a complete file without a name the name ``target``, and replace an existing file.

    The system can only link such a file to a new name, which is then renamed.
    """
    folder = os.open(_OPEN_FILES, os.O_RDONLY)
    try:
        with suppress(FileExistsError):  # also if another process was faster
            os.link(str(file.fileno()), target, src_dir_fd=folder, follow_symlinks=True)
            return
        _remove_strays(target)
        os.link(str(file.fileno()), aside, src_dir_fd=folder, follow_symlinks=True)
        os.replace(aside, target)
    finally:
        os.close(folder)


def _remove_strays(target: Path) -> None:
    """Remove files of processes that were killed between naming and renaming them."""
    import fcntl  # only on systems that have files without a name

    for stray in target.parent.glob(f"{_prefix_aside(target)}*.part"):
        # A living process has a lock on its file.
        with suppress(OSError), open(stray, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stray.unlink()


def _flush(file: IO[bytes]) -> None:
    """Flush a file to the disk, so that a power cut cannot leave a truncated file at the name."""
    file.flush()
    os.fsync(file.fileno())


def _open_nameless(folder: Path) -> IO[bytes] | None:
    """Return an unnamed file in this folder, or None if the file system does not support it."""
    if not hasattr(os, "O_TMPFILE") or not os.access(_OPEN_FILES, os.R_OK):
        return None
    try:
        file = os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "wb")
    except OSError:  # not supported; any other reason is reported when the named file is opened
        return None
    import fcntl

    with suppress(OSError):  # without locks, files of killed processes are not removed
        fcntl.flock(file, fcntl.LOCK_EX)
    return file
