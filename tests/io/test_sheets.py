"""What a spreadsheet does not show is never read silently: hidden data, merges, formulas."""

import io

import numpy as np
import pytest
from people_tables import BODY, NAMES, ROWS

from orthoplus.io import FileError, TableOptions, read_labels, read_matrix, read_names

openpyxl = pytest.importorskip("openpyxl")
LINES = [("name", *NAMES), *((r, *v) for r, v in zip(ROWS, BODY.tolist(), strict=True))]


def write(path, lines=LINES, edit=lambda book, sheet: None, **more):
    """Write a workbook after editing it, with further sheets."""
    book = openpyxl.Workbook()
    for title, rows in {"Sheet": lines, **more}.items():
        sheet = book.active if title == "Sheet" else book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    edit(book, book["Sheet"])
    book.save(path)
    return path


def hide_row(book, sheet):
    sheet.row_dimensions[3].hidden = True


def hide_column(book, sheet):
    sheet.column_dimensions["C"].hidden = True


def filter_rows(book, sheet):
    sheet.auto_filter.ref = "A1:D6"
    for row in (3, 4):
        sheet.row_dimensions[row].hidden = True


@pytest.mark.parametrize(
    ("edit", "what", "rows", "columns"),
    [
        (hide_row, r"1 row \(3\)", [0, 2, 3, 4], [0, 1, 2]),
        (hide_column, r"1 column \(3\)", range(5), [0, 2]),
        (filter_rows, r"2 rows \(3, 4\)", [0, 3, 4], [0, 1, 2]),
    ],
)
def test_hidden_data_are_asked_about(tmp_path, edit, what, rows, columns):
    path = write(tmp_path / "t.xlsx", edit=edit)
    with pytest.raises(FileError, match=rf"{what}\. Pass --hidden keep .* or --hidden drop"):
        read_matrix(path)
    kept = read_matrix(path, table=TableOptions(hidden="keep"))
    np.testing.assert_array_equal(kept.values, BODY)
    assert "hidden, but read" in kept.summary
    shown = read_matrix(path, table=TableOptions(hidden="drop"))
    np.testing.assert_array_equal(shown.values, BODY[list(rows)][:, columns])
    assert shown.row_names == tuple(ROWS[i] for i in rows)
    assert shown.places.columns.tolist() == [j + 2 for j in columns]
    assert "hidden, left out" in shown.summary


def test_hidden_columns_without_data_are_not_asked_about(tmp_path):
    def edit(book, sheet):
        sheet.column_dimensions.group("F", "XFD", hidden=True)

    assert read_matrix(write(tmp_path / "t.xlsx", edit=edit)).values.shape == BODY.shape


def test_hidden_sheet_is_read_only_by_its_name(tmp_path):
    def edit(book, sheet):
        book["old"].sheet_state = "hidden"

    path = write(tmp_path / "t.xlsx", edit=edit, old=[("a", "b"), (1, 2), (3.5, 1), (2, 2)])
    content = read_matrix(path)
    np.testing.assert_array_equal(content.values, BODY)
    assert "Hidden sheets were not read: `old`." in content.notes[0]
    assert read_matrix(path, "old").values.shape == (3, 2)


def test_only_hidden_sheets_are_asked_about(tmp_path):
    def edit(book, sheet):
        sheet.sheet_state = "hidden"

    path = write(tmp_path / "t.xlsx", edit=edit, empty=[])
    with pytest.raises(FileError, match=r"only hidden sheets hold data.*t\.xlsx:NAME"):
        read_matrix(path)
    assert read_matrix(path, "Sheet").values.shape == BODY.shape


def test_merged_cells_are_remarked(tmp_path):
    content = read_matrix(write(tmp_path / "t.xlsx", edit=lambda _, s: s.merge_cells("A2:A3")))
    assert content.row_names[:2] == ("r1", "line 3")
    assert "merged cells (A2:A3)" in content.notes[0]


