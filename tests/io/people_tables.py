"""Tables as found in practice, each with the expected content or the reason for refusal.

A new case is one entry of `READ` or `REFUSED`.
"""

import gzip
import io
import re
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from orthoplus.io import TableOptions

BODY = np.array(
    [[5.1, 3.5, 1.4], [4.9, 3.0, 1.3], [6.2, 2.9, 4.3], [5.9, 3.2, 4.8], [6.9, 3.1, 5.4]]
)
NAMES = ("a", "b", "c")
ROWS = ("r1", "r2", "r3", "r4", "r5")
WHOLE = np.arange(15.0).reshape(5, 3)[::-1] * [1, 7, 3]


class Truth(NamedTuple):
    """What a file holds; None if the file does not say."""

    values: Any = BODY
    columns: tuple[str, ...] | None = NAMES
    rows: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    says: str = ""  # a part of the summary


class Case(NamedTuple):
    file: str
    raw: bytes
    options: TableOptions
    truth: Truth


def text(  # noqa: PLR0913
    values=BODY, header=NAMES, rows=None, *, corner="", sep=",", decimal=".", end="\n", quote=""
) -> str:
    """Write a table as plain programs do."""
    lines = []
    if header is not None:
        cells = [*([] if corner is None or rows is None else [corner]), *header]
        lines.append(sep.join(f"{quote}{cell}{quote}" for cell in cells))
    for i, row in enumerate(np.asarray(values).tolist()):
        cells = [f"{value:g}".replace(".", decimal) for value in row]
        names = [] if rows is None else [f"{quote}{rows[i]}{quote}"]
        lines.append(sep.join([*names, *cells]))
    return end.join(lines) + end


def case(file, content, truth=None, **options) -> Case:
    raw = content if isinstance(content, bytes) else content.encode()
    return Case(file, raw, TableOptions(**options), truth or Truth())


def with_column(name, cells, at=3, **how) -> str:
    """Write the body with an additional text column at this position."""
    lines = text(**how).splitlines()
    out = []
    for line, cell in zip(lines, [name, *cells], strict=True):
        parts = line.split(",")
        parts.insert(at, cell)
        out.append(",".join(parts))
    return "\n".join(out) + "\n"


def r_table(*, header=NAMES, rows=tuple("12345"), last=None) -> str:
    """Write a table as R's write.table does: words in quotes, nothing above the row names."""
    lines = text(header=header, rows=rows, corner=None, sep=" ", quote='"').splitlines()
    words = [""] * 6 if last is None else [f' "{word}"' for word in (last[0], *last[1])]
    return "".join(f"{line}{word}\n" for line, word in zip(lines, words, strict=True))


def packed(content: str) -> bytes:
    return gzip.compress(content.encode(), mtime=0)


