"""What the pages of the reference show of classes whose members Python writes itself."""

import re
from enum import Enum
from typing import Any

from sphinx.application import Sphinx


def skip_aliases(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """Leave out the fields of a named tuple, which its section *Attributes* describes."""
    return True if str(obj.__doc__).startswith("Alias for field number") else None


def shorten_signature(  # noqa: PLR0913 - the arguments that Sphinx passes
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Show no arguments for enumerations and protocols, which users do not call."""
    is_called = what != "class" or not (issubclass(obj, Enum) or getattr(obj, "_is_protocol", 0))
    return None if is_called else ("", returns)


def list_members(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Append the members of an enumeration and their values."""
    if what == "class" and issubclass(obj, Enum):
        lines += ["", ".. rubric:: Members", ""]
        lines += [f"- ``{member.name}``: {member.value}" for member in obj]
        lines.append("")


def join_fields(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Write a dash between a parameter and its text: two hyphens stay two on these pages."""
    lines[:] = [re.sub(r"(?<=\*\)|\*\*) -- ", " \N{EN DASH} ", line, count=1) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", skip_aliases)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", list_members)
    app.connect("autodoc-process-docstring", join_fields, priority=900)  # after napoleon
    return {"parallel_read_safe": True}
