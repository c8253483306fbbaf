"""A bad file is one clear sentence: what is wrong with it, before anything large is read."""

import pickle
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from formats import CUBE, DENSE, MATRIX_WRITERS, write_envi, write_h5, write_mat73
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import orthoplus as op
from orthoplus.io import FileError, guard, memory_limit, read_cube, read_labels, read_matrix

HUGE = (1 << 20, 1 << 20)


def npy_header(shape, descr="<f8"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def truncate(path, share):
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", [n for n in MATRIX_WRITERS if not n.endswith((".csv", ".tsv"))])
def test_truncated_file_is_refused(tmp_path, name, share):
    path = tmp_path / name
    MATRIX_WRITERS[name](path)
    truncate(path, share)
    with pytest.raises(FileError, match=name):
        read_matrix(path)


@pytest.mark.parametrize(
    "name", ["a.npz", "a.npy", "a.mat", "a.mtx", "a.h5", "a.hdr", "a.csv", "a.xlsx", "a.parquet"]
)
@pytest.mark.parametrize("raw", [b"", b"\x00\xff\xfe" * 100, b"%PDF-1.4 hello\n", b"\x89PNG\r\n"])
def test_wrong_type_is_refused(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(FileError, match=name):
        read_matrix(tmp_path / name)


def test_unknown_type_lists_the_known(tmp_path):
    (tmp_path / "a.docx").write_bytes(b"PK")
    with pytest.raises(FileError, match=r"unsupported file type `.docx`. Supported: .*\.npz"):
        read_matrix(tmp_path / "a.docx")


@pytest.mark.parametrize("read", [read_matrix, read_cube, read_labels])
def test_absent_file_and_folder_are_named(tmp_path, read):
    with pytest.raises(FileError, match="does not exist"):
        read(tmp_path / "no.npy")
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read(tmp_path / "d.npy")


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("read", [read_matrix, read_cube])
def test_pickled_objects_are_refused_and_never_run(tmp_path, read):
    objects = np.array([[Trap(), 1], [2, 3]], dtype=object)
    np.save(tmp_path / "p.npy", objects)
    np.savez(tmp_path / "p.npz", X=objects)
    (tmp_path / "q.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("p.npy", "p.npz"):
        with pytest.raises(FileError, match=r"pickled Python objects.*never loaded"):
            read(tmp_path / name)
    with pytest.raises(FileError, match=r"q\.npy"):
        read(tmp_path / "q.npy")


def test_zip_bomb_is_refused_by_its_declared_size(tmp_path):
    """One member that says, and really would expand to, more than may be read."""
    size = 1 << 24
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy_header((size // 8, 1)) + bytes(size))
    assert (tmp_path / "bomb.npz").stat().st_size < size / 500
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTHOPLUS_MAX_BYTES", str(size // 2))
        patch.setattr(np.lib.format, "read_array", lambda *a, **b: pytest.fail("it was read"))
        with pytest.raises(FileError, match=r"declares 0\.0168 GB.*more than the limit"):
            read_matrix(tmp_path / "bomb.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archive_with_two_arrays_of_one_name_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as archive:
        for value in (b"\0", b"\1"):
            archive.writestr("X.npy", npy_header((2, 1)) + value * 16)
    with pytest.raises(FileError, match="holds two arrays named `X`"):
        read_matrix(tmp_path / "two.npz")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_header_that_asks_for_more_than_the_file_has_is_refused(tmp_path, name):
    raw = npy_header(HUGE) + bytes(64)
    if name == "a.npy":
        (tmp_path / name).write_bytes(raw)
    else:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("X.npy", raw)
    with pytest.raises(FileError, match="declares"):
        read_matrix(tmp_path / name)


def test_compressed_mat_that_expands_too_far_is_refused(tmp_path, monkeypatch):
    scipy.io.savemat(tmp_path / "b.mat", {"A": np.zeros((1000, 1000))}, do_compression=True)
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "1000000")
    with pytest.raises(FileError, match=r"declares 0\.008 GB"):
        read_matrix(tmp_path / "b.mat")


def test_compressed_hdf5_that_expands_too_far_is_refused(tmp_path):
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("X", HUGE, "f8", chunks=(1024, 1024), compression="gzip")
    with pytest.raises(FileError, match=r"declares 8.8e\+03 GB"):
        read_matrix(tmp_path / "b.h5")


@pytest.mark.parametrize("kind", ["array", "coordinate"])
def test_matrix_market_that_declares_too_much_is_refused(tmp_path, kind):
    size = "1000000 1000000" if kind == "array" else "10 10 99999"
    (tmp_path / "b.mtx").write_text(f"%%MatrixMarket matrix {kind} real general\n{size}\n1 1 1\n")
    with pytest.raises(FileError, match="declares"):
        read_matrix(tmp_path / "b.mtx")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x1\n5,6\n", r"line 3, column 2 \(`b`\): `x1` is not a number"),
        ("n,a,b\nu,1,2\nv,oops,4\n", r"line 3, column 2 \(`a`\): `oops` is not a number"),
        ("1,2\n3,\n", r"line 2, column 2: the cell is empty"),
        ("a,b\n1,2\n3\n", r"line 3 has 1 cells, but line 2 has 2"),
        ("a,b\n", "has a header but no rows"),
        ("", "is empty"),
        ('a,b\n1,"2\n', "after line 1: unexpected end of data"),
    ],
)
def test_text_in_the_middle_is_named(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(FileError, match=message):
        read_matrix(tmp_path / "t.csv")


@pytest.mark.parametrize("index", [-1, 3, 1 << 30])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_index_out_of_range_is_named(tmp_path, kind, index):
    matrix = getattr(sp, f"{kind}_array")(DENSE if kind != "csc" else DENSE.T)
    path = tmp_path / "s.npz"
    sp.save_npz(path, matrix)
    with np.load(path) as file:
        parts = dict(file)
    parts["col" if kind == "coo" else "indices"][2] = index
    np.savez(path, **parts)
    axis = "row" if kind == "csc" else "column"
    with pytest.raises(FileError, match=rf"{axis} index {index} \(entry 2\), but 3 {axis}s"):
        read_matrix(path)


@pytest.mark.parametrize(
    "pointers", [[0, 2, 1, 4, 6], [0, 2, 3, 4, 9], [0, 2, 3, 6], [1, 2, 3, 4, 6]]
)
def test_sparse_pointers_that_do_not_fit_are_refused(tmp_path, pointers):
    matrix = sp.csr_array(DENSE)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": pointers}
    np.savez(tmp_path / "s.npz", **parts, shape=DENSE.shape)
    with pytest.raises(FileError, match="damaged"):
        read_matrix(tmp_path / "s.npz")


def test_sparse_index_out_of_range_in_other_formats(tmp_path):
    write_h5(tmp_path / "s.h5", "csr")
    write_mat73(tmp_path / "s.mat", sparse=True)
    for name, part in (("s.h5", "X/indices"), ("s.mat", "A/ir")):
        with h5py.File(tmp_path / name, "r+") as file:
            file[part][1] = 77
        with pytest.raises(FileError, match="index 77"):
            read_matrix(tmp_path / name)
    (tmp_path / "s.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n3 1 2.0\n"
    )
    with pytest.raises(FileError, match=r"s\.mtx"):
        read_matrix(tmp_path / "s.mtx")


def test_damaged_mat_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "d.mat", {"A": DENSE}, do_compression=True)
    raw = bytearray((tmp_path / "d.mat").read_bytes())
    raw[150:] = zlib.compress(b"nothing of the kind")
    (tmp_path / "d.mat").write_bytes(raw)
    with pytest.raises(FileError, match=r"d\.mat"):
        read_matrix(tmp_path / "d.mat")


def test_mat_without_numbers_lists_what_it_has(tmp_path):
    cells = np.array(["a", "b"], dtype=object)
    scipy.io.savemat(tmp_path / "c.mat", {"words": cells, "s": {"x": 1}})
    with pytest.raises(FileError, match=r"no matrix of numbers. It has `words` \(1 x 2 objects\)"):
        read_matrix(tmp_path / "c.mat")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ENVI", "ENVY", "first line must be `ENVI`"),
        ("bands = 4", "bands = many", "`bands = many`; an integer of at least 1"),
        ("bands = 4\n", "", "does not say `bands`"),
        ("bands = 4", "bands = 5", "declares 2 lines x 3 samples x 5 bands = 240 bytes"),
        ("lines = 2", "lines = 0", "`lines = 0`"),
        ("data type = 5", "data type = 6", "complex"),
        ("data type = 5", "data type = 99", "unknown"),
        ("interleave = bsq", "interleave = up", "interleave `up`"),
        ("header offset = 0", "header offset = -4", "`header offset = -4`"),
        ("byte order = 0", "byte order = 0\nfile compression = 1", "compressed"),
    ],
)
def test_damaged_envi_header_is_explained(tmp_path, old, new, message):
    path = tmp_path / "s.hdr"
    write_envi(path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(FileError, match=message):
        read_cube(path)


def test_envi_header_without_image_says_what_was_tried(tmp_path):
    write_envi(tmp_path / "s.hdr")
    (tmp_path / "s.img").unlink()
    with pytest.raises(FileError, match=r"no data file: none of s, s\.img"):
        read_cube(tmp_path / "s.hdr")


def test_complex_empty_and_other_shapes_are_refused(tmp_path):
    for array, message in (
        (DENSE * 1j, "complex numbers|no matrix"),
        (DENSE[:0], "empty matrix"),
        (DENSE[0], "no matrix of numbers"),
        (CUBE, r"2 x 3 x 4 numbers"),
    ):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(FileError, match=message):
            read_matrix(tmp_path / "a.npy")


def test_hdf5_does_not_leave_its_file(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X"] = DENSE
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = h5py.ExternalLink("secret.h5", "X")
        layout = h5py.VirtualLayout(DENSE.shape, "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "X", DENSE.shape)
        file.create_virtual_dataset("virtual", layout)
        file["round"] = h5py.SoftLink("/")
    with pytest.raises(FileError, match="has no array `X`"):
        read_matrix(tmp_path / "a.h5", "X")
    with pytest.raises(FileError, match="is stored in other files"):
        read_matrix(tmp_path / "a.h5", "virtual")


def test_limit_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "12")
    assert memory_limit() == 12
    monkeypatch.delenv("ORTHOPLUS_MAX_BYTES")
    assert memory_limit() > 1 << 20


ENVI = "scene.hdr"
# Read on trial first, in another process: fewer examples.
ON_TRIAL = (".h5", ".hdf5", ".h5ad", ".mat")
NAMES = (*MATRIX_WRITERS, ENVI)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    for name, write in MATRIX_WRITERS.items():
        write(folder / name)
    write_envi(folder / ENVI)
    return folder


changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=4,
)


# A busy machine is slow to make examples.
SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(ON_TRIAL)])
@settings(max_examples=15, suppress_health_check=SUPPRESSED)
@given(changes=changes, keep=st.floats(0.5, 1.5))
def test_changed_bytes_are_read_or_refused(originals, tmp_path, name, changes, keep):
    read_changed(originals, tmp_path, name, changes, keep)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(ON_TRIAL)])
