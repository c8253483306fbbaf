"""Tables with one entry per line are refused, and tables of numbers are seldom asked about."""

import io

import numpy as np
import pytest
from people_tables import text

from orthoplus.io import FileError, TableOptions, read_matrix
from orthoplus.io.long_form import find_long_form

USERS, ITEMS = np.repeat(np.arange(1, 11), 6), np.tile(np.arange(1, 7), 10)
RATINGS = np.random.default_rng(0).integers(1, 6, 60)
TRIPLES = np.column_stack([USERS, ITEMS, RATINGS])
TIMES = np.random.default_rng(0).permutation(60) + 964982703


def refused(path, match, **options):
    with pytest.raises(FileError, match=match):
        read_matrix(path, table=TableOptions(**options))


@pytest.mark.parametrize(
    "content",
    [
        text(TRIPLES, ("user", "item", "rating")),
        text(TRIPLES, ("a", "b", "c")),
        text(TRIPLES, None),
        text(TRIPLES, ("user", "item", "rating"), tuple(map(str, range(60)))),
        text(TRIPLES[::5], ("row", "column", "value")),
        text(np.column_stack([TRIPLES, TIMES]), ("userId", "movieId", "rating", "timestamp")),
        text(np.column_stack([TRIPLES, TIMES]), None, sep="\t").replace("+", ""),
        "gene,cell,count\n" + "".join(f"g{i},c{j},{v}\n" for i, j, v in TRIPLES),
        "id,variable,value\n" + "".join(f"{i},v{j},{v}\n" for i, j, v in TRIPLES),
    ],
)
def test_entries_per_line_are_refused_with_the_way_out(tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    refused(tmp_path / "t.csv", r"long form.*\.pivot\(index=.*\.mtx.*--index none if")


def test_entries_per_line_are_refused_in_parquet_and_spreadsheets(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(TRIPLES, columns=["user", "item", "rating"])
    table.index = [f"r{i}" for i in range(60)]
    for file, method in (("t.parquet", "to_parquet"), ("t.xlsx", "to_excel")):
        raw = io.BytesIO()
        getattr(table, method)(raw)
        (tmp_path / file).write_bytes(raw.getvalue())
        refused(tmp_path / file, "long form")


@pytest.mark.parametrize("header", [None, ("source", "target")])
def test_edges_are_refused(tmp_path, header):
    pairs = np.unique(np.random.default_rng(0).integers(0, 60, (400, 2)), axis=0)
    (tmp_path / "t.csv").write_text(text(np.random.default_rng(1).permutation(pairs), header))
    refused(tmp_path / "t.csv", "hold a pair .* an edge of a graph.*sparse matrix")


def test_triples_are_data_if_asked(tmp_path):
    (tmp_path / "t.csv").write_text(text(TRIPLES, ("a", "b", "c")))
    content = read_matrix(tmp_path / "t.csv", table=TableOptions(index="none"))
    np.testing.assert_array_equal(content.values, TRIPLES)


def test_integers_are_seldom_taken_for_entries():
    n_asked = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n, top, width = rng.integers(20, 200), rng.integers(3, 60), rng.integers(2, 4)
        n_asked += find_long_form(None, list(rng.integers(0, top, (width, n)).astype(float))) > 0
    assert n_asked == 0


def test_names_of_keys_are_not_enough():
    rng = np.random.default_rng(0)
    rates = list(rng.random((3, 50)))
    assert find_long_form(("user", "item", "rating"), rates) == 0
    counts = [np.arange(50.0), *rng.poisson(9, (2, 50)).astype(float)]
    assert find_long_form(("user", "item", "rating"), counts) == 0
