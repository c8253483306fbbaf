"""Format rows as text: our figure, that of the paper in brackets, and the best one in bold."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from orthoplus.bench.table import Column, Figure, Outcome, Row, Rows
from orthoplus.report.page import GridCell


class Line(NamedTuple):
    """A row as cells; a star marks the method if the row has a note."""

    case: str
    method: str
    cells: tuple[GridCell, ...]


def lines_of(outcome: Outcome) -> list[Line]:
    """Return every row of a table, case by case."""
    lines = []
    columns = outcome.table.columns
    for case, rows in Rows(outcome.rows).by_case().items():
        best = [_best(column, rows.values()) for column in columns]
        for method, row in rows.items():
            # The paper's figures refer to the full sizes.
            row = replace(row, paper={}) if outcome.is_quick else row
            cells = tuple(_cell(c, row, b) for c, b in zip(columns, best, strict=True))
            lines.append(Line(case, f"{method}{'*' if row.note else ''}", cells))
    return lines


def remarks_of(outcome: Outcome) -> list[str]:
    """Return the meanings of the columns and the notes of the rows, equal notes merged."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in outcome.rows:
        if row.note:
            found.setdefault(row.note, {}).setdefault(row.case, []).append(row.method)
    lines = [f"{c.title}: {c.about}" for c in outcome.table.columns if c.about and outcome.rows]
    for note, places in found.items():
        where = "; ".join(f"{case} {', '.join(methods)}" for case, methods in places.items())
        lines.append(f"* {note} ({where})")
    return lines


def _cell(column: Column, row: Row, best: float | None) -> GridCell:
    """Return our figure, the paper's in brackets if it has one, and whether ours is the best."""
    value = row.figures.get(column.key)
    paper = row.paper.get(column.key) if column.with_paper else None
    brackets = "" if paper is None else f"({_format(paper, column.spec)})"
    return GridCell(_format(value, column.spec), brackets, best is not None and value == best)


def _format(value: Figure, spec: str) -> str:
    """Format a number for its column; exponents have no leading zeros."""
    if value is None or value != value:  # NaN
        return "-"
    if isinstance(value, str):
        return value
    text = format(value, spec)
    if "e" in spec:
        digits, _, exponent = text.partition("e")
        text = "0" if value == 0 else f"{digits}e{int(exponent)}"
    return text


def _best(column: Column, rows: Iterable[Row]) -> float | None:
    """Return the best figure of a case; None if there is nothing to compare."""
    values = [row.figures.get(column.key) for row in rows]
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and v == v]
    if not column.best or len(numbers) < 2:
        return None
    return min(numbers) if column.best == "least" else max(numbers)