@settings(max_examples=4, suppress_health_check=SUPPRESSED)
@given(changes=changes, keep=st.floats(0.9, 1.1))
def test_changed_file_on_trial_is_read_or_refused(originals, tmp_path, name, changes, keep):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "_TRIAL_SECONDS", 8.0)
        read_changed(originals, tmp_path, name, changes, keep)


@pytest.fixture
def try_with(originals, tmp_path, monkeypatch):
    """Read an HDF5 file whose trial runs this code instead."""

    def read(code, busy):
        (tmp_path / "trial.py").write_text(code)
        monkeypatch.setattr(guard, "_TRIAL", tmp_path / "trial.py")
        monkeypatch.setattr(guard, "_TRIAL_SECONDS", 0.6)
        monkeypatch.setattr(guard, "_BUSY", busy)  # this child does not limit its own time
        return read_matrix(originals / next(name for name in NAMES if name.endswith(".h5")))

    return read


def test_hdf5_that_never_ends_is_refused(try_with):
    with pytest.raises(FileError, match="could not be read within 1 sec"):
        try_with("while True: pass", 2.0)


def test_hdf5_that_crashes_the_library_is_refused_and_logged(try_with, caplog):
    caplog.set_level("DEBUG", logger="orthoplus")
    # On a busy machine Python itself takes seconds to start, which must not count as late.
    with pytest.raises(FileError, match="crash"):
        try_with("import os; os.abort()", 100.0)
    assert [text for text in caplog.messages if "ended with -6" in text]


