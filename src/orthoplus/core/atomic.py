"""Files that appear under their name only when they are complete."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a binary file beside ``path``, then rename it.

    If ``write`` raises, a file that was there before is left as it was, and nothing else is left.
    An `OSError` without a file name, such as that of a full disk, gets this one.

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
        with open(aside, "wb") as file:
            write(file)
        os.replace(aside, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(aside)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        aside.unlink(missing_ok=True)
