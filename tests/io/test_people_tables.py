"""Tables as people have them are read right or refused with the right sentence: none is wrong."""

import re

import h5py
import numpy as np
import pytest
from formats import write_h5
from people_tables import READ, REFUSED, ROWS, WIDE, YEARS, text

from orthoplus.io import FileError, TableOptions, align, read_labels, read_matrix, read_names


@pytest.mark.parametrize("name", READ)
def test_table_is_read_as_it_was_meant(tmp_path, name):
    case = READ[name]
    (tmp_path / case.file).write_bytes(case.raw)
    content = read_matrix(tmp_path / case.file, table=case.options)
    truth = case.truth
    np.testing.assert_array_equal(content.values, truth.values)
    assert content.column_names == truth.columns
    assert content.row_names == truth.rows
    assert content.labels == truth.labels
    rows, columns = truth.values.shape
    assert content.summary.startswith(f"{rows} rows, {columns} columns")
    assert truth.says in content.summary


@pytest.mark.parametrize("name", REFUSED)
def test_table_is_refused_with_the_option_that_decides(tmp_path, name):
    file, raw, message, options = REFUSED[name]
    (tmp_path / file).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    with pytest.raises(FileError, match=message):
        read_matrix(tmp_path / file, table=options)


def test_there_are_many_cases():
    assert len(READ) + len(REFUSED) >= 170


def test_places_are_those_of_an_editor(tmp_path):
    (tmp_path / "t.csv").write_text("# twice\n\n" + text(rows=tuple("vwxyz"), corner="name"))
    content = read_matrix(tmp_path / "t.csv")
    assert content.places.of(0, 2) == "line 4, column 4 (`c`)"


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_data_are_seldom_asked_about(tmp_path, seed):
    """A table of random numbers without a header is read, whatever its numbers."""
    values = np.random.default_rng(seed).random((30, 5)).round(3)
    (tmp_path / "t.csv").write_text(text(values, None))
    np.testing.assert_array_equal(read_matrix(tmp_path / "t.csv").values, values)


def test_header_of_years_is_data_only_if_asked(tmp_path):
    (tmp_path / "t.csv").write_text(text(WIDE, YEARS))
    content = read_matrix(tmp_path / "t.csv", table=TableOptions(header=False))
    assert content.values.shape == (len(WIDE) + 1, 6)
    assert "no header, as given" in content.summary


@pytest.mark.parametrize("header", [(2019, 2020, 2021), (2022, 2021, 2020, 2019), (10, 20, 30)])
def test_header_of_equal_steps_is_asked_about(tmp_path, header):
    """Also if its numbers are within the range of the data, and there are few columns."""
    values = np.random.default_rng(0).integers(1, 5000, (40, len(header)))
    (tmp_path / "t.csv").write_text(text(values, header))
    with pytest.raises(FileError, match="may be a header of numbers or the first row of data"):
        read_matrix(tmp_path / "t.csv")
    grades = np.random.default_rng(0).integers(1, 4, (40, 3))  # here equal steps are a coincidence
    (tmp_path / "t.csv").write_text(text(grades, (3, 2, 1)))
    assert len(read_matrix(tmp_path / "t.csv").values) == 41


@pytest.mark.parametrize("name", ["subject", "Patient", "participant"])
def test_repeated_subjects_are_not_data(tmp_path, name):
    values = np.random.default_rng(0).random((40, 3))
    values[:, 0] = np.arange(40) // 4 + 3
    (tmp_path / "t.csv").write_text(text(values, (name, "a", "b")))
    with pytest.raises(FileError, match=f"`{name}`. seems to hold codes or identifiers"):
        read_matrix(tmp_path / "t.csv")


def test_labels_with_a_header(tmp_path):
    for name, content in {"a.csv": "row,species\n1,u\n2,v\n", "a.txt": "target\nu\nv\n"}.items():
        (tmp_path / name).write_text(content)
        assert read_labels(tmp_path / name).values.tolist() == ["u", "v"]


