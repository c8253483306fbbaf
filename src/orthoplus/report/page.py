"""Render a page from its sections with one template, which escapes every value."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orthoplus.core.extras import require

TEMPLATE = "page.html.jinja"


class Fact(NamedTuple):
    """A number in large type, with its name and meaning."""

    name: str
    value: str
    meaning: str = ""


class Feature(NamedTuple):
    """A feature of a component, and its weight relative to the largest."""

    name: str
    share: float


class Trait(NamedTuple):
    """A distinctive feature, and the ratio of its level to that of the other clusters."""

    name: str
    times: str


class Component(NamedTuple):
    """A cluster as a card: title, color, size, features, typical and doubtful rows."""

    title: str
    color: str
    about: str
    features: tuple[Feature, ...]
    traits: tuple[Trait, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()  # (heading, names of rows)


class Step(NamedTuple):
    """A suggestion, with an option or file name if it has one."""

    text: str
    code: str = ""


class GridCell(NamedTuple):
    """A cell of a table: text, an aside in lighter type, and the layout.

    Numbers are right-aligned on one line; text may wrap. A color is a mark before the text.
    """

    text: str
    aside: str = ""
    is_best: bool = False
    is_heading: bool = False
    is_text: bool = False
    color: str = ""


class Grid(NamedTuple):
    """A table of numbers; a row with a single cell is a heading across all columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...], ...]


@dataclass(frozen=True)
class Section:
    """A heading with a text, followed by numbers, figures, pictures, a grid, cards or a table.

    ``figures`` are SVG drawn by this package, ``pictures`` data URLs of images. A folded section
    shows only its heading until it is opened; print shows all of it.
    """

    title: str
    text: str = ""
    facts: tuple[Fact, ...] = ()
    steps: tuple[Step, ...] = ()
    is_folded: bool = False
    figures: tuple[tuple[str, str], ...] = ()  # (caption, SVG)
    components: tuple[Component, ...] = ()
    table: tuple[tuple[str, str], ...] = ()
    code: str = ""
    grid: Grid | None = None
    lines: tuple[str, ...] = ()  # text above the grid
    remarks: tuple[str, ...] = ()  # text below the grid
    pictures: tuple[tuple[str, str], ...] = ()  # (caption, data URL)
    aside: str = ""  # text after the title in the table of contents


@dataclass(frozen=True)
class Page:
    """The data of the template."""

    title: str
    subtitle: str
    status: str
    is_success: bool
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    foot: str = ""
    has_contents: bool = False


def render(page: Page) -> str:
    """Render the page as HTML; everything except our own SVG figures is escaped."""
    require("jinja2", "A report", extra="cli")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["drawing"] = Markup  # the XML writer has already escaped the SVG
    environment.filters["coded"] = partial(coded, Markup)
    return environment.get_template(TEMPLATE).render(page=page)


def coded(markup: Any, text: str) -> Any:
    """Escape a text and set words between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick belongs to a name
        return markup.escape(text)
    made = [markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts)]
    return markup("").join(made)


def rows_of(record: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Flatten a nested dictionary to lines of a table, without lists."""
    lines: list[tuple[str, str]] = []
    for name, value in record.items():
        if isinstance(value, dict):
            lines += [(f"{name}: {key}", text) for key, text in rows_of(value)]
        elif not isinstance(value, (list, tuple)):
            text = f"{value:.10g}" if isinstance(value, float) else str(value)
            lines.append((str(name), "-" if value is None else text))
    return tuple(lines)
