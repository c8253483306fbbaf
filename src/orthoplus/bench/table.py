"""What a table is: columns, rows of figures with the paper's beside them, verdicts, pictures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

Figure = float | int | str | None

# Processor seconds of one run of a rival, and of one in a quick session.
LIMIT, QUICK_LIMIT = 30.0, 1.5


@dataclass(frozen=True)
class Column:
    """A figure of a table: its key in the rows, its heading, how it is printed.

    Parameters
    ----------
    key, title : str
    spec : str
        Format, such as ".1f".
    best : {"", "least", "most"}
        Which figure of a case is set in bold.
    about : str
        What it means, for the legend.
    with_paper : bool
        Whether the paper's figure is shown beside; it is in the rows in any case.
    """

    key: str
    title: str
    spec: str
    best: str = ""
    about: str = ""
    with_paper: bool = True


@dataclass(frozen=True)
class Row:
    """The figures of one method on one case, and those the paper prints.

    Attributes
    ----------
    case : str
        A data set, or the parameters of an instance.
    method : str
    figures : mapping
        Column key -> number; what is missing was not computed.
    paper : mapping
        The same keys, as printed in the paper.
    note : str
        Anything that the reader must know: a limit that was met, a failure.
    is_failed : bool
        Whether an error took the place of the figures; ``note`` says which.
    """

    case: str
    method: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    paper: Mapping[str, Figure] = field(default_factory=dict)
    note: str = ""
    is_failed: bool = False


@dataclass(frozen=True)
class Task:
    """A part of a table that is computed by itself, so that an error costs no other part.

    Attributes
    ----------
    case : str
    methods : tuple of str
        Of the rows that ``compute()`` gives.
    compute : callable
    """

    case: str
    methods: tuple[str, ...]
    compute: Callable[[], Iterable[Row]]


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
    """One call of the benchmark: its options, and the runs that several tables share.

    Parameters
    ----------
    quick : bool
        Fewer sets, instances and seconds: to see that it works, not for figures.
    folder : Path, optional
        Of the real data.
    seed : int
        Of every random instance and start.
    limit : float, optional
        Processor seconds of one run of a rival; by default `LIMIT`, or `QUICK_LIMIT`.
    """

    quick: bool = False
    folder: Path | None = None
    seed: int = 0
    limit: float | None = None
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def rival_seconds(self) -> float:
        """Processor seconds after which a run of a rival is stopped."""
        if self.limit is not None:
            return self.limit
        return QUICK_LIMIT if self.quick else LIMIT

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives, computed at most once in a session."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]


@dataclass(frozen=True)
class Table:
    """A table of the benchmark.

    Attributes
    ----------
    name, title, about : str
    columns : tuple of Column
    tasks : callable
        ``tasks(session)`` yields tasks, each computed before the next is asked for, and pictures.
    judge : callable
        ``judge(rows)`` gives sentences: what the rows of complete cases show, in figures.
    quick_about : str
        What `Session.quick` leaves out.
    """

    name: str
    title: str
    about: str
    columns: tuple[Column, ...]
    tasks: Callable[[Session], Iterator[Task | Picture]]
    judge: Callable[[Sequence[Row]], list[str]]
    quick_about: str


@dataclass(frozen=True)
class Outcome:
    """A table that was run, now or in an earlier run of the same options.

    ``failure`` says why it ended early; ``seconds`` are by the clock.
    """

    table: Table
    rows: tuple[Row, ...]
    drawings: tuple[Drawing, ...]
    is_quick: bool
    failure: str = ""
    seconds: float = 0.0
    is_earlier: bool = False

    @property
    def verdicts(self) -> list[str]:
        """What the complete cases show; nothing of a table that ended early."""
        broken = {row.case for row in self.rows if row.is_failed}
        complete = [row for row in self.rows if row.case not in broken]
        return self.table.judge(complete) if complete and not self.failure else []

    @property
    def n_failed(self) -> int:
        """Rows with an error in the place of figures."""
        return sum(row.is_failed for row in self.rows)


def cases_of(rows: Sequence[Row]) -> list[str]:
    """The cases in the order of the rows."""
    return list(dict.fromkeys(row.case for row in rows))


def figure_of(rows: Sequence[Row], case: str, method: str, key: str) -> float | None:
    """One number of the rows; None where it is not there."""
    for row in rows:
        if (row.case, row.method) == (case, method):
            value = row.figures.get(key)
            return float(value) if isinstance(value, (int, float)) else None
    return None


def geometric_mean(ratios: Sequence[float]) -> float:
    """exp of the mean of the logarithms; NaN of nothing.

    Examples
    --------
    >>> round(geometric_mean([1.0, 4.0]), 12)
    2.0
    """
    import numpy as np

    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else float("nan")
