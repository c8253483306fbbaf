"""The files of a run: ``rows.jsonl``, a line a row, and ``tables.jsonl``, a line a finished table.

They hold all that the pages show, so that an interrupted run can be taken up again.
"""

import json
import math
from pathlib import Path
from typing import IO, Any

from orthoplus.bench import TABLES, load_table
from orthoplus.bench.machine import describe_machine
from orthoplus.bench.table import Drawing, Outcome, Row, Session

ROWS, FINISHED = "rows.jsonl", "tables.jsonl"
# What must agree before a table of an earlier run is taken over.
_SAME = ("quick", "seed", "limit")


class Record:
    """Writes rows and finished tables while they come.

    Parameters
    ----------
    session : Session
    folder : Path, optional
        Gets both files.
    jsonl : Path, optional
        Gets the rows as well.
    done : dict
        Tables of an earlier run in the same folder, to be kept.
    """

    def __init__(
        self, session: Session, folder: Path | None, jsonl: Path | None, done: dict[str, Outcome]
    ) -> None:
        self.machine = describe_machine()
        self.context = _context(session) | {"machine": self.machine}
        kept = [] if folder is None else [_lines_of(folder / n, done) for n in (ROWS, FINISHED)]
        self.rows: list[IO[str]] = [] if jsonl is None else [_open(jsonl, [])]
        self.tables: list[IO[str]] = []
        if folder is not None:
            self.rows.append(_open(folder / ROWS, kept[0]))
            self.tables.append(_open(folder / FINISHED, kept[1]))

    def add_row(self, table: str, row: Row) -> None:
        """One more row, on disk at once."""
        _write(self.rows, json_line(table, row, self.context))

    def add_table(self, outcome: Outcome) -> None:
        """A table is done."""
        record = {
            "table": outcome.table.name,
            "seconds": round(outcome.seconds, 1),
            "failure": outcome.failure,
            "pictures": [{"name": d.name, "caption": d.caption} for d in outcome.drawings],
            **self.context,
        }
        _write(self.tables, json.dumps(record, allow_nan=False))

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, *exc: object) -> None:
        for file in (*self.rows, *self.tables):
            file.close()


def json_line(table: str, row: Row, context: dict[str, Any]) -> str:
    """One row as strict JSON; what is not finite becomes null."""
    record = {
        "table": table,
        "case": row.case,
        "method": row.method,
        "figures": {key: _plain(value) for key, value in row.figures.items()},
        "paper": {key: _plain(value) for key, value in row.paper.items()},
        "note": row.note,
        "is_failed": row.is_failed,
        **context,
    }
    return json.dumps(record, allow_nan=False)


def read_finished(folder: Path, session: Session) -> dict[str, Outcome]:
    """The tables that an earlier run with the same options finished without a failure."""
    found = {}
    rows = _records(folder / ROWS)
    for record in _records(folder / FINISHED):
        name = record["table"]
        is_same = {key: record[key] for key in _SAME} == _context(session)
        own = tuple(_row(line) for line in rows if line["table"] == name)
        pictures = [(p["name"], p["caption"]) for p in record["pictures"]]
        is_whole = own and all((folder / f"{p}.png").is_file() for p, _ in pictures)
        failed = record["failure"] or any(row.is_failed for row in own)
        if name in TABLES and is_same and is_whole and not failed:
            drawings = tuple(Drawing(p, c, (folder / f"{p}.png").read_bytes()) for p, c in pictures)
            seconds = record["seconds"]
            found[name] = Outcome(
                load_table(name), own, drawings, session.quick, seconds=seconds, is_earlier=True
            )
    return found


def _context(session: Session) -> dict[str, Any]:
    return {"quick": session.quick, "seed": session.seed, "limit": session.rival_seconds}


def _row(record: dict[str, Any]) -> Row:
    return Row(
        record["case"], record["method"], record["figures"], record["paper"], record["note"],
        record["is_failed"],
    )  # fmt: skip


def _records(path: Path) -> list[dict[str, Any]]:
    """The lines of a file as dictionaries; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _lines_of(path: Path, names: dict[str, Outcome]) -> list[str]:
    return [json.dumps(record) for record in _records(path) if record["table"] in names]


def _open(path: Path, lines: list[str]) -> IO[str]:
    file = open(path, "w", encoding="utf-8")  # closed with the record
    _write([file], *lines)
    return file


def _write(files: list[IO[str]], *lines: str) -> None:
    for file in files:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
