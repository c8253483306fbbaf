"""Rows as text: one cell a figure, the paper's in brackets, the best of a case marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from orthoplus.bench.table import Column, Figure, Outcome, Row, cases_of

_MISSING = "-"


@dataclass(frozen=True)
class Cell:
    """Our figure, the paper's in brackets where it has one, and whether ours is the best."""

    ours: str
    paper: str = ""
    is_best: bool = False

    @property
    def text(self) -> str:
        """Both in one."""
        return f"{self.ours} {self.paper}".strip()


@dataclass(frozen=True)
class Line:
    """A row as cells; ``mark`` is a star where the row has a note."""

    case: str
    method: str
    mark: str
    cells: tuple[Cell, ...]


def lines_of(outcome: Outcome) -> list[Line]:
    """Every row of a table, case by case."""
    lines = []
    for case in cases_of(outcome.rows):
        rows = [row for row in outcome.rows if row.case == case]
        best = {column.key: _best(column, rows) for column in outcome.table.columns}
        lines += [
            Line(
                case,
                row.method,
                "*" if row.note else "",
                tuple(_cell(column, row, best[column.key]) for column in outcome.table.columns),
            )
            for row in rows
        ]
    return lines


def notes_of(outcome: Outcome) -> list[str]:
    """The notes of the rows, those that are equal together."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in outcome.rows:
        if row.note:
            found.setdefault(row.note, {}).setdefault(row.case, []).append(row.method)
    lines = []
    for note, places in found.items():
        where = "; ".join(f"{case} {', '.join(methods)}" for case, methods in places.items())
        lines.append(f"* {note} ({where})")
    return lines


def legend_of(outcome: Outcome) -> list[str]:
    """What the columns mean."""
    return [f"{c.title}: {c.about}" for c in outcome.table.columns if c.about]


def _cell(column: Column, row: Row, best: float | None) -> Cell:
    value = row.figures.get(column.key)
    printed = row.paper.get(column.key) if column.with_paper else None
    return Cell(
        _format(value, column.spec),
        "" if printed is None else f"({_format(printed, column.spec)})",
        best is not None and value == best,
    )


def _format(value: Figure, spec: str) -> str:
    """A number as the column prints it; exponents without leading zeros."""
    if value is None or value != value:  # NaN
        return _MISSING
    if isinstance(value, str):
        return value
    text = format(value, spec)
    if "e" in spec:
        digits, _, exponent = text.partition("e")
        text = "0" if value == 0 else f"{digits}e{int(exponent)}"
    return text


def _best(column: Column, rows: Sequence[Row]) -> float | None:
    """The best figure of a case; none where there is nothing to compare."""
    values = [row.figures.get(column.key) for row in rows]
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and v == v]
    if not column.best or len(numbers) < 2:
        return None
    return min(numbers) if column.best == "least" else max(numbers)
