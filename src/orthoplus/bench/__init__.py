"""The tables of the paper, regenerated: one file a table, and a registry that loads it when asked.

A table yields rows, ours with the paper's printed figures beside them; `orthoplus.bench.output`
shows them on a terminal, as JSON lines, as Markdown and as a page.
"""

from importlib import import_module

from orthoplus.bench.table import Table
from orthoplus.core.errors import InputError

# Name -> module with a `TABLE`; a new table is one file and one line.
TABLES = {
    "projection": "orthoplus.bench.projection",
    "synthetic": "orthoplus.bench.synthetic",
    "text": "orthoplus.bench.text",
    "unmixing": "orthoplus.bench.unmixing",
    "indicators": "orthoplus.bench.indicators",
    "qap": "orthoplus.bench.qap",
    "general": "orthoplus.bench.general",
    "speed-sets": "orthoplus.bench.speed_sets",
    "speed-large": "orthoplus.bench.speed_large",
    "speed-growth": "orthoplus.bench.speed_growth",
}
_SPEED = ("speed-sets", "speed-large", "speed-growth")
GROUPS = {
    "speed": _SPEED,
    "onmf": ("synthetic", "text", "unmixing", *_SPEED),
    "all": tuple(TABLES),
}


def names_of(name: str) -> tuple[str, ...]:
    """The tables that a name stands for.

    Examples
    --------
    >>> names_of("text"), names_of("speed")[0]
    (('text',), 'speed-sets')
    """
    if name not in TABLES and name not in GROUPS:
        known = ", ".join((*TABLES, *GROUPS))
        raise InputError(f"`{name}` is no table. Known are {known}.")
    return GROUPS.get(name, (name,))


def load_table(name: str) -> Table:
    """The table of a name, its module imported now."""
    table: Table = import_module(TABLES[name]).TABLE
    return table


__all__ = ["GROUPS", "TABLES", "load_table", "names_of"]
