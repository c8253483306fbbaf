"""What a table is: columns, rows of figures with the paper's beside them, verdicts, pictures."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

Figure = float | int | str | None
Figures = Mapping[str, Figure]
T = TypeVar("T")

# Processor seconds of one run of another method, and of one in a quick session.
LIMIT, QUICK_LIMIT = 30.0, 1.5


@dataclass(frozen=True)
class Column:
    """A figure of a table: its key in the rows, its heading, how it is printed.

    ``spec`` is a format such as ".1f"; ``best`` is "least" or "most" if the best figure of a case
    is set in bold; ``about`` is for the legend; ``with_paper`` tells whether the paper's figure,
    which the rows have in any case, is shown beside.
    """

    key: str
    title: str
    spec: str
    best: str = ""
    about: str = ""
    with_paper: bool = True

    @property
    def heading(self) -> str:
        """The title, with an arrow if less or more of it is better."""
        return self.title + {"least": " ↓", "most": " ↑", "": ""}[self.best]


@dataclass(frozen=True)
class Row:
    """The figures of one method on one case, and those the paper prints, by key of a column.

    ``note`` is what the reader must know, such as a limit that was met. If ``is_failed``, an error
    took the place of the figures and ``note`` says which.
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
    """Return the row of a method that an error ended: it says which."""
    return Row(case, method, note=f"failed, {in_words(error)}", is_failed=True)


def in_words(error: Exception) -> str:
    """Return the type of an error and its message on one line."""
    words = " ".join(str(error).split())[:200].rstrip(".")
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@dataclass(frozen=True)
class Task:
    """A part of a table that is computed by itself, so that an error costs no other part.

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
    """A picture that was drawn."""

    name: str
    caption: str
    png: bytes = field(repr=False)


@dataclass(frozen=True)
class Session:
    """One call of the benchmark: its options, and the runs that several tables share."""

    quick: bool = False  # fewer sets, instances and seconds: to see that it works, not for figures
    folder: Path | None = None  # of the real data
    seed: int = 0  # of every random instance and start
    limit: float | None = None  # processor seconds of one run of another method
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """Processor seconds after which a run of another method is stopped."""
        return self.within(LIMIT, QUICK_LIMIT)

    def within(self, full: float, quick: float) -> float:
        """Return the seconds of the session for a table with limits of its own."""
        return self.pick(full, quick) if self.limit is None else self.limit

    def pick(self, full: T, quick: T) -> T:
        """Return the one that belongs to this session."""
        return quick if self.quick else full

    def rng(self, *numbers: int) -> np.random.Generator:
        """Return a generator that depends on the seed of the session and these numbers."""
        return np.random.default_rng([self.seed, *numbers])

    def rngs(self, full: int, quick: int) -> list[np.random.Generator]:
        """Return generators of as many instances as belong to this session."""
        return [np.random.default_rng(self.seed + i) for i in range(self.pick(full, quick))]

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives, computed at most once in a session."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]


Items = Iterator[Task | Picture]


@dataclass(frozen=True)
class Table:
    """A table of the benchmark.

    ``tasks(session)`` yields tasks, each computed before the next is asked for, and pictures.
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
        """Say how often each method has the best figure, for each column that has one."""
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
    """A table that was run, now or in an earlier run of the same options.

    ``failure`` says why it ended early; ``seconds`` are by the clock; ``machine`` is what
    `orthoplus.bench.machine.describe_machine` said when the table began.
    """

    table: Table
    rows: tuple[Row, ...]
    drawings: tuple[Drawing, ...]
    is_quick: bool
    failure: str = ""
    seconds: float = 0.0
    is_earlier: bool = False
    machine: dict[str, Any] | None = None

    @property
    def about(self) -> str:
        """What was run; for a quick run its own sizes, then those of the table."""
        if not (self.is_quick and self.rows):
            return self.table.about
        return f"Quick run: {self.table.quick_about}. In full: {self.table.about}"

    @property
    def verdicts(self) -> list[str]:
        """What the complete cases show; nothing of a table that ended early."""
        broken = {row.case for row in self.rows if row.is_failed}
        complete = Rows(row for row in self.rows if row.case not in broken)
        judge = self.table.judge or self.table.count_best
        return judge(complete) if complete and not self.failure else []

    @property
    def n_failed(self) -> int:
        """Rows with an error in the place of figures."""
        return sum(row.is_failed for row in self.rows)
