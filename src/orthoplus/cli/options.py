"""Options that several commands share, with their help, once."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from orthoplus.core.errors import InputError

MODEL, RUN, OUTPUT = "Which model", "How it runs", "What it writes and prints"


def _methods() -> list[str]:
    from orthoplus.estimators.factorize import METHODS

    return list(METHODS)


def _names(table: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from orthoplus.cli import modeling

        return list(getattr(modeling, table))

    return names


Components = Annotated[int, typer.Option("-k", "--components", help="How many to find.", min=1)]
Key = Annotated[
    str | None,
    typer.Option(help="Which array of the file; DATA may also be written FILE:KEY."),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", rich_help_panel=OUTPUT,
                 help="Folder for the results. [dim]default: named after the data[/dim]"),
]  # fmt: skip
MethodName = Annotated[
    str | None,
    typer.Option("--method", rich_help_panel=RUN, autocompletion=_methods,
                 help="auto, ep4orth or unmixing. [dim]default: the library's[/dim]"),
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
                 help="tfidf weighs counts of words by how rare they are; none leaves them."),
]  # fmt: skip
ScaleRows = Annotated[
    str | None,
    typer.Option("--scale-rows", metavar="NORM", rich_help_panel=MODEL,
                 autocompletion=_names("ROW_SCALES"),
                 help="l2 or l1: rows of unit norm, as in spherical k-means; none."),
]  # fmt: skip
ScaleColumns = Annotated[
    str | None,
    typer.Option("--scale-columns", metavar="SCALE", rich_help_panel=MODEL,
                 autocompletion=_names("COLUMN_SCALES"),
                 help="std or max: divide features in different units by their scale; none."),
]  # fmt: skip
Seed = Annotated[int, typer.Option(help="For random starts.", min=0, rich_help_panel=RUN)]
Starts = Annotated[
    int | None,
    typer.Option("--n-init", min=1, rich_help_panel=RUN,
                 help="Searches or runs; the best is kept. [dim]default: the method's[/dim]"),
]  # fmt: skip
MaxIter = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=RUN, help="Most outer iterations of a run."),
]
Tolerance = Annotated[
    float | None,
    typer.Option("--tol", min=0.0, rich_help_panel=RUN,
                 help="Violation at which a run of ep4orth or unmixing ends."),
]  # fmt: skip
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.0, rich_help_panel=RUN,
                 help="Stop a run after so long and write what there is."),
]  # fmt: skip
Prove = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, rich_help_panel=RUN,
                 help="Prove for so long how far the answer may be from the best one."),
]  # fmt: skip
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=RUN,
                 help="Save the state there after every outer iteration."),
]  # fmt: skip
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=RUN,
                 help="Continue from a checkpoint, bit for bit, with the same data and options."),
]  # fmt: skip
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but errors.", rich_help_panel=OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=OUTPUT,
                 help="Print the record of the run as JSON, and nothing else."),
]  # fmt: skip
Report = Annotated[
    bool,
    typer.Option("--report/--no-report", rich_help_panel=OUTPUT, help="Write report.html."),
]


def default_method(call: Callable[..., Any]) -> str:
    """Return the method that the library takes if none is named."""
    return str(inspect.signature(call).parameters["method"].default)


def parse_size(text: str | None, name: str) -> tuple[int, int] | None:
    """``28x28`` as two whole numbers.

    Examples
    --------
    >>> parse_size("28x20", "--image")
    (28, 20)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,7})\s*[x,X]\s*(\d{1,7})\s*", text)
    if found is None or "0" in (found[1].lstrip("0") or "0", found[2].lstrip("0") or "0"):
        raise InputError(f"`{name} {text}` is not a size: write HEIGHTxWIDTH, for example 28x28.")
    return int(found[1]), int(found[2])