def sheet(rows, title="Sheet1", **more) -> bytes:
    """Write a workbook."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name, others in more.items():
        extra = book.create_sheet(name)
        for row in others:
            extra.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def frame(method: str, *, index=None, columns=NAMES, more=None, index_name=None, **how) -> bytes:
    """Write a data frame by pandas."""
    import pandas as pd

    table = pd.DataFrame(BODY, columns=list(columns), index=index)
    table.index.name = index_name or table.index.name
    for name, cells in (more or {}).items():
        table[name] = cells
    file = io.BytesIO()
    getattr(table, method)(file, **how)
    return file.getvalue()


def clusters(n=24) -> np.ndarray:
    """Return rows that are not monotone, so that only a header is."""
    rng = np.random.default_rng(0)
    return np.round(rng.random((n, 6)) * 9 + 1, 2)


WIDE = clusters()
WIDE_NAMES = tuple(f"s{i}" for i in range(len(WIDE)))
YEARS = ("2019", "2020", "2021", "2022", "2023", "2024")
WAVELENGTHS = ("400.5", "410.5", "420.5", "430.5", "440.5", "450.5")
SPECIES = ("setosa", "setosa", "virginica", "virginica", "virginica")
IDENTIFIERS = ("10482", "10511", "10007", "10998", "10313")
SPACED = tuple(f"sample {i}" for i in range(1, 6))
CODES = ("01067", "10115", "20095", "60311", "80331")
LONG = tuple(str(9007199254740993 + 2 * i) for i in range(5))
GENES = tuple(f"ENSG0000{i}" for i in range(5))
LATIN = ("größe", "länge", "breite")

READ: dict[str, Case] = {
    # Plain tables.
    "plain": case("t.csv", text()),
    "no header": case("t.csv", text(header=None), Truth(columns=None)),
    "row names": case("t.csv", text(rows=ROWS, corner="name"), Truth(rows=ROWS)),
    "row names with blanks and tabs, no header": case(
        "t.txt", text(header=None, rows=SPACED, sep="\t"), Truth(columns=None, rows=SPACED)
    ),
    "row names that start with #, no header": case(
        "t.csv",
        text(header=None, rows=("#r1", "#r2", "r3", "r4", "r5")),
        Truth(columns=None, rows=("#r1", "#r2", "r3", "r4", "r5")),
    ),
    "numbers in a comment are a header": case(
        "t.txt",
        "#7 8 9\n" + text(header=None, sep=" "),
        Truth(columns=("7", "8", "9")),
        header=True,
    ),
    "a name that ends with id is not an identifier": case(
        "t.csv",
        "paid,owed\n7,3\n9,5\n4,4\n",
        Truth(np.array([[7.0, 3], [9, 5], [4, 4]]), ("paid", "owed")),
    ),
    "word counts are data": case(
        "t.csv",
        "doc,the,phone\na,7,0\nb,4,2\nc,9,0\n",
        Truth(np.array([[7.0, 0], [4, 2], [9, 0]]), ("the", "phone"), ("a", "b", "c")),
    ),
    "durations are data": case(
        "t.csv",
        "stay in days,time\n7,1800\n9,2100\n4,1900\n",
        Truth(np.array([[7.0, 1800], [9, 2100], [4, 1900]]), ("stay in days", "time")),
    ),
    "a number for missing values": case(
        "t.csv",
        "a,b\n1.0,999.0\n2.0,3.0\n999,4.0\n",
        Truth(np.array([[1, np.nan], [2, 3], [np.nan, 4]]), ("a", "b")),
        na=("999",),
        missing="mask",
    ),
    "a number for missing values, decimal comma": case(
        "t.csv",
        "a;b\n1,5;-9,0\n2,5;3,5\n",
        Truth(np.array([[1.5, np.nan], [2.5, 3.5]]), ("a", "b")),
        na=("-9",),
        missing="mask",
    ),
    "a number for missing values, Parquet": case(
        "t.parquet",
        frame("to_parquet"),
        Truth(np.where(BODY == 3.0, np.nan, BODY)),
        na=("3",),
        missing="mask",
    ),
    "part of a data frame": case(
        "t.parquet",
        frame("to_parquet", index=range(100, 110, 2)),
        Truth(rows=("100", "102", "104", "106", "108")),
    ),
    "decimal numbers of a database": case(
        "t.parquet",
        frame("to_parquet", more={"d": [Decimal(i) / 4 for i in range(1, 6)]}),
        Truth(np.column_stack([BODY, np.arange(1, 6) / 4]), (*NAMES, "d")),
        index="none",
    ),
    "text and numbers in a sheet": case(
        "t.xlsx",
        sheet([["a", "b"], ["1,5", 2.5], ["3,5", 4.25]]),
        Truth(np.array([[1.5, 2.5], [3.5, 4.25]]), ("a", "b")),
        decimal=",",
    ),
    "row names, no header": case(
        "t.csv", text(header=None, rows=ROWS), Truth(columns=None, rows=ROWS)
    ),
    "empty corner": case("t.csv", text(rows=ROWS), Truth(rows=ROWS)),
    "R, no corner": case("t.csv", text(rows=ROWS, corner=None), Truth(rows=ROWS)),
    "R, quoted": case("t.csv", text(rows=ROWS, quote='"'), Truth(rows=ROWS)),
    "R, quoted, no corner": case(
        "t.csv", text(rows=ROWS, corner=None, quote='"'), Truth(rows=ROWS)
    ),
    "tabs": case("t.tsv", text(sep="\t")),
    "tabs in .csv": case("t.csv", text(sep="\t"), Truth(says="separator tab")),
    "tabs in .txt": case(
        "t.txt", text(sep="\t", rows=ROWS), Truth(rows=ROWS, says="separator tab")
    ),
    "spaces in .txt": case("t.txt", text(sep=" "), Truth(says="white space")),
    "savetxt": case("t.txt", text(sep=" ", header=None), Truth(columns=None)),
    "savetxt with header": case("t.txt", "# a b c\n" + text(sep=" ", header=None)),
    "comment lines": case(
        "t.csv", "# made by hand\n# twice\n" + text(), Truth(says="2 comment lines")
    ),
    "commented header": case("t.csv", "#" + text()),
    "bars": case("t.csv", text(sep="|"), Truth(says="'|'")),
    "Windows line ends": case("t.csv", text(end="\r\n")),
    "blank lines": case("t.csv", text(end="\n\n")),
    "spaces after commas": case("t.csv", text(sep=", ")),
    "byte order mark": case("t.csv", b"\xef\xbb\xbf" + text().encode()),
    "UTF-16 of Excel": case("t.txt", text(sep="\t").encode("utf-16"), Truth(says="UTF-16")),
    "UTF-32": case("t.csv", text().encode("utf-32"), Truth(says="UTF-32")),
    "repeated names of samples": case(
        "t.csv",
        text(rows=("u", "u", "v", "v", "v"), corner="sample"),
        Truth(rows=("u", "u", "v", "v", "v")),
    ),
    "wells name rows": case(
        "t.csv",
        text(rows=("1A", "1B", "1C", "2D", "2E"), corner="well"),
        Truth(rows=("1A", "1B", "1C", "2D", "2E")),
    ),
    "Windows-1252": case(
        "t.csv", text(header=LATIN).encode("cp1252"), Truth(columns=LATIN, says="Windows-1252")
    ),
    "Latin-1 as given": case(
        "t.csv", text(header=LATIN).encode("latin-1"), Truth(columns=LATIN), encoding="latin-1"
    ),
    "UTF-8 names": case("t.csv", text(header=LATIN), Truth(columns=LATIN)),
    "compressed": case("t.csv.gz", packed(text(rows=ROWS)), Truth(rows=ROWS)),
    "compressed tabs": case("t.tsv.gz", packed(text(sep="\t"))),
    "scientific": case(
        "t.csv", "a,b\n1e-3,2E5\n.5,6.\n", Truth(np.array([[1e-3, 2e5], [0.5, 6.0]]), ("a", "b"))
    ),
    "one column": case("t.csv", "a\n1\n5\n2\n", Truth(np.array([[1.0], [5.0], [2.0]]), ("a",))),
    # European tables.
    "semicolons": case("t.csv", text(sep=";"), Truth(says="separator ';'")),
    "semicolons, decimal comma": case(
        "t.csv", text(sep=";", decimal=","), Truth(says="separator ';'; decimal comma")
    ),
    "decimal comma, row names": case(
        "t.csv", text(sep=";", decimal=",", rows=ROWS), Truth(rows=ROWS, says="decimal comma")
    ),
    "decimal comma, tabs": case("t.tsv", text(sep="\t", decimal=","), Truth(says="decimal comma")),
    "decimal comma, quoted": case(
        "t.csv",
        '"a","b"\n"1,5","2,25"\n"0,5","7,1"\n',
        Truth(np.array([[1.5, 2.25], [0.5, 7.1]]), ("a", "b"), says="decimal comma"),
    ),
    "decimal comma, spaces": case("t.txt", text(sep=" ", decimal=","), Truth(says="decimal comma")),
    "Excel's sep= line": case("t.csv", "sep=;\n" + text(sep=";")),
    "thousands of decimals": case(
        "t.csv",
        "a;b\n1,234;2,345\n3,456;4,567\n",
        Truth(np.array([[1.234, 2.345], [3.456, 4.567]]), ("a", "b")),
        decimal=",",
    ),
    # Headers of numbers.
    "years": case(
        "t.csv",
        text(WIDE, YEARS, WIDE_NAMES, corner="name"),
        Truth(WIDE, YEARS, WIDE_NAMES, says="header found: 2019"),
    ),
    "years, empty corner": case(
        "t.csv", text(WIDE, YEARS, WIDE_NAMES), Truth(WIDE, YEARS, WIDE_NAMES)
    ),
    "years as given": case("t.csv", text(WIDE, YEARS), Truth(WIDE, YEARS), header=True),
    "wavelengths as given": case(
        "t.csv", text(WIDE, WAVELENGTHS), Truth(WIDE, WAVELENGTHS), header=True
    ),
    "first row is data, as given": case("t.csv", text(WIDE, None), Truth(WIDE, None), header=False),
    "pandas, running header": case(
        "t.csv",
        text(header=("0", "1", "2")),
        Truth(columns=("0", "1", "2"), says="running numbers"),
    ),
    "pandas, running header and index": case(
        "t.csv",
        text(header=("0", "1", "2"), rows=tuple("01234")),
        Truth(columns=("0", "1", "2"), rows=tuple("01234")),
    ),
    # Indices and identifiers.
    "pandas, to_csv": case(
        "t.csv", frame("to_csv"), Truth(rows=tuple("01234"), says="running numbers")
    ),
    "pandas, to_csv, named index": case("t.csv", frame("to_csv", index=ROWS), Truth(rows=ROWS)),
    "pandas, to_csv, index label": case(
        "t.csv", frame("to_csv", index_label="id"), Truth(rows=tuple("01234"))
    ),
    "pandas, read and written again": case(
        "t.csv", text(rows=tuple("01234"), corner="Unnamed: 0"), Truth(rows=tuple("01234"))
    ),
    "identifiers": case(
        "t.csv",
        text(rows=IDENTIFIERS, corner="sample_id"),
        Truth(rows=IDENTIFIERS, says="identifiers"),
    ),
    "R, row numbers": case(
        "t.csv", text(rows=tuple("12345"), quote='"'), Truth(rows=tuple("12345"))
    ),
    "row numbers without header": case(
        "t.csv", text(header=None, rows=tuple("12345")), Truth(columns=None, rows=tuple("12345"))
    ),
    "index by name": case(
        "t.csv", text(rows=IDENTIFIERS, corner="when"), Truth(rows=IDENTIFIERS), index="when"
    ),
    "index by number": case(
        "t.csv", text(rows=IDENTIFIERS, corner="when"), Truth(rows=IDENTIFIERS), index="1"
    ),
    "index that is data": case(
        "t.csv",
        text(rows=tuple("12345"), corner="day"),
        Truth(np.column_stack([np.arange(1, 6.0), BODY]), ("day", *NAMES)),
        index="none",
    ),
    "dates name rows": case(
        "t.csv",
        text(rows=tuple(f"2024-01-0{i}" for i in range(1, 6)), corner="date"),
        Truth(rows=tuple(f"2024-01-0{i}" for i in range(1, 6))),
    ),
    # Classes.
    "species": case(
        "t.csv",
        with_column("species", SPECIES),
        Truth(labels=SPECIES, says="true classes from column 4"),
    ),
    "species first": case("t.csv", with_column("species", SPECIES, at=0), Truth(labels=SPECIES)),
    "class by name": case(
        "t.csv", with_column("sex", "fmmff"), Truth(labels=tuple("fmmff")), label_column="sex"
    ),
    "numeric class by name": case(
        "t.csv", with_column("target", "00111"), Truth(labels=tuple("00111")), label_column="target"
    ),
    "numeric class is data": case(
        "t.csv",
        with_column("type", "00111"),
        Truth(np.column_stack([BODY, [0, 0, 1, 1, 1]]), (*NAMES, "type")),
        label_column="none",
    ),
    "no header, class by number": case(
        "t.csv",
        with_column("", SPECIES).split("\n", 1)[1],
        Truth(columns=None, labels=SPECIES),
        label_column="4",
    ),
    "names and classes": case(
        "t.csv",
        with_column("class", SPECIES, at=4, rows=ROWS, corner="name"),
        Truth(rows=ROWS, labels=SPECIES),
    ),
    "semicolons, decimal comma, class": case(
        "t.csv",
        with_column("species", SPECIES).replace(".", "#").replace(",", ";").replace("#", ","),
        Truth(labels=SPECIES, says="decimal comma"),
    ),
    "drop": case(
        "t.csv", with_column("city", ("Ulm", "Bonn", "Kiel", "Jena", "Hof")), drop=("city",)
    ),
    # Gaps and booleans.
    "gaps, masked": case(
        "t.csv",
        "a,b\n1,NA\n,4\n5,n/a\n",
        Truth(np.array([[1, np.nan], [np.nan, 4], [5, np.nan]]), ("a", "b"), says="3 missing"),
        missing="mask",
    ),
    "gaps, own word": case(
        "t.csv",
        "a,b\n1,-9\n3,4\n5,6\n",
        Truth(np.array([[1, -9.0], [3, 4], [5, 6]]), ("a", "b")),
        na=("gone",),
        missing="mask",
    ),
    "booleans": case(
        "t.csv",
        "a,b\n1,TRUE\n2,FALSE\n5,TRUE\n",
        Truth(np.array([[1.0, 1], [2, 0], [5, 1]]), ("a", "b")),
    ),
    # Workbooks and Parquet.
    "workbook": case("t.xlsx", sheet([NAMES, *BODY.tolist()])),
    "workbook with names": case(
        "t.xlsx",
        sheet([("", *NAMES), *([r, *v] for r, v in zip(ROWS, BODY.tolist(), strict=True))]),
        Truth(rows=ROWS),
    ),
    "workbook by pandas": case("t.xlsx", frame("to_excel"), Truth(rows=tuple("01234"))),
    "workbook with classes": case(
        "t.xlsx",
        frame("to_excel", index=None, more={"species": SPECIES}),
        Truth(rows=tuple("01234"), labels=SPECIES),
    ),
    "Parquet": case("t.parquet", frame("to_parquet")),
    "Parquet with index": case("t.parquet", frame("to_parquet", index=ROWS), Truth(rows=ROWS)),
    "Parquet with classes": case(
        "t.parquet", frame("to_parquet", more={"species": SPECIES}), Truth(labels=SPECIES)
    ),
    # R: write.table, write.csv, write.csv2.
    "R, write.table": case("t.txt", r_table(), Truth(rows=tuple("12345"), says="white space")),
    "R, write.table, names with spaces": case(
        "t.txt",
        r_table(header=("a x", "b", "c"), rows=SPACED),
        Truth(columns=("a x", "b", "c"), rows=SPACED),
    ),
    "R, write.table, class with spaces": case(
        "t.txt",
        r_table(last=("species", ["Iris setosa"] * 3 + ["Iris versicolor"] * 2)),
        Truth(rows=tuple("12345"), labels=("Iris setosa",) * 3 + ("Iris versicolor",) * 2),
    ),
    "R, write.table without row names": case("t.txt", text(sep=" ", quote='"')),
    "R, write.table without quotes": case(
        "t.tsv", text(sep="\t", rows=tuple("12345"), corner=None), Truth(rows=tuple("12345"))
    ),
    "R, write.csv2": case(
        "t.csv",
        text(sep=";", decimal=",", rows=tuple("12345"), quote='"'),
        Truth(rows=tuple("12345"), says="decimal comma"),
    ),
    # Excel and other programs of offices.
    "Excel, mark, sep= line, decimal comma": case(
        "t.csv", b"\xef\xbb\xbfsep=;\n" + text(sep=";", decimal=",").encode()
    ),
    "Excel, Windows-1252, decimal comma": case(
        "t.csv",
        text(sep=";", decimal=",", header=LATIN).encode("cp1252"),
        Truth(columns=LATIN, says="Windows-1252"),
    ),
    "Latin-1 row names": case(
        "t.csv",
        text(rows=("Köln", "Tübingen", "r3", "r4", "r5"), corner="city").encode("latin-1"),
        Truth(rows=("Köln", "Tübingen", "r3", "r4", "r5")),
    ),
    "mixed line ends": case("t.csv", text().replace("\n", "\r\n", 2)),
    "old Macintosh line ends": case("t.csv", text(end="\r")),
    "separator after every line": case("t.csv", text(end=",\n"), Truth(says="empty: column 4")),
    "separator after rows": case("t.csv", text(end=",\n").replace("c,", "c", 1)),
    "separator after the header": case("t.csv", text().replace("c\n", "c,\n", 1)),
    "empty column inside": case(
        "t.csv", with_column("", [""] * 5, at=1), Truth(says="empty: column 2")
    ),
    "numbers in quotes": case("t.csv", re.sub(r"([^,\n]+)", r'"\1"', text())),
    "names with line ends": case(
        "t.csv",
        text(rows=('"u\nv"', '"say ""so"""', "r3", "r4", "r5"), corner="name"),
        Truth(rows=("u\nv", 'say "so"', "r3", "r4", "r5")),
    ),
    "thousands of decimal points": case(
        "t.csv",
        "a;b\n1.234;2.345\n3.456;4.567\n",
        Truth(np.array([[1.234, 2.345], [3.456, 4.567]]), ("a", "b")),
        decimal=".",
    ),
    "columns without names": case(
        "t.csv", text(header=("a", "", "")), Truth(columns=("a", "column 2", "column 3"))
    ),
    "columns with one name": case(
        "t.csv", text(header=("a", "a", "b")), Truth(columns=("a", "a", "b"))
    ),
    "comment lines inside": case(
        "t.csv",
        text().replace("\n6.2", "\n# from here on by hand\n6.2") + "# end\n",
        Truth(says="2 comment lines"),
    ),
    "MATLAB's comment": case("t.csv", "% made by hand\n" + text(), Truth(says="1 comment line")),
    # Codes, which are words of digits.
    "postal codes": case(
        "t.csv", text(rows=CODES, corner="plz"), Truth(rows=CODES, says="row names")
    ),
    "long identifiers": case("t.csv", text(rows=LONG, corner="id"), Truth(rows=LONG)),
    "codes as data": case(
        "t.csv",
        "a,b\n01,2\n10,4\n09,5\n",
        Truth(np.array([[1.0, 2], [10, 4], [9, 5]]), ("a", "b")),
        index="none",
    ),
    "row names with a gap": case(
        "t.csv",
        text(rows=("u", "", "w", "x", "z"), corner="name"),
        Truth(rows=("u", "line 3", "w", "x", "z")),
    ),
    "class with a gap": case(
        "t.csv",
        with_column("species", ("u", "", "v", "u", "v")),
        Truth(labels=("u", "", "v", "u", "v"), says="1 without a class"),
    ),
    # Axes, if it is said what they are.
    "years as row names": case(
        "t.csv", text(rows=YEARS[:5], corner="year"), Truth(rows=YEARS[:5]), index="year"
    ),
    "wavelengths as row names": case(
        "t.csv",
        text(header=None, rows=WAVELENGTHS[:5]),
        Truth(columns=None, rows=WAVELENGTHS[:5]),
        index="1",
    ),
    "Excel's times": case(
        "t.csv",
        text(rows=("08:00", "08:15", "08:30", "08:45", "09:00"), corner="Zeit"),
        Truth(rows=("08:00", "08:15", "08:30", "08:45", "09:00")),
    ),
    # What is left out may hold anything; numbers may stand for gaps.
    "dropped column of marks": case(
        "t.csv", with_column("share", ("5%", "NA", "7%", "x", "")), drop=("share",)
    ),
    "number that stands for a gap": case(
        "t.csv",
        "a,b\n1,-999\n3,4\n5,6\n",
        Truth(np.array([[1, np.nan], [3, 4], [5, 6]]), ("a", "b"), says="1 missing"),
        na=("-999",),
        missing="mask",
    ),
    "first row counts, class comes again": case(
        "t.csv",
        "1,2,3,u\n4,5,6,v\n3,3,3,u\n",
        Truth(np.array([[1.0, 2, 3], [4, 5, 6], [3, 3, 3]]), None, labels=("u", "v", "u")),
        label_column="4",
    ),
    # scanpy and gene tables.
    "scanpy, cells by genes": case(
        "t.csv",
        text(rows=tuple(f"AAACC{i}-1" for i in range(5)), header=("GeneA", "GeneB", "GeneC")),
        Truth(columns=("GeneA", "GeneB", "GeneC"), rows=tuple(f"AAACC{i}-1" for i in range(5))),
    ),
    "genes by samples": case("t.csv", text(rows=GENES, corner="gene"), Truth(rows=GENES)),
    "Parquet with two indices": case(
        "t.parquet",
        frame("to_parquet", index=[list("uuvvv"), list("12123")]),
        Truth(rows=("u/1", "u/2", "v/1", "v/2", "v/3")),
    ),
    "Parquet with long identifiers": case(
        "t.parquet",
        frame("to_parquet", index=[int(name) for name in LONG], index_name="id"),
        Truth(rows=LONG),
    ),
    "workbook, empty column": case(
        "t.xlsx",
        sheet(
            [
                ("n", None, *NAMES),
                *([r, None, *v] for r, v in zip(ROWS, BODY.tolist(), strict=True)),
            ]
        ),
        Truth(rows=ROWS, says="empty: column 2"),
    ),
    "workbook, codes as text": case(
        "t.xlsx",
        sheet([("plz", *NAMES), *([r, *v] for r, v in zip(CODES, BODY.tolist(), strict=True))]),
        Truth(rows=CODES),
    ),
}

