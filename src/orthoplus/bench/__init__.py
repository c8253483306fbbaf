"""Benchmark tables: one module per table, and a registry that imports it on demand.

A table yields rows, with the printed figures of the paper next to ours if it has them;
`orthoplus.bench.output` shows them on a terminal, as JSON lines, as Markdown and as a page.
"""

from dataclasses import replace
from importlib import import_module

from orthoplus.bench.table import Table
from orthoplus.core.errors import InputError

# Name -> title; the module has the same name with underscores, and holds a `TABLE`.
TABLES = {
    "projection": "Projection onto S+ with a planted solution (table 1)",
    "synthetic": "Orthogonal NMF on synthetic data (table 2)",
    "text": "Clustering of text and images (tables 3 and 4)",
    "hard": "The objective on real and on hard matrices",
    "unmixing": "Hyperspectral unmixing (table 5)",
    "indicators": "K-indicators against KindAP (table 6)",
    "qap": "Quadratic assignment on QAPLIB",
    "general": "How often the general solver finds the optimum",
    "general-methods": "Methods for any smooth f on the same starts",
    "claims": "Published claims of other methods, and whether they held",
    "speed-sets": "Speed on text and images",
    "speed-large": "Large dense matrices: seconds and peak memory",
    "speed-peers": "A large float32 matrix, compared with k-means and faiss",
    "speed-growth": "How the cost grows with the size of the data",
    "brain": "Parcels of brain images, and OPNMF",
    "scaling": "Orthogonal NMF in memory, from disk and on a cluster",
    "divergence": "Document clusters: models, counts and tf-idf",
    "spectral": "Nonnegative and ordinary spectral clustering",
    "ranks": "The number of clusters that each criterion chooses",
    "solvers": "First- and second-order inner solvers near a solution",
    "graph-matching": "Graph matching with moved edges",
    "indicators-large": "K-indicators at the size of the paper's largest set",
    "projection-gaps": "Gaps of the certified projection without a planted solution",
    "projection-methods": "Other ways to certify a projection",
    "projection-exact": "Certified projections against all supports",
    "proofs-valid": "Certificates of tiny clusterings against all partitions",
    "proofs-planted": "Proofs of optimality on planted data",
    "proofs-data": "Gaps that are proven on real data",
    "proofs-kmeans": "Gaps that are proven for k-means",
    "copositivity": "Verdicts on copositivity against exact arithmetic",
}
_SPEED = ("speed-sets", "speed-large", "speed-peers", "speed-growth")
GROUPS: dict[str, tuple[str, ...]] = {
    "paper": ("projection", "synthetic", "text", "unmixing", "indicators"),
    "speed": _SPEED,
    "onmf": ("synthetic", "text", "hard", "unmixing", *_SPEED),
    "proofs": tuple(name for name in TABLES if name.startswith("proofs-")),
    "all": tuple(TABLES),
}
# The tables of the paper by their numbers.
ALIASES = {
    "table1": "projection",
    "table2": "synthetic",
    "table3": "text",
    "table4": "text",
    "table5": "unmixing",
    "table6": "indicators",
}


def names_of(name: str) -> tuple[str, ...]:
    """Return the tables that a name stands for.

    Examples
    --------
    >>> names_of("text"), names_of("speed")[0], names_of("table2")
    (('text',), 'speed-sets', ('synthetic',))
    """
    name = ALIASES.get(name, name)
    if name not in TABLES and name not in GROUPS:
        known = ", ".join((*TABLES, *GROUPS))
        raise InputError(
            f"`{name}` is not a table. Choose one of {known}, or table1 to table6 of the paper."
        )
    return GROUPS.get(name, (name,))


def load_table(name: str) -> Table:
    """Import the module of a table, and return the table."""
    table: Table = import_module(f"orthoplus.bench.{name.replace('-', '_')}").TABLE
    return replace(table, name=name, title=TABLES[name])


__all__ = ["ALIASES", "GROUPS", "TABLES", "load_table", "names_of"]
