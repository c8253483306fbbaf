"""Options shared by several commands, with their help texts."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from orthoplus.core.errors import InputError
from orthoplus.io import split_key

# The methods of `orthoplus cluster`; the other methods are made for images.
CLUSTER_METHODS = ("auto", "ep4orth")
MODEL, RUN, OUTPUT = "Model", "Run", "Output"


def _methods() -> list[str]:
    from orthoplus.estimators.factorize import METHODS

    return list(METHODS)


def _names(table: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from orthoplus.cli import modeling

        return list(getattr(modeling, table))

    return names


Clusters = Annotated[
    str,
    typer.Option("-k", "--components", metavar="K",
                 help="Number of clusters, or a range such as 2-12 from which k is chosen."),
]  # fmt: skip
Materials = Annotated[
    str, typer.Option("-k", "--components", metavar="K", help="Number of materials.")
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="rows|columns", rich_help_panel=MODEL,
                 autocompletion=_names("SPLITS"),
                 help="For a range of k: whether to compare halves of the rows or of the columns. "
                 "[dim]default: rows[/dim]"),
]  # fmt: skip
Key = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Name of the array in the file; same as FILE:KEY."),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", rich_help_panel=OUTPUT,
                 help="Folder for the results. [dim]default: named after the data file[/dim]"),
]  # fmt: skip
ClusterMethod = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", rich_help_panel=RUN,
                 autocompletion=lambda: list(CLUSTER_METHODS),
                 help="auto, or ep4orth for the method of the paper. [dim]default: auto[/dim]"),
]  # fmt: skip
UnmixMethod = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", rich_help_panel=RUN, autocompletion=_methods,
                 help="auto, ep4orth or unmixing. [dim]default: as in the library[/dim]"),
]  # fmt: skip
Loss = Annotated[
    str | None,
    typer.Option("--loss", metavar="LOSS", rich_help_panel=MODEL, autocompletion=_names("LOSSES"),
                 help="frobenius, or kl (kullback-leibler) for counts. "
                 "[dim]default: frobenius[/dim]"),
]  # fmt: skip
Weighting = Annotated[
    str | None,
    typer.Option("--weighting", metavar="NAME", rich_help_panel=MODEL,
                 autocompletion=_names("WEIGHTINGS"),
                 help="tfidf gives rare words more weight, for counts of words; or none."),
]  # fmt: skip
ScaleRows = Annotated[
    str | None,
    typer.Option("--scale-rows", metavar="NORM", rich_help_panel=MODEL,
                 autocompletion=_names("ROW_SCALES"),
                 help="l2 or l1 scales rows to unit norm, as in spherical k-means; or none."),
]  # fmt: skip
ScaleColumns = Annotated[
    str | None,
    typer.Option("--scale-columns", metavar="SCALE", rich_help_panel=MODEL,
                 autocompletion=_names("COLUMN_SCALES"),
                 help="std or max divides features by their scale if units differ; or none."),
]  # fmt: skip
Seed = Annotated[
    int, typer.Option(metavar="N", help="Seed of random starts.", min=0, rich_help_panel=RUN)
]
Starts = Annotated[
    int | None,
    typer.Option("--n-init", metavar="N", min=1, rich_help_panel=RUN,
                 help="Number of starts; the best result is kept. "
                 "[dim]default: depends on the method[/dim]"),
]  # fmt: skip
MaxIter = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, rich_help_panel=RUN, help="Maximum number of iterations."),
]
Tolerance = Annotated[
    float | None,
    typer.Option("--tol", metavar="NUMBER", min=0.0, rich_help_panel=RUN,
                 help="Feasibility tolerance of --method ep4orth."),
]  # fmt: skip
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.001, rich_help_panel=RUN,
                 help="Stop after this time and write the best result so far."),
]  # fmt: skip
Prove = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, rich_help_panel=RUN,
                 help="Spend this time on bounding the gap to the global optimum."),
]  # fmt: skip
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=RUN,
                 help="Save the state to this file after every iteration."),
]  # fmt: skip
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=RUN,
                 help="Continue from a checkpoint with the same data and options; the result is "
                 "identical."),
]  # fmt: skip
WriteBack = Annotated[
    bool,
    typer.Option("--write-back", rich_help_panel=OUTPUT,
                 help="Add the results to the .h5ad file: `onmf` in obs, obsm, varm and uns."),
]  # fmt: skip
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but errors.", rich_help_panel=OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=OUTPUT,
                 help="Print only the record of the run, as JSON."),
]  # fmt: skip
Report = Annotated[
    bool,
    typer.Option("--report/--no-report", rich_help_panel=OUTPUT, help="Write report.html."),
]

SafeCsv = Annotated[
    bool,
    typer.Option("--safe-csv", rich_help_panel=OUTPUT,
                 help="Quote names such as =1+1, which spreadsheets would run as formulas."),
]  # fmt: skip


def given_options(local: dict[str, Any], argument: str) -> dict[str, Any]:
    """Return the options of a command by name, from its local variables at its first line.

    Examples
    --------
    >>> given_options({"data": "cells.csv", "components": "8", "quiet": False}, "data")
    {'components': '8'}
    """
    # The record of a run contains every option that affects its result.
    return {name: value for name, value in local.items() if name not in (argument, "quiet", "json")}


def parse_data(data: str, key: str | None) -> tuple[Path, str | None]:
    """Return the path of the data, and the key of the array: that of ``FILE:KEY`` or ``--key``.

    Examples
    --------
    >>> parse_data("cells.h5ad:layers/raw", None)[1]
    'layers/raw'
    """
    path, inline = split_key(data)
    if key is not None and inline not in (None, key):
        raise InputError(f"`{data}` and `--key {key}` name different arrays; omit one of them.")
    return path, key if inline is None else inline


def default_method(call: Callable[..., Any]) -> str:
    """Return the default method of a function of the library."""
    return str(inspect.signature(call).parameters["method"].default)


def parse_ranks(text: str, name: str = "clusters") -> range:
    """Return the numbers of clusters to try: one for ``8``, several for ``2-12``.

    Examples
    --------
    >>> parse_ranks("8"), parse_ranks("2-12")
    (range(8, 9), range(2, 13))
    """
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", text)
    if found is None:
        raise InputError(
            f"`-k {text}` is not a number of {name}; pass an integer such as 8, or a range such "
            f"as 2-12."
        )
    low, high = int(found[1]), int(found[2] or found[1])
    if low < 1:
        raise InputError(f"`-k {text}`: at least 1 {name.removesuffix('s')} is required.")
    if high < low:
        raise InputError(f"`-k {text}`: write the smaller number first, `-k {high}-{low}`.")
    return range(low, high + 1)


def parse_count(text: str) -> int:
    """Return the number of materials.

    Examples
    --------
    >>> parse_count("4")
    4
    """
    if not re.fullmatch(r"\s*\d{1,9}\s*", text):
        raise InputError(f"`-k {text}` is not a number of materials; pass an integer such as 4.")
    if int(text) < 1:
        raise InputError(f"`-k {text}`: at least 1 material is required.")
    return int(text)


def parse_size(text: str | None, name: str) -> tuple[int, int] | None:
    """Parse a size such as ``28x28`` to two integers.

    Examples
    --------
    >>> parse_size("28x20", "--image")
    (28, 20)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,7})\s*[x,X]\s*(\d{1,7})\s*", text)
    if found is None or "0" in (found[1].lstrip("0") or "0", found[2].lstrip("0") or "0"):
        raise InputError(f"`{name} {text}` is not a size; use HEIGHTxWIDTH, for example 28x28.")
    return int(found[1]), int(found[2])