REFUSED: dict[str, tuple[str, str | bytes, str, TableOptions]] = {
    "years over bare rows": (
        "t.csv",
        text(WIDE, YEARS),
        "Pass --header or --no-header",
        TableOptions(),
    ),
    "wavelengths over bare rows": (
        "t.csv",
        text(WIDE, WAVELENGTHS),
        "Pass --header or --no-header",
        TableOptions(),
    ),
    "falling wavelengths": (
        "t.csv",
        text(WIDE, WAVELENGTHS[::-1]),
        "Pass --header or --no-header",
        TableOptions(),
    ),
    "three years": ("t.csv", text(BODY, YEARS[:3]), "Pass --header or --no-header", TableOptions()),
    "years over odd corner": (
        "t.csv",
        text(WIDE, YEARS, WIDE_NAMES, corner="Bundesland"),
        "--header",
        TableOptions(),
    ),
    "running numbers with a name": (
        "t.csv",
        text(rows=tuple("12345"), corner="day"),
        r"column 1 \(`day`\) seems to hold running numbers.*--drop day.*--index day",
        TableOptions(),
    ),
    "running numbers inside": (
        "t.csv",
        with_column("n", "12345"),
        r"column 4 \(`n`\) seems to hold running numbers",
        TableOptions(),
    ),
    "identifiers inside": (
        "t.csv",
        with_column("patient_id", IDENTIFIERS),
        r"`patient_id`\) seems to hold identifiers.*--drop patient_id",
        TableOptions(),
    ),
    "numeric classes": (
        "t.csv",
        with_column("target", "00111"),
        r"`target`\) may hold classes.*--label-column target",
        TableOptions(),
    ),
    "words inside": (
        "t.csv",
        with_column("city", ("Ulm", "Bonn", "Kiel", "Jena", "Hof")),
        r"column 4 \(`city`\) holds words \(`Ulm`\).*--drop city",
        TableOptions(),
    ),
    "classes without a known name": (
        "t.csv",
        with_column("sex", "fmmff"),
        r"--label-column sex",
        TableOptions(),
    ),
    "mixed decimals": (
        "t.csv",
        "a;b\n1,5;2.5\n3,5;4.5\n",
        "decimal comma.*and with a point",
        TableOptions(),
    ),
    "thousands or decimals": (
        "t.csv",
        "a;b\n1,234;2,345\n3,456;4,567\n",
        "thousands separator",
        TableOptions(),
    ),
    "thousands in quotes": (
        "t.csv",
        'a,b\n"1,234.5",2\n"3,456.5",4\n',
        "not a plain number|holds words",
        TableOptions(),
    ),
    "gap": (
        "t.csv",
        "a,b\n1,2\n3,NA\n5,6\n",
        r"line 3, column 2 \(`b`\): `NA` stands for a missing value.*--missing mask",
        TableOptions(),
    ),
    "empty cell": (
        "t.csv",
        "a,b\n1,2\n3,\n5,6\n",
        r"line 3, column 2 \(`b`\): the cell is empty",
        TableOptions(),
    ),
    "decimal comma late": ("t.csv", text(sep=";") + "1,5;2;3\n", "decimal comma", TableOptions()),
    "percent": ("t.csv", "a,b\n1,2\n3,4\n5,12%\n", "Remove thousands", TableOptions()),
    "underscores are no digits": (
        "t.csv",
        "a,b\n1,2\n1_000,4\n5,6\n",
        r"line 3, column 1 \(`a`\): `1_000` is not a number",
        TableOptions(),
    ),
    "title above the header": (
        "t.csv",
        "Measurements of May\n" + text(),
        "the header must be the first line|cells",
        TableOptions(),
    ),
    "short row": (
        "t.csv",
        text() + "1,2\n",
        "line 7 has 2 cells, but line 2 has 3",
        TableOptions(),
    ),
    "header longer than the rows": (
        "t.csv",
        "a,b,c,d\n1,2,3\n4,5,6\n",
        "Every column needs a name",
        TableOptions(),
    ),
    "header shorter than the rows": ("t.csv", "a,b\n1,2,3\n4,5,6\n", "cells", TableOptions()),
    "only words": ("t.csv", "a,b\nu,v\nw,x\n", "holds words|no numeric columns", TableOptions()),
    "no such column": (
        "t.csv",
        text(),
        "--drop z.*no such column. Its columns are a, b, c",
        TableOptions(drop=("z",)),
    ),
    "column with two roles": ("t.csv", text(), "both name", TableOptions(index="a", drop=("a",))),
    "two sheets": (
        "t.xlsx",
        sheet([NAMES, *BODY.tolist()], other=[["x"], [1]]),
        "--key",
        TableOptions(),
    ),
    "binary": ("t.csv", bytes(range(256)), "not text", TableOptions()),
    "truncated .gz": ("t.csv.gz", packed(text())[:-20], r"t\.csv\.gz", TableOptions()),
    "option for another type": ("t.npy", b"", "is not a table", TableOptions(header=True)),
    "thousands with points": (
        "t.csv",
        "a;b\n1.234;2\n456;4\n12.000;5\n",
        "thousands separator.*--decimal \\.",
        TableOptions(),
    ),
    "thousands with points, twice": (
        "t.csv",
        "a;b\n1.234.567;2\n4;4\n5;5\n",
        "thousands, percent|thousands separators",
        TableOptions(),
    ),
    "thousands with spaces": (
        "t.csv",
        "a;b\n1 234;2\n3 456;4\n",
        "thousands, percent|thousands separators",
        TableOptions(),
    ),
    "thousands in Switzerland": (
        "t.csv",
        "a;b\n1'234;2\n3'456;4\n",
        "thousands, percent|thousands separators",
        TableOptions(),
    ),
    "currency": (
        "t.csv",
        "a,b\n$12,3\n$4,5\n",
        "thousands, percent|thousands separators",
        TableOptions(),
    ),
    "below detection": (
        "t.csv",
        "a,b\n<0.5,2\n1.2,4\n2.5,5\n",
        "`<0.5` is not a number",
        TableOptions(),
    ),
    "units": (
        "t.csv",
        "a,b,c\ncm,mm,kg\n" + text(header=None),
        "second header, such as units",
        TableOptions(),
    ),
    "pandas, header of two lines": (
        "t.csv",
        ",A,A,B\n,x,y,x\n" + text(header=None, rows=ROWS),
        "second header",
        TableOptions(),
    ),
    "dates as numbers": (
        "t.csv",
        text(rows=[f"2024010{i}" for i in range(1, 6)], corner="date"),
        r"column 1 \(`date`\) seems to hold increasing or decreasing numbers.*--index date",
        TableOptions(),
    ),
    "separator of a sheet": (
        "t.xlsx",
        sheet([["a", "b"], [1, 2], [3, 4]]),
        "--sep does not apply to .xlsx files",
        TableOptions(sep=";"),
    ),
    "header of Parquet": (
        "t.parquet",
        frame("to_parquet"),
        "--header does not apply to .parquet files",
        TableOptions(header=False),
    ),
    "a number for missing values": (
        "t.csv",
        "a,b\n1.0,999.0\n2.0,3.0\n",
        "`999.0` stands for a missing value",
        TableOptions(na=("999",)),
    ),
    "identifiers that repeat": (
        "t.csv",
        text(rows=("7", "9", "7", "4", "9"), corner="customer_id"),
        r"column 1 \(`customer_id`\) seems to hold codes or identifiers.*--drop customer_id",
        TableOptions(),
    ),
    "identifiers that repeat, last": (
        "t.csv",
        with_column("storeID", ("7", "9", "7", "4", "9")),
        r"column 4 \(`storeID`\) seems to hold codes",
        TableOptions(),
    ),
    "postal codes that repeat": (
        "t.csv",
        with_column("zip code", ("94103", "10001", "94103", "33101", "10001")),
        r"`zip code`\) seems to hold codes.*--drop 'zip code'",
        TableOptions(),
    ),
    "years that repeat": (
        "t.csv",
        with_column("year", ("2019", "2020", "2019", "2021", "2020"), at=1),
        r"column 2 \(`year`\) seems to hold years, dates",
        TableOptions(),
    ),
    "dates out of order": (
        "t.csv",
        with_column("order date", ("20240131", "20231201", "20240131", "20240228", "20230115")),
        r"`order date`\) seems to hold years, dates",
        TableOptions(),
    ),
    "timestamps out of order": (
        "t.csv",
        with_column("timestamp", ("1700000005", "1700000001", "1700000009", "1700000002", "17e8")),
        r"`timestamp`\) seems to hold years, dates or timestamps",
        TableOptions(),
    ),
    "row numbers out of order, no header": (
        "t.csv",
        text(header=None, rows=("3", "1", "5", "2", "4")),
        "column 1 seems to hold the numbers of the rows in another order",
        TableOptions(),
    ),
    "thousands with blanks between tabs": (
        "t.txt",
        "1 234\t5 678\n2 345\t6 789\n3 456\t7 891\n",
        "is not a plain number",
        TableOptions(),
    ),
    "years as rows": ("t.csv", text(rows=YEARS[:5], corner="year"), "--index year", TableOptions()),
    "years beside names": (
        "t.csv",
        text(np.column_stack([[2001, 2003, 2004, 2009, 2011], BODY]), ("year", *NAMES), ROWS),
        "--drop year",
        TableOptions(),
    ),
    "Excel's day numbers": (
        "t.csv",
        text(rows=[str(45292 + i) for i in range(5)], corner="when"),
        "--index when",
        TableOptions(),
    ),
    "wavelengths as rows": (
        "t.csv",
        text(rows=WAVELENGTHS[:5], corner="nm"),
        "--index nm",
        TableOptions(),
    ),
    "wavelengths as rows, no header": (
        "t.csv",
        text(header=None, rows=WAVELENGTHS[:5]),
        "--index 1",
        TableOptions(),
    ),
    "row numbers that fall": (
        "t.csv",
        text(rows=tuple("54321"), corner="n"),
        "--drop n",
        TableOptions(),
    ),
    "two indices of pandas": (
        "t.csv",
        text(np.column_stack([np.arange(5), BODY]), ("Unnamed: 0", *NAMES), tuple("01234")),
        r"column 2 \(`Unnamed: 0`\) seems to hold running numbers.*--drop 'Unnamed: 0'",
        TableOptions(),
    ),
    "codes inside": ("t.csv", with_column("plz", CODES), "holds codes.*--drop plz", TableOptions()),
    "class first, no header": (
        "t.csv",
        text(np.column_stack([np.repeat([1, 2, 3], 8), WIDE]), None),
        "column 1 may hold classes.*--label-column 1",
        TableOptions(),
    ),
    "class last, no header": (
        "t.csv",
        text(np.column_stack([WIDE, np.arange(24) % 2]), None),
        "column 7 may hold classes",
        TableOptions(),
    ),
    "scanpy, table of cells": (
        "t.csv",
        text(np.column_stack([WIDE, np.arange(24) % 3]), (*"abcdef", "leiden"), WIDE_NAMES),
        "--label-column leiden",
        TableOptions(),
    ),
    "running numbers or data": (
        "t.csv",
        "1,2,3\n4,7,6\n9,8,9\n",
        "--header or --no-header",
        TableOptions(),
    ),
    "wrong separator as given": (
        "t.csv",
        text(),
        "--sep tab.*','",
        TableOptions(sep="tab"),
    ),
    "web page": ("t.csv", "<!DOCTYPE html><html></html>", "web page", TableOptions()),
    "pointer of Git LFS": (
        "t.csv",
        "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n",
        "git lfs pull",
        TableOptions(),
    ),
    "JSON": ("t.txt", '{"a": 1}\n{"a": 2}\n', "JSON", TableOptions()),
    "Excel's errors": (
        "t.csv",
        "a,b\n1,#DIV/0!\n3,4\n5,6\n",
        "`#DIV/0!` is not a number",
        TableOptions(),
    ),
    "number that stands for a gap, not masked": (
        "t.csv",
        "a,b\n1,9999\n3,4\n5,6\n",
        "stands for a missing value",
        TableOptions(na=("9999",)),
    ),
    "long table": (
        "t.csv",
        "sample,gene,value\ns1,g1,3\ns1,g2,4\ns2,g1,5\ns2,g2,6\n",
        "long form.*pivot",
        TableOptions(),
    ),
    "libsvm": (
        "t.txt",
        "1 1:0.5 2:0.3\n0 1:0.2 3:0.9\n1 2:0.4 3:0.1\n",
        "holds words",
        TableOptions(),
    ),
    "footer": ("t.csv", text() + "Source: me\n", "line 7 has 1 cells", TableOptions()),
    "units in the first column": (
        "t.csv",
        "price,b\n12 EUR,3\n15 EUR,4\n11 EUR,9\n",
        r"column 1 \(`price`\) holds numbers with units or signs \(`12 EUR`\); remove",
        TableOptions(),
    ),
    "errors in the first column": (
        "t.csv",
        "size,b\n1.2±0.1,3\n1.5 ± 0.2,4\n1.1±0.1,9\n",
        "numbers with units or signs.*--index size",
        TableOptions(),
    ),
    "yen": ("t.csv", "a,b\n¥12,3\n¥15,4\n", "Remove thousands", TableOptions()),
    "words that repeat in the first column": (
        "t.csv",
        text(rows=("f", "m", "m", "f", "f"), corner="sex"),
        r"column 1 \(`sex`\) holds words.*--drop sex.*--label-column sex.*--index sex",
        TableOptions(),
    ),
    "words that repeat in the first column, no header": (
        "t.csv",
        text(header=None, rows=("M", "F", "M", "M", "F")),
        "column 1 holds words.*--label-column 1",
        TableOptions(),
    ),
    "a list of lists": ("t.csv", "[[1, 2], [3, 4]]\n", "JSON or a printed array", TableOptions()),
    "a printed array": ("t.txt", "[1 2 3]\n[4 5 6]\n", "JSON or a printed", TableOptions()),
    "Matrix Market under another name": (
        "t.txt",
        "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 2\n2 2 5\n",
        "Matrix Market file; give it the ending .mtx",
        TableOptions(),
    ),
    "ARFF": ("t.txt", "@RELATION iris\n@DATA\n1,2\n", "ARFF", TableOptions()),
    "workbook under another name": (
        "t.csv",
        sheet([NAMES, *BODY.tolist()]),
        "an Excel workbook.*ending .xlsx",
        TableOptions(),
    ),
    "compressed under another name": (
        "t.csv",
        packed(text()),
        "compressed; give it the ending .csv.gz",
        TableOptions(),
    ),
    "sizes above the entries": (
        "t.txt",
        "3\n4\n5\n1 1 2\n1 2 1\n2 3 4\n3 1 1\n3 4 2\n",
        "line 1 has 1 cells, but most lines have 3",
        TableOptions(),
    ),
}
