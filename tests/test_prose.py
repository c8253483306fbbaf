"""The prose follows the glossary: American spelling, "per row", plain words.

Checked are the pages of the documentation, the public files, the examples (docstrings, comments and
strings), and the rooms of `src/orthoplus` that ``tests/glossary.toml`` lists. Run the module itself
to count what is left in the other rooms: ``python tests/test_prose.py``.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "orthoplus"
GLOSSARY = tomllib.loads((ROOT / "tests" / "glossary.toml").read_text(encoding="utf-8"))
CHECKED_ROOMS = frozenset(GLOSSARY["checked_rooms"])
PATTERNS = [
    (re.compile(rf"\b(?:{pattern})" if kind != "per" else pattern, re.IGNORECASE), instead)
    for kind in ("british", "words", "per")
    for pattern, instead in GLOSSARY[kind].items()
]
# Most prose matches none of the patterns, which one search shows.
ANY_PATTERN = re.compile("|".join(f"(?:{one.pattern})" for one, _ in PATTERNS), re.IGNORECASE)
# Code, formulas, addresses, tables that a script writes, and what a block prints.
NOT_PROSE = re.compile(
    r"<!-- (?:results|options):.*?begin -->.*?<!-- (?:results|options):.*?end -->"
    r"|^```(?:python|sh|text|json|toml|\{literalinclude\}|\{eval-rst\}|\{toctree\}).*?^```$"
    r"|\$\$.*?\$\$|\$[^$\n]+\$|``[^`]+``|`[^`\n]+`|\]\([^)]*\)|^ {4}.*?$",
    re.DOTALL | re.MULTILINE,
)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "examples" / "README.rst"])
SCRIPTS = sorted(
    [*ROOT.glob("examples/**/*.py"), *ROOT.glob("docs/*.py"), *ROOT.glob("docs/figures/*.py")]
)
MODULES = sorted(SOURCE.rglob("*.py"))


class Finding(NamedTuple):
    """Where the glossary is not followed, and what it suggests."""

    line: int
    found: str
    instead: str


def blank(found: re.Match[str]) -> str:
    """Return what keeps the lines where they are."""
    return re.sub(r"[^\n]", " ", found[0])


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the page in one piece, code and formulas blanked out."""
    yield 1, NOT_PROSE.sub(blank, text)


def prose_of_script(text: str) -> Iterator[tuple[int, str]]:
    """Yield every comment and every string of the code with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub(r"``[^`]+``|`[^`\n]+`|^ *(>>>|\.\.\. ).*$", blank, node.value)


def findings(path: Path) -> list[Finding]:
    """Return all places of a file at which the glossary is not followed."""
    text = path.read_text(encoding="utf-8")
    prose = prose_of_script if path.suffix == ".py" else prose_of_page
    return sorted(
        Finding(line + part.count("\n", 0, match.start()), match[0], instead)
        for line, part in prose(text)
        if ANY_PATTERN.search(part)
        for pattern, instead in PATTERNS
        for match in pattern.finditer(part)
    )


def room_of(path: Path) -> str:
    """Return the room of a module; the files at the top are the room ""."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def shown(path: Path) -> list[str]:
    """Return the findings as lines that an editor can follow."""
    return [
        f"{path.relative_to(ROOT)}:{one.line}: `{one.found}`; write: {one.instead}"
        for one in findings(path)
    ]


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_public_text_follows_the_glossary(path):
    assert shown(path) == []


@pytest.mark.parametrize("room", sorted(CHECKED_ROOMS))
def test_room_follows_the_glossary(room):
    modules = [path for path in MODULES if room_of(path) == room]
    assert modules
    assert [line for path in modules for line in shown(path)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The colour of the center.", ["colour"]),
        ("A label and a weight a row.", ["weight a row"]),
        ("Code: `colour`, $colour$ and\n\n```python\ncolour\n```\n", []),
        ("Few but dear steps,\nand no rival.", ["dear", "rival"]),
        ("Normalised once an iteration.", ["Normalised", "once an iteration"]),
    ],
)
def test_findings_of_a_page(text, found, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    assert [one.found for one in findings(path)] == found


def test_findings_of_code_are_in_comments_and_strings_only(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('centre = 1  # the centre\nraise ValueError(f"{centre} is no number")\n')
    assert findings(path) == [
        Finding(1, "centre", "center"),
        Finding(2, "is no ", "is not a"),
    ]


def count_by_room() -> Counter[str]:
    """Return the number of findings in each room, those without one included."""
    counts: Counter[str] = Counter()
    for path in MODULES:
        counts[room_of(path)] += len(findings(path))
    return counts


def main(wanted: list[str]) -> None:
    """Print the findings below the paths that are wanted, and the counts by room."""
    lines = [line for path in [*PAGES, *SCRIPTS, *MODULES] for line in shown(path)]
    chosen = [line for line in lines if line.startswith(tuple(wanted) or ("",))]
    sys.stdout.write("\n".join([*chosen, str(dict(sorted(count_by_room().items())))]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
