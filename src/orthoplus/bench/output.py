"""Tables that were run, on a terminal, as Markdown, and as a page."""

import base64
import shlex
from collections.abc import Sequence
from typing import Any

from orthoplus.bench.cells import legend_of, lines_of, notes_of
from orthoplus.bench.table import Outcome

BRACKETS = "Ours, and in brackets what the paper prints; the best of each case in bold."
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
    lines = outcome.verdicts
    if outcome.is_quick and outcome.rows:
        lines.append(QUICK.format(outcome.table.quick_about))
    return [*lines, outcome.failure] if outcome.failure else lines


def to_markdown(outcomes: Sequence[Outcome], command: str, machine: dict[str, Any]) -> str:
    """All tables as one Markdown text."""
    parts = [
        "# Results",
        f"Made by `{command}`, {_origin(outcomes, machine)}.",
        f"**{_state_of(outcomes)}** {BRACKETS}",
        "\n".join(
            f"- [{_escape(o.table.title)}](#{o.table.name}), {duration(o.seconds)}"
            for o in outcomes
        ),
    ]
    for outcome in outcomes:
        parts += [
            f'<a id="{outcome.table.name}"></a>',
            f"## {outcome.table.title}",
            _escape(outcome.table.about),
        ]
        parts += [f"**{_escape(text)}**" for text in closing(outcome)]
        if outcome.rows:
            parts.append(_markdown_table(outcome))
        parts += ["\n".join(f"- {_escape(text)}" for text in remarks(outcome))]
        parts += [f"![{_escape(d.caption)}]({d.name}.png)" for d in outcome.drawings]
    lines = [f"- {name}: {value}" for name, value in machine_lines(machine).items()]
    return "\n\n".join(filter(None, [*parts, "## The machine", "\n".join(lines)])) + "\n"


def _markdown_table(outcome: Outcome) -> str:
    titles = [column.title for column in outcome.table.columns]
    rows = [
        f"| case | method | {' | '.join(titles)} |",
        f"|--|--|{'--:|' * len(titles)}",
    ]
    for line in lines_of(outcome):
        cells = [f"**{c.ours}** {c.paper}".strip() if c.is_best else c.text for c in line.cells]
        names = f"{_escape(line.case)} | {_escape(line.method + line.mark)}"
        rows.append(f"| {names} | {' | '.join(cells)} |")
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
            lines=tuple(closing(outcome)),
            remarks=tuple(remarks(outcome)),
            pictures=tuple((d.caption, _data_address(d.png)) for d in outcome.drawings),
            aside=duration(outcome.seconds),
        )
        for outcome in outcomes
    ]
    again = Section(
        "Run it again",
        "The figures are the same on every machine of this kind, the seconds are not.",
        code=command,
        table=tuple(machine_lines(machine).items()),
    )
    n_rows = sum(len(outcome.rows) for outcome in outcomes)
    page = Page(
        title="The tables of the paper",
        subtitle=BRACKETS,
        status=_state_of(outcomes),
        is_success=_is_complete(outcomes),
        facts=(
            Fact("Tables", str(len(outcomes)), f"{n_rows} rows"),
            Fact(
                "Duration", duration(sum(outcome.seconds for outcome in outcomes)), "by the clock"
            ),
            Fact("Processors", str(machine["processors"]), str(machine["processor"])),
            Fact("Version", str(machine["versions"]["orthoplus"]), _commit_of(machine)),
        ),
        sections=(*sections, again),
        foot=f"orthoplus {machine['versions']['orthoplus']}, {_origin(outcomes, machine)}",
        has_contents=True,
    )
    return render(page)


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> duration(7.04), duration(754.0), duration(3725.0)
    ('7.0 s', '12 min 34 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _is_complete(outcomes: Sequence[Outcome]) -> bool:
    return not any(outcome.failure or outcome.is_quick or outcome.n_failed for outcome in outcomes)


def _state_of(outcomes: Sequence[Outcome]) -> str:
    """In a sentence or two, whether all of it is there."""
    if _is_complete(outcomes):
        return "Every table was run in full."
    n_failed = sum(outcome.n_failed for outcome in outcomes)
    early = [outcome.table.name for outcome in outcomes if outcome.failure]
    parts = ["A quick run."] if any(outcome.is_quick for outcome in outcomes) else []
    if early:
        parts.append(f"Incomplete: {', '.join(early)}.")
    if n_failed:
        parts.append(f"{n_failed} rows failed: they are marked, and say why.")
    return " ".join(parts)


def _origin(outcomes: Sequence[Outcome], machine: dict[str, Any]) -> str:
    spent = duration(sum(outcome.seconds for outcome in outcomes))
    commit = _commit_of(machine)
    return f"started {machine['started']}, {spent}{f', {commit}' if commit else ''}"


def _commit_of(machine: dict[str, Any]) -> str:
    return f"commit {machine['commit']}" if machine["commit"] else ""


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


def _data_address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def machine_lines(machine: dict[str, Any]) -> dict[str, str]:
    """Name and value, nested names joined."""
    from orthoplus.report.page import rows_of

    return dict(rows_of(machine))


def command_of(words: Sequence[str]) -> str:
    """The command line as it can be pasted."""
    return shlex.join(["orthoplus", *words])
