"""Options of commands that read a table, and what was read, in one line."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from orthoplus.cli.display import waiting
from orthoplus.cli.terminal import echo_stderr
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray
from orthoplus.io import Content, TableOptions, read_matrix, read_names

TABLE = "How a table is read (.csv .tsv .txt .xlsx .parquet; by default as the file shows)"

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", rich_help_panel=TABLE,
                 help="Whether the first line names the columns."),
]  # fmt: skip
Index = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=TABLE,
                 help="Row names: a column by name or number, or none."),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", rich_help_panel=TABLE,
                 help="Leave this column out; may be given several times."),
]  # fmt: skip
LabelColumn = Annotated[
    str | None,
    typer.Option("--label-column", metavar="COLUMN", rich_help_panel=TABLE,
                 help="True classes: compared with, never clustered; or none."),
]  # fmt: skip
Separator = Annotated[
    str | None,
    typer.Option("--sep", metavar="SIGN", rich_help_panel=TABLE,
                 help="Separator: a character, tab, space, comma or semicolon."),
]  # fmt: skip
Decimal = Annotated[
    str | None, typer.Option(metavar="SIGN", rich_help_panel=TABLE, help="Decimal sign: . or ,")
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=TABLE, help="For example utf-8, cp1252 or utf-16."
    ),
]
Missing = Annotated[
    str,
    typer.Option(metavar="error|mask", rich_help_panel=TABLE,
                 help="Cells without a value: refuse them, or fit the others only."),
]  # fmt: skip
MissingWords = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="WORD", rich_help_panel=TABLE,
                 help="A further word for a missing value; may be given several times."),
]  # fmt: skip

RowNames = Annotated[
    Path | None,
    typer.Option("--row-names", metavar="FILE",
                 help="Names of the rows of a file without any, such as .mtx: one per line."),
]  # fmt: skip
ColumnNames = Annotated[
    Path | None,
    typer.Option("--column-names", metavar="FILE", help="Names of the columns: one per line."),
]  # fmt: skip


def table_options(given: Mapping[str, Any]) -> TableOptions:
    """Return the options of a table among all options of a command.

    Examples
    --------
    >>> table_options({"drop": ["a", "b"], "header": None, "seed": 3}).drop
    ('a', 'b')
    """
    known = {field.name: given.get(field.name) for field in fields(TableOptions)}
    lists = {name: tuple(known[name] or ()) for name in ("drop", "na")}
    return TableOptions(**(known | lists | {"missing": known["missing"] or "error"}))


def read(path: Path, key: str | None, given: Mapping[str, Any], *, silent: bool) -> Content:
    """Read a matrix, with the options for tables among all options of a command."""
    options = table_options(given)
    with waiting(f"Reading {path.name}", silent=silent):
        return name_axes(read_matrix(path, key, options), given)


def name_axes(content: Content, given: Mapping[str, Any]) -> Content:
    """Return the content with the names of its rows and columns from files, if any were given."""
    found: dict[str, Any] = {}
    for axis, (name, advice) in enumerate((("row_names", "--index"), ("column_names", "--header"))):
        path = given.get(name)
        if path is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if content.summary:  # a table
            raise InputError(f"`{option}` is for files without names: a table has `{advice}`.")
        found[name] = read_names(path, content.values.shape[axis], option)
    return replace(content, **found)


def say(content: Content, *, silent: bool) -> None:
    """Say in a line how a table was read."""
    if content.summary and not silent:
        echo_stderr(f"Read {content.summary}.")


def filled(values: FloatArray) -> FloatArray:
    """Return the values with 0 for those that are missing."""
    return np.where(np.isnan(values), 0.0, values)