def test_totals_and_genes_are_remarked(tmp_path):
    (tmp_path / "t.csv").write_text("gene,a,b,all\nx,1,2,3\ny,3,4,7\nTotal,4,6,10\n")
    notes = " ".join(read_matrix(tmp_path / "t.csv").notes)
    assert "last row (`Total`) is the sum" in notes
    assert "Column `all` is the sum" in notes
    assert "--transpose" in notes


@pytest.mark.parametrize(
    "rows", [("x", "y", "Total"), ("Mean", "x", "y"), ("x", "subtotal", "y"), ("x", "y", "SUM:")]
)
def test_rows_named_as_summaries_are_remarked(tmp_path, rows):
    (tmp_path / "t.csv").write_text(text([[1, 2], [3, 4], [5, 7]], ("a", "b"), rows, corner="item"))
    name = next(row for row in rows if len(row) > 1)
    assert f"Rows named `{name}` seem to summarize" in " ".join(
        read_matrix(tmp_path / "t.csv").notes
    )


@pytest.mark.parametrize(
    ("content", "remark"),
    [
        (text([[1, 9], [3, 4], [5, 8], [3, 7]], ("a", "b")), "The last row is the mean of all"),
        (text([[1, 9], [3, 4], [5, 8]], ("a", "b"), ("x", "y", "")), "The last row has no name"),
        (text([[1, 2], [3, 4], [5, 7]], ("a", "b"), ("x", "Min", "Max")), "named `Min`, `Max`"),
        (text([[1, 9999], [3, 4], [5, 8]], ("a", "b")), "Column `b` has the value 9999.*--na 9999"),
        (text(rows=ROWS, corner="feature"), "rows seem to be features.*--transpose"),
    ],
)
def test_what_may_not_be_data_is_remarked(tmp_path, content, remark):
    (tmp_path / "t.csv").write_text(content)
    assert re.search(remark, " ".join(read_matrix(tmp_path / "t.csv").notes))


def test_plain_tables_are_not_remarked(tmp_path):
    """Equal numbers have their mean, a maximum may be large, and a name may be Max."""
    for values in ([[1, 1], [1, 1], [1, 1], [1, 1]], [[2, 999], [3, 500], [4, 7], [9, 8]]):
        rows = ("Max", "Kim", "Ann", "Bob")
        (tmp_path / "t.csv").write_text(text(values, ("a", "b"), rows, corner="name"))
        assert read_matrix(tmp_path / "t.csv").notes == ()


