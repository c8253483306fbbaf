"""Write the table of results into the README and the results page, from recorded rows only.

``orthoplus bench all -o docs/results`` writes ``docs/results/rows.jsonl``, a row on each line, and
``python docs/results_table.py`` replaces what stands between the two marks from it. A row is a JSON
object with ``table``, ``case`` and ``method``, its ``figures`` (what was measured) and, where the
paper prints them, the same keys in ``paper``. One line of the table is one method on one task: the
mean of the task's headline figure over the cases that every method of the task has, and of its
seconds.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "rows.jsonl"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
EMPTY = "*No results have been recorded yet.*"
_FIELDS = ("table", "case", "method", "figures")
_SECONDS = "cpu"

Row = Mapping[str, Any]


class Headline(NamedTuple):
    """The one figure by which a task is summed up."""

    key: str
    title: str
    is_higher_better: bool


# In the order of the table.
HEADLINES = {
    "projection": Headline("exact", "projection: optimum found, %", True),
    "synthetic": Headline("refit", "planted data: residual", False),
    "text": Headline("purity", "documents and images: purity, %", True),
    "unmixing": Headline("angle", "unmixing: spectral angle", False),
    "indicators": Headline("purity", "embeddings: purity, %", True),
    "qap": Headline("gap", "assignment: above best known, %", False),
}


def read_rows(path: Path) -> list[Row]:
    """All rows of the file."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            _check(row, f"{path.name}, line {number}")
            rows.append(row)
    return rows


def render(rows: Iterable[Row]) -> str:
    """The Markdown table, or a sentence where nothing was recorded."""
    rows = list(rows)
    lines = [
        line
        for name, headline in HEADLINES.items()
        for line in _task_lines([row for row in rows if row["table"] == name], headline)
    ]
    if not lines:
        return EMPTY
    head = ["| task: measure | method | mean | the paper | CPU s |", "|--|--|--:|--:|--:|"]
    return "\n".join(head + lines)


def fill(page: str, table: str) -> str:
    """The page with the block between the marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"The page has no block from {BEGIN} to {END}: put these two lines in.")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main(pages: Iterable[Path] = PAGES, results: Path = RESULTS) -> None:
    """Fill the block of every page."""
    table = render(read_rows(results))
    for path in pages:
        path.write_text(fill(path.read_text(encoding="utf-8"), table), encoding="utf-8")


def _check(row: Row, where: str) -> None:
    absent = [name for name in _FIELDS if name not in row]
    if absent:
        raise ValueError(
            f"{where} has no {', '.join(absent)}: a row of results needs {', '.join(_FIELDS)}. "
            "Record it again or leave the line out."
        )


def _task_lines(rows: list[Row], headline: Headline) -> list[str]:
    """One line a method, the best first and in bold."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["figures"].get(headline.key) is not None:
            found.setdefault(row["method"], {})[row["case"]] = row
    if not found:
        return []
    common = set.intersection(*(set(cases) for cases in found.values()))
    if not common:
        return []
    means = {name: _mean(found[name], common, "figures", headline.key) for name in found}
    ordered = sorted(means, key=lambda name: means[name] or 0.0, reverse=headline.is_higher_better)
    title = f"{headline.title}, {len(common)} case{'s' if len(common) > 1 else ''}"
    lines = []
    for name in ordered:
        value = _text(means[name])
        cells = [
            title if name == ordered[0] else "",
            name,
            f"**{value}**" if means[name] == means[ordered[0]] else value,
            _text(_mean(found[name], common, "paper", headline.key)),
            _text(_mean(found[name], common, "figures", _SECONDS)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _mean(cases: dict[str, Row], common: set[str], part: str, key: str) -> float | None:
    """The mean over the common cases; None where one of them is missing."""
    values = [cases[case].get(part, {}).get(key) for case in sorted(common)]
    return None if any(value is None for value in values) else fmean(values)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
