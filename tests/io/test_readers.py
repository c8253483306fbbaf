"""Every format gives back the matrix, the cube and the names that were written."""

import gzip

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from formats import CUBE, DENSE, MATRIX_WRITERS, TEXT, write_csv, write_envi, write_h5

from orthoplus.io import FileError, read_cube, read_labels, read_matrix, read_names, split_key
from orthoplus.io.matlab import read_mat

NAMED = {
    name for name in MATRIX_WRITERS if name.startswith("named") or name.endswith((".h5ad", ".h5"))
}


def dense(values):
    return values.toarray() if sp.issparse(values) else values


@pytest.mark.parametrize("name", MATRIX_WRITERS)
def test_matrix_comes_back(tmp_path, name):
    MATRIX_WRITERS[name](tmp_path / name)
    content = read_matrix(tmp_path / name)
    np.testing.assert_array_equal(dense(content.values), DENSE)
    assert dense(content.values).dtype == np.float64
    if name in NAMED:
        assert content.row_names == ("r0", "r1", "r2", "r3")
        assert content.column_names == ("a", "b", "c")


def test_path_may_be_text(tmp_path):
    name = str(tmp_path / "labels.txt")
    (tmp_path / "labels.txt").write_text("1\n2\n")
    np.save(tmp_path / "cube.npy", CUBE)
    assert read_labels(name).values.tolist() == ["1", "2"]
    assert read_names(name, 2, "--row-names") == ("1", "2")
    assert read_matrix(name).values.shape == (2, 1)
    assert read_cube(str(tmp_path / "cube.npy")).values.shape == CUBE.shape


@pytest.mark.parametrize("name", [n for n in MATRIX_WRITERS if n.startswith(("cs", "coo", "sp"))])
def test_sparse_stays_sparse(tmp_path, name):
    MATRIX_WRITERS[name](tmp_path / name)
    values = read_matrix(tmp_path / name).values
    assert values.format == "csr"
    assert values.nnz == 6


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_matrix_market_symmetries_come_back(tmp_path, rng, symmetry, is_sparse):
    half = np.tril(rng.random((5, 5)), -1)
    sign = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}[symmetry]
    matrix = half + sign * half.T + (sign >= 0) * np.eye(5)
    written = sp.coo_array(matrix) if is_sparse else matrix
    scipy.io.mmwrite(tmp_path / "s.mtx", written, symmetry=symmetry, precision=17)
    np.testing.assert_array_equal(dense(read_matrix(tmp_path / "s.mtx").values), matrix)


def test_matrix_market_pattern_counts_ones(tmp_path):
    scipy.io.mmwrite(tmp_path / "p.mtx", sp.coo_array(DENSE), field="pattern")
    np.testing.assert_array_equal(read_matrix(tmp_path / "p.mtx").values.toarray(), DENSE > 0)


@pytest.mark.parametrize("name", ["barcodes.tsv", "barcodes.tsv.gz"])
def test_matrix_of_genes_by_cells_is_remarked(tmp_path, name):
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_array(DENSE))
    lines = b"AAAC-1\nAAAG-1\nAAAT-1\n"
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    content = read_matrix(tmp_path / "m.mtx")
    assert content.notes[0].startswith(f"`{name}` next to the file has one line per column")
    assert content.transposed().notes == ()
    (tmp_path / name).write_bytes(b"AAAC-1\n")
    assert read_matrix(tmp_path / "m.mtx").notes == ()


def test_transposed_table_is_not_advised_to_be_transposed(tmp_path):
    (tmp_path / "t.csv").write_text("gene,s1,s2,s2\nx,1,2,4\ny,3,4,4\n")
    content = read_matrix(tmp_path / "t.csv")
    assert "`--transpose` clusters the samples" in content.notes[1]
    assert content.transposed().notes == content.notes[:1]
    assert content.transposed().summary == f"{content.summary}; transposed"


