"""The paper map: every numbered item has a row, every name and every test exists."""

import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from orthoplus import solve
from orthoplus.run import api
from orthoplus.run.attempts import Attempts

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "paper.md"

# As printed: how many equations a section has, and its statements.
N_EQUATIONS = {"1": 9, "2": 17, "3": 17, "4": 25, "5": 11, "6": 6, "A": 3}
WITH_PARTS = {"2.6": "ab", "3.7": "ab", "4.22": "ab", "6.5": "ab", "6.6": "ab"}
STATEMENTS = (
    "Assumption 2.1, Lemma 2.2, Lemma 2.3, Theorem 2.4, Definition 2.5, Theorem 2.6, Theorem 2.7, "
    "Remark 2.8, Lemma 2.9, Theorem 3.1, Lemma 3.2, Lemma 3.3, Theorem 3.4, Remark 3.5, "
    "Theorem 4.1, Theorem 4.2, Corollary 4.3, Remark 4.4, Theorem 4.5, Remark 4.6, "
    "Theorem 5.1, Theorem 5.2, Definition 5.3, Proposition A.1, Example 3.1, Example 4.1, "
    "Procedure 1, Algorithm 1, Algorithm 2, "
    "Table 1, Table 2, Tables 3, 4, Table 5, Table 6, Figures 1-4"
).split(", ")


class Row(NamedTuple):
    paper: str
    what: str
    code: str
    test: str


def read_rows() -> list[Row]:
    lines = MAP.read_text(encoding="utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return [Row(*row) for row in cells if row[0] != "paper" and not row[0].startswith("--")]


ROWS = read_rows()


def quoted(text: str) -> list[str]:
    """What stands in backticks outside brackets: an option in brackets is not a name."""
    return re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", text))


def exists(dotted: str) -> bool:
    """Whether a name relative to the package can be reached; fields of dataclasses count."""
    parts = ["orthoplus", *dotted.split(".")]
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, name) and name not in fields:
                return False
            found = getattr(found, name, None)
        return True
    return False


def equations(text: str) -> set[str]:
    """The numbers in brackets, ranges spelt out."""
    found = set(re.findall(r"\((\w\.\d+[ab]?)\)", text))
    for section, low, high in re.findall(r"\((\w)\.(\d+)\)-\(\1\.(\d+)\)", text):
        found |= {f"{section}.{i}" for i in range(int(low), int(high) + 1)}
    return found


def test_map_has_every_equation():
    printed = {
        f"{section}.{i}{part}"
        for section, count in N_EQUATIONS.items()
        for i in range(1, count + 1)
        for part in WITH_PARTS.get(f"{section}.{i}", ("",))
    }
    assert set().union(*(equations(row.paper) for row in ROWS)) == printed


def test_map_has_every_statement():
    listed = {item.strip() for row in ROWS for item in row.paper.split(",")}
    assert [item for item in STATEMENTS if item not in listed] == []


@pytest.mark.parametrize("row", ROWS, ids=[row.paper for row in ROWS])
def test_row_leads_somewhere(row):
    names = quoted(row.code)
    assert names or row.code == "*proof*"
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.code != "*proof*"], ids=lambda row: row.paper
)
def test_row_names_a_test_that_exists(row):
    assert quoted(row.test)
    for name in quoted(row.test):
        path, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        ("(3.10)", "penalty.Penalty.rounding_loss"),
        ("(3.11)", "exactness.upsilon"),
        ("(3.2)", "Problem.value_lipschitz"),
        ("Procedure 1", "geometry.keep_largest"),
        ("Theorem 4.1", "EP4Orth.for_theory"),
        ("Section 1.1", "problems.ProjectiveKL"),
    ],
)
def test_row_leads_to_the_function_that_computes_it(paper, name):
    assert any(name in quoted(row.code) for row in ROWS if paper in row.paper)


def test_exists_sees_what_is_and_what_is_not():
    assert exists("geometry.violation")
    assert exists("optimality.OptimalityReport.Z")
    assert not exists("geometry.nothing")
    assert not exists("nowhere.at_all")


# Every system that section 1.2 names, by its authors, and what implements it.
CITED_SYSTEMS = {
    "Ding et al.": "UONMF",
    "Yoo and Choi": "YooChoi",
    "Pompili et al.: EM": "EMONMF",
    "Pompili et al.: augmented": "ONPMF",
    "Li et al.": "ApproximatelyOrthogonalNMF",
    "Wang et al.": "SNCP",
    "Zhang et al.": "GOPA",
    "Yang and Oja": "OPNMF",
    "Pan and Ng": "ConvexRelaxation",
    "Wen and Yin": "WenYin",
    "Chen et al.": "KindAP",
}


@pytest.mark.parametrize("authors", CITED_SYSTEMS)
def test_every_cited_system_has_a_row(authors):
    (row,) = [row for row in ROWS if row.what.startswith(authors) and row.paper == "Section 1.2"]
    assert f"baselines.{CITED_SYSTEMS[authors]}" in quoted(row.code)


PAGES = sorted(path for path in (ROOT / "docs").glob("*.md"))
# What may stand before a dotted name on a page: the package, or a room of it.
ROOMS = ("op", "orthoplus", "run", "methods", "problems", "geometry", "penalty", "baselines")


def dotted_names(page: Path) -> list[str]:
    """The dotted names in backticks outside code blocks, without arguments and the package."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    names = [quote.partition("(")[0] for quote in re.findall(r"`([^`\n]+)`", text)]
    rooms = "|".join(ROOMS)
    found = [
        name for name in names if re.fullmatch(rf"(?!run\.(?:json|npz))(?:{rooms})(?:\.\w+)+", name)
    ]
    return [re.sub(r"^(?:op|orthoplus)\.", "", name) for name in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_on_a_page_exist(page):
    assert [name for name in dotted_names(page) if not exists(name)] == []


def body_of(function):
    """Return the code of a function without its signature, and without its docstring if any."""
    code = inspect.getsource(function)
    return code.split('"""')[-1] if '"""' in code else code.partition(":\n")[2]


def test_path_of_a_call_is_in_the_order_of_the_code():
    text = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| \d \|.*\| `([\w.]+)` \|$", text, flags=re.M)
    assert len(steps) == 6
    assert [step for step in steps if not exists(step)] == []
    code = body_of(solve)
    # The first call of each of these functions, in the place of their own code.
    for call, function in {
        "_prepared(": api._prepared,
        "runs.add(": Attempts.add,
        "self._end(": Attempts._end,
    }.items():
        assert call in code
        code = code.replace(call, body_of(function), 1)
    places = [code.index(f"{step.rpartition('.')[2]}(") for step in steps]
    assert places == sorted(places)
