"""Every public name says what it is, shows an example that runs, and is in the reference."""

import doctest
import importlib
import inspect
import re
from enum import EnumType
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from numpydoc.docscrape import NumpyDocString

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
# Rooms of which the reference lists only a part; all that they export has an example.
PARTLY_LISTED = (".data", ".adapters.brain", ".adapters.singlecell", ".certify")


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


def walk(paths: tuple[str, ...]) -> list[Name]:
    """All functions and classes of the rooms; registries, modules and versions are none."""
    rooms = [importlib.import_module(f"orthoplus{path}") for path in paths]
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
NAMES = walk(ROOMS)
# What the reference lists from other rooms: a part of a module that is not public as a whole.
NAMES += [
    Name(f"orthoplus.{dotted}", found)
    for dotted, found in LISTED.items()
    if not any(found is name.found for name in NAMES)
]
IDS = [name.dotted.removeprefix("orthoplus.") for name in NAMES]
EXPORTED = [*NAMES, *walk(PARTLY_LISTED)]


def examples_of(name: Name) -> list[doctest.Example]:
    """The examples of the docstring."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(name.found) or "")


# Examples that pytest does not collect, with the package or the data set that each needs.
SKIPPED = [
    name
    for name in NAMES
    if all(example.options.get(doctest.SKIP) for example in examples_of(name))
]
NEEDED = {
    "orthoplus.autodiff.from_torch": "torch",
    "orthoplus.datasets.load_arrays": "Yale",
    "orthoplus.datasets.load_labelled": "Yale",
    "orthoplus.datasets.load_scene": "Samson",
    "orthoplus.adapters.brain.Parcellation": "nilearn",
    "orthoplus.adapters.brain.load_surface": "nilearn",
    "orthoplus.adapters.singlecell.onmf": "anndata",
    "orthoplus.adapters.singlecell.rank": "anndata",
}


@pytest.mark.parametrize("name", NAMES, ids=IDS)
def test_docstring_begins_with_a_sentence_of_one_line(name):
    first, _, rest = (inspect.getdoc(name.found) or "").partition("\n")
    assert first
    assert first.endswith(".")
    assert ". " not in first  # the reference would cut the sentence there
    assert rest == "" or rest.startswith("\n")


@pytest.mark.parametrize("name", EXPORTED, ids=lambda name: name.dotted)
def test_docstring_has_an_example(name):
    assert name.found.__doc__ is not inspect.getattr_static(object, "__doc__")
    text = inspect.getdoc(name.found) or ""
    _, heading, example = text.partition("Examples\n--------\n")
    assert heading
    # That it runs is tested with the module: pytest collects every doctest of the package.
    assert doctest.DocTestParser().get_examples(example)


@pytest.mark.parametrize("name", EXPORTED, ids=lambda name: name.dotted)
def test_docstring_describes_every_parameter(name):
    listed = NumpyDocString(inspect.getdoc(name.found))["Parameters"]
    assert [found.name for found in listed if not found.desc] == []
    if listed and not isinstance(name.found, EnumType):
        documented = {part.strip(" *") for found in listed for part in found.name.split(",")}
        assert set(inspect.signature(name.found).parameters) <= documented


@pytest.mark.parametrize("name", SKIPPED, ids=lambda name: name.dotted)
def test_skipped_example_runs_if_what_it_needs_is_present(
    name, load_data, data_folder, monkeypatch
):
    needed = NEEDED[name.dotted]
    if name.dotted.startswith("orthoplus.datasets"):
        load_data(needed)
        monkeypatch.setenv("ORTHOPLUS_DATA", str(data_folder))
    else:
        pytest.importorskip(needed)
    examples = examples_of(name)
    for example in examples:
        example.options.pop(doctest.SKIP)
    scope = dict(vars(inspect.getmodule(name.found)))
    output = []
    outcome = doctest.DocTestRunner(verbose=False).run(
        doctest.DocTest(examples, scope, name.dotted, None, None, None), out=output.append
    )
    assert outcome.attempted == len(examples)
    assert not outcome.failed, "".join(output)


@pytest.mark.parametrize("name", NAMES, ids=IDS)
def test_name_is_in_the_reference(name):
    assert any(found is name.found for found in LISTED.values())


def test_walk_sees_every_room():
    assert len(NAMES) > 80
    assert {"orthoplus.unmix", "orthoplus.geometry.violation"} <= {name.dotted for name in NAMES}
