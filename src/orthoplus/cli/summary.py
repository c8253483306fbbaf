"""Print the summary of a finished command."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from orthoplus.cli.display import percent, waiting
from orthoplus.cli.ending import exit_code, finishing
from orthoplus.cli.terminal import console, printable, wrapped
from orthoplus.cli.words import in_shell_terms, status_words
from orthoplus.cli.writing import Leftovers, to_json, write_json
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.report.clusters import explained_words

# The record of a run, and a description of each of its files.
Written = tuple[dict[str, Any], dict[str, str]]


def print_result(
    record: dict[str, Any], result: Result, *, name: str = "clusters", first: int = 0
) -> None:
    """Print the figures of a factorization; its clusters are called ``name``, from ``first``."""
    total = record["result"]["total"] or 1.0
    lines: dict[str, str | tuple[str, ...]] = {
        "objective": f"{result.value:.6g}  not explained by {result.n_columns} {name}",
        "explained": f"{1 - result.value / total:.2%} {explained_words(record)}",
    }
    lines |= _bound_lines(record, result, total)
    lines["violation"] = f"{result.violation:.1e}  of X'X = I, X >= 0"
    lines |= {metric: f"{score:.4f}" for metric, score in record.get("metrics", {}).items()}
    sizes = record["result"].get("cluster_sizes")
    if sizes:
        lines["sizes"] = size_rows(sizes, name=name, first=first)
    lines["work"] = f"{result.n_iter} outer iterations, {result.seconds:.2f} s"
    print_status(result.status)
    print_lines(lines)
    print_notes((*result.notes, *record["notes"]))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes of the library, with options named as on the command line."""
    for note in notes:
        _print_hanging("  note: ", in_shell_terms(note))


def _bound_lines(record: dict[str, Any], result: Result, total: float) -> dict[str, str]:
    """Return the lines about the bound: that of the proof, else the quick bound."""
    proof = record.get("proof")
    if proof is None:
        if result.bound is None:
            return {}
        words = f"at most {1 - result.bound / total:.2%} explained, from the singular values"
        is_cluster = record["command"].split()[1] == "cluster"
        return {"quick bound": words + ("; try --prove 30" if is_cluster else "")}
    most = f"at most {1 - proof['bound'] / total:.2%} explained"
    gap = "" if proof["gap"] is None else f", gap {percent(proof['gap'])}"
    gap = ", proven optimal" if proof["is_optimal"] else gap
    lines = {"bound": f"{most}{gap}  ({proof['kind']}, {proof['seconds']:.1f} s)"}
    if proof["agreement"] is not None:
        lines["certain"] = (
            f"every clustering that is as good agrees on {proof['agreement']:.1%} of the rows"
        )
    return lines


def finish(
    write: Callable[[], Written],
    folder: Path,
    result: Result,
    *,
    quiet: bool,
    json: bool,
    show: Callable[[dict[str, Any], Result], None] = print_result,
) -> int:
    """Write the files of a run, print the results, and return the exit code."""
    with finishing() as ending, waiting("Writing the results", silent=quiet or json):
        earlier = Leftovers(folder)
        record, files = write()
        record["files"], gone = earlier.replaced_by(folder)
        if gone:
            said = f"Removed files of an earlier run in this folder: {', '.join(gone)}."
            record["notes"] = [*record.get("notes", ()), said]
        write_json(folder / "run.json", record)
    if json:
        typer.echo(to_json(record))
    elif not quiet:
        show(record, result)
        what = "Written" if result.status.success else "Best result so far written"
        console().print(Text(f"{what} to {printable(str(folder))}:", style="bold"))
        print_lines(files)
        if "resume_command" in record:
            has_state = " --resume " in record["resume_command"]
            words = "To continue from the checkpoint:" if has_state else "To start again:"
            console().print(Text(words, style="bold"))
            console().print(Text(f"  {printable(record['resume_command'])}"))
    return ending.code(exit_code(result.status))


def print_status(status: Status) -> None:
    """Print how the run ended."""
    sign, style = ("✓", "bold green") if status.success else ("!", "bold yellow")
    console().print(Text(f"{sign} {status_words(status)}", style=style))


def size_rows(
    sizes: Sequence[int], n_per_row: int = 10, *, name: str = "clusters", first: int = 0
) -> tuple[str, ...]:
    """Return the sizes of the clusters in order, ten per line, each line with its numbers.

    Examples
    --------
    >>> size_rows([5, 120, 7])
    ('5 120 7  (clusters 0 to 2)',)
    >>> size_rows([5, 120, 7, 9], n_per_row=2)
    ('0 to 1:   5 120', '2 to 3:   7   9')
    """
    last = len(sizes) - 1 + first
    if len(sizes) <= n_per_row:
        text = " ".join(map(str, sizes))
        return (f"{text}  ({name} {first} to {last})" if len(sizes) > 1 else text,)
    wide, digits = len(str(max(sizes))), len(str(last))
    return tuple(
        f"{start + first:>{digits}} to {min(start + first + n_per_row - 1, last):>{digits}}: "
        + " ".join(f"{size:>{wide}}" for size in sizes[start : start + n_per_row])
        for start in range(0, len(sizes), n_per_row)
    )


def print_lines(lines: Mapping[str, str | tuple[str, ...]]) -> None:
    """Print names and values in two columns; a value may have several lines."""
    width = max(map(len, lines))
    for name, value in lines.items():
        first, *more = (value,) if isinstance(value, str) else value
        _print_hanging(f"  {printable(name):<{width}}  ", first, style="dim")
        for line in more:
            _print_hanging(" " * (width + 4), line)


def _print_hanging(start: str, text: str, style: str = "") -> None:
    """Print a text after a start; on a terminal, its further lines are indented equally."""
    out, lines = console(), [printable(text)]
    if out.is_terminal:
        lines = wrapped(lines[0], out.width - len(start))
    for line in lines:
        out.print(Text.assemble((start, style), line))
        start = " " * len(start)
