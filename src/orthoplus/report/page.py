"""A page from its parts, through one template that escapes every value."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orthoplus.core.extras import require

TEMPLATE = "page.html.jinja"


class Fact(NamedTuple):
    """A number in large type: its name, its value, and what it means."""

    name: str
    value: str
    meaning: str = ""


class Feature(NamedTuple):
    """A feature of a component, and its weight as a share of the largest."""

    name: str
    share: float


class Trait(NamedTuple):
    """A distinctive feature, and how many times the level of the other clusters it has."""

    name: str
    times: str


class Component(NamedTuple):
    """A cluster in words: number, color, size, features, and what its rows are like."""

    title: str
    color: str
    about: str
    features: tuple[Feature, ...]
    traits: tuple[Trait, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()  # (typical or doubtful, which)


class Step(NamedTuple):
    """Something to do next, with what to type for it if there is anything."""

    text: str
    code: str = ""


class GridCell(NamedTuple):
    """A cell of a table of figures: text, something quieter after it, and how it is set.

    Figures stay on one line, at the right; a text is broken. A color is a mark before the text.
    """

    text: str
    aside: str = ""
    is_best: bool = False
    is_heading: bool = False
    is_text: bool = False
    color: str = ""


class Grid(NamedTuple):
    """A table of figures; a row of one heading spans all columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...], ...]


@dataclass(frozen=True)
class Section:
    """A heading with a sentence, then numbers, figures, pictures, a grid, cards or a table.

    ``figures`` are SVG that we drew, ``pictures`` addresses of images inside the page. A folded
    section shows its heading alone until it is opened; print shows all of it.
    """

    title: str
    text: str = ""
    facts: tuple[Fact, ...] = ()
    steps: tuple[Step, ...] = ()
    is_folded: bool = False
    figures: tuple[tuple[str, str], ...] = ()  # (what it shows, SVG)
    components: tuple[Component, ...] = ()
    table: tuple[tuple[str, str], ...] = ()
    code: str = ""
    grid: Grid | None = None
    lines: tuple[str, ...] = ()  # what the grid shows
    remarks: tuple[str, ...] = ()  # what its columns mean
    pictures: tuple[tuple[str, str], ...] = ()  # (what it shows, data address)
    aside: str = ""  # after its name in the list of contents


@dataclass(frozen=True)
class Page:
    """Everything that the template shows."""

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
    """Return the whole page as text; only the SVG of our own figures goes in unescaped."""
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
    environment.filters["drawing"] = Markup  # made by an XML writer, which escapes
    environment.filters["coded"] = partial(coded, Markup)
    return environment.get_template(TEMPLATE).render(page=page)


def coded(markup: Any, text: str) -> Any:
    """Return escaped text in which what stands between backticks is set as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick of a name, which has no other
        return markup.escape(text)
    made = [markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts)]
    return markup("").join(made)


def rows_of(record: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a nested dictionary as lines of a table, lists left out."""
    lines: list[tuple[str, str]] = []
    for name, value in record.items():
        if isinstance(value, dict):
            lines += [(f"{name}: {key}", text) for key, text in rows_of(value)]
        elif not isinstance(value, (list, tuple)):
            text = f"{value:.10g}" if isinstance(value, float) else str(value)
            lines.append((str(name), "-" if value is None else text))
    return tuple(lines)