def read_changed(originals, tmp_path, name, changes, keep):
    """Nothing but a `FileError` leaves a reader, whatever the bytes."""
    raw = bytearray((originals / name).read_bytes())
    for place, new in changes:
        start = int(place * len(raw))
        raw[start : start + len(new)] = new
    path = tmp_path / name
    if name == ENVI:
        (tmp_path / "scene.img").write_bytes((originals / "scene.img").read_bytes())
    path.write_bytes(raw[: int(keep * len(raw))])
    read = read_cube if name == ENVI else read_matrix
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTHOPLUS_MAX_BYTES", str(1 << 26))
        try:
            values = read(path).values
        except FileError as error:
            refusal = str(error)
        else:
            refusal = ""
    if refusal:
        assert path.stem in refusal
    elif sp.issparse(values):
        values.check_format(full_check=True)
    else:
        assert values.ndim in (2, 3)


@pytest.mark.parametrize(
    ("kind", "entries", "message"),
    [
        (
            "coordinate integer",
            "1 1 1.7\n2 2 3\n",
            "type integer, but an entry has the character `.`",
        ),
        ("coordinate real", "1 1 1,7\n2 2 3\n", "type real, but an entry has the character `,`"),
        ("coordinate real", "1 1 1.0D+03\n2 2 3.0\n", "an entry has the character `D`"),
        ("coordinate pattern", "1 1 5\n2 2 7\n", "has 6 numbers .* declares 4.*pattern, is wrong"),
        ("array real", "1 2\n3 4\n5 6\n7 8\n", "has 8 numbers .* declares 4"),
    ],
)
def test_matrix_market_entries_of_another_type_are_refused(tmp_path, kind, entries, message):
    path = tmp_path / "m.mtx"
    sizes = "2 2" if kind.startswith("array") else "2 2 2"
    path.write_text(f"%%MatrixMarket matrix {kind} general\n% by hand\n\n{sizes}\n{entries}")
    with pytest.raises(FileError, match=message):
        read_matrix(path)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