LABELS = {
    "one per line": ("a.txt", "u\nv\nu\n", None),
    "header": ("a.csv", "species\nu\nv\nu\n", None),
    "header and index": ("a.csv", ",species\n0,u\n1,v\n2,u\n", None),
    "index after them": ("a.csv", "cluster,id\nu,4\nv,5\nu,6\n", None),
    "no header, index": ("a.csv", "r1;u\nr2;v\nr3;u\n", None),
    "tabs in .txt": ("a.txt", "id\tclass\n1\tu\n2\tv\n3\tu\n", None),
    "our own labels.csv": (
        "a.csv",
        "row,cluster,weight,margin\n0,u,1,.5\n1,v,1,.5\n2,u,1,.5\n",
        None,
    ),
    "R, write.table": ("a.txt", '"label"\n"1" "u"\n"2" "v"\n"3" "u"\n', None),
    "R, write.table, commas": ("a.csv", '"label"\n"1","u"\n"2","v"\n"3","u"\n', None),
    "quoted words": ("a.txt", '"u"\n"v"\n"u"\n', None),
    "by name": ("a.csv", "id,sex,age\n1,u,33\n2,v,44\n3,u,44\n", "sex"),
    "by number": ("a.csv", "1,u,33\n2,v,44\n3,u,44\n", "2"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_as_people_have_them(tmp_path, name):
    file, content, key = LABELS[name]
    (tmp_path / file).write_text(content)
    assert read_labels(tmp_path / file, key).values.tolist() == ["u", "v", "u"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,sex,age\n1,u,33\n2,v,44\n", "several columns.*a.csv:COLUMN"),
        ("u\nv,w\nu\n", "line 2 has 2 cells, line 1 has 1"),
    ],
)
def test_labels_that_are_not_plain_are_refused(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(FileError, match=message):
        read_labels(tmp_path / "a.csv")


def test_labels_in_another_order_are_put_in_order(tmp_path):
    assert align(("x", "y", "z"), ("z", "x", "y"), tmp_path) == [1, 2, 0]
    assert align(("x", "y"), ("1", "2"), tmp_path) is None
    with pytest.raises(FileError, match="not for `z`"):
        align(("x", "y", "z"), ("x", "y", "w"), tmp_path)


@pytest.mark.parametrize("names", [None, ("x", "y", "z")])
def test_labels_with_row_numbers_are_put_in_order(tmp_path, names):
    assert align(names, ("2", "0", "1"), tmp_path) == [1, 2, 0]
    assert align(names, ("3", "1", "2"), tmp_path) == [1, 2, 0]
    assert align(names, ("0", "1", "2"), tmp_path) is None
    assert align(names, ("2.0", "000", "01"), tmp_path) == [1, 2, 0]
    assert align(names, ("10", "20", "30"), tmp_path) is None
    assert align(names, ("1.5", "0.5", "2.5"), tmp_path) is None
    with pytest.raises(
        FileError, match=r"numbers its rows \(30, 10, 20, \.\.\.\), but the data do"
    ):
        align(names, ("30", "10", "20"), tmp_path)


def test_labels_with_repeated_names_in_another_order_are_refused(tmp_path):
    assert align(("x", "y", "y"), ("x", "y", "y"), tmp_path) is None
    for names, others in ((("x", "y", "y"), ("y", "x", "y")), (("x", "y"), ("y", "x", "y"))):
        with pytest.raises(FileError, match="`y` occurs more than once"):
            align(names, others, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "site,sample,label\nn,z,w\ns,x,u\nn,y,v\n",  # names in the second column
        ",sample,label\n0,z,w\n1,x,u\n2,y,v\n",  # numbers of pandas, which say nothing
        "label,age,sample\nw,30,z\nu,10,x\nv,20,y\n",  # another column of numbers
    ],
)
def test_labels_are_matched_by_the_column_that_has_the_names(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    labels = read_labels(tmp_path / "a.csv", "label", ("x", "y", "z"))
    assert labels.row_names == ("z", "x", "y")


def test_numbers_under_another_title_are_not_names(tmp_path):
    (tmp_path / "a.csv").write_text("population,label\n30,w\n10,u\n20,v\n")
    assert read_labels(tmp_path / "a.csv").row_names is None


def test_labels_of_annotated_data_have_the_names_of_their_rows(tmp_path):
    write_h5(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["obs/age"], file["obs/sex"] = [4, 3, 2, 1], ["m", "f", "m", "f"]
    for key in ("obs/kind", "obs/age", "obs/sex"):
        assert read_labels(tmp_path / "a.h5ad", key).row_names == ("r0", "r1", "r2", "r3")


NAME_FILES = {
    "title": ("g.txt", "gene\nx\ny\nz\n"),
    "pandas": ("g.csv", ",gene\n0,x\n1,y\n2,z\n"),
    "R": ("g.csv", '"","x"\n"1","x"\n"2","y"\n"3","z"\n'),
    "10x": ("g.tsv", "x\tActb\tGene\ny\tCd3\tGene\nz\tCd4\tGene\n"),
}


@pytest.mark.parametrize("name", NAME_FILES)
def test_names_as_people_have_them(tmp_path, name):
    file, content = NAME_FILES[name]
    (tmp_path / file).write_text(content)
    assert read_names(tmp_path / file, 3, "--column-names") == ("x", "y", "z")


def test_one_name_too_many_is_not_a_header(tmp_path):
    (tmp_path / "g.txt").write_text("v\nx\ny\nz\n")
    with pytest.raises(FileError, match="has 4 names, but the data have 3 columns"):
        read_names(tmp_path / "g.txt", 3, "--column-names")


def test_labels_with_other_names_are_refused(tmp_path):
    with pytest.raises(FileError, match="none of these names occurs in the data"):
        align(("s_1", "s_2"), ("S-2", "S-1"), tmp_path)
    assert align(None, ("S-2", "S-1"), tmp_path) is None
