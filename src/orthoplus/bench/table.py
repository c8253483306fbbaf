"""Define tables: columns, rows with our figures and the paper's, verdicts, pictures."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

Figure = float | int | str | None
Figures = Mapping[str, Figure]
T = TypeVar("T")

# CPU seconds for one run of a baseline, in a full and in a quick session.
LIMIT, QUICK_LIMIT = 30.0, 1.5


@dataclass(frozen=True)
class Column:
    """A figure of a table: its key in the rows, its heading, how it is printed.

    ``spec`` is a format such as ".1f"; ``best`` is "least" or "most" if the best figure of a case
    is set in bold; ``about`` is for the legend; ``with_paper`` is whether the paper's figure,
    which the rows have in any case, is shown next to it.
    """

    key: str
    title: str
    spec: str
    best: str = ""
    about: str = ""
    with_paper: bool = True

    @property
    def heading(self) -> str:
        """Return the title, with an arrow if lower or higher is better."""
        return self.title + {"least": " ↓", "most": " ↑", "": ""}[self.best]


@dataclass(frozen=True)
class Row:
    """The figures of one method on one case, and those the paper prints, by key of a column.

    ``note`` is a remark for the reader, such as a limit that was reached. If ``is_failed``, there
    is an error instead of figures, and ``note`` describes it.
    """

    case: str
    method: str
    figures: Figures = field(default_factory=dict)
    paper: Figures = field(default_factory=dict)
    note: str = ""
    is_failed: bool = False

    def number(self, key: str, default: float = 0.0) -> float:
        """Return a figure as a number, or the default if it is missing or a word."""
        value = self.figures.get(key)
        return float(value) if isinstance(value, (int, float)) else default


def failed_row(case: str, method: str, error: Exception) -> Row:
    """Return the row of a failed method, with the error."""
    return Row(case, method, note=f"failed, {in_words(error)}", is_failed=True)


def in_words(error: Exception) -> str:
    """Return the type of an error and its message on one line."""
    words = " ".join(str(error).split())[:200].rstrip(".")
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@dataclass(frozen=True)
class Task:
    """A task that computes some rows of a table; its failure does not affect other tasks.

    ``methods`` are those of the rows that ``compute()`` gives.
    """

    case: str
    methods: tuple[str, ...]
    compute: Callable[[], Iterable[Row]]


class Rows(list[Row]):
    """Rows of a table, in the order in which they were measured."""

    def by_case(self) -> dict[str, dict[str, Row]]:
        """Return case -> method -> row."""
        found: dict[str, dict[str, Row]] = {}
        for row in self:
            found.setdefault(row.case, {})[row.method] = row
        return found

    def by_method(self) -> "dict[str, Rows]":
        """Return the rows of each method."""
        found: dict[str, Rows] = {}
        for row in self:
            found.setdefault(row.method, Rows()).append(row)
        return found

    def numbers(self, key: str) -> list[float]:
        """Return one figure of all rows."""
        return [row.number(key) for row in self]


def one_row(case: str, method: str, measure: Callable[..., Figures], *arguments: Any) -> Task:
    """Return the task of one row: ``measure(*arguments)`` gives its figures, and its "note"."""

    def compute() -> list[Row]:
        figures = dict(measure(*arguments))
        note = str(figures.pop("note", "") or "")
        return [Row(case, method, figures, note=note)]

    return Task(case, (method,), compute)


@dataclass(frozen=True)
class Picture:
    """A picture that belongs to a table; ``draw(file)`` writes it as PNG."""

    name: str
    caption: str
    draw: Callable[[IO[bytes]], None]


@dataclass(frozen=True)
class Drawing:
    """A finished picture."""

    name: str
    caption: str
    png: bytes = field(repr=False)


@dataclass(frozen=True)
class Session:
    """One run of the benchmark: its options, and results that several tables share."""

    quick: bool = False  # smaller sizes, to check that everything works
    folder: Path | None = None  # folder of the real data sets
    seed: int = 0  # seed of all random instances and starts
    limit: float | None = None  # CPU seconds for one run of a baseline
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """Return the CPU seconds after which a run of a baseline is stopped."""
        return self.within(LIMIT, QUICK_LIMIT)

    def within(self, full: float, quick: float) -> float:
        """Return the seconds of the session for a table with its own limits."""
        return self.pick(full, quick) if self.limit is None else self.limit

    def pick(self, full: T, quick: T) -> T:
        """Return the full or the quick value, depending on the session."""
        return quick if self.quick else full

    def rng(self, *numbers: int) -> np.random.Generator:
        """Return a generator that depends on the seed of the session and these numbers."""
        return np.random.default_rng([self.seed, *numbers])

    def rngs(self, full: int, quick: int) -> list[np.random.Generator]:
        """Return generators of as many instances as belong to this session."""
        return [np.random.default_rng(self.seed + i) for i in range(self.pick(full, quick))]

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return ``compute()``, evaluated at most once per session."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]


Items = Iterator[Task | Picture]


@dataclass(frozen=True)
class Table:
    """A table of the benchmark.

    ``tasks(session)`` yields tasks, each computed before the next is requested, and pictures.
    ``judge(rows)`` gives sentences: what the rows of complete cases show, in figures; by default,
    which methods are best how often. ``quick_about`` says what `Session.quick` leaves out. Name and
    title are those of the registry, see `orthoplus.bench.load_table`.
    """

    about: str
    columns: tuple[Column, ...]
    tasks: Callable[[Session], Items]
    quick_about: str
    judge: Callable[[Rows], list[str]] | None = None
    name: str = ""
    title: str = ""

    def count_best(self, rows: Rows) -> list[str]:
        """Report how often each method has the best figure, for each ranked column."""
        lines, cases = [], rows.by_case().values()
        for key, title, _, best, *_ in (astuple(c) for c in self.columns if c.best):
            wins: Counter[str] = Counter()
            for found in cases:
                own = {name: row.number(key) for name, row in found.items() if key in row.figures}
                top = (min if best == "least" else max)(own.values(), default=None)
                wins.update(name for name, value in own.items() if value == top)
            words = ", ".join(f"{name} {count}" for name, count in wins.most_common())
            lines.append(f"Cases with the best {title}, of {len(cases)}: {words}.")
        return lines


@dataclass(frozen=True)
class Outcome:
    """A finished table, from this or an earlier run.

    ``failure`` says why it ended early; ``seconds`` is the elapsed time; ``machine`` is what
    `orthoplus.bench.machine.describe_machine` said when the table began; ``limit`` is the limit
    of CPU seconds for one run of another method.
    """

    table: Table
    rows: tuple[Row, ...]
    drawings: tuple[Drawing, ...]
    is_quick: bool
    failure: str = ""
    seconds: float = 0.0
    is_earlier: bool = False
    machine: dict[str, Any] | None = None
    limit: float | None = None

    @property
    def about(self) -> str:
        """Return what was run; a quick run names its own sizes first."""
        if not (self.is_quick and self.rows):
            return self.table.about
        return f"Quick run: {self.table.quick_about}. In full: {self.table.about}"

    @property
    def verdicts(self) -> list[str]:
        """Return the conclusions from complete cases; empty if the table ended early."""
        broken = {row.case for row in self.rows if row.is_failed}
        complete = Rows(row for row in self.rows if row.case not in broken)
        judge = self.table.judge or self.table.count_best
        return judge(complete) if complete and not self.failure else []

    @property
    def n_failed(self) -> int:
        """Return the rows with an error instead of figures."""
        return sum(row.is_failed for row in self.rows)
