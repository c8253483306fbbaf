"""Downloading a real data set: the public file, its checksum, our format."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus.core.checks import check_choice
from orthoplus.core.errors import FileError, InputError
from orthoplus.datasets.real import Source, find_folder, sources
from orthoplus.io.matlab import read_mat

BASE = "https://raw.githubusercontent.com"
_TIMEOUT = 30.0
_CHUNK = 1 << 16

Opener = Callable[[str], IO[bytes]]


class FetchError(InputError):
    """A set that could not be had; the message says why, and what to do.

    Examples
    --------
    >>> issubclass(FetchError, InputError)
    True
    """


def fetch(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    base: str = BASE,
    open_url: Opener | None = None,
) -> Path:
    """Download a set, check it, convert it; the path of its ``.npz``.

    Parameters
    ----------
    name : str
        One of `sources`.
    folder : path, optional
        Where to put it; by default as in `find_folder`. A set that is there already is left alone.
    base : str
        What comes before ``repository/commit/path`` in the address: another server, or a folder as
        ``file:///...``, with the same files.
    open_url : callable, optional
        ``open_url(address)`` gives the file to read from; by default `urllib.request.urlopen`.

    Raises
    ------
    FetchError
        If there is no public file, no connection, or another file than the one that is known.

    Notes
    -----
    Every file is written under a temporary name and renamed when it is complete. Nothing of what
    comes is run: the reader of MATLAB files takes arrays of numbers only.

    Examples
    --------
    >>> fetch("UrbanCrop", "nowhere")
    Traceback (most recent call last):
    orthoplus.datasets.download.FetchError: UrbanCrop cannot be downloaded: it was made from ...
    """
    check_choice(name, "name", tuple(sources()))
    source = sources()[name]
    target = find_folder(folder) / f"{name}.npz"
    if target.is_file():
        return target
    if not source.is_public_file:
        raise FetchError(
            f"{name} cannot be downloaded: it was made from {source.origin}. Put `{name}.npz` into "
            f"{target.parent} yourself."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as aside:
        raw = Path(aside) / "raw.mat"
        _download(source, address_of(source, base), raw, open_url or _open)
        arrays = convert(source, raw)
        complete = Path(aside) / target.name
        np.savez_compressed(complete, **arrays)
        os.replace(complete, target)
    return target


def address_of(source: Source, base: str = BASE) -> str:
    """The address of the public file of a set."""
    return f"{base.rstrip('/')}/{source.repository}/{source.commit}/{quote(source.path or '')}"


def convert(source: Source, path: Path) -> dict[str, Any]:
    """The arrays of our format from the public file; `FetchError` unless of the known size."""
    try:
        catalogue = read_mat(path)
        found = {key: entry.load().values for key, entry in catalogue.items() if entry.is_numeric}
        arrays = _LAYOUTS[source.layout](source, found)
    except (KeyError, FileError) as error:
        raise FetchError(
            f"The file of {source.name} cannot be used: {error}. Its arrays are not the known ones."
        ) from None
    shape = tuple(arrays["shape"].tolist()) if "shape" in arrays else arrays["A"].shape
    if shape != source.shape:
        raise FetchError(f"{source.name} became {shape}, but it is known to be {source.shape}.")
    return arrays


def _open(address: str) -> IO[bytes]:
    from urllib.request import urlopen

    return urlopen(address, timeout=_TIMEOUT)


def _download(source: Source, address: str, path: Path, open_url: Opener) -> None:
    """Into a file; no more bytes than are known to come, and the known checksum."""
    digest, left = hashlib.sha256(), int(source.bytes or 0)
    try:
        with open_url(address) as stream, open(path, "wb") as file:
            while chunk := stream.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                file.write(chunk)
    except (OSError, ValueError) as error:  # of urllib: no connection, a timeout, no address
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"{source.name} could not be downloaded from {address}: {reason}. Without internet, "
            f"download it elsewhere and give a folder of that layout by `--base file:///...`."
        ) from None
    if left != 0 or digest.hexdigest() != source.sha256:
        raise FetchError(
            f"{address} is not the known file of {source.name}: size or SHA-256 differ from "
            f"{source.bytes} bytes, {source.sha256}. Nothing was kept."
        )


def _from_documents(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    counts, labels = csr_array(found["A"]), np.ravel(found["true_ans"])
    if counts.shape[0] != len(labels):
        counts = csr_array(counts.T)
    counts = counts[:, np.flatnonzero(counts.count_nonzero(axis=0))]
    counts.sort_indices()
    return {
        "data": counts.data,
        "indices": counts.indices.astype(np.int32),
        "indptr": counts.indptr,
        "shape": np.array(counts.shape),
        "labels": labels,
    }


def _from_images(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    return {"A": _dense(found["fea"]), "labels": np.ravel(found["gnd"])}


def _from_features(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    return {"A": _dense(found["U"]), "labels": np.ravel(found["gnd"])}


def _from_scene(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    """Bands x pixels, pixels down the columns of the image, to pixels x bands along its rows."""
    height, width = source.image_shape or (0, 0)

    def by_rows(values: Any) -> Any:
        pixels = _dense(values).T.astype(np.float64)
        return pixels.reshape(width, height, -1).transpose(1, 0, 2).reshape(height * width, -1)

    return {
        "A": np.maximum(by_rows(found["Y"]), 0.0),
        "endmembers": _dense(found["M"]).T.astype(np.float64),
        "abundances": by_rows(found["A"]),
        "image_shape": np.array((height, width)),
        "scale": np.array(1.0),
        "endmember_names": np.array(source.endmember_names),
    }


def _dense(values: Any) -> Any:
    return values.toarray() if issparse(values) else np.asarray(values)


_LAYOUTS: dict[str, Callable[[Source, dict[str, Any]], dict[str, Any]]] = {
    "documents": _from_documents,
    "images": _from_images,
    "features": _from_features,
    "scene": _from_scene,
}
