"""Check brain images before nibabel and nilearn read them: types, declared sizes, other files.

A header is a few hundred bytes, but it decides how much nibabel reads and unpacks. GIFTI is XML,
whose arrays may be compressed, or stored in any other file.
"""

import base64
import gzip
import logging
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, NoReturn
from xml.parsers import expat

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.io import guard
from orthoplus.io.brain_files import is_surface_file
from orthoplus.io.table_text import open_bytes

VOLUMES = (".nii", ".nii.gz", ".mgz", ".mgh")
# The header of a NIfTI file may be followed by this many bytes of other information.
_MOST_EXTENSIONS = 1 << 24
# Length of the longest header, and how headers start: with their length, or a version of MGH.
_HEADER, _NIFTI_1, _NIFTI_2 = 540, 348, 540
# Ratio by which zlib can compress at most, and the bytes of the largest number in a GIFTI file.
_MOST_UNPACKED, _WIDEST = 1032, 8
_BLOCK = 1 << 20
_IS_SILENT: ContextVar[bool] = ContextVar("_IS_SILENT", default=False)


def open_volume(path: str | Path) -> Any:
    """Open an image file with nibabel after checking its header; the data are not read.

    Raise `FileError` if the file is not a NIfTI or MGH file, is truncated, or declares more data
    than fit into memory.
    """
    nibabel = require("nibabel", "Reading an image", extra="brain")
    path = Path(path).expanduser()
    guard.check_regular(path)
    if not path.name.lower().endswith(VOLUMES):
        raise FileError(
            f"`{path}` is not a file of type {', '.join(VOLUMES)}; convert it to one of these, or "
            f"pass the image that nibabel loads."
        )
    try:
        _check_start(path)
        with _without_messages(nibabel.imageglobals.logger):
            image = nibabel.load(path, keep_file_open=True)
        _check_declared(path, image)
    except Exception as error:  # nibabel has many exception classes
        refuse_image(path, error)
    return image


@contextmanager
def _without_messages(logger: logging.Logger) -> Iterator[None]:
    """Keep nibabel from printing what it also raises, in this thread."""
    logger.addFilter(_is_printed)  # the same filter is added only once
    token = _IS_SILENT.set(True)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)


def _is_printed(_: logging.LogRecord) -> bool:
    return not _IS_SILENT.get()


def refuse_image(path: str | Path, error: Exception) -> NoReturn:
    """Raise `FileError` for an exception that reading an image caused."""
    if isinstance(error, FileError):
        raise error
    if isinstance(error, PermissionError):
        raise FileError(f"`{path}` cannot be read: permission denied.") from None
    if isinstance(error, MemoryError):
        raise FileError(f"`{path}` does not fit into memory.") from None
    reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
    raise FileError(
        f"`{path}` cannot be read as an image ({reason}): it is damaged or of another type."
    ) from error


def _check_start(path: Path) -> None:
    """Refuse a header after which nibabel would read or unpack far too much."""
    is_packed = path.suffix.lower() in (".gz", ".mgz")
    with gzip.open(path, "rb") if is_packed else open(path, "rb") as file:
        start = file.read(_HEADER)
    if path.suffix.lower() in (".mgz", ".mgh"):
        if len(start) >= 20:
            guard.check_size(path, struct.unpack_from(">4i", start, 4), np.float32)
        return
    for order in "<>":
        length = struct.unpack_from(f"{order}i", start.ljust(_HEADER, b"\0"))[0]
        if length == _NIFTI_1 and len(start) >= _NIFTI_1:
            offset = struct.unpack_from(f"{order}f", start, 108)[0]
        elif length == _NIFTI_2 and len(start) >= _NIFTI_2:
            offset = struct.unpack_from(f"{order}q", start, 168)[0]
        else:
            continue
        if not 0 <= offset <= _MOST_EXTENSIONS:
            raise FileError(
                f"`{path}` declares a header of {offset:.4g} bytes; at most {_MOST_EXTENSIONS} are "
                f"supported. The file is damaged."
            )


