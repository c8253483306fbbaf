"""A file appears under its name only when it is complete."""

import os

import pytest

from orthoplus.core.atomic import write_atomically


def test_file_is_left_as_it_was_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_longest_name_and_text_path_are_written(tmp_path):
    path = tmp_path / ("x" * 251 + ".txt")
    write_atomically(str(path), lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == [path.name]


def test_full_disk_and_absent_folder_name_the_file(tmp_path):
    def full(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "a.txt", full)
    assert str(caught.value) == f"[Errno 28] No space left on device: '{tmp_path / 'a.txt'}'"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "b" / "a.txt", full)
    assert caught.value.filename == str(tmp_path / "b" / "a.txt")
    assert os.listdir(tmp_path) == []