@pytest.mark.parametrize("second", ["1 2 7", "2 1 7"])
def test_both_triangles_of_a_symmetric_matrix_are_refused(tmp_path, symmetry, second):
    path = tmp_path / "m.mtx"
    path.write_text(
        f"%%MatrixMarket matrix coordinate integer {symmetry}\n2 2 2\n2 1 7\n{second}\n"
    )
    with pytest.raises(FileError, match=f"declared as {symmetry}, but has an entry more than once"):
        read_matrix(path)


def test_matrix_market_header_of_a_very_long_line_is_refused(tmp_path):
    path = tmp_path / "m.mtx"
    head = "%%MatrixMarket matrix coordinate real general\n"
    for line in ("%" + "x" * (1 << 20), "2" * (1 << 20)):
        path.write_text(f"{head}{line}\n2 2 1\n1 1 3.0\n")
        with pytest.raises(FileError, match="a line of more than 1048576 characters before its"):
            read_matrix(path)
    path.write_text(f"{head}%{'x' * 9999}\n2 2 1\n1 1 3.0\n")
    assert read_matrix(path).values.toarray().tolist() == [[3.0, 0.0], [0.0, 0.0]]


def test_wrong_limit_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text("1,2\n3,4\n")
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "abc")
    with pytest.raises(
        op.InputError, match=r"^The environment variable ORTHOPLUS_MAX_BYTES is 'abc'"
    ):
        read_matrix(tmp_path / "d.csv")
