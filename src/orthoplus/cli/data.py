"""``orthoplus data``: list, download and locate the real data sets."""

from pathlib import Path
from typing import Annotated

import typer

from orthoplus.cli.commands import Command, Group
from orthoplus.cli.ending import BAD_INPUT, DONE, guarded
from orthoplus.cli.terminal import console, echo_stderr, printable
from orthoplus.cli.words import in_shell_terms
from orthoplus.core.errors import InputError
from orthoplus.datasets.download import BASE


def _sets() -> list[str]:
    from orthoplus.datasets import sources

    return list(sources())


app = typer.Typer(
    name="data",
    cls=Group,
    help="List, download and locate the paper's real data sets.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of the data sets. [dim]default: ORTHOPLUS_DATA[/dim]",
    ),
]


def _check_set(name: str) -> None:
    if name not in _sets():
        raise InputError(f"Unknown data set `{name}`. Available: {', '.join(_sets())}.")


@app.command("list", cls=Command)
@guarded
def list_sets(data: Folder = None) -> int:
    """List all data sets with their sizes, and whether they are on this machine."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from orthoplus.datasets import find_folder, sources

    folder = find_folder(data)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("set", "size", "groups", "here", "description"):
        table.add_column(title, justify="right" if title == "groups" else "left")
    for name, source in sources().items():
        is_here = (folder / f"{name}.npz").is_file()
        way = "yes" if is_here else ("fetch" if source.is_public_file else "by hand")
        size = " x ".join(str(length) for length in source.shape if length)
        table.add_row(name, size, str(source.groups or ""), way, source.about)
    Console(highlight=False, markup=False).print(table)
    console().print(
        f"In {printable(str(folder))}. `orthoplus data fetch NAME` downloads a set.", style="dim"
    )
    return DONE


@app.command("fetch", cls=Command)
@guarded
def fetch_sets(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", autocompletion=_sets, help="Names of data sets; by default all."
        ),
    ] = None,
    data: Folder = None,
    base: Annotated[
        str, typer.Option(metavar="URL", help="Server or folder (file:///...) with the files.")
    ] = BASE,
) -> int:
    """Download data sets, verify their SHA-256 and convert them; existing ones are kept."""
    from orthoplus.datasets import FetchError, fetch, sources

    for name in names or ():
        _check_set(name)
    failed = False
    for name in names or [name for name, source in sources().items() if source.is_public_file]:
        try:
            console().print(printable(f"{name}: {fetch(name, data, base=base)}"))
        except FetchError as error:
            echo_stderr(f"Error: {in_shell_terms(str(error))}")
            failed = True
    return BAD_INPUT if failed else DONE


@app.command("path", cls=Command)
@guarded
def show_path(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=_sets, help="Name of a data set; by default, print the folder."
        ),
    ] = None,
    data: Folder = None,
) -> int:
    """Print the path of a data set, or the folder of all data sets."""
    from orthoplus.datasets import find_folder

    folder = find_folder(data)
    if name is None:
        typer.echo(folder)
        return DONE
    _check_set(name)
    path = folder / f"{name}.npz"
    typer.echo(path)
    if not path.is_file():
        echo_stderr(f"Error: the file does not exist. Run `orthoplus data fetch {name}`.")
        return BAD_INPUT
    return DONE
