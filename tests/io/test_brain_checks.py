"""Brain images that lie about their size or lead to other files are refused before reading."""

import base64
import gzip
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from orthoplus.adapters.brain_images import load_surface, read_volumes
from orthoplus.io import FileError
from orthoplus.io.brain_checks import check_surface, open_volume

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("nilearn")
VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)


def write_volume(path):
    nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4)), path)
    return path


def header_with(path, form, place, value):
    """Overwrite a number of the header, also in a compressed file."""
    is_packed = path.suffix in (".gz", ".mgz")
    raw = bytearray(gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes())
    struct.pack_into(form, raw, place, value)
    path.write_bytes(gzip.compress(bytes(raw)) if is_packed else raw)
    return path


def write_surface(path, **changed):
    """Write an array of six numbers, with changes of its attributes and of its data."""
    array = nibabel.gifti.GiftiDataArray(np.arange(6, dtype=np.float32))
    text = nibabel.gifti.GiftiImage(darrays=[array]).to_bytes().decode()
    for name, value in changed.items():
        old = text[text.index(f"{name}=") :].split('"')[1]
        text = text.replace(f'{name}="{old}"', f'{name}="{value}"')
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.mgz"])
def test_intact_volume_is_opened(tmp_path, name):
    if name == "a.mgz":
        nibabel.save(nibabel.MGHImage(VALUES, np.eye(4)), tmp_path / name)
    else:
        write_volume(tmp_path / name)
    np.testing.assert_array_equal(open_volume(tmp_path / name).dataobj, VALUES)
    whole = [np.asarray(part.dataobj) for part in read_volumes(str(tmp_path / name), 1)]
    np.testing.assert_array_equal(np.concatenate(whole, axis=3), VALUES)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("<h", 42), 32767, "declares an (array|image) of"),
        (("<h", 42), -3, "all lengths must be positive|cannot be read as an image"),
        (("<f", 108), 1e9, "declares a header of 1e.09 bytes"),
        (("<f", 108), float("nan"), "declares a header of nan bytes"),
        (("<f", 108), -352.0, "declares a header of -352 bytes"),
        (("<h", 70), 999, "cannot be read as an image .*999"),
    ],
)
def test_header_that_lies_is_refused(tmp_path, capfd, name, place, value, words):
    path = header_with(write_volume(tmp_path / name), *place, value)
    if value == 32767:  # and a second length
        header_with(path, "<h", 44, value)
    with pytest.raises(FileError, match=words) as refusal:
        open_volume(path)
    assert name in str(refusal.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["a.mgh", "a.mgz"])
def test_lengths_of_mgh_are_compared_with_the_memory(tmp_path, name):
    nibabel.save(nibabel.MGHImage(VALUES, np.eye(4)), tmp_path / name)
    path = header_with(tmp_path / name, ">i", 4, 2_000_000_000)
    with pytest.raises(FileError, match="GB of data, more than the limit"):
        open_volume(path)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_truncated_data_are_refused_with_the_name_of_the_file(tmp_path, name):
    path = write_volume(tmp_path / name)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match=name):
        list(read_volumes(path, 1 << 20))


@pytest.mark.parametrize("name", ["a.hdr", "a.mnc", "a.txt", "pipe.nii", "folder.nii"])
def test_other_files_are_not_opened_as_volumes(tmp_path, name):
    path = tmp_path / name
    make_pipe = getattr(os, "mkfifo", Path.touch)
    {"pipe.nii": make_pipe, "folder.nii": Path.mkdir}.get(name, Path.touch)(path)
    with pytest.raises(FileError, match=name):
        open_volume(path)


@pytest.mark.parametrize("is_absolute", [True, False])
def test_array_in_another_file_is_refused(tmp_path, is_absolute):
    secret = tmp_path / "secret.raw"
    secret.write_bytes(np.full(6, 77777.0, dtype=np.float32).tobytes())
    name = str(secret) if is_absolute else secret.name
    changed = {"Encoding": "ExternalFileBinary", "ExternalFileName": name}
    path = write_surface(tmp_path / "hemi-L.gii", **changed)
    # This is what nibabel itself reads from such a file.
    assert nibabel.load(path).darrays[0].data.tolist() == [77777.0] * 6
    for read in (check_surface, load_surface):
        with pytest.raises(FileError, match="array 1 is stored in another file"):
            read(path)
    with pytest.raises(FileError, match="array 1 is stored in another file"):
        load_surface(write_surface(tmp_path / "a.gii"), mesh={"left": path})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"Dim0": 10**12}, "GB of data, more than the limit"),
        ({"Dim0": -1}, "all lengths must be positive"),
        ({"Dim0": 1}, "array 1 holds more than its 1 numbers"),
        ({"Dim0": "x"}, "invalid literal"),
    ],
)
def test_declared_length_of_an_array_is_checked(tmp_path, changed, words):
    with pytest.raises(FileError, match=words):
        check_surface(write_surface(tmp_path / "a.gii", **changed))


def test_array_that_unpacks_to_far_more_is_refused(tmp_path):
    path = write_surface(tmp_path / "a.gii")
    text = path.read_text()
    old = text[text.index("<Data>") : text.index("</Data>")]
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    path.write_text(text.replace(old, f"<Data>{bomb}"))
    with pytest.raises(FileError, match="array 1 holds more than its 6 numbers"):
        check_surface(path)


def test_entities_and_broken_text_are_refused(tmp_path):
    path = write_surface(tmp_path / "a.gii")
    text = path.read_text()
    path.write_text(text.replace('.dtd">', '.dtd" [<!ENTITY e "eee">]>'))
    with pytest.raises(FileError, match="declares XML entities"):
        check_surface(path)
    path.write_text(text[:-9])
    with pytest.raises(FileError, match=r"a.gii` cannot be read as an image \(unclosed token"):
        load_surface(path)


@pytest.mark.parametrize("name", ["a.gii", "a.gii.gz"])
def test_intact_surface_is_read(tmp_path, name):
    path = write_surface(tmp_path / "a.gii")
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    check_surface(tmp_path / name)
    assert load_surface(tmp_path / "a.gii").data.parts["left"].ravel().tolist() == [*range(6)]
