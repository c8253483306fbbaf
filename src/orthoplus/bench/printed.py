"""Read the figures of tables 1 to 6 of the paper from ``paper/figures.csv``."""

import csv
from functools import cache
from importlib.resources import files

from orthoplus.bench.table import Figures

# Table 1 of the paper prints the number of solved instances out of this many; ours are percent.
PRINTED_INSTANCES = 50


@cache
def _read() -> dict[tuple[str, str, str], Figures]:
    text = files("orthoplus.bench").joinpath("paper/figures.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, str, str], Figures] = {}
    for line in csv.DictReader(text.splitlines()):
        table, case, method, *cells = line.items()
        figures = {key: float(cell) for key, cell in cells if cell}
        if "solved" in figures:
            figures["exact"] = 100.0 * figures.pop("solved") / PRINTED_INSTANCES
        found[table[1], case[1], method[1]] = figures
    return found


def printed(table: str, case: str, method: str) -> Figures:
    """Return the figures that the paper prints for a method on a case, by column; may be empty.

    Examples
    --------
    >>> printed("unmixing", "Samson", "OPNMF")
    {'angle': 0.348, 'cpu': 44.0}
    """
    return dict(_read().get((table, case, method), {}))


def printed_cases(table: str) -> dict[str, list[str]]:
    """Return the methods that the paper's table has for each of its cases."""
    found: dict[str, list[str]] = {}
    for name, case, method in _read():
        if name == table:
            found.setdefault(case, []).append(method)
    return found
