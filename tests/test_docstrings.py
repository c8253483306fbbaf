"""Every public name says what it is, shows an example that runs, and is in the reference."""

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

REFERENCE = Path(__file__).parents[1] / "docs" / "api.md"
ROOMS = (
    "",
    ".problems",
    ".methods",
    ".methods.baselines",
    ".estimators",
    ".metrics",
    ".geometry",
    ".datasets",
    ".autodiff",
    ".optimality",
    ".penalty",
    ".io",
    ".model_selection",
    ".projection",
)


class Name(NamedTuple):
    """A public name and what it stands for."""

    dotted: str
    found: Any


def public_names(module: ModuleType) -> list[str]:
    """What the module exports: its list, or what is defined there without an underscore."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, found in vars(module).items()
        if name[0] != "_" and getattr(found, "__module__", None) == module.__name__
    ]


def walk() -> list[Name]:
    """All functions and classes of the rooms; registries, modules and versions are none."""
    rooms = [importlib.import_module(f"orthoplus{room}") for room in ROOMS]
    names = [
        Name(f"{room.__name__}.{name}", getattr(room, name))
        for room in rooms
        for name in public_names(room)
    ]
    return [name for name in names if callable(name.found) and hasattr(name.found, "__name__")]


def resolve(dotted: str) -> Any:
    """The object behind a name relative to the package."""
    found: Any = importlib.import_module("orthoplus")
    path = "orthoplus"
    for part in dotted.split("."):
        path = f"{path}.{part}"
        found = getattr(found, part, None) or importlib.import_module(path)
    return found


LISTED = {
    dotted: resolve(dotted)
    for dotted in re.findall(r"^   ([A-Za-z_][\w.]*)$", REFERENCE.read_text(encoding="utf-8"), re.M)
}
NAMES = walk()
# What the reference lists from other rooms: a part of a module that is not public as a whole.
NAMES += [
    Name(f"orthoplus.{dotted}", found)
    for dotted, found in LISTED.items()
    if not any(found is name.found for name in NAMES)
]
IDS = [name.dotted.removeprefix("orthoplus.") for name in NAMES]


@pytest.mark.parametrize("name", NAMES, ids=IDS)
def test_docstring_begins_with_a_sentence_of_one_line(name):
    first, _, rest = (inspect.getdoc(name.found) or "").partition("\n")
    assert first
    assert first.endswith(".")
    assert ". " not in first  # the reference would cut the sentence there
    assert rest == "" or rest.startswith("\n")


@pytest.mark.parametrize("name", NAMES, ids=IDS)
def test_docstring_has_an_example(name):
    assert name.found.__doc__ is not inspect.getattr_static(object, "__doc__")
    text = inspect.getdoc(name.found) or ""
    _, heading, example = text.partition("Examples\n--------\n")
    assert heading
    # That it runs is tested with the module: pytest collects every doctest of the package.
    assert doctest.DocTestParser().get_examples(example)


@pytest.mark.parametrize("name", NAMES, ids=IDS)
def test_name_is_in_the_reference(name):
    assert any(found is name.found for found in LISTED.values())


def test_walk_sees_every_room():
    assert len(NAMES) > 80
    assert {"orthoplus.unmix", "orthoplus.geometry.violation"} <= {name.dotted for name in NAMES}
