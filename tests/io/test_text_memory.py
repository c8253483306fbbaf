"""Text takes memory in proportion to the file, however long one word or one line is."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from formats import write_h5

from orthoplus.cli.cluster import find_truth
from orthoplus.io import FileError, guard, read_labels, read_matrix, table_text
from orthoplus.io.content import Content, text_array

SHORT, LONG = 3000, 30_000
SOURCE = Path(guard.__file__).parents[2]


@pytest.mark.parametrize("words", [[], ["a", "bcd"], ["a"] * 10_000, ["x" * 100_000, "y"]])
def test_usual_words_have_a_fixed_width(words):
    found = text_array(words)
    assert found.dtype.kind == "U"
    assert found.tolist() == words


def read_long_label(path):
    """Write short labels and a very long one, and read them."""
    words = [*"ab" * SHORT, "c" * LONG]
    if path.suffix == ".h5ad":
        write_h5(path)
        with h5py.File(path, "r+") as file:
            file["obs/words"] = np.array(words, dtype=object)
            group = file.create_group("obs/class")
            group["codes"] = np.array([*[0, 1] * SHORT, 2], dtype=np.int8)
            group["categories"] = np.array(["a", "b", "c" * LONG], dtype=object)
        return words, [read_labels(path, key).values for key in ("obs/words", "obs/class")]
    path.write_text("\n".join(words))
    return words, [read_labels(path).values]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.h5ad"])
def test_one_long_label_does_not_widen_all(tmp_path, name):
    words, arrays = read_long_label(tmp_path / name)
    for found in arrays:
        assert found.tolist() == words
        assert found.nbytes <= 16 * len(words)
        assert find_truth(Content(np.ones((1, 1)), labels=tuple(words)), None).names[:2] == (
            "a",
            "b",
        )


def test_column_of_classes_with_a_long_word_is_compared(tmp_path):
    names = ["a", "b"] * SHORT
    labels = tuple([*names, "c" * LONG])
    truth = find_truth(Content(np.ones((len(labels), 2)), labels=labels), None)
    assert truth.names == ("a", "b", "c" * LONG)
    assert truth.codes.tolist() == [*[0, 1] * SHORT, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")
def test_long_lines_take_memory_in_proportion(tmp_path):
    """In a process of its own; an expression that can go back took 130 bytes per character."""
    (tmp_path / "open.csv").write_text('"' + "a" * 5_000_000 + "\n" + "1,2\n" * 10)
    (tmp_path / "quotes.csv").write_text('"' * 3_000_001 + "\n1,2\n")
    (tmp_path / "cells.csv").write_text("12," * 2_000_000 + "\n")
    (tmp_path / "lines.txt").write_text("12\n" * 2_000_000)
    (tmp_path / "blanks.csv").write_text("12 " * 3_000_000 + "\n")
    (tmp_path / "quoted blanks.csv").write_text('"a" ' * 3_000_000 + "\n")
    (tmp_path / "quoted ends.csv").write_text('"\n",' * 2_000_000 + "\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from orthoplus.io import FileError, read_labels, read_matrix\n"
        "def peak():\n"
        "    line = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "    return int(line.split()[1]) // 1024\n"
        "before = peak()\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try: (read_labels if path.suffix == '.txt' else read_matrix)(path)\n"
        "    except FileError: print('refused')\n"
        "print(peak() - before)\n"
    )
    own = {"PYTHONPATH": str(SOURCE), "ORTHOPLUS_MAX_BYTES": str(1 << 26)}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env=os.environ | own, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *errors, megabytes = done.stdout.split()
    assert errors == ["refused"] * 7
    assert int(megabytes) <= 128  # twice the limit


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.txt", "word\n" * 2000),
        ("names.csv", "name,a\n" + "ab,1\n" * 5000),
        ("wide.csv", "1," * 70_000 + "1\n"),
        ("wide.tsv", "1\t" * 70_000 + "1\n"),
        ("wide blanks.csv", "1 " * 70_000 + "1\n"),
        ("wide quotes.csv", '"\n",' * 70_000 + "1\n"),
    ],
)
def test_more_cells_of_text_than_memory_are_refused(tmp_path, monkeypatch, name, text):
    (tmp_path / name).write_text(text)
    read = read_labels if name == "labels.txt" else read_matrix
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "150000" if "wide" not in name else "2000000")
    with pytest.raises(FileError, match=f"{name}` has more than .* cells that are kept as text"):
        read(tmp_path / name)


def test_cell_between_blanks_has_the_longest_length_of_others(tmp_path):
    (tmp_path / "long.txt").write_text("1 2\n" + "3" * 140_000 + " 4\n")
    with pytest.raises(FileError, match=r"long.txt`, after line 1: field larger than field limit"):
        read_matrix(tmp_path / "long.txt")


def test_few_rows_of_a_wide_table_are_inspected(tmp_path, monkeypatch):
    path, rows = tmp_path / "a.csv", np.random.default_rng(0).integers(9, size=(100, 4))
    np.savetxt(path, rows, "%g", delimiter=",")
    assert len(list(table_text.read_head(path, "utf-8", ","))) == 100
    monkeypatch.setattr(table_text, "_HEAD_CELLS", 200)
    assert len(list(table_text.read_head(path, "utf-8", ","))) == 50
    monkeypatch.setattr(table_text, "_HEAD_CELLS", 20)
    assert len(list(table_text.read_head(path, "utf-8", ","))) == 20
    np.testing.assert_array_equal(read_matrix(path).values, rows)


def test_words_stored_once_are_counted_as_often_as_they_occur(tmp_path, monkeypatch):
    """One long word, named by every row: a Parquet file of a few bytes."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    words = pyarrow.array(["w" * 10_000] * 2000).dictionary_encode()
    parquet.write_table(pyarrow.table({"a": np.ones(2000), "word": words.cast("string")}), path)
    assert path.stat().st_size < 100_000
    assert read_labels(path, "word").values.tolist() == ["w" * 10_000] * 2000
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "10000000")
    with pytest.raises(FileError, match=r"it declares 200.* bytes, 10000000 are allowed"):
        read_labels(path, "word")


def test_words_on_one_heap_are_counted_as_often_as_they_occur(tmp_path, monkeypatch):
    path, n = tmp_path / "heap.h5", 40
    with h5py.File(path, "w") as file:
        words = file.create_dataset("words", (n,), h5py.string_dtype(), chunks=(1,))
        words[0] = "x" * 1_000_000
        _, place, size = words.id.get_chunk_info(0)[1:]
    entry = path.read_bytes()[place : place + size]
    with h5py.File(path, "r+") as file:
        for i in range(1, n):
            file["words"].id.write_direct_chunk((i,), entry)
    assert len(read_labels(path, "words").values) == n
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "20000000")
    with pytest.raises(FileError, match="it exceeds the memory limit"):
        read_labels(path, "words")
