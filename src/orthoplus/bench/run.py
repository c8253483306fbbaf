"""Running tables: one after the other, rows written as they come, failures kept as sentences."""

from collections.abc import Callable, Iterator, Sequence

from threadpoolctl import threadpool_limits

from orthoplus.bench import load_table
from orthoplus.bench.table import Outcome, Picture, Row, Session
from orthoplus.datasets import MissingDataError


def run_tables(
    names: Sequence[str], session: Session, on_row: Callable[[str, Row], None]
) -> Iterator[Outcome]:
    """Each table as it is done; ``on_row(name, row)`` is called with every row.

    A table that lacks its data ends with what it has and says why; so
    does one that is interrupted, after which no other is run.
    """
    for name in names:
        outcome, is_interrupted = _run(name, session, on_row)
        yield outcome
        if is_interrupted:
            return


def _run(name: str, session: Session, on_row: Callable[[str, Row], None]) -> tuple[Outcome, bool]:
    table = load_table(name)
    rows: list[Row] = []
    pictures: list[Picture] = []
    failure, is_interrupted = "", False
    try:
        # One thread: comparisons are about methods, and a busy machine disturbs less.
        with threadpool_limits(1):
            for item in table.run(session):
                if isinstance(item, Picture):
                    pictures.append(item)
                else:
                    rows.append(item)
                    on_row(name, item)
    except MissingDataError as error:
        failure = str(error)
    except KeyboardInterrupt:
        failure, is_interrupted = (
            "Interrupted: the rows above are complete, the rest is missing.",
            True,
        )
    verdicts = tuple(table.judge(rows)) if rows and not failure else ()
    outcome = Outcome(table, tuple(rows), tuple(pictures), verdicts, session.quick, failure)
    return outcome, is_interrupted
