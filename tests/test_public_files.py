"""The files that a forge, a package index or a channel reads: valid by their published schemas."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import orthoplus as op

ROOT = Path(__file__).parents[1]
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "citation-file-format": "CITATION.cff",
}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_file_is_valid_by_its_schema(schema):
    pytest.importorskip("check_jsonschema")
    files = sorted(map(str, ROOT.glob(SCHEMAS[schema])))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_call_only_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    called = {
        target
        for file in ROOT.glob(".github/workflows/*.yml")
        for target in re.findall(r"run: make (\w+)", file.read_text())
    }
    assert called
    assert called <= targets


def test_workflows_run_every_declared_version_of_python(project):
    text = (ROOT / ".github/workflows/tests.yml").read_text()
    versions = re.search(r"python: \[(.+)\]", text)[1].replace('"', "").split(", ")
    declared = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if ":: 3." in c]
    assert versions == declared
    assert project["requires-python"] == f">={declared[0]}"


def test_recipe_names_the_requirements_of_the_package(project):
    text = (ROOT / "recipe/recipe.yaml").read_text()
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cli"], *extras["hdf5"]]
    names = {"matplotlib": "matplotlib-base"}
    assert project["requires-python"] == ">=" + re.search(r'python_min: "(.+)"', text)[1]
    for requirement in wanted:
        name, version = requirement.split(">=")
        assert f"- {names.get(name, name)} >={version}\n" in text


def test_citation_has_the_version_that_is_released():
    stated = re.search(r'^version: "(.+)"', (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert stated == op.__version__.removesuffix(".dev0")


def test_dir_shows_public_names_and_all_of_them_exist():
    assert dir(op) == sorted(op.__all__)
    missing = [name for name in op.__all__ if not hasattr(op, name)]
    assert not missing


def test_paper_cites_what_its_bibliography_has():
    cited = set(re.findall(r"@(\w+\d{4})", (ROOT / "paper.md").read_text(encoding="utf-8")))
    listed = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper.bib").read_text(), re.M))
    assert cited == listed


def test_changelog_has_the_version_below_what_is_unreleased():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[:2] == ["Unreleased", op.__version__.removesuffix(".dev0")]
