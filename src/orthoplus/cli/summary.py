"""What a command prints when it is done."""

from pathlib import Path
from typing import Any

from rich.text import Text

from orthoplus.cli.display import percent
from orthoplus.cli.terminal import console, printable
from orthoplus.core.result import Result
from orthoplus.core.status import Status


def print_result(record: dict[str, Any], result: Result) -> None:
    """The figures of a factorisation."""
    total = record["result"]["total"] or 1.0
    lines = {
        "objective": f"{result.value:.6g}  what {result.n_columns} components leave unexplained",
        "explained": f"{1 - result.value / total:.2%} of the sum of squares",
    }
    if result.bound is not None:
        most = 1 - result.bound / total
        gap = "" if result.gap is None else f"  gap {percent(result.gap)}"
        lines["bound"] = f"{result.bound:.6g}{gap}: at most {most:.2%} can be"
    lines["violation"] = f"{result.violation:.1e}  of X'X = I, X >= 0"
    for name, value in record.get("metrics", {}).items():
        lines[name] = f"{value:.4f}"
    sizes = record["result"].get("cluster_sizes")
    if sizes:
        lines["sizes"] = " ".join(map(str, sorted(sizes, reverse=True)))
    lines["work"] = f"{result.n_iter} outer iterations, {result.seconds:.2f} s"
    print_status(result.status)
    print_lines(lines)
    for note in (*result.notes, *record["notes"]):
        console().print(Text(f"  note: {printable(note)}"))


def print_status(status: Status) -> None:
    """How it ended, in words."""
    sign, style = ("✓", "bold green") if status.success else ("!", "bold yellow")
    console().print(Text(f"{sign} {status.message}", style=style))


def print_lines(lines: dict[str, str]) -> None:
    """Names and values in two columns."""
    width = max(map(len, lines))
    for name, value in lines.items():
        words = (f"  {printable(name):<{width}}  ", "dim"), printable(value)
        console().print(Text.assemble(*words))


def print_files(folder: Path, files: dict[str, str], status: Status) -> None:
    """What was written, and where."""
    what = "Written" if status.success else "What there is was written"
    console().print(Text(f"{what} to {printable(str(folder))}:", style="bold"))
    print_lines(files)
