"""Tables as people have them are read right or refused with the right sentence: none is wrong."""

import numpy as np
import pytest
from people_tables import READ, REFUSED, WIDE, YEARS, text

from orthoplus.io import FileError, TableOptions, read_labels, read_matrix


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
