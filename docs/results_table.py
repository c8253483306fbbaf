"""Write the tables of results into the README, the paper and three pages, from recorded rows only.

``orthoplus bench all -o docs/results`` writes ``docs/results/rows.jsonl``, a row on each line, and
``python docs/results_table.py`` replaces what is between the two marks. A row is a JSON
object with ``table``, ``case`` and ``method``, its ``figures`` (what was measured) and, where the
paper prints them, the same keys in ``paper``. Shown is the mean of a task's headline figure,
or of the seconds, over the cases that every method of the task has. The README has one line per
task: ours, the paper's method as we run it and as it was printed, and the best of the others; the
page has one line for each method, and says where the tables were measured. `comparison_table`
makes the tables of the page "How it compares" and of the page on text.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "rows.jsonl"
TABLES = ROOT / "docs" / "results" / "tables.jsonl"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
PAPER = ROOT / "paper.md"
COMPARISON, TEXT = ROOT / "docs" / "comparison.md", ROOT / "docs" / "text.md"
ORIGIN = "origin"
EMPTY = "*No results have been recorded yet.*"
FIELDS = ("table", "case", "method", "figures")
_SECONDS = "cpu"

# The method of the paper, and what else is our own: the rest are other methods.
PAPERS = "EP4Orth+"
OWN = ("default", "certified", "orthoplus")
_VARIANTS = ("EP4Orth+ 1.05", "without search", "random starts", "penalty starts", "no search")

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


def read_rows(path: Path, needed: Iterable[str] = FIELDS) -> list[Row]:
    """All rows of the file."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            _check(row, f"{path.name}, line {number}", needed)
            rows.append(row)
    return rows


def render(rows: Iterable[Row]) -> str:
    """The Markdown table with every method, or a sentence where nothing was recorded."""
    head = ["| task: measure | method | mean | the paper | CPU s |", "|--|--|--:|--:|--:|"]
    return _table(head, [line for task in _tasks(rows) for line in _task_lines(task)])


def summarize(rows: Iterable[Row]) -> str:
    """The Markdown table with one line per task, or a sentence where nothing was recorded."""
    head = [
        "| task: measure | ours | EP4Orth+ | the paper's | best other | CPU s, in this order |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    return _table(head, [_summary_line(task) for task in _tasks(rows)])


def _table(head: list[str], lines: list[str]) -> str:
    return "\n".join(head + lines) if lines else EMPTY


def origin(tables: Iterable[Row]) -> str:
    """Say when, at which commit and on which processor each table was measured.

    One sentence for tables that were measured at the same commit on the same machine.
    """
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in tables:
        machine = row["machine"]
        versions = tuple(sorted(machine["versions"].items()))
        parts.setdefault((machine["commit"], machine["processor"], versions), []).append(row)
    lines = []
    for (commit, processor, versions), own in parts.items():
        begun = sorted(row["machine"]["started"] for row in own)
        names = ", ".join(
            f"`{row['table']}`{' (quick)' if row.get('quick') else ''}" for row in own
        )
        shown = ", ".join(f"{name} {dict(versions)[name]}" for name in ("python", "numpy", "numba"))
        lines.append(f"- {names}: commit {commit}, begun {begun[0]}, {processor}, {shown}.")
    return "\n".join(lines) if lines else EMPTY


def marks(name: str = "") -> tuple[str, str]:
    """Return the two lines between which a block stands; a page may have several with names."""
    own = f"results:{name}:" if name else "results:"
    return f"<!-- {own}begin -->", f"<!-- {own}end -->"


def fill(page: str, table: str, name: str = "") -> str:
    """The page with the block between the marks replaced."""
    first, last = marks(name)
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"The page has no block from {first} to {last}: put these two lines in.")
    return f"{before}{first}\n\n{table}\n\n{last}{after}"


def pages() -> dict[Path, dict[str, str]]:
    """Return the blocks of every page by name."""
    import comparison_table

    rows, tables = read_rows(RESULTS), read_rows(TABLES, ("table", "machine"))
    compared = {name: make(rows) for name, make in comparison_table.BLOCKS.items()}
    return {
        README: {"": summarize(rows)},
        PAPER: {"": summarize(rows)},
        PAGE: {"": render(rows), ORIGIN: origin(tables)},
        COMPARISON: compared,
        TEXT: {"models": comparison_table.documents(rows)},
    }


def main() -> None:
    """Fill all blocks of all pages."""
    for path, blocks in pages().items():
        page = path.read_text(encoding="utf-8")
        for name, table in blocks.items():
            page = fill(page, table, name)
        path.write_text(page, encoding="utf-8")


def _check(row: Row, where: str, needed: Iterable[str]) -> None:
    absent = [name for name in needed if name not in row]
    if absent:
        raise ValueError(
            f"{where} has no {', '.join(absent)}: a row of results needs {', '.join(needed)}. "
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
    """Return one line per method, the best first and in bold."""
    ordered = task.ordered(task.found)
    lines = []
    for name in ordered:
        value = text_of(task.value(name))
        cells = [
            task.title if name == ordered[0] else "",
            name,
            f"**{value}**" if task.value(name) == task.value(ordered[0]) else value,
            text_of(task.printed(name)),
            text_of(task.seconds(name)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _summary_line(task: _Task) -> str:
    """Return ours, the paper's method here and as printed, the best other; and their seconds."""
    ours = next((name for name in OWN if name in task.found), None)
    papers = PAPERS if PAPERS in task.found else None
    other = next(iter(task.ordered(set(task.found) - {*OWN, PAPERS, *_VARIANTS})), None)
    shown = [name for name in (ours, papers, other) if name is not None]
    best = task.value(task.ordered(shown)[0])

    def value(name: str | None) -> str:
        number = None if name is None else task.value(name)
        return f"**{text_of(number)}**" if number == best else text_of(number)

    cells = [
        task.title,
        value(ours),
        value(papers),
        text_of(task.printed(papers)) if papers else "",
        f"{value(other)} ({other})" if other else "",
        ", ".join(f"{task.seconds(name) or 0.0:.2g}" for name in shown),
    ]
    return f"| {' | '.join(cells)} |"


def _mean(cases: dict[str, Row], common: set[str], part: str, key: str) -> float | None:
    """The mean over the common cases; None where one of them is missing."""
    values = [cases[case].get(part, {}).get(key) for case in sorted(common)]
    return None if any(value is None for value in values) else fmean(values)


def text_of(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.modules["results_table"] = sys.modules["__main__"]
    sys.exit(main())
