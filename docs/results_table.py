"""Write the tables of results into the README and the results page, from recorded rows only.

``orthoplus bench all -o docs/results`` writes ``docs/results/rows.jsonl``, a row on each line, and
``python docs/results_table.py`` replaces what stands between the two marks from it. A row is a JSON
object with ``table``, ``case`` and ``method``, its ``figures`` (what was measured) and, where the
paper prints them, the same keys in ``paper``. Shown is the mean of a task's headline figure,
or of the seconds, over the cases that every method of the task has. The README has one line a task:
ours, the paper's method as we run it and as it was printed, and the best of the others; the page
has one line for each method.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "rows.jsonl"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
EMPTY = "*No results have been recorded yet.*"
_FIELDS = ("table", "case", "method", "figures")
_SECONDS = "cpu"

# The method of the paper, and what else is our own: the rest are other methods.
_PAPERS = "EP4Orth+"
_OWN = ("default", "certified", "orthoplus")
_VARIANTS = ("EP4Orth+ 1.05", "without search", "random starts", "no search")

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
    """The Markdown table with every method, or a sentence where nothing was recorded."""
    head = ["| task: measure | method | mean | the paper | CPU s |", "|--|--|--:|--:|--:|"]
    return _table(head, [line for task in _tasks(rows) for line in _task_lines(task)])


def summarise(rows: Iterable[Row]) -> str:
    """The Markdown table with one line a task, or a sentence where nothing was recorded."""
    head = [
        "| task: measure | ours | EP4Orth+ | the paper's | best other | CPU s, in this order |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    return _table(head, [_summary_line(task) for task in _tasks(rows)])


def _table(head: list[str], lines: list[str]) -> str:
    return "\n".join(head + lines) if lines else EMPTY


def fill(page: str, table: str) -> str:
    """The page with the block between the marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"The page has no block from {BEGIN} to {END}: put these two lines in.")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Fill the block of both pages."""
    rows = read_rows(RESULTS)
    for path, table in ((README, summarise(rows)), (PAGE, render(rows))):
        path.write_text(fill(path.read_text(encoding="utf-8"), table), encoding="utf-8")


def _check(row: Row, where: str) -> None:
    absent = [name for name in _FIELDS if name not in row]
    if absent:
        raise ValueError(
            f"{where} has no {', '.join(absent)}: a row of results needs {', '.join(_FIELDS)}. "
            "Record it again or leave the line out."
        )


class _Task(NamedTuple):
    """The rows of a task by method and case, and the cases that all methods have."""

    headline: Headline
    found: dict[str, dict[str, Row]]
    common: set[str]

    @property
    def title(self) -> str:
        n = len(self.common)
        return f"{self.headline.title}, {n} case{'s' if n > 1 else ''}"

    def value(self, method: str) -> float | None:
        return _mean(self.found[method], self.common, "figures", self.headline.key)

    def printed(self, method: str) -> float | None:
        return _mean(self.found[method], self.common, "paper", self.headline.key)

    def seconds(self, method: str) -> float | None:
        return _mean(self.found[method], self.common, "figures", _SECONDS)

    def ordered(self, methods: Iterable[str]) -> list[str]:
        """The best first."""
        is_higher_better = self.headline.is_higher_better
        return sorted(methods, key=lambda name: self.value(name) or 0.0, reverse=is_higher_better)


def _tasks(rows: Iterable[Row]) -> list[_Task]:
    rows, tasks = list(rows), []
    for name, headline in HEADLINES.items():
        found: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row["table"] == name and row["figures"].get(headline.key) is not None:
                found.setdefault(row["method"], {})[row["case"]] = row
        common = set.intersection(*(set(cases) for cases in found.values())) if found else set()
        if common:
            tasks.append(_Task(headline, found, common))
    return tasks


def _task_lines(task: _Task) -> list[str]:
    """One line a method, the best first and in bold."""
    ordered = task.ordered(task.found)
    lines = []
    for name in ordered:
        value = _text(task.value(name))
        cells = [
            task.title if name == ordered[0] else "",
            name,
            f"**{value}**" if task.value(name) == task.value(ordered[0]) else value,
            _text(task.printed(name)),
            _text(task.seconds(name)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _summary_line(task: _Task) -> str:
    """Return ours, the paper's method here and as printed, the best other; and their seconds."""
    ours = next((name for name in _OWN if name in task.found), None)
    papers = _PAPERS if _PAPERS in task.found else None
    other = next(iter(task.ordered(set(task.found) - {*_OWN, _PAPERS, *_VARIANTS})), None)
    shown = [name for name in (ours, papers, other) if name is not None]
    best = task.value(task.ordered(shown)[0])

    def value(name: str | None) -> str:
        number = None if name is None else task.value(name)
        return f"**{_text(number)}**" if number == best else _text(number)

    cells = [
        task.title,
        value(ours),
        value(papers),
        _text(task.printed(papers)) if papers else "",
        f"{value(other)} ({other})" if other else "",
        ", ".join(f"{task.seconds(name) or 0.0:.2g}" for name in shown),
    ]
    return f"| {' | '.join(cells)} |"


def _mean(cases: dict[str, Row], common: set[str], part: str, key: str) -> float | None:
    """The mean over the common cases; None where one of them is missing."""
    values = [cases[case].get(part, {}).get(key) for case in sorted(common)]
    return None if any(value is None for value in values) else fmean(values)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
