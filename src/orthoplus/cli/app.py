"""Assemble the commands; a new command is one module and one line here."""

from typing import Annotated

import typer

from orthoplus import __version__
from orthoplus.cli.bench import bench
from orthoplus.cli.cluster import cluster
from orthoplus.cli.commands import Command, Group
from orthoplus.cli.data import app as data
from orthoplus.cli.demo import demo
from orthoplus.cli.info import info
from orthoplus.cli.parcellate import parcellate
from orthoplus.cli.project import project
from orthoplus.cli.unmix import unmix

app = typer.Typer(
    name="orthoplus",
    cls=Group,
    help="Optimize over nonnegative orthonormal matrices: cluster rows, unmix images, parcellate "
    "brains, project matrices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 success, 1 not converged (results written), 2 invalid input, 70 a bug in "
    "orthoplus, 130 interrupted, 143 terminated.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, cluster, unmix, parcellate, project, bench, info):
    app.command(cls=Command)(command)
app.add_typer(data)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"orthoplus {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that precede a command."""
