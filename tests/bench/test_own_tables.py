"""The tables that the paper does not have run on small sizes, without a failed row."""

from functools import cache

import pytest

from orthoplus.bench import (
    copositivity,
    general_methods,
    graph_matching,
    indicators_large,
    projection_exact,
    projection_gaps,
    projection_methods,
    proofs_data,
    proofs_kmeans,
    proofs_planted,
    proofs_valid,
    ranks,
    scaling,
    solvers,
    spectral,
)
from orthoplus.bench.run import run_tables
from orthoplus.bench.table import Session

# Module -> its constants, made smaller.
SMALLER = {
    copositivity: {"QUICK_COUNT": 10},
    general_methods: {
        "QUICK_TINY": 1,
        "QUICK_SIZE": (12, 2),
        "QUICK_DENSE_SIZE": (6, 2),
        "TINY_FAMILIES": {"Laplacian embedding": "Laplacian embedding"},
        "MEDIUM": {"random smooth f": general_methods.MEDIUM["random smooth f"]},
    },
    graph_matching: {"QUICK_SHARES": (0.0,)},
    indicators_large: {"QUICK_SIZE": (60, 4)},
    projection_exact: {"QUICK_COUNT": 4},
    projection_gaps: {"QUICK_CASES": 2, "QUICK_SHAPES": ((60, 4),)},
    projection_methods: {"QUICK_N": 60},
    proofs_data: {"QUICK_SECONDS": 1.0},
    proofs_kmeans: {"QUICK_SECONDS": 0.3, "QUICK_RANKS": (2,)},
    proofs_planted: {"QUICK_SIZES": (300, 600), "QUICK_SECONDS": 0.5},
    proofs_valid: {"QUICK_COUNT": 2, "SECONDS": 0.01},
    ranks: {"NOISES": (0.1,), "QUICK_RANKS": (2, 3)},
    scaling: {
        "QUICK_ROWS": 2000,
        "STORED": {"in memory": scaling.fit_in_memory, "memory map": scaling.fit_mapped},
        "WEAKLY": {},
    },
    solvers: {"QUICK_SIZE": (20, 2)},
    spectral: {"QUICK_DIGITS": 60, "PLANTED": {"two groups": ([30, 30], 0.5, 0.05)}},
}


def run_small(module):
    """Run the table of a module on its smaller sizes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALLER[module].items():
            patch.setattr(module, name, value)
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        session = Session(quick=True, limit=0.2)
        (outcome,) = run_tables([name], session, lambda table, row: None)
    assert (outcome.failure, outcome.n_failed) == ("", 0)
    return outcome


# The table as it is, which several tests look at.
known_outcome = cache(run_small)


@pytest.mark.parametrize("module", SMALLER, ids=lambda module: module.__name__.rpartition(".")[2])
def test_rows_have_figures_of_the_columns_and_nothing_else_fails(module):
    outcome = known_outcome(module)
    keys = {column.key for column in outcome.table.columns}
    assert all(keys & set(row.figures) for row in outcome.rows)
    shown = {key for row in outcome.rows for key in row.figures}
    assert keys <= shown
    assert all(verdict.endswith(".") for verdict in outcome.verdicts)


def test_storages_agree():
    outcome = known_outcome(scaling)
    assert [row.figures["differ"] for row in outcome.rows] == [0] * 6
    assert outcome.verdicts == ["0 labels differ between memory, disk and cluster."]


def test_a_bound_above_the_optimum_is_a_fault(monkeypatch):
    assert known_outcome(proofs_valid).verdicts[0].endswith(": 0 faults.")
    low = proofs_valid.Optimum(-1e30, None)
    monkeypatch.setattr(
        proofs_valid, "best_partition", lambda p: low._replace(X=proofs_valid.global_minimum(p).X)
    )
    outcome = run_small(proofs_valid)
    assert all("bound 2" in row.note for row in outcome.rows)


def test_wrong_verdicts_are_counted_and_shown(monkeypatch):
    monkeypatch.setattr(copositivity, "check_verdict", lambda M: (True, False))
    outcome = run_small(copositivity)
    assert all(row.figures["wrong"] == 10 for row in outcome.rows)
    assert outcome.rows[0].note.startswith("judged copositive: [[")
    assert outcome.verdicts == ["60 verdicts checked, 60 wrong."]


def test_faults_of_projections_are_counted_and_shown(monkeypatch):
    monkeypatch.setattr(projection_exact, "brute_force", lambda C: 1e40)
    outcome = run_small(projection_exact)
    assert all(row.figures["faults"] >= 2 for row in outcome.rows)
    assert outcome.rows[0].note.startswith("wrong bound")
