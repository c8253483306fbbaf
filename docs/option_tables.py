"""Write the tables of options into the pages, from signatures and docstrings only.

``python docs/option_tables.py`` replaces what is between ``<!-- options:NAME:begin -->`` and
``<!-- options:NAME:end -->`` on every page of the documentation. `TABLES` has the names: estimators
and calls (the default from the signature, the meaning from the first sentence of the docstring),
commands (from the parser of the command line), the benchmark tables, and the default method of each
problem. A test checks that the pages are up to date.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

import orthoplus as op

DOCS = Path(__file__).parent
# A first sentence shorter than this, such as "k.", is followed by the second one.
_SHORT = 25
_MARKS = re.compile(r"<!-- options:([\w-]+):begin -->.*?<!-- options:\1:end -->", re.DOTALL)
# A sentence ends at a period before a capital, a digit of a value or a quoted word.
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z`\"$])")


def estimator(kind: type) -> str:
    """Return the options of an estimator with their defaults."""
    return options_of(inspect.signature(kind).parameters, inspect.getdoc(kind) or "")


def call(function: Callable[..., Any]) -> str:
    """Return the keyword-only options of a function with their defaults."""
    chosen = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return options_of(chosen, inspect.getdoc(function) or "")


def options_of(parameters: Mapping[str, inspect.Parameter], docstring: str) -> str:
    """Return a table with a line for each parameter."""
    meanings = dict(described(docstring))
    rows = [
        (f"`{name}`", default_of(parameter.default), meanings[name])
        for name, parameter in parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    return table(("option", "default", "meaning"), rows)


def assignment() -> str:
    """Return the entries of ``options`` of `quadratic_assignment`."""
    from orthoplus.assignment import AssignmentOptions

    meanings = dict(described(inspect.getdoc(op.quadratic_assignment) or "", indent=4))
    rows = [
        (f"`{field.name}`", default_of(field.default), meanings[field.name])
        for field in fields(AssignmentOptions)
    ]
    return table(("option", "default", "meaning"), rows)


def described(docstring: str, indent: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a numpydoc section with the first sentence about each."""
    section = docstring.partition("Parameters\n----------\n")[2]
    section = re.split(r"^\w+\n-{3,}$", section, maxsplit=1, flags=re.MULTILINE)[0]
    margin = " " * indent
    entry = re.compile(
        rf"^{margin}(?P<names>\w+(?:, \w+)*)(?: : .*)?\n(?P<text>(?:{margin} {{4}}.*\n?|\n)+)",
        re.MULTILINE,
    )
    for found in entry.finditer(section):
        for name in found["names"].split(", "):
            yield name, first_sentence(found["text"])


def first_sentence(text: str) -> str:
    """Return the first sentence in Markdown, with the next one if the first is very short."""
    words = " ".join(text.split())
    words = re.sub(r":math:`([^`]+)`", r"$\1$", words).replace("``", "`")
    sentences = _SENTENCE_END.split(words)
    length = 2 if len(sentences[0]) < _SHORT else 1
    return ". ".join(sentences[:length]).rstrip(".") + "."


def default_of(value: Any) -> str:
    """Return a default as it is written in code."""
    if value is inspect.Parameter.empty or value is MISSING:
        return "required"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value!r}`"


def command(name: str) -> Callable[[], str]:
    """Return a function that makes the table of a command's options."""

    def make() -> str:
        import typer

        from orthoplus.cli.app import app

        parser = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        rows = [
            (option_names(one), option_default(one), plain(one.help))
            for one in parser.params
            if one.opts[0].startswith("-") and not getattr(one, "hidden", False)
        ]
        return table(("option", "default", "meaning"), rows)

    return make


def option_names(option: Any) -> str:
    """Return all spellings of an option, with what it takes."""
    spelled = [*sorted(option.opts, key=len), *option.secondary_opts]
    takes = f" {option.metavar}" if option.metavar else ""
    return f"`{', '.join(spelled)}{takes}`".replace("|", "\\|")


def option_default(option: Any) -> str:
    """Return the default of an option, from the help if the parser has none."""
    if option.required:
        return "required"
    said = re.search(r"default: (.+?)\[/dim\]", option.help or "")
    if said:
        return said[1]
    if option.default is None or option.default is False or callable(option.default):
        return ""
    if option.secondary_opts:  # a pair such as --report, --no-report
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    return f"`{option.default}`"


def plain(text: str | None) -> str:
    """Return the help of an option without markup and without its default."""
    text = re.sub(r"\s*\[dim\]default:.*?\[/dim\]", "", text or "")
    return re.sub(r"\[/?\w*\]", "", text).replace("|", "\\|")


def benchmarks() -> str:
    """Return every benchmark table and every group of them."""
    from orthoplus.bench import GROUPS, TABLES

    rows = [(f"`{name}`", title) for name, title in TABLES.items()]
    rows += [
        (f"`{name}`", "every table" if name == "all" else ", ".join(f"`{one}`" for one in names))
        for name, names in GROUPS.items()
    ]
    return table(("table", "contents"), rows)


def presets() -> str:
    """Return which method `solve` takes for each problem, with the number of its starts."""
    from orthoplus.problems import EXAMPLES, nonnegative_pca
    from orthoplus.run.presets import preset_of, search_after

    rng = np.random.default_rng(0)
    problems = [(type(make(rng)).__name__, make(rng)) for make in EXAMPLES.values()]
    problems.append(("nonnegative_pca", nonnegative_pca(rng.random((6, 4)), 2)))
    rows = []
    for name, problem in problems:
        preset = preset_of(problem)
        method = preset.method(problem, 0)
        search = search_after(method, problem.shape)
        ends = f"`{type(search).__name__}`" if search is not None else "none"
        rows.append((f"`{name}`", f"`{type(method).__name__}`", str(preset.n_init), ends))
    return table(("problem", "method", "`n_init`", "search afterward"), rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([lines[0], f"|{'--|' * len(head)}", *lines[1:]])


TABLES: dict[str, Callable[[], str]] = {
    "OrthogonalNMF": lambda: estimator(op.OrthogonalNMF),
    "KIndicatorsClustering": lambda: estimator(op.KIndicatorsClustering),
    "NonnegativeSpectralClustering": lambda: estimator(op.NonnegativeSpectralClustering),
    "NonnegativePCA": lambda: estimator(op.NonnegativePCA),
    "solve": lambda: call(op.solve),
    "unmix": lambda: call(op.unmix),
    "project": lambda: call(op.project),
    "quadratic_assignment": assignment,
    "command-cluster": command("cluster"),
    "command-unmix": command("unmix"),
    "command-parcellate": command("parcellate"),
    "command-project": command("project"),
    "command-bench": command("bench"),
    "benchmarks": benchmarks,
    "presets": presets,
}


def fill(page: str) -> str:
    """Return the page with every table of options made again."""

    def make(found: re.Match[str]) -> str:
        name = found[1]
        if name not in TABLES:
            raise ValueError(f"No table of options is called `{name}`; known: {', '.join(TABLES)}.")
        return f"<!-- options:{name}:begin -->\n\n{TABLES[name]()}\n\n<!-- options:{name}:end -->"

    return _MARKS.sub(make, page)


def pages() -> list[Path]:
    """Return the pages that have a table of options."""
    found = sorted(DOCS.glob("*.md"))
    return [path for path in found if _MARKS.search(path.read_text(encoding="utf-8"))]


def main() -> None:
    """Fill all tables of all pages."""
    for path in pages():
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
