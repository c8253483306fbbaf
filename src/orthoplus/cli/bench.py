"""``orthoplus bench``: the tables of the paper, the paper's figures beside ours."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from orthoplus.bench.table import LIMIT, QUICK_LIMIT
from orthoplus.cli import options as opt
from orthoplus.cli.ending import BAD_INPUT, DONE, INTERRUPTED, NOT_CONVERGED, guarded
from orthoplus.cli.summary import print_lines
from orthoplus.cli.terminal import complain, console, printable
from orthoplus.cli.writing import output_folder, write_text
from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError


def _tables() -> list[str]:
    from orthoplus.bench import GROUPS, TABLES

    return [*TABLES, *GROUPS]


@guarded
def bench(  # noqa: PLR0913
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            autocompletion=_tables,
            help="projection, synthetic, text, unmixing, indicators, qap, general, speed, onmf, "
            "or all.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sets, instances and seconds: under two minutes.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR",
                     help="Folder of the real data. [dim]default: ORTHOPLUS_DATA[/dim]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", rich_help_panel=opt.OUTPUT,
                     help="Write results.html, results.md, rows.jsonl and the pictures there."),
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=opt.OUTPUT,
                     help="Write every row as a line of JSON as soon as it is there."),
    ] = None,
    seed: opt.Seed = 0,
    limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.0, rich_help_panel=opt.RUN,
                     help="Processor seconds of one run of a rival. "
                     f"[dim]default: {LIMIT:g}, with --quick {QUICK_LIMIT:g}[/dim]"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", rich_help_panel=opt.RUN,
                     help="Keep the tables that an earlier run finished in the output folder."),
    ] = False,
    quiet: opt.Quiet = False,
) -> int:  # fmt: skip
    """Regenerate a table of the paper: ours and every rival in one run, the paper's beside it.

    [dim]orthoplus bench text --quick -o results[/dim]
    """
    from orthoplus.bench import names_of
    from orthoplus.bench.table import Session

    names = names_of(table)
    if data is not None and not data.is_dir():
        raise InputError(f"`--data {data}` is not a folder.")
    if resume and output is None:
        raise InputError("`--resume` needs `--output DIR`, the folder of the run to go on with.")
    words = ["bench", table, *(["--quick"] if quick else [])]
    words += ["--seed", str(seed)] if seed else []
    words += [] if limit is None else ["--limit", f"{limit:g}"]
    session = Session(quick=quick, folder=data, seed=seed, limit=limit)
    with nullcontext() if output is None else output_folder(output) as folder:
        outcomes = _run(names, session, Places(folder, jsonl, resume, words), is_silent=quiet)
    if not quiet:
        _print_end(folder, outcomes)
    return _code(outcomes)


@dataclass(frozen=True)
class Places:
    """Where a run writes, whether it goes on with what is there, and the words that started it."""

    folder: Path | None
    jsonl: Path | None
    is_resumed: bool
    words: Sequence[str]


def _run(names: Sequence[str], session: Any, places: Places, *, is_silent: bool) -> list[Any]:
    """Every table; rows are written as they come, the pages after each table."""
    from orthoplus.bench.records import Record, read_finished
    from orthoplus.bench.run import run_tables

    folder = places.folder
    done = read_finished(folder, session) if folder and places.is_resumed else {}
    outcomes: list[Any] = []
    with Record(session, folder, places.jsonl, done) as record:

        def on_row(table: str, row: Any) -> None:
            record.add_row(table, row)
            if not is_silent:
                _print_row(table, row)

        for outcome in run_tables(names, session, on_row, done):
            outcomes.append(outcome)
            if not outcome.is_earlier:
                record.add_table(outcome)
            if folder is not None:
                _write(folder, outcomes, places.words, record.machine)
            if not is_silent:
                _show(outcome)
    return outcomes


def _code(outcomes: list[Any]) -> int:
    """Bad input if nothing could be run, not converged if something could not."""
    from orthoplus.bench.run import INTERRUPTED as WORDS

    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if WORDS in failures:
        return INTERRUPTED
    if not failures and not any(outcome.n_failed for outcome in outcomes):
        return DONE
    if any(outcome.rows for outcome in outcomes):
        return NOT_CONVERGED
    for failure in failures:
        complain(f"Error: {failure}")
    return BAD_INPUT


def _print_row(table: str, row: Any) -> None:
    """Where it is, on standard error."""
    seconds = row.figures.get("cpu")
    spent = "" if seconds is None else f"  {seconds:.2f} s"
    words = f"  {row.note}" if row.is_failed else spent
    complain(f"{table}: {row.case}, {row.method}{words}")


def _show(outcome: Any) -> None:
    from rich.console import Console

    from orthoplus.bench.output import show

    show(Console(highlight=False, markup=False), outcome)


def _write(
    folder: Path, outcomes: list[Any], words: Sequence[str], machine: dict[str, Any]
) -> None:
    from orthoplus.bench.output import command_of, to_markdown, to_page

    for drawing in outcomes[-1].drawings:
        write_atomically(folder / f"{drawing.name}.png", partial(_put, drawing.png))
    command = command_of(words)
    write_text(folder / "results.md", to_markdown(outcomes, command, machine))
    write_text(folder / "results.html", to_page(outcomes, command, machine))


def _put(png: bytes, file: IO[bytes]) -> None:
    file.write(png)


def _print_end(folder: Path | None, outcomes: list[Any]) -> None:
    """How long it took, and what was written."""
    from orthoplus.bench.output import duration

    taken = sum(not outcome.is_earlier for outcome in outcomes)
    console().print(
        f"\n{duration(sum(o.seconds for o in outcomes))} in all"
        + (
            f", {len(outcomes) - taken} tables from the earlier run"
            if taken < len(outcomes)
            else ""
        )
        + "."
    )
    if folder is None:
        return
    console().print(f"Written to {printable(str(folder))}:", style="bold")
    files = {
        "results.html": "all tables and pictures on one page",
        "results.md": "the same as Markdown",
        "rows.jsonl": "every row with the machine and the versions",
        "tables.jsonl": "every finished table and how long it took",
    }
    drawings = [drawing for outcome in outcomes for drawing in outcome.drawings]
    print_lines(files | {f"{drawing.name}.png": drawing.caption for drawing in drawings})
