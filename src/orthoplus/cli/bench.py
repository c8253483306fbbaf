"""``orthoplus bench``: the tables of the paper, the paper's figures beside ours."""

import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from orthoplus.cli import options as opt
from orthoplus.cli.ending import BAD_INPUT, DONE, INTERRUPTED, NOT_CONVERGED, guarded
from orthoplus.cli.summary import console, print_lines
from orthoplus.cli.writing import prepare_folder, write_file, write_text


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
            help="projection, synthetic, text, unmixing, indicators, qap, speed, onmf, or all.",
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
    quiet: opt.Quiet = False,
) -> int:  # fmt: skip
    """Regenerate a table of the paper: ours and every rival in one run, the paper's beside it.

    [dim]orthoplus bench text --quick -o results[/dim]
    """
    from orthoplus.bench import names_of
    from orthoplus.bench.run import run_tables
    from orthoplus.bench.table import Session

    names = names_of(table)
    if data is not None and not data.is_dir():
        raise ValueError(f"`--data {data}` is no folder.")
    folder = None if output is None else prepare_folder(output)
    session = Session(quick=quick, folder=data, seed=seed)
    words = [
        "bench",
        table,
        *(["--quick"] if quick else []),
        *(["--seed", str(seed)] if seed else []),
    ]
    with _Rows(jsonl, folder, quick, seed, is_silent=quiet) as rows:
        outcomes = []
        for outcome in run_tables(names, session, rows.add):
            outcomes.append(outcome)
            if not quiet:
                _show(outcome)
    if folder is not None:
        files = _write(folder, outcomes, words)
        if not quiet:
            console().print(f"Written to {folder}:", style="bold")
            print_lines(files)
    return _code(outcomes, len(names))


def _code(outcomes: list[Any], n_wanted: int) -> int:
    """Bad input if nothing could be run, not converged if something could not."""
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if any(failure.startswith("Interrupted") for failure in failures):
        return INTERRUPTED
    if not failures:
        return DONE
    if any(outcome.rows for outcome in outcomes):
        return NOT_CONVERGED
    for failure in failures:
        typer.echo(f"Error: {failure}", err=True)
    return BAD_INPUT


def _show(outcome: Any) -> None:
    from rich.console import Console

    from orthoplus.bench.output import show

    show(Console(highlight=False, markup=False), outcome)


def _write(folder: Path, outcomes: list[Any], words: list[str]) -> dict[str, str]:
    from orthoplus.bench.output import command_of, describe_machine, to_markdown, to_page

    command, machine = command_of(words), describe_machine()
    write_text(folder / "results.md", to_markdown(outcomes, command, machine))
    write_text(folder / "results.html", to_page(outcomes, command, machine))
    pictures = [picture for outcome in outcomes for picture in outcome.pictures]
    for picture in pictures:
        write_file(folder / f"{picture.name}.png", picture.draw)
    files = {
        "results.html": "all tables and pictures on one page",
        "results.md": "the same as Markdown",
        "rows.jsonl": "every row with the machine and the versions",
    }
    return files | {f"{picture.name}.png": picture.caption for picture in pictures}


class _Rows:
    """Writes rows as JSON lines while they come, and says on standard error where it is."""

    def __init__(
        self, jsonl: Path | None, folder: Path | None, quick: bool, seed: int, *, is_silent: bool
    ) -> None:
        from orthoplus.bench.output import describe_machine

        wanted = [jsonl, None if folder is None else folder / "rows.jsonl"]
        self.paths = [path for path in wanted if path is not None]
        self.is_silent = is_silent
        self.session = {"quick": quick, "seed": seed, "machine": describe_machine()}
        self.files: list[IO[str]] = []

    def __enter__(self) -> "_Rows":
        self.files = [open(path, "w", encoding="utf-8") for path in self.paths]
        return self

    def add(self, table: str, row: Any) -> None:
        """One more row."""
        from orthoplus.bench.output import json_line

        for file in self.files:
            file.write(json_line(table, row, self.session) + "\n")
            file.flush()
        if not self.is_silent:
            seconds = row.figures.get("cpu")
            spent = "" if seconds is None else f"  {seconds:.2f} s"
            print(f"{table}: {row.case}, {row.method}{spent}", file=sys.stderr, flush=True)  # noqa: T201

    def __exit__(self, *exc: object) -> None:
        for file in self.files:
            file.close()
