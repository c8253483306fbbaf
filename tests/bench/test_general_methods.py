"""The table of methods for any smooth f: equal starts, equal seconds, and honest comparisons."""

import numpy as np
import pytest

from orthoplus.bench import general_methods as table
from orthoplus.bench.table import Row, Rows, Session
from orthoplus.problems import TraceMin


def test_race_ends_with_its_seconds_and_uses_the_starts_in_order(monkeypatch):
    seen = []

    def run(options, problem, X0, limit, number=0):
        seen.append((X0, limit))
        return table.Run(0.0, min(limit, 0.4), limit < 0.4)

    monkeypatch.setattr(table, "run_once", run)
    problem = TraceMin(np.diag(np.arange(5.0)), 2)
    runs = table.race({}, problem, 1.0)
    assert [run.is_cut for run in runs] == [False, False, True]
    assert np.allclose([limit for _, limit in seen], [1.0, 0.6, 0.2])
    for (X0, _), start in zip(seen, table.starts_of(problem), strict=False):
        assert (X0 == start).all()


def test_complete_runs_repeat_those_that_were_cut(monkeypatch):
    monkeypatch.setattr(table, "run_once", lambda *arguments: table.Run(5.0, 1.0, False))
    known = [table.Run(1.0, 0.1, False), table.Run(2.0, 0.1, True)]
    runs = table.complete_runs({}, TraceMin(np.eye(4), 2), known, 3, 1.0)
    assert [run.value for run in runs] == [1.0, 5.0, 5.0]


@pytest.mark.parametrize(("name", "made"), table.MEDIUM.items())
def test_gradients_of_the_medium_problems_are_right(name, made, rng):
    from orthoplus import check_gradient

    assert check_gradient(made[0](12, 2, rng)).is_right


def test_failed_method_is_a_row_that_says_so(monkeypatch):
    def broken(options, problem, X0, limit, number=0):
        if options:
            return table.Run(0.0, 0.1, False)
        raise ValueError("no start")

    monkeypatch.setattr(table, "run_once", broken)
    session = Session(quick=True, limit=0.1)
    rows = table._medium_rows(session, "case", lambda rng: TraceMin(np.diag(np.arange(6.0)), 2))
    assert [row.is_failed for row in rows] == [True] + [False] * (len(table.METHODS) - 1)
    assert rows[0].note == "failed, ValueError: no start"


def test_verdict_counts_wins_losses_and_ties():
    def rows(case, ours, theirs):
        figures = {"cpu": 2.0, "equal": ours, "excess": ours}
        return [
            Row(case, table.PENALTY, figures),
            Row(case, "Support-Set", {"cpu": 1.0, "equal": theirs, "excess": theirs}),
        ]

    found = Rows(rows("a", 1.0, 2.0) + rows("b", 1.0, 0.5) + rows("c", 1.0, 1.0 + 1e-6))
    verdict = table.judge(found)[-2]
    assert verdict == (
        "EP4Orth+ against Support-Set, 3 medium cases: 2.00 times its seconds per run; lower "
        "values per run in 1 and higher in 1, in equal time lower in 1 and higher in 1."
    )
