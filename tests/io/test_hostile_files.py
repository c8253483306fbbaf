"""Files made to leave the file, to run forever or to fill the memory are refused at once."""

import os
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from formats import DENSE, write_csv, write_envi, write_h5

from orthoplus.core.errors import InputError
from orthoplus.io import FileError, guard, read_cube, read_labels, read_matrix, text_tables
from orthoplus.io.table_options import TableOptions
from orthoplus.io.trial import MOST_DEPTH, MOST_OBJECTS, walk

SOURCE = Path(guard.__file__).parents[2]


@pytest.fixture
def secret(tmp_path):
    """A file beside the others whose content must not be reached."""
    write_h5(tmp_path / "secret.h5", "csr")
    return "secret.h5"


LINKS = [lambda name, key: h5py.ExternalLink(name, key), lambda name, key: h5py.SoftLink(key)]


@pytest.mark.parametrize("link", LINKS, ids=["external", "soft"])
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_link_in_a_sparse_group_is_not_followed(tmp_path, secret, part, link):
    path = tmp_path / "a.h5"
    write_h5(path, "csr")
    with h5py.File(path, "r+") as file:
        file.move(f"X/{part}", "elsewhere")
        file[f"X/{part}"] = link(secret, f"X/{part}" if link is LINKS[0] else "/elsewhere")
    with pytest.raises(FileError, match=f"`{part}` does not exist, or is a soft or external link"):
        read_matrix(path, "X")


@pytest.mark.parametrize("name", ["obs", "obs/index", "var"])
def test_link_to_names_is_not_followed(tmp_path, secret, name):
    path = tmp_path / "a.h5ad"
    write_h5(path)
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = h5py.ExternalLink(secret, name)
    content = read_matrix(path)
    assert (content.row_names is None) == name.startswith("obs")
    assert (content.column_names is None) == (name == "var")


def test_index_named_by_a_path_over_a_link_is_not_followed(tmp_path, secret):
    path = tmp_path / "a.h5ad"
    write_h5(path)
    with h5py.File(path, "r+") as file:
        file["obs/door"] = h5py.ExternalLink(secret, "/obs")
        file["obs"].attrs["_index"] = "door/index"
    assert read_matrix(path).row_names is None


@pytest.mark.parametrize("part", ["codes", "categories"])
def test_link_in_a_category_is_not_followed(tmp_path, secret, part):
    path = tmp_path / "a.h5ad"
    write_h5(path)
    with h5py.File(path, "r+") as file:
        del file[f"obs/kind/{part}"]
        file[f"obs/kind/{part}"] = h5py.ExternalLink(secret, f"obs/kind/{part}")
    with pytest.raises(FileError, match="not followed"):
        read_labels(path, "obs/kind")


def test_virtual_and_external_data_in_a_sparse_group_are_refused(tmp_path, secret):
    path = tmp_path / "a.h5"
    write_h5(path, "csr")
    with h5py.File(path, "r+") as file:
        shape = file["X/data"].shape
        del file["X/data"]
        layout = h5py.VirtualLayout(shape, "f8")
        layout[:] = h5py.VirtualSource(tmp_path / secret, "X/data", shape)
        file["X"].create_virtual_dataset("data", layout)
    with pytest.raises(FileError, match="is stored in other files"):
        read_matrix(path, "X")
    with h5py.File(path, "w") as file:
        raw = [(str(tmp_path / secret), 0, 96)]
        file.create_dataset("X", DENSE.shape, "f8", external=raw)
    with pytest.raises(FileError, match="is stored in other files"):
        read_matrix(path, "X")