def _check_declared(path: Path, image: Any) -> None:
    """Compare the declared size of the data with the file, and of one volume with the memory."""
    shape, dtype = tuple(map(int, image.shape)), image.get_data_dtype()
    _check_lengths(path, shape)
    guard.check_size(path, shape[:3], dtype)
    n_bytes, size = math.prod(shape) * dtype.itemsize, path.stat().st_size
    is_packed = path.suffix.lower() in (".gz", ".mgz")
    rest = size - (0 if is_packed else int(image.dataobj.offset))
    if n_bytes > rest * (_MOST_UNPACKED if is_packed else 1):
        raise FileError(
            f"`{path}` declares an image of {n_bytes} bytes, but has only {rest} "
            f"{'compressed bytes' if is_packed else 'bytes after its header'}: it is truncated or "
            f"damaged."
        )


def _check_lengths(path: Path, shape: Sequence[int]) -> None:
    if min(shape, default=1) < 1:
        raise FileError(
            f"`{path}` declares an array of shape {tuple(shape)}; all lengths must be positive."
        )


def check_surface(path: str | Path) -> None:
    """Refuse data on a surface that are in other files, or that would take too much memory."""
    path = Path(path).expanduser()
    if path.name.lower().endswith(VOLUMES):
        open_volume(path)
        return
    guard.check_regular(path)
    if is_surface_file(path):
        _GiftiCheck(path).run()


class _GiftiCheck:
    """Parse a GIFTI file and look at the attributes and the length of each array."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = self.n_arrays = self.n_numbers = 0
        self.is_packed = False  # whether the data of the current array are compressed
        self.data: list[str] | None = None  # its text, inside of <Data>

    def run(self) -> None:
        """Raise `FileError` if the file cannot be read safely."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.EntityDeclHandler = self.entity
        try:
            with open_bytes(self.path) as file:
                self._parse(parser, file)
        except FileError:
            raise
        except Exception as error:
            refuse_image(self.path, error)

    def _parse(self, parser: Any, file: IO[bytes]) -> None:
        while block := file.read(_BLOCK):
            self.n_bytes += len(block)
            guard.check_size(self.path, (self.n_bytes,), np.uint8)
            parser.Parse(block)
        parser.Parse(b"", True)

    def entity(self, *_: Any) -> None:
        """Refuse entities, which can make a short text long or include other files."""
        raise FileError(f"`{self.path}` declares XML entities, which GIFTI files do not have.")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Check the attributes of an array."""
        self.data = [] if name == "Data" else None
        if name != "DataArray":
            return
        self.n_arrays += 1
        guard.check_members(self.path, self.n_arrays)
        if attributes.get("ExternalFileName") or attributes.get("Encoding", "").startswith("Ext"):
            raise FileError(
                f"`{self.path}`: array {self.n_arrays} is stored in another file, which is not "
                f"read. Save it in one file, for example with `wb_command -gifti-convert`."
            )
        lengths = [int(attributes.get(f"Dim{i}", 1)) for i in range(8)]
        _check_lengths(self.path, lengths)
        guard.check_size(self.path, tuple(lengths))
        self.n_numbers = math.prod(lengths)
        self.is_packed = attributes.get("Encoding", "").startswith("GZip")

    def text(self, text: str) -> None:
        """Collect the text of an array that has to be unpacked."""
        if self.data is not None and self.is_packed:
            self.data.append(text)

    def end(self, name: str) -> None:
        """Check that an array does not unpack to more numbers than it declares."""
        if name == "Data" and self.is_packed and self.data is not None:
            raw = base64.b64decode("".join(self.data))
            most = _WIDEST * self.n_numbers
            if len(zlib.decompressobj().decompress(raw, most + 1)) > most:
                raise FileError(
                    f"`{self.path}`: array {self.n_arrays} holds more than its "
                    f"{self.n_numbers} numbers. The file is damaged."
                )
        self.data = None
