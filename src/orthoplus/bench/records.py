"""Write the files of a run: ``rows.jsonl``, one line per row, and ``tables.jsonl``, per table.

They contain everything that the pages show, so that an interrupted run can be resumed.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import IO, Any

from orthoplus.bench import TABLES, load_table
from orthoplus.bench.machine import describe_machine
from orthoplus.bench.table import Drawing, Outcome, Row, Session
from orthoplus.cli.writing import plain

ROWS, FINISHED = "rows.jsonl", "tables.jsonl"


class Record(ExitStack):
    """Write rows and finished tables as they are computed, and rows also to ``jsonl``.

    The rows of the tables in ``done``, those of an earlier run, are kept, and so are all
    other tables if the run is resumed with the tables ``asked``. Each table has the machine, the
    commit and the versions of the moment at which it began.
    """

    def __init__(
        self,
        session: Session,
        folder: Path | None,
        jsonl: Path | None,
        done: dict[str, Outcome],
        asked: Sequence[str] = tuple(TABLES),
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = _options(session)
        self.machines: dict[str, dict[str, Any]] = {}
        kept = {*done, *(name for name in TABLES if name not in asked)}
        self.rows: list[IO[str]] = [] if jsonl is None else [self._open(jsonl, set())]
        self.tables: list[IO[str]] = []
        if folder is not None:
            self.rows.append(self._open(folder / ROWS, kept))
            self.tables.append(self._open(folder / FINISHED, kept))

    def _open(self, path: Path, kept: set[str]) -> IO[str]:
        """Open a file that contains only the lines of the tables to keep."""
        records = [record for record in _read(path) if record["table"] in kept]
        file = self.enter_context(open(path, "w", encoding="utf-8"))
        for record in records:
            _write([file], json.dumps(record))
        return file

    def begin(self, table: str) -> None:
        """Record what the figures of a table depend on at its start."""
        self.machines[table] = describe_machine()

    def add_row(self, table: str, row: Row) -> None:
        """Write one row and flush it to disk."""
        _write(self.rows, json_line(table, row, self._context(table)))

    def add_table(self, outcome: Outcome) -> Outcome:
        """Record that a table is finished, and return it with its machine."""
        record = {
            "table": outcome.table.name,
            "seconds": round(outcome.seconds, 1),
            "failure": outcome.failure,
            "pictures": [{"name": d.name, "caption": d.caption} for d in outcome.drawings],
        }
        context = self._context(outcome.table.name)
        _write(self.tables, json.dumps(record | context, allow_nan=False))
        return replace(outcome, machine=context["machine"], limit=context["limit"])

    def _context(self, table: str) -> dict[str, Any]:
        return self.options | {"machine": self.machines[table]}


def json_line(table: str, row: Row, context: dict[str, Any]) -> str:
    """Return one row as strict JSON; numbers that are not finite become null."""
    return json.dumps({"table": table} | plain(asdict(row)) | context, allow_nan=False)


def read_finished(
    folder: Path, session: Session, asked: Sequence[str] = tuple(TABLES)
) -> dict[str, Outcome]:
    """Return the tables that an earlier run finished without a failure.

    Tables that are ``asked`` for must have been run with the options of the session; the others are
    shown with their own.
    """
    found, rows = {}, _read(folder / ROWS)
    for record in _read(folder / FINISHED):
        name = record["table"]
        own = tuple(
            Row(*(line[part.name] for part in fields(Row)))
            for line in rows
            if line["table"] == name
        )
        pictures = {folder / f"{p['name']}.png": p for p in record["pictures"]}
        options = _options(session) if name in asked else {"quick": session.quick}
        is_same = record.items() >= options.items()
        is_whole = own and all(path.is_file() for path in pictures)
        is_failed = record["failure"] or any(row.is_failed for row in own)
        if name in TABLES and is_same and is_whole and not is_failed:
            drawings = [
                Drawing(p["name"], p["caption"], path.read_bytes()) for path, p in pictures.items()
            ]
            outcome = Outcome(
                load_table(name), own, tuple(drawings), session.quick,
                seconds=record["seconds"], is_earlier=True, machine=record["machine"],
                limit=record["limit"],
            )  # fmt: skip
            if _is_understood(outcome):
                found[name] = outcome
    return found


def _is_understood(outcome: Outcome) -> bool:
    """Return whether the current table accepts these rows; it may have new methods."""
    try:
        _ = outcome.verdicts
    except (LookupError, TypeError, ValueError):
        return False
    return True


def _options(session: Session) -> dict[str, Any]:
    """Return what must agree before a table of an earlier run is reused."""
    return {"quick": session.quick, "seed": session.seed, "limit": session.seconds}


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a file as dictionaries, ignoring an incomplete last line."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError):
            records.append(json.loads(line))
    return records


def _write(files: list[IO[str]], line: str) -> None:
    for file in files:
        file.write(f"{line}\n")
        file.flush()
