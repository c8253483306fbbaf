"""The tables of options are made from signatures and docstrings, never typed."""

import inspect
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def option_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import option_tables

    yield option_tables
    sys.modules.pop("option_tables")


def test_pages_are_up_to_date(option_tables):
    pytest.importorskip("typer")
    pages = option_tables.pages()
    assert pages
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert option_tables.fill(page) == page, "run: python docs/option_tables.py"


def test_every_table_is_on_a_page(option_tables):
    text = "".join(path.read_text(encoding="utf-8") for path in option_tables.pages())
    missing = [name for name in option_tables.TABLES if f"options:{name}:begin" not in text]
    assert not missing


def test_row_has_the_default_of_the_signature(option_tables):
    def example(a, *, b=3, c="x"):
        """Do it.

        Parameters
        ----------
        a : int
            Not an option.
        b, c : int, str
            Both of them, with :math:`k^2` and ``d``. More follows.
        """

    assert option_tables.call(example).splitlines()[2:] == [
        "| `b` | `3` | Both of them, with $k^2$ and `d`. |",
        '| `c` | `"x"` | Both of them, with $k^2$ and `d`. |',
    ]


def test_option_without_a_sentence_is_an_error(option_tables):
    parameters = inspect.signature(lambda *, b=1: None).parameters
    with pytest.raises(KeyError, match="b"):
        option_tables.options_of(parameters, "No section.")


def test_unknown_table_is_named(option_tables):
    page = "<!-- options:nothing:begin --><!-- options:nothing:end -->"
    with pytest.raises(ValueError, match="called `nothing`"):
        option_tables.fill(page)