@pytest.mark.parametrize("options", [TableOptions(), TableOptions(missing="mask")])
def test_formulas_without_values_are_not_missing_values(tmp_path, options):
    total = write(tmp_path / "t.xlsx", [*LINES, ("all", "=SUM(B2:B6)", 2, 3)])
    with pytest.raises(FileError, match=r"line 7, column 2 .* formula without a stored value"):
        read_matrix(total, table=options)
    lines = [(*row, "more" if i == 0 else f"=B{i}") for i, row in enumerate(LINES)]
    with pytest.raises(FileError, match=r"column 5 \(`more`\) holds formulas without stored"):
        read_matrix(write(tmp_path / "t.xlsx", lines), table=options)
    dropped = TableOptions(drop=("more",))
    assert read_matrix(tmp_path / "t.xlsx", table=dropped).values.shape == BODY.shape


def test_text_cells_have_the_decimal_sign_of_a_text_table(tmp_path):
    path = write(tmp_path / "t.xlsx", [("a", "b"), ("1,5", 2.5), ("3,5", 4), ("2", 7)])
    content = read_matrix(path)
    assert content.values.tolist() == [[1.5, 2.5], [3.5, 4], [2, 7]]
    assert "decimal comma" in content.summary
    for words, sign in ((("1,234", "3,456"), ","), (("1.234", "3.456"), ".")):
        write(path, [("a", "b"), *((word, 2.5) for word in words)])
        with pytest.raises(FileError, match=f"thousands separator. Pass --decimal {sign}"):
            read_matrix(path)
        assert read_matrix(path, table=TableOptions(decimal=sign)).values[0, 0] == 1.234


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([["u"], ["v"], ["u"]], None),
        ([["id", "species"], [4, "u"], [5, "v"], [6, "u"]], None),
        ([["id", "sex", "age"], [1, "u", 33], [2, "v", 44], [3, "u", 44]], "sex"),
        ([["id", "sex", "age"], [1, "u", 33], [2, "v", 44], [3, "u", 44]], "Sheet/sex"),
        ([["label"], ["u"], ["v"], ["u"]], "Sheet"),
    ],
)
def test_labels_of_a_spreadsheet_are_read_as_those_of_a_text_file(tmp_path, rows, key):
    path = write(tmp_path / "a.xlsx", rows)
    assert read_labels(path, key).values.tolist() == ["u", "v", "u"]


@pytest.mark.parametrize(
    ("rows", "edit", "more", "message"),
    [
        ([["id", "sex", "age"], [1, "u", 3]], lambda *_: None, {}, "several columns"),
        ([["u"], ["v"]], lambda *_: None, {"other": [["u"]]}, "2 sheets.*a.xlsx:SHEET/COLUMN"),
        ([["u"], ["v"], ["u"]], hide_row, {}, "hidden.*Unhide them"),
        ([["u"], ["=A1"]], lambda *_: None, {}, "formulas without stored values"),
    ],
)
def test_labels_of_a_spreadsheet_that_are_unclear_are_refused(tmp_path, rows, edit, more, message):
    path = write(tmp_path / "a.xlsx", rows, edit, **more)
    with pytest.raises(FileError, match=message):
        read_labels(path)


@pytest.mark.parametrize("index", [None, ["x", "y", "z"]])
def test_labels_of_parquet(tmp_path, index):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"sort": ["u", "v", "u"]}, index=index).to_parquet(tmp_path / "a.parquet")
    labels = read_labels(tmp_path / "a.parquet")
    assert labels.values.tolist() == ["u", "v", "u"]
    assert labels.row_names == (None if index is None else tuple(index))


def test_names_of_a_spreadsheet(tmp_path):
    path = write(tmp_path / "g.xlsx", [["gene"], ["x"], ["y"]])
    assert read_names(path, 2, "--column-names") == ("x", "y")


def test_entities_of_a_sheet_are_refused(tmp_path):
    from orthoplus.io.sheet_layout import scan_layout

    raw = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><worksheet>&a;</worksheet>'
    with pytest.raises(FileError, match="entities"):
        scan_layout(tmp_path, io.BytesIO(raw), len(raw))