@pytest.mark.parametrize("compressed", [False, True])
def test_mat_holds_every_type_of_number(tmp_path, compressed):
    types = ("u1", "i1", "u2", "i4", "u8", "f4", "f8", "?")
    numbers = {f"longer_name_{i}": DENSE.astype(dtype) for i, dtype in enumerate(types)}
    others = {"b": CUBE, "words": "text", "s": {"x": 1.0}}
    scipy.io.savemat(tmp_path / "m.mat", numbers | others, do_compression=compressed)
    catalog = read_mat(tmp_path / "m.mat")
    for name, values in numbers.items():
        np.testing.assert_array_equal(catalog[name].load().values, values)
    np.testing.assert_array_equal(read_matrix(tmp_path / "m.mat", "longer_name_6").values, DENSE)
    np.testing.assert_array_equal(read_cube(tmp_path / "m.mat", "b").values, CUBE)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_complex_mat_is_refused_instead_of_losing_its_imaginary_part(tmp_path, kind):
    scipy.io.savemat(tmp_path / "m.mat", {"X": kind(DENSE + 1j)})
    with pytest.raises(FileError, match="complex numbers; real numbers are required"):
        read_matrix(tmp_path / "m.mat")


def test_raw_counts_have_their_own_genes(tmp_path):
    write_h5(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["raw/X"] = DENSE[:, ::-1]
        file["raw/var/_index"] = ["c", "b", "a"]
    content = read_matrix(tmp_path / "a.h5ad", "raw/X")
    np.testing.assert_array_equal(content.values, DENSE[:, ::-1])
    assert content.row_names == ("r0", "r1", "r2", "r3")
    assert content.column_names == ("c", "b", "a")


def test_float32_stays_float32(tmp_path):
    np.save(tmp_path / "a.npy", DENSE.astype(np.float32))
    assert read_matrix(tmp_path / "a.npy").values.dtype == np.float32


def test_csr_parts_without_format_are_a_matrix(tmp_path):
    matrix = sp.csr_array(DENSE)
    np.savez(
        tmp_path / "text.npz",
        data=matrix.data,
        indices=matrix.indices.astype(np.uint16),
        indptr=matrix.indptr,
        shape=DENSE.shape,
        labels=[0, 1, 0, 1],
    )
    np.testing.assert_array_equal(read_matrix(tmp_path / "text.npz").values.toarray(), DENSE)
    np.testing.assert_array_equal(read_labels(tmp_path / "text.npz").values, [0, 1, 0, 1])


def test_header_without_corner_fits_named_rows(tmp_path):
    (tmp_path / "r.csv").write_text("a,b\nx,1,2\ny,3,4\n")
    content = read_matrix(tmp_path / "r.csv")
    assert (content.row_names, content.column_names) == (("x", "y"), ("a", "b"))


def test_quoted_cells_blank_lines_and_mark_are_read(tmp_path):
    (tmp_path / "q.csv").write_text('\ufeff"a, b","c"\n1,2\n\n3,4\n', encoding="utf-8")
    content = read_matrix(tmp_path / "q.csv")
    assert content.column_names == ("a, b", "c")
    np.testing.assert_array_equal(content.values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", TEXT)
def test_envi_cube_comes_back(tmp_path, interleave, order, dtype):
    write_envi(
        tmp_path / "scene.hdr", interleave, dtype, order, extra="wavelength = {1, 2,\n 3, 4}"
    )
    content = read_cube(tmp_path / "scene.hdr")
    np.testing.assert_array_equal(content.values, CUBE)
    assert content.column_names == ("1", "2", "3", "4")


def test_envi_ignored_pixels_are_zero_with_a_note(tmp_path):
    cube = CUBE.copy()
    cube[0, 1] = -999
    write_envi(tmp_path / "s.hdr", values=cube, extra="data ignore value = -999\n")
    content = read_cube(tmp_path / "s.hdr")
    assert not content.values[0, 1].any()
    assert content.notes == ("1 pixels have the ignore value -999 and count as empty.",)


def test_envi_header_named_after_its_image(tmp_path):
    write_envi(tmp_path / "s.hdr")
    (tmp_path / "s.hdr").rename(tmp_path / "s.img.hdr")
    np.testing.assert_array_equal(read_cube(tmp_path / "s.img.hdr").values, CUBE)


@pytest.mark.parametrize("name", ["c.npy", "c.mat", "c.h5"])
def test_cube_of_three_dimensions_comes_back(tmp_path, name):
    if name == "c.npy":
        np.save(tmp_path / name, CUBE)
    elif name == "c.mat":
        scipy.io.savemat(tmp_path / name, {"cube": CUBE})
    else:
        with h5py.File(tmp_path / name, "w") as file:
            file["cube"] = CUBE
    np.testing.assert_array_equal(read_cube(tmp_path / name).values, CUBE)


def test_labels_of_every_kind(tmp_path):
    (tmp_path / "a.csv").write_text("name,label\nx,cat\ny,dog\n")
    assert read_labels(tmp_path / "a.csv").values.tolist() == ["cat", "dog"]
    (tmp_path / "a.txt").write_text("0\n1\n0\n")
    assert read_labels(tmp_path / "a.txt").values.tolist() == ["0", "1", "0"]
    np.save(tmp_path / "a.npy", np.array([[1], [2]]))
    assert read_labels(tmp_path / "a.npy").values.tolist() == [1, 2]
    np.save(tmp_path / "b.npy", np.array(["u", "v"]))
    assert read_labels(tmp_path / "b.npy").values.tolist() == ["u", "v"]
    write_h5(tmp_path / "a.h5ad")
    assert read_labels(tmp_path / "a.h5ad", "obs/kind").values.tolist() == ["u", "v", "v", "u"]


def test_key_is_split_off_unless_a_file_has_that_name(tmp_path):
    assert split_key("cells.h5ad:layers/x") == (split_key("cells.h5ad")[0], "layers/x")
    write_csv(tmp_path / "odd:name.csv")
    assert split_key(str(tmp_path / "odd:name.csv"))[1] is None


def test_key_is_asked_for_when_two_arrays_fit(tmp_path):
    np.savez(tmp_path / "two.npz", left=DENSE, right=DENSE)
    with pytest.raises(FileError, match=r"2 suitable arrays.*`left` \(4 x 3 numbers\).*--key"):
        read_matrix(tmp_path / "two.npz")
    np.testing.assert_array_equal(read_matrix(tmp_path / "two.npz", "right").values, DENSE)
    with pytest.raises(FileError, match="has no array `up`"):
        read_matrix(tmp_path / "two.npz", "up")


@pytest.mark.parametrize("shape", [(), (1,)])
def test_hdf5_packed_values_are_scaled_with_a_note(tmp_path, shape):
    stored = np.array([[10, 20, 65535], [30, 40, 50]], dtype=np.uint16)
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file["X"] = stored
        file["X"].attrs["scale_factor"] = np.full(shape, 0.1)
        file["X"].attrs["add_offset"] = np.full(shape, 1.0)
        file["X"].attrs["_FillValue"] = np.full(shape, 65535, dtype=np.uint16)
    content = read_matrix(tmp_path / "packed.h5")
    np.testing.assert_allclose(content.values, [[2, 3, np.nan], [4, 5, 6]])
    assert "multiplied by 0.1 and 1 was added" in content.notes[0]
    assert "1 values equal the fill value" in content.notes[1]


def test_hdf5_scale_without_a_number_is_refused(tmp_path):
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file["X"] = DENSE
        file["X"].attrs["scale_factor"] = "1e-4"
    with pytest.raises(FileError, match="`scale_factor` of `/X` is not a number"):
        read_matrix(tmp_path / "packed.h5")
