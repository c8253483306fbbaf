"""Tables with long cells or many columns, strange paths, and sizes hidden in the type."""

import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import orthoplus as op
from orthoplus.io import FileError, column_shapes, dialect, guard, read_matrix, split_key

LONG = 100_000  # a cell may have up to 131,072 characters


@pytest.mark.parametrize("cell", ["1" * LONG + "x", "1." * LONG, "-" * LONG, "1e" + "9" * LONG])
def test_long_cell_takes_linear_time(cell):
    # A quadratic expression takes minutes for each of these.
    assert [dialect.is_number(cell, sign) for sign in ".,"].count(True) in (0, 2)
    assert isinstance(dialect.has_marks(cell), bool)


@pytest.mark.parametrize("name", ["time_" * LONG + "\n", "wellenl_" * LONG + "-", "_id" * LONG])
def test_long_name_of_a_column_has_no_meaning(name):
    assert not column_shapes.names_identifiers(name)
    assert not column_shapes.names_classes(name)
    assert not column_shapes.is_axis(np.arange(4.0) ** 2, name, is_first=False)


def test_many_columns_of_one_name_take_linear_time(tmp_path):
    n = 30_000  # every name was counted in all others: 10^9 comparisons
    header = ["twice", "twice", *(f"c{j}" for j in range(n - 2))]
    rows = np.random.default_rng(0).integers(2, 9, size=(3, n))
    text = "\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "wide.csv").write_text(text)
    content = read_matrix(tmp_path / "wide.csv")
    assert content.values.shape == (3, n)
    assert "Several columns have the same name: twice." in content.notes


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "loop.csv", "pipe.csv", "bad\0name.csv"])
def test_strange_path_is_refused(tmp_path, name):
    if name == "loop.csv":
        os.symlink("loop.csv", tmp_path / name)
    if name == "pipe.csv":
        os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match=re.escape(name)):
        read_matrix(tmp_path / name)
    assert split_key(f"{tmp_path / name}:key")[1] == "key"


def write_sparse(path, **changed):
    parts = {"data": np.ones(3), "indices": np.zeros(3, int), "indptr": np.array([0, 3])}
    np.savez_compressed(path, **parts | {"shape": np.array([1, 1])} | changed)


@pytest.mark.parametrize(
    "changed",
    [{"format": np.zeros(10**7, "S1")}, {"data": np.zeros(3, "V4000000")}],
    ids=["format", "data"],
)
def test_size_of_a_sparse_part_is_that_of_its_type(tmp_path, monkeypatch, changed):
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "1MB")
    write_sparse(tmp_path / "a.npz", **changed)
    loaded = []
    monkeypatch.setattr("orthoplus.io.numpy_files._load_member", lambda *a: loaded.append(a))
    with pytest.raises(FileError, match=r"a\.npz"):
        read_matrix(tmp_path / "a.npz")
    assert not loaded


def test_size_of_a_compound_type_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "1MB")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = [1, 1]
        wide = {"dtype": [("a", "V400000")], "chunks": (1,), "compression": "gzip"}
        group.create_dataset("data", shape=(10,), **wide)
        group["indices"], group["indptr"] = np.zeros(10, int), np.array([0, 10])
    with pytest.raises(FileError, match=r"declares 0\.004 GB of data, more than the limit"):
        read_matrix(tmp_path / "a.h5")


@pytest.mark.parametrize(("text", "n_bytes"), [("2GB", 2 * 10**9), ("1000", 1000), (" ", None)])
def test_limit_of_the_environment_is_read(monkeypatch, text, n_bytes):
    monkeypatch.delenv("ORTHOPLUS_MAX_BYTES", raising=False)
    default = guard.memory_limit()
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", text)
    assert guard.memory_limit() == (n_bytes or default)


@pytest.mark.parametrize("text", ["²", "much", "-5", "0"])
def test_limit_of_the_environment_that_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", text)
    with pytest.raises(op.InputError, match="ORTHOPLUS_MAX_BYTES is"):
        guard.memory_limit()


@pytest.mark.parametrize(("text", "share"), [("1000000\n", True), ("max\n", False), (None, False)])
def test_memory_of_a_container_counts(tmp_path, monkeypatch, text, share):
    monkeypatch.delenv("ORTHOPLUS_MAX_BYTES", raising=False)
    limit = tmp_path / "memory.max"
    if text is not None:
        limit.write_text(text)
    monkeypatch.setattr(guard, "_CONTAINER_LIMITS", (limit, Path("nowhere")))
    assert (guard.memory_limit() == 500_000) is share