def test_circle_of_hard_links_ends(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        group["self"] = group
        group.create_group("b")["up"] = group
        group["root"] = file["/"]
        file["X"] = DENSE
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.h5").values, DENSE)


def test_too_many_objects_and_too_deep_groups_are_refused(tmp_path):
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file.create_group("/".join("g" * (MOST_DEPTH + 5)))
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        group = file
        for _ in range(20):  # two names for each group: a million paths
            below = group.create_group("a")
            group["b"] = below
            group = below
    expected = f"more than {MOST_OBJECTS} objects or {MOST_DEPTH} levels"
    for name in ("deep.h5", "wide.h5"):
        with pytest.raises(FileError, match=expected):
            read_matrix(tmp_path / name)
        with h5py.File(tmp_path / name) as file, pytest.raises(OverflowError):
            list(walk(file))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_trial_has_a_limit_of_memory(tmp_path, monkeypatch):
    """Many names for one long string on the heap: small in the file, large once read."""
    path = tmp_path / "heap.h5"
    with h5py.File(path, "w") as file:
        words = file.create_dataset("words", (3000,), h5py.string_dtype(), chunks=(1,))
        words[0] = "x" * 1_000_000
        _, place, size = words.id.get_chunk_info(0)[1:]
    raw = bytearray(path.read_bytes())
    entry = bytes(raw[place : place + size])
    with h5py.File(path, "r+") as file:
        for i in range(1, 3000):
            file["words"].id.write_direct_chunk((i,), entry)
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", str(1 << 27))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(FileError, match="cannot be read"):
        read_labels(path, "words")
    # A child counts the memory of this process until it runs its own program.
    most = max(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 800_000)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < most + 100_000


@pytest.mark.parametrize(
    "raw", [b"ENVI" + b"\n" * 500, b"ENVI\n" + b" " * 10**6, b"ENVI\na={" * 10**5]
)
def test_envi_header_of_blanks_is_read_in_linear_time(tmp_path, raw):
    """Otherwise the reading would not end: the squares of these lengths are 10^10 and more."""
    (tmp_path / "a.hdr").write_bytes(raw)
    with pytest.raises(FileError, match="does not say `lines`"):
        read_cube(tmp_path / "a.hdr")


def test_envi_comments_and_braces_are_read(tmp_path):
    write_envi(tmp_path / "s.hdr", extra="; bands = 9\nband names = {a,\n b, c,\n d}\nx = {1}\n")
    assert read_cube(tmp_path / "s.hdr").column_names == ("a", "b", "c", "d")


def long_header(length):
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b"{" + b" " * 100


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_long_header_takes_no_memory(tmp_path, name):
    length = 1_500_000_000
    if name == "a.npy":
        with open(tmp_path / name, "wb") as file:
            file.write(long_header(length))
            file.truncate(length + 100)
    else:
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", long_header(length) + bytes(10_000_000))
    code = (
        "import resource, sys; from pathlib import Path; from orthoplus.io import read_matrix\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_matrix(Path(sys.argv[1]))\n"
        "except ValueError as error: print(type(error).__name__)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / name],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["FileError", "True"]


@pytest.mark.parametrize("kind", ["dia", "coo", "csr"])
def test_sparse_parts_that_are_not_real_numbers_are_refused(tmp_path, kind):
    path = tmp_path / "s.npz"
    sp.save_npz(path, getattr(sp, f"{kind}_array")(DENSE))
    with np.load(path) as file:
        parts = dict(file)
    np.savez(path, **parts | {"data": parts["data"] * 1j})
    with pytest.raises(FileError, match="complex numbers"):
        read_matrix(path)
    np.savez(path, **parts | {"data": parts["data"].astype(np.longdouble)})
    assert read_matrix(path).values.dtype == np.float64
    name = {"dia": "offsets", "coo": "row", "csr": "indices"}[kind]
    np.savez(path, **parts | {name: parts[name] * 1j})
    with pytest.raises(FileError, match="are not integers"):
        read_matrix(path)
    np.savez(path, **parts | {"shape": np.array([4.5, 3.0])})
    with pytest.raises(FileError, match="are not integers"):
        read_matrix(path)


@pytest.mark.parametrize("name", ["a.mtx", "coo.npz", "csr.npz", "dia.npz"])
def test_shape_that_the_file_cannot_have_is_refused(tmp_path, name):
    shape, path = (3, 50_000_000), tmp_path / name
    if name == "a.mtx":
        path.write_text(
            f"%%MatrixMarket matrix coordinate real general\n{shape[0]} {shape[1]} 1\n1 1 1.0\n"
        )
    elif name == "dia.npz":
        np.savez(path, data=[[1.0]], offsets=[0], shape=shape, format=b"dia")
    else:
        parts = {"indices": [0], "indptr": [0, 1, 1, 1]} if name == "csr.npz" else {}
        parts |= {"row": [0], "col": [0]} if name == "coo.npz" else {}
        np.savez(path, data=[1.0], shape=shape, format=name[:3].encode(), **parts)
    with pytest.raises(FileError, match="truncated or damaged"):
        read_matrix(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.mtx", "a.h5", "a.hdr", "a.txt"])
def test_link_to_a_device_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    read = read_labels if name == "a.txt" else read_matrix
    with pytest.raises(FileError, match="a device or a pipe"):
        read(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_image_that_is_a_device_is_not_there(tmp_path):
    write_envi(tmp_path / "s.hdr")
    (tmp_path / "s.img").unlink()
    (tmp_path / "s.img").symlink_to("/dev/zero")
    with pytest.raises(FileError, match="no data file"):
        read_cube(tmp_path / "s.hdr")


@pytest.mark.parametrize("text", ["a,b\n1,2,3\n", "a,b,c,d\n1,2,3\n", "n,a,b,c\nx,1,2\n"])
def test_header_of_another_length_is_refused(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileError, match=r"the header has \d cells, but line 2 has 3"):
        read_matrix(tmp_path / "a.csv")


def test_sparse_logical_mat_stays_sparse(tmp_path):
    import scipy.io

    scipy.io.savemat(tmp_path / "l.mat", {"L": sp.csc_array(DENSE > 0)})
    values = read_matrix(tmp_path / "l.mat").values
    assert values.format == "csr"
    np.testing.assert_array_equal(values.toarray(), DENSE > 0)


def test_bad_variable_of_a_mat_does_not_hide_the_others(tmp_path):
    import scipy.io

    path = tmp_path / "two.mat"
    scipy.io.savemat(path, {"A": DENSE, "B": sp.csc_array(DENSE)})
    raw = bytearray(path.read_bytes())
    place = raw.rindex(np.float64(6.0).tobytes())
    path.write_bytes(raw[:place] + raw[place + 8 :])  # the last value of B
    np.testing.assert_array_equal(read_matrix(path, "A").values, DENSE)
    with pytest.raises(FileError, match="`B` in"):
        read_matrix(path, "B")


TABLES = {
    "named": lambda path: write_csv(path),
    "bare": lambda path: write_csv(path, header=False, names=False),
    "header": lambda path: write_csv(path, ";", names=False),
    "rows": lambda path: write_csv(path, "\t", header=False),
    "corner": lambda path: path.write_text("a,b\nx,1,2\n\ny,3,4e-320\n"),
    "quoted": lambda path: path.write_text('\ufeff"a, b","c"\n1,2\n\n3,"4"\n', encoding="utf-8"),
    "quoted name": lambda path: path.write_text('n,a\n"x",1\ny,2\n'),
    "digits": lambda path: path.write_text("a,b\n0.1,1e400\n-nan,12345678901234567890.5\n"),
    "empty cell": lambda path: path.write_text("1,2\n3,\n"),
    "short": lambda path: path.write_text("1,2\n3\n"),
    "long": lambda path: path.write_text("1,2\n3,4,5\n"),
    "word": lambda path: path.write_text("1,2\n3,NA\n"),
    "true": lambda path: path.write_text("1,2\n3,True\n"),
    "zero byte": lambda path: path.write_bytes(b"1,2\n3,4\x005\n"),
    "latin": lambda path: path.write_bytes("n,a\né,1\n".encode("latin-1")),
    "odd quote": lambda path: path.write_text('1,2\n3,"4"5\n'),
    "blank row": lambda path: path.write_text("1,2\n , \n3,4\n"),
    "carriage returns": lambda path: path.write_bytes(b"a,b\r\r1,2\r3,4\r5,6\r"),
}


@pytest.mark.parametrize("name", TABLES)
def test_pandas_and_the_plain_reader_agree(tmp_path, monkeypatch, name):
    path = tmp_path / "t.csv"
    TABLES[name](path)

    def outcome():
        try:
            content = read_matrix(path)
        except FileError as error:
            return str(error)
        return content.values.tobytes(), content.row_names, content.column_names

    plain = outcome()
    monkeypatch.setattr(text_tables, "_LARGE_BYTES", 0)
    assert outcome() == plain


@pytest.mark.parametrize("rows", ["", "r1,"])
def test_pandas_counts_blank_lines(tmp_path, monkeypatch, rows):
    pytest.importorskip("pandas")
    monkeypatch.setattr(text_tables, "_LARGE_BYTES", 0)
    (tmp_path / "t.csv").write_text(f"{rows and 'name,'}a,b\n{rows}1,2.5\n\n{rows}3,4\n")
    assert read_matrix(tmp_path / "t.csv").places.lines.tolist() == [2, 4]


@pytest.mark.parametrize("limit", [0, 1 << 60])
@pytest.mark.parametrize("sep", [";", "\t"])
def test_late_thousands_with_points_are_refused(tmp_path, monkeypatch, limit, sep):
    monkeypatch.setattr(text_tables, "_LARGE_BYTES", limit)
    path = tmp_path / "t.csv"
    head = f"a{sep}b\n" + "".join(f"{7 * i % 97}{sep}{5 * i % 89}\n" for i in range(600))
    path.write_text(f"{head}5{sep}1.234\n")
    with pytest.raises(FileError, match=r"line 602, column 2: `1\.234` is ambiguous.*--decimal \."):
        read_matrix(path)
    assert read_matrix(path, table=TableOptions(decimal=".")).values[-1].tolist() == [5.0, 1.234]
    path.write_text(f"{head}5{sep}5.000\n")
    with pytest.raises(FileError, match=r"`5\.000` is ambiguous"):
        read_matrix(path)
    path.write_text(f"{head}5{sep}1.234\n0.5{sep}6\n")
    assert read_matrix(path).values[-2].tolist() == [5.0, 1.234]


def test_pandas_reads_what_is_usual(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setattr(text_tables, "_LARGE_BYTES", 0)
    monkeypatch.setattr(text_tables, "parse_rows", lambda *args: pytest.fail("read row by row"))
    for name in ("named", "bare", "header", "rows"):
        TABLES[name](tmp_path / "t.csv")
        np.testing.assert_array_equal(read_matrix(tmp_path / "t.csv").values, DENSE)


def write_sheet(path, rows):
    """Write a workbook by openpyxl, then put other rows into its XML."""
    import openpyxl

    whole = path.with_name("whole.xlsx")
    openpyxl.Workbook().save(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            raw = old.read(name)
            if name.endswith("sheet1.xml"):
                raw = raw.replace(b"<sheetData />", b"<sheetData></sheetData>")
                raw = raw.replace(b"</sheetData>", rows + b"</sheetData>")
                assert rows in raw
            new.writestr(name, raw)


def test_sheet_of_a_billion_rows_in_few_bytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "_TRIAL_SECONDS", 0.1)
    path = tmp_path / "a.xlsx"
    write_sheet(path, b'<row r="99999999999"><c r="A99999999999"><v>1</v></c></row>')
    with pytest.raises(FileError, match=r"a\.xlsx` could not be read within 1 seconds"):
        read_matrix(path)


@pytest.mark.parametrize("is_wide", [True, False])
def test_sheet_that_fills_the_memory_is_refused(tmp_path, monkeypatch, is_wide):
    """Each row a cell in the last column, or one such row above many short ones."""
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "20000000")
    wide = b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>'
    short = wide if is_wide else b'<row r="%d"><c r="A%d"><v>1</v></c></row>'
    rows = b"".join((short if i else wide) % (i + 1, i + 1) for i in range(200))
    write_sheet(tmp_path / "a.xlsx", rows)
    with pytest.raises(FileError, match=r"declares 0\.0\d* GB of data"):
        read_matrix(tmp_path / "a.xlsx")


@pytest.mark.parametrize("sep", [",", " "])
def test_table_that_takes_too_long_is_refused(tmp_path, monkeypatch, sep):
    path = tmp_path / "a.csv"
    path.write_text(f"1{sep}2\n" * 2000)
    assert read_matrix(path).values.shape == (2000, 2)
    monkeypatch.setattr(guard, "_TRIAL_SECONDS", 0.0)
    with pytest.raises(FileError, match="could not be read within 0 seconds"):
        read_matrix(path)
    with pytest.raises(FileError, match="could not be read within 0 seconds"):
        read_labels(path)


def test_parquet_file_is_refused_for_what_it_declares(tmp_path, monkeypatch):
    import pyarrow as pa
    from pyarrow import parquet

    # Zeros, whose number of rows is all that is large; words, which take bytes.
    zeros = pa.table({"a": np.zeros(100_000)})
    words = pa.table({"a": ["x" * 1000 + str(i) for i in range(900)], "b": np.zeros(900)})
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "500000")
    for table in (zeros, words):
        parquet.write_table(table, tmp_path / "a.parquet", compression="gzip")
        with pytest.raises(FileError, match=r"declares \d+ bytes, 500000 are allowed"):
            read_matrix(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["utf-99", "hex", "rot13", "undefined", "\udcff"])
def test_encoding_that_is_none_of_text_is_refused(name):
    with pytest.raises(InputError, match="is unknown; use for example utf-8"):
        TableOptions(encoding=name)
