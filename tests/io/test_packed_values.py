"""Attributes of HDF5 data sets are applied or refused, and Cell Ranger has cells as rows."""

import h5py
import numpy as np
import pytest
from formats import COUNTS, write_cell_ranger, write_mat73

from orthoplus.io import FileError, read_matrix

STORED = np.array([[1, 2], [3, -1], [7, 8]])
NAN = np.nan


def write(path, dtype="i2", values=STORED, fillvalue=None, **attributes):
    with h5py.File(path, "w") as file:
        how = {} if fillvalue is None else {"fillvalue": fillvalue, "chunks": True}
        file.create_dataset("X", data=np.asarray(values).astype(dtype), **how)
        file["X"].attrs.update(attributes)
    return path


@pytest.mark.parametrize(
    ("how", "values", "remark"),
    [
        ({"_Unsigned": "true", "dtype": "i1"}, [[1, 2], [3, 255], [7, 8]], "uint8"),
        ({"_Unsigned": b"True", "dtype": ">i2"}, [[1, 2], [3, 65535], [7, 8]], "uint16"),
        ({"_Unsigned": "false", "dtype": "u1"}, STORED, "int8"),
        ({"_Unsigned": "false"}, STORED, ""),
        (
            {"_Unsigned": "true", "_FillValue": np.int8(-1), "scale_factor": 0.5, "dtype": "i1"},
            [[0.5, 1], [1.5, NAN], [3.5, 4]],
            "multiplied by 0.5",
        ),
        ({"missing_value": np.int16(-1)}, [[1, 2], [3, NAN], [7, 8]], "fill value"),
        ({"fillvalue": -1}, [[1, 2], [3, NAN], [7, 8]], "fill value"),
        (
            {"dtype": "f8", "values": [[1, 1e20]], "missing_value": np.float32(1e20)},
            [[1, NAN]],
            "1 values equal the fill value",
        ),
        ({"valid_range": np.int16([2, 7])}, [[NAN, 2], [3, NAN], [7, NAN]], "valid range"),
        ({"valid_min": np.int16(2)}, [[NAN, 2], [3, NAN], [7, 8]], "2 values are outside"),
        ({"valid_max": np.int16(7)}, [[1, 2], [3, -1], [7, NAN]], "1 values are outside"),
        (
            {"valid_range": np.int16([2, 7]), "add_offset": 10.0},
            [[NAN, 12], [13, NAN], [17, NAN]],
            "valid range",
        ),
        (
            {"valid_range": [12.0, 17.0], "add_offset": 10.0},
            [[NAN, 12], [13, NAN], [17, NAN]],
            "valid range",
        ),
        (
            {"_Unsigned": "true", "valid_max": np.int8(-2), "dtype": "i1"},
            [[1, 2], [3, NAN], [7, 8]],
            "valid range",
        ),
        ({"flag_meanings": "a b"}, STORED, "codes"),
        ({"Slope": 0.5}, STORED, "`Slope` = 0.5, which was not applied"),
        ({"Slope": 1.0, "offset": 0, "units": "K"}, STORED, ""),
    ],
)
def test_attributes_are_applied(tmp_path, how, values, remark):
    content = read_matrix(write(tmp_path / "a.h5", **how))
    np.testing.assert_array_equal(content.values, values)
    assert remark in " ".join(content.notes)
    assert bool(content.notes) == bool(remark)


@pytest.mark.parametrize(
    "attributes",
    [
        {"_Unsigned": "perhaps"},
        {"valid_range": [1.0, 2.0, 3.0]},
        {"valid_min": "low"},
        {"_FillValue": np.arange(100)},
        {"scale_factor": [1.0, 2.0]},
    ],
)
def test_attributes_without_a_clear_meaning_are_refused(tmp_path, attributes):
    with pytest.raises(FileError, match=f"`{next(iter(attributes))}` of `/X` is not"):
        read_matrix(write(tmp_path / "a.h5", **attributes))


def test_enumerations_are_codes(tmp_path):
    kind = h5py.enum_dtype({"a": 0, "b": 1}, basetype="i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=np.eye(3, dtype="i1"), dtype=kind)
    assert "codes (`enumeration`)" in read_matrix(tmp_path / "a.h5").notes[0]


def test_text_of_matlab_is_not_a_matrix(tmp_path):
    write_mat73(tmp_path / "a.mat")
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        file["A"].attrs["MATLAB_class"] = np.bytes_("char")
    with pytest.raises(FileError, match="no matrix of numbers"):
        read_matrix(tmp_path / "a.mat")


@pytest.mark.parametrize(("version", "group"), [(3, "matrix"), (2, "GRCh38")])
def test_cell_ranger_has_cells_as_rows(tmp_path, version, group):
    content = read_matrix(write_cell_ranger(tmp_path / "a.h5", version, group))
    np.testing.assert_array_equal(content.values.toarray(), COUNTS.toarray().T)
    assert content.row_names == ("AAA-1", "CCC-1")
    assert content.column_names == ("Actb", "Cd3e (g2)", "Cd3e (g3)")
    assert content.notes == ()


def test_cell_ranger_with_several_types_of_features_is_remarked(tmp_path):
    path = write_cell_ranger(tmp_path / "a.h5", kinds=(b"Gene", b"Gene", b"Antibody"))
    assert "2 types, clustered together: 2 Gene, 1 Antibody" in read_matrix(path).notes[0]


def test_cell_ranger_with_a_wrong_shape_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"declares the shape \[2, 3\].*3 features and 2 barcodes"):
        read_matrix(write_cell_ranger(tmp_path / "a.h5", shape=(2, 3)))


def test_packing_of_sparse_matrices_is_refused(tmp_path):
    with h5py.File(write_cell_ranger(tmp_path / "a.h5"), "r+") as file:
        file["matrix/data"].attrs["scale_factor"] = 0.5
    with pytest.raises(FileError, match="`scale_factor`, which is not applied to sparse"):
        read_matrix(tmp_path / "a.h5")


def test_loom_has_genes_as_rows(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["matrix"] = COUNTS.toarray()
        file.create_group("row_attrs"), file.create_group("col_attrs")
    assert "`--transpose`" in read_matrix(tmp_path / "a.h5").notes[0]
