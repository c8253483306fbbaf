"""``orthoplus bench``: run benchmark tables and compare with the figures of the paper."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from orthoplus.bench import ALIASES, GROUPS, TABLES, names_of
from orthoplus.bench.table import LIMIT, QUICK_LIMIT, Session
from orthoplus.cli import options as opt
from orthoplus.cli.ending import BAD_INPUT, DONE, INTERRUPTED, NOT_CONVERGED, guarded
from orthoplus.cli.summary import print_lines
from orthoplus.cli.terminal import console, echo_stderr, printable
from orthoplus.cli.writing import output_folder, write_text
from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError

_WIDTH = max(map(len, TABLES)) + 2
_GROUPS = {name: ", ".join(own) for name, own in GROUPS.items()} | {"all": "every table"}
_LIST = "\n".join(f"{name:<{_WIDTH}}{words}" for name, words in (TABLES | _GROUPS).items())


@guarded
def bench(  # noqa: PLR0913
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            autocompletion=lambda: [*TABLES, *GROUPS, *ALIASES],
            help="A table or a group of tables from the list, or table1 to table6 of the paper.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run smaller instances: about a minute per table.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR",
                     help="Folder of the real data sets. [dim]default: ORTHOPLUS_DATA[/dim]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", rich_help_panel=opt.OUTPUT,
                     help="Folder for results.html, results.md, rows.jsonl and pictures."),
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=opt.OUTPUT,
                     help="Write every row to this file as JSON, as soon as it is computed."),
    ] = None,
    seed: opt.Seed = 0,
    limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.0, rich_help_panel=opt.RUN,
                     help="CPU seconds for each run of a baseline method. "
                     f"[dim]default: {LIMIT:g}, with --quick {QUICK_LIMIT:g}[/dim]"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", rich_help_panel=opt.RUN,
                     help="Keep the tables that an earlier run with the same options finished in "
                     "the output folder, and run the others."),
    ] = False,
    quiet: opt.Quiet = False,
) -> int:  # fmt: skip
    """Run benchmark tables and print them with the figures of the paper."""
    names = names_of(table)
    if data is not None and not data.is_dir():
        raise InputError(f"`--data {data}` is not a folder.")
    if resume and output is None:
        raise InputError("`--resume` requires `--output DIR`, the folder of the run to continue.")
    words = ["orthoplus", "bench", table, *(["--quick"] if quick else [])]
    words += ["--seed", str(seed)] if seed else []
    words += [] if limit is None else ["--limit", f"{limit:g}"]
    session = Session(quick=quick, folder=data, seed=seed, limit=limit)
    with nullcontext() if output is None else output_folder(output) as folder:
        outcomes = _run(names, session, (folder, jsonl), shlex.join(words), resume, quiet)
    if not quiet:
        _print_end(folder, outcomes)
    return _code(outcomes)


bench.__doc__ = f"""Compare orthoplus with other methods and with the figures of the paper.

[dim]orthoplus bench table2 -o results[/dim]

[dim]orthoplus bench text --quick[/dim]

\b
{_LIST}
"""


def _run(
    names: Sequence[str], session: Session, places: tuple[Path | None, Path | None], command: str,
    is_resumed: bool, is_silent: bool,
) -> list[Any]:  # fmt: skip
    """Run all tables; rows are written as they are computed, the pages after each table."""
    from rich.console import Console

    from orthoplus.bench.output import show
    from orthoplus.bench.records import Record, read_finished
    from orthoplus.bench.run import run_tables

    folder = places[0]
    done = read_finished(folder, session, names) if folder and is_resumed else {}
    asked = tuple(names) if is_resumed else tuple(TABLES)
    outcomes: list[Any] = []
    with Record(session, *places, done, asked) as record:

        def on_row(table: str, row: Any) -> None:
            record.add_row(table, row)
            if not is_silent:
                spent = f"  {row.number('cpu'):.2f} s" if "cpu" in row.figures else ""
                words = f"  {row.note}" if row.is_failed else spent
                echo_stderr(f"{table}: {row.case}, {row.method}{words}")

        # Tables of an earlier run that were not requested now stay on the pages.
        others = [found for name, found in done.items() if name not in names]
        for outcome in run_tables(names, session, on_row, done, record.begin):
            outcomes.append(outcome if outcome.is_earlier else record.add_table(outcome))
            if folder is not None:
                _write(folder, outcomes, others, command)
            if not is_silent:
                show(Console(highlight=False, markup=False), outcome)
    return outcomes


def _code(outcomes: list[Any]) -> int:
    """Return the exit code: 2 if no table could be run, 1 if some could not."""
    from orthoplus.bench.run import INTERRUPTED as WORDS

    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if WORDS in failures:
        return INTERRUPTED
    if not failures and not any(outcome.n_failed for outcome in outcomes):
        return DONE
    if any(outcome.rows for outcome in outcomes):
        return NOT_CONVERGED
    for failure in failures:
        echo_stderr(f"Error: {failure}")
    return BAD_INPUT


def _write(folder: Path, outcomes: list[Any], others: list[Any], command: str) -> None:
    """Write the pages with the tables of this run and those already in the folder."""
    from orthoplus.bench.machine import describe_machine
    from orthoplus.bench.output import to_markdown, to_page

    def put(png: bytes, file: IO[bytes]) -> None:
        file.write(png)

    for drawing in outcomes[-1].drawings:
        write_atomically(folder / f"{drawing.name}.png", partial(put, drawing.png))
    order, here = list(TABLES), describe_machine()
    shown = sorted([*outcomes, *others], key=lambda outcome: order.index(outcome.table.name))
    write_text(folder / "results.md", to_markdown(shown, command, here))
    write_text(folder / "results.html", to_page(shown, command, here))


def _print_end(folder: Path | None, outcomes: list[Any]) -> None:
    """Print how long the run took and what was written."""
    from orthoplus.bench.output import duration

    earlier = sum(outcome.is_earlier for outcome in outcomes)
    words = f", {earlier} tables from the earlier run" if earlier else ""
    console().print(f"\n{duration(sum(o.seconds for o in outcomes))} in total{words}.")
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
    console().print(printable(f"Open {(folder / 'results.html').resolve().as_uri()}"))
