"""The paper's figures are those of its source."""

import os
import re
from pathlib import Path

import pytest

from orthoplus.bench import printed as reader
from orthoplus.bench.printed import printed, printed_cases

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("ORTHOPLUS_DATA") or ROOT.parent / "shared" / "data")
PAPER = DATA.parent / "paper.tex"
# Order in which a table of the paper prints the figures of a method.
ORDERS = {
    "projection": ("exact", "gap", "cpu", "projections"),
    "synthetic": ("violation", "residual", "cpu"),
    "text": ("purity", "nmi", "entropy", "violation", "cpu"),
    "unmixing": ("angle", "cpu"),
    "indicators": ("purity", "nmi", "entropy", "cpu"),
}


# Entries read again from the printed tables, at corners where a slip of a row or column shows.
@pytest.mark.parametrize(
    ("table", "case", "method", "figures"),
    [
        ("projection", "k = 10, xi = 1", "EP4Orth+", (74, 1.2e-3, 0.01, 38.1)),
        ("projection", "k = 400, xi = 0.5", "EP4Orth+", (100, 0.0, 1.96, 99.8)),
        ("projection", "k = 300, xi = 0.98", "EP4Orth+", (40, 2.5e-4, 8.60, 718.6)),
        ("synthetic", "xi = 0", "U-onmf", (5.7e-2, 4.9e-16, 9)),
        ("synthetic", "xi = 100", "ONP-MF", (3.2e-3, 50.3, 32)),
        ("text", "R-t20", "EM-ONMF", (64.1, 57.4, 37.8, 30)),
        ("text", "Yale", "EP4Orth+", (44.8, 47.9, 52.1, 6e-16, 2)),
        ("text", "MNIST", "OPNMF", (55.1, 44.1, 55.9, 1.3, 218)),
        ("unmixing", "Urban", "EM-ONMF", (0.091, 17)),
        ("indicators", "UKBench", "KindAP", (90.64, 97.64, 2.36, 3215)),
    ],
)
def test_figures_are_those_printed(table, case, method, figures):
    found = printed(table, case, method)
    assert tuple(found[key] for key in ORDERS[table] if key in found) == figures
    assert set(found) <= set(ORDERS[table])


def test_tables_are_complete():
    counts = {table: [len(own) for own in printed_cases(table).values()] for table in ORDERS}
    assert counts["projection"] == [1] * 36
    assert counts["synthetic"] == [4] * 6
    assert counts["text"] == [6] * 9
    assert counts["unmixing"] == [6] * 3
    assert counts["indicators"] == [2] * 8
    assert printed("text", "T-l10", "default") == {}


def numbers_of(line):
    plain = re.sub(r"\\textbf\{([^}]*)\}|\\\\.*", r"\1", line)
    cells = [cell.strip() for cell in plain.split("&")[1:]]
    return [float(c) for c in cells if re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", c)]


def test_every_figure_is_in_the_source_of_the_paper():
    if not PAPER.is_file():
        pytest.skip(f"no {PAPER}")
    lines = [numbers_of(line) for line in PAPER.read_text(encoding="utf-8").splitlines()]
    lines += [line[2 + part :: 2] for line in lines for part in (0, 1)]  # two methods in turns
    for (table, case, method), figures in reader._read().items():
        wanted = [figures[key] for key in ORDERS[table] if key in figures]
        if table == "projection":
            wanted[0] *= reader.PRINTED_INSTANCES / 100.0
        size = len(wanted)
        runs = (line[i : i + size] for line in lines for i in range(len(line) - size + 1))
        assert any(run == wanted for run in runs), (table, case, method)
