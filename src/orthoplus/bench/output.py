"""A table that was run, on a terminal, as JSON lines, as Markdown, and as a page."""

import base64
import io
import json
import math
import os
import platform
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO, Any

from orthoplus.bench.cells import legend_of, lines_of, notes_of
from orthoplus.bench.table import Outcome, Row

QUICK = "Quick run: {}. The figures show that it works, not how good it is."


def show(console: Any, outcome: Outcome) -> None:
    """Print a table with Rich, case by case, and what it shows."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = outcome.table
    console.print(Text(f"\n{table.title}", style="bold"))
    console.print(Text(table.about, style="dim"))
    grid = RichTable(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    grid.add_column("", no_wrap=True)
    for column in table.columns:
        grid.add_column(column.title, justify="right", no_wrap=True)
    case = None
    for line in lines_of(outcome):
        if line.case != case:
            case = line.case
            grid.add_row(Text(case, style="bold cyan"))
        cells = [
            Text.assemble(
                (c.ours, "bold green" if c.is_best else ""),
                (f" {c.paper}" if c.paper else "", "dim"),
            )
            for c in line.cells
        ]
        grid.add_row(Text(f"  {line.method}{line.mark}"), *cells)
    if outcome.rows:
        console.print(grid)
    for text in remarks(outcome):
        console.print(Text(text, style="dim"))
    for verdict in closing(outcome):
        console.print(Text(f"→ {verdict}", style="bold"))


def remarks(outcome: Outcome) -> list[str]:
    """What the columns mean, and the notes of the rows."""
    return [*legend_of(outcome), *notes_of(outcome)] if outcome.rows else []


def closing(outcome: Outcome) -> list[str]:
    """The sentences under a table: what it shows, what was left out, what failed."""
    lines = list(outcome.verdicts)
    if outcome.is_quick and outcome.rows:
        lines.append(QUICK.format(outcome.table.quick_about))
    return [*lines, outcome.failure] if outcome.failure else lines


def describe_machine() -> dict[str, Any]:
    """Where the figures come from."""
    from orthoplus.cli.record import versions
    from orthoplus.kernels.blocks import n_threads

    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": {"linear algebra": 1, "orthoplus": n_threads()},
        "versions": versions(),
    }


def json_line(outcome_name: str, row: Row, session: dict[str, Any]) -> str:
    """One row as strict JSON; what is not finite becomes null."""
    record = {
        "table": outcome_name,
        "case": row.case,
        "method": row.method,
        "figures": {key: _plain(value) for key, value in row.figures.items()},
        "paper": {key: _plain(value) for key, value in row.paper.items()},
        "note": row.note,
        **session,
    }
    return json.dumps(record, allow_nan=False)


def to_markdown(outcomes: Sequence[Outcome], command: str, machine: dict[str, Any]) -> str:
    """All tables as one Markdown text."""
    parts = [
        "# Results",
        f"Made by `{command}`, {machine['finished']}.",
        "Ours, and in brackets what the paper prints; the best of each case in bold.",
    ]
    for outcome in outcomes:
        parts += [f"## {outcome.table.title}", outcome.table.about]
        if outcome.rows:
            parts.append(_markdown_table(outcome))
        parts += [f"- {_escape(text)}" for text in remarks(outcome)]
        parts += [f"**{_escape(text)}**" for text in closing(outcome)]
        parts += [f"![{_escape(p.caption)}]({p.name}.png)" for p in outcome.pictures]
    lines = [f"- {name}: {value}" for name, value in machine_lines(machine).items()]
    return "\n\n".join([*parts, "## The machine", "\n".join(lines)]) + "\n"


def _markdown_table(outcome: Outcome) -> str:
    titles = [column.title for column in outcome.table.columns]
    rows = [
        f"| case | method | {' | '.join(titles)} |",
        f"|--|--|{'--:|' * len(titles)}",
    ]
    for line in lines_of(outcome):
        cells = [f"**{c.ours}** {c.paper}".strip() if c.is_best else c.text for c in line.cells]
        rows.append(f"| {line.case} | {line.method}{_escape(line.mark)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _escape(text: str) -> str:
    for sign in "\\*_|<":
        text = text.replace(sign, f"\\{sign}")
    return text


def to_page(outcomes: Sequence[Outcome], command: str, machine: dict[str, Any]) -> str:
    """All tables as one self-contained page."""
    from orthoplus.report.page import Fact, Page, Section, render

    sections = [
        Section(
            title=outcome.table.title,
            text=outcome.table.about,
            grid=_grid(outcome) if outcome.rows else None,
            lines=(*closing(outcome), *remarks(outcome)),
            pictures=tuple((p.caption, _data_address(p.draw)) for p in outcome.pictures),
        )
        for outcome in outcomes
    ]
    sections.append(
        Section(
            "Run it again",
            "The figures are the same on every machine, the seconds are not.",
            code=command,
            table=tuple(machine_lines(machine).items()),
        )
    )
    is_complete = not any(outcome.failure or outcome.is_quick for outcome in outcomes)
    page = Page(
        title="The tables of the paper",
        subtitle="Ours, and in brackets what the paper prints; the best of each case in bold.",
        status="Every table was run in full."
        if is_complete
        else "Not every table was run in full.",
        is_success=is_complete,
        facts=(
            Fact("Tables", str(len(outcomes))),
            Fact("Rows", str(sum(len(outcome.rows) for outcome in outcomes))),
            Fact("Processors", str(machine["processors"]), str(machine["processor"])),
        ),
        sections=tuple(sections),
        foot=f"orthoplus {machine['versions']['orthoplus']}, {machine['finished']}",
    )
    return render(page)


def _grid(outcome: Outcome) -> Any:
    from orthoplus.report.page import Grid, GridCell

    rows: list[tuple[GridCell, ...]] = []
    case = None
    for line in lines_of(outcome):
        if line.case != case:
            case = line.case
            rows.append((GridCell(case, is_heading=True),))
        cells = (GridCell(c.ours, c.paper, is_best=c.is_best) for c in line.cells)
        rows.append((GridCell(f"{line.method}{line.mark}"), *cells))
    return Grid(("", *(column.title for column in outcome.table.columns)), tuple(rows))


def _data_address(draw: Any) -> str:
    file: IO[bytes] = io.BytesIO()
    draw(file)
    file.seek(0)
    return f"data:image/png;base64,{base64.b64encode(file.read()).decode('ascii')}"


def machine_lines(machine: dict[str, Any]) -> dict[str, str]:
    """Name and value, nested names joined."""
    from orthoplus.report.page import rows_of

    return dict(rows_of(machine))


def command_of(words: Sequence[str]) -> str:
    """The command line as it can be pasted."""
    return shlex.join(["orthoplus", *words])


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
