"""Show finished tables on a terminal, as Markdown, and as a page."""

import base64
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from orthoplus.bench.cells import Line, lines_of, remarks_of
from orthoplus.bench.origin import Machine, commit_of, groups_of, how_made, origin_of
from orthoplus.bench.table import Outcome
from orthoplus.report.page import Fact, Grid, GridCell, Page, Section, render, rows_of

BRACKETS = "Our figures, with those of the paper in brackets; {}"
BEST = "the best of each case is bold, and arrows show whether lower (↓) or higher (↑) is better."
QUICK_END = (
    "This was a quick run: the figures show that the code works, not how good the methods are."
)


def show(console: Any, outcome: Outcome) -> None:
    """Print a table with Rich, case by case, with its conclusions."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    def text_of(cell: GridCell, gap: str) -> Text:
        ours = (cell.text, "bold green" if cell.is_best else "")
        return Text.assemble(ours, (f"{gap}{cell.aside}" if cell.aside else "", "dim"))

    def grid_of(gap: str) -> RichTable:
        grid = RichTable(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
        grid.add_column("", overflow="fold")
        for column in table.columns:
            grid.add_column(column.heading, justify="right", no_wrap=True)
        for case, lines in groupby(lines_of(outcome), key=lambda line: line.case):
            grid.add_row(Text(case, style="bold cyan"))
            for line in lines:
                grid.add_row(Text(f"  {line.method}"), *(text_of(cell, gap) for cell in line.cells))
        return grid

    table = outcome.table
    console.print(Text(f"\n{table.title}", style="bold"))
    console.print(Text(outcome.about, style="dim"))
    if outcome.rows:
        # On a narrow terminal the paper's figures go below ours, so that no number is cut off.
        unlimited = console.options.update(width=10_000)
        is_wide = console.measure(grid_of(" "), options=unlimited).maximum <= console.width
        console.print(grid_of(" " if is_wide else "\n"))
        if any(column.best for column in table.columns):
            console.print(Text("↓ lower is better, ↑ higher is better", style="dim"))
    for text in remarks_of(outcome):
        console.print(Text(text, style="dim"))
    for verdict in closing(outcome):
        console.print(Text(f"→ {verdict}", style="bold"))


def closing(outcome: Outcome) -> list[str]:
    """Return the sentences under a table: its conclusions, omissions and failures."""
    lines = outcome.verdicts
    if outcome.is_quick and outcome.rows:
        lines.append(QUICK_END)
    return [*lines, outcome.failure] if outcome.failure else lines


def to_markdown(outcomes: Sequence[Outcome], command: str, machine: dict[str, Any]) -> str:
    """Return all tables as one Markdown text."""
    contents = [
        f"- [{_escape(o.table.title)}](#{o.table.name}), {duration(o.seconds)}" for o in outcomes
    ]
    made = how_made(outcomes, command, machine)
    parts = [
        "# Results",
        f"{made[:1].upper() + made[1:]}, {duration(sum(o.seconds for o in outcomes))} in total.",
        f"**{_state_of(outcomes)}** {_legend(outcomes)}",
        "\n".join(contents),
    ]
    for outcome in outcomes:
        table = outcome.table
        parts += [f'<a id="{table.name}"></a>', f"## {table.title}", _escape(outcome.about)]
        parts.append(origin_of(outcome))
        parts += [f"**{_escape(text)}**" for text in closing(outcome)]
        if outcome.rows:
            titles = [column.heading for column in table.columns]
            head = f"| case | method | {' | '.join(titles)} |\n|--|--|{'--:|' * len(titles)}"
            parts.append("\n".join([head, *map(_markdown_line, lines_of(outcome))]))
        parts.append("\n".join(f"- {_escape(text)}" for text in remarks_of(outcome)))
        parts += [f"![{_escape(d.caption)}]({d.name}.png)" for d in outcome.drawings]
    groups = groups_of(outcomes, machine) or [(machine, [])]
    parts.append("## The machine" if len(groups) == 1 else "## Machines, commits and versions")
    for found, names in groups:
        parts.append("" if len(groups) == 1 else f"**{', '.join(names)}**")
        parts.append("\n".join(f"- {name}: {value}" for name, value in rows_of(found)))
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_line(line: Line) -> str:
    cells = (f"{f'**{c.text}**' if c.is_best else c.text} {c.aside}".strip() for c in line.cells)
    return f"| {' | '.join([_escape(line.case), _escape(line.method), *cells])} |"


def _escape(text: str) -> str:
    for sign in "\\*_|<":
        text = text.replace(sign, f"\\{sign}")
    return text


def to_page(outcomes: Sequence[Outcome], command: str, machine: dict[str, Any]) -> str:
    """Return all tables as one self-contained page."""
    groups = groups_of(outcomes, machine) or [(machine, [])]
    again = [
        Section(
            "Run it again" if len(groups) == 1 else f"Run again: {', '.join(names)}",
            "The figures are the same on every machine of this kind; the seconds are not.",
            code=command if len(groups) == 1 else f"orthoplus bench {names[0]}",
            table=rows_of(found),
        )
        for found, names in groups
    ]
    version = str(machine["versions"]["orthoplus"])
    n_rows = sum(len(outcome.rows) for outcome in outcomes)
    page = Page(
        title="Benchmark tables",
        subtitle=_legend(outcomes),
        status=_state_of(outcomes),
        is_success=_is_complete(outcomes),
        facts=(
            Fact("Tables", str(len(outcomes)), f"{n_rows} rows"),
            Fact("Duration", duration(sum(o.seconds for o in outcomes)), "elapsed time"),
            Fact("Processors", str(machine["processors"]), str(machine["processor"])),
            Fact("Version", version, _commits(groups)),
        ),
        sections=(*map(_section, outcomes), *again),
        foot=f"orthoplus {version}, {how_made(outcomes, command, machine)}",
        has_contents=True,
    )
    return render(page)


def _section(outcome: Outcome) -> Section:
    rows: list[tuple[GridCell, ...]] = []
    for case, lines in groupby(lines_of(outcome), key=lambda line: line.case):
        rows.append((GridCell(case, is_heading=True),))
        rows += [(GridCell(line.method), *line.cells) for line in lines]
    pictures = [
        (d.caption, f"data:image/png;base64,{base64.b64encode(d.png).decode('ascii')}")
        for d in outcome.drawings
    ]
    table = outcome.table
    return Section(
        title=table.title,
        text=outcome.about,
        grid=Grid(("", *(c.heading for c in table.columns)), tuple(rows)) if rows else None,
        lines=tuple(closing(outcome)),
        remarks=tuple(filter(None, [*remarks_of(outcome), origin_of(outcome)])),
        pictures=tuple(pictures),
        aside=duration(outcome.seconds),
    )


def _legend(outcomes: Sequence[Outcome]) -> str:
    """Explain brackets, bold figures and arrows; quick runs have no figures of the paper."""
    is_quick = all(outcome.is_quick for outcome in outcomes)
    return BEST.capitalize() if is_quick else BRACKETS.format(BEST)


def duration(seconds: float) -> str:
    """Format a duration.

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
    """Report in one or two sentences whether the results are complete."""
    if _is_complete(outcomes):
        return "Every table was run in full."
    n_failed = sum(outcome.n_failed for outcome in outcomes)
    early = [outcome.table.name for outcome in outcomes if outcome.failure]
    parts = ["This was a quick run."] if any(outcome.is_quick for outcome in outcomes) else []
    if early:
        parts.append(f"Incomplete: {', '.join(early)}.")
    if n_failed:
        parts.append(f"Failed rows: {n_failed}; each of them states the reason.")
    return " ".join(parts)


def _commits(groups: list[tuple[Machine, list[str]]]) -> str:
    """Return the commit, or how many there are."""
    commits = {machine["commit"] for machine, _ in groups}
    return commit_of(groups[0][0]) if len(commits) == 1 else f"{len(commits)} commits"
