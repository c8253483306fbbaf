"""Run tables one after the other, report rows as they are computed, and keep errors as rows."""

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from threadpoolctl import threadpool_limits

from orthoplus.bench import load_table
from orthoplus.bench.printed import printed
from orthoplus.bench.table import (
    Drawing,
    Outcome,
    Picture,
    Row,
    Session,
    Task,
    failed_row,
    in_words,
)
from orthoplus.datasets import MissingDataError

INTERRUPTED = "Interrupted: the rows above are complete, and the others are missing."

OnRow = Callable[[str, Row], None]
OnTable = Callable[[str], None]


def run_tables(
    names: Sequence[str],
    session: Session,
    on_row: OnRow,
    done: Mapping[str, Outcome] | None = None,
    on_table: OnTable = lambda name: None,
) -> Iterator[Outcome]:
    """Yield each table when it is finished; ``on_row(name, row)`` is called for every row.

    ``on_table(name)`` is called before a table begins.

    A table whose data are missing ends with the rows so far and the reason. So does a table that
    is interrupted, and no other table follows it. If a part of a table raises an error, its rows
    contain the message. Tables in ``done`` are not run again.
    """
    for name in names:
        outcome = (done or {}).get(name)
        if outcome is None:
            on_table(name)
            outcome = _run(name, session, on_row)
        yield outcome
        if outcome.failure == INTERRUPTED:
            return


def _run(name: str, session: Session, on_row: OnRow) -> Outcome:
    table = load_table(name)
    rows: list[Row] = []
    drawings: list[Drawing] = []
    failure, begin = "", time.perf_counter()
    try:
        # One thread makes methods comparable and depends less on the load of the machine.
        with threadpool_limits(1):
            for item in table.tasks(session):
                if isinstance(item, Picture):
                    file = io.BytesIO()
                    item.draw(file)
                    drawings.append(Drawing(item.name, item.caption, file.getvalue()))
                    continue
                for row in _compute(item):
                    paper = row.paper or printed(name, row.case, row.method)
                    rows.append(replace(row, paper=paper))
                    on_row(name, rows[-1])
    except MissingDataError as error:
        failure = str(error)
    except KeyboardInterrupt:
        failure = INTERRUPTED
    except Exception as error:  # one failure must not lose the other tables
        failure = f"Ended early by an error, {in_words(error)}."
    seconds = time.perf_counter() - begin
    return Outcome(table, tuple(rows), tuple(drawings), session.quick, failure, seconds)


def _compute(task: Task) -> list[Row]:
    """Return the rows of a task; if it fails, rows that say so."""
    try:
        return list(task.compute())
    except Exception as error:  # one failure must not lose the other rows
        return [failed_row(task.case, method, error) for method in task.methods]
