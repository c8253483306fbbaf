"""Options of commands that read tables, and the line that says how a table was read."""

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

TABLE = "Tables (.csv .tsv .txt .xlsx .parquet; by default inferred from the file)"

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", rich_help_panel=TABLE,
                 help="Whether the first line holds column names."),
]  # fmt: skip
Index = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=TABLE,
                 help="Column with the row names, by name or number; or none."),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", rich_help_panel=TABLE,
                 help="Column to leave out; may be repeated."),
]  # fmt: skip
LabelColumn = Annotated[
    str | None,
    typer.Option("--label-column", metavar="COLUMN", rich_help_panel=TABLE,
                 help="Column with true classes, which is not clustered; or none."),
]  # fmt: skip
Separator = Annotated[
    str | None,
    typer.Option("--sep", metavar="SIGN", rich_help_panel=TABLE,
                 help="Separator: one character, or tab, space, comma, semicolon."),
]  # fmt: skip
Decimal = Annotated[
    str | None, typer.Option(metavar="SIGN", rich_help_panel=TABLE, help="Decimal sign: . or ,")
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=TABLE, help="Encoding, for example utf-8 or cp1252."
    ),
]
Missing = Annotated[
    str,
    typer.Option(metavar="error|mask", rich_help_panel=TABLE,
                 help="Missing values: error rejects them, mask ignores them in the fit."),
]  # fmt: skip
MissingWords = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="WORD", rich_help_panel=TABLE,
                 help="Additional word for a missing value; may be repeated."),
]  # fmt: skip

Hidden = Annotated[
    str | None,
    typer.Option(metavar="keep|drop", rich_help_panel=TABLE,
                 help="Hidden rows and columns of an .xlsx file: keep reads them, drop does not."),
]  # fmt: skip

RowNames = Annotated[
    Path | None,
    typer.Option("--row-names", metavar="FILE",
                 help="File of row names, one per line, for formats without names such as .mtx."),
]  # fmt: skip
ColumnNames = Annotated[
    Path | None,
    typer.Option("--column-names", metavar="FILE", help="File of column names, one per line."),
]  # fmt: skip


def table_options(given: Mapping[str, Any]) -> TableOptions:
    """Select the table options among all options of a command.

    Examples
    --------
    >>> table_options({"drop": ["a", "b"], "header": None, "seed": 3}).drop
    ('a', 'b')
    """
    known = {field.name: given.get(field.name) for field in fields(TableOptions)}
    lists = {name: tuple(known[name] or ()) for name in ("drop", "na")}
    return TableOptions(**(known | lists | {"missing": known["missing"] or "error"}))


def read(path: Path, key: str | None, given: Mapping[str, Any], *, silent: bool) -> Content:
    """Read a matrix with the table options among all options of a command."""
    options = table_options(given)
    with waiting(f"Reading {path.name}", silent=silent):
        return name_axes(read_matrix(path, key, options), given)


def name_axes(content: Content, given: Mapping[str, Any]) -> Content:
    """Name the rows and columns by the files given with --row-names and --column-names."""
    found: dict[str, Any] = {}
    for axis, (name, advice) in enumerate((("row_names", "--index"), ("column_names", "--header"))):
        path = given.get(name)
        if path is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if content.summary:  # a table
            raise InputError(f"`{option}` is for files without names; for a table use `{advice}`.")
        found[name] = read_names(path, content.values.shape[axis], option)
    return replace(content, **found)


def say(content: Content, *, silent: bool) -> None:
    """Print one line on how a table was read."""
    if content.summary and not silent:
        echo_stderr(f"Read {content.summary}.")


def filled(values: FloatArray) -> FloatArray:
    """Replace missing values by 0."""
    return np.where(np.isnan(values), 0.0, values)
