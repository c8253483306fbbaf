"""The table of published claims: verdicts follow from figures, and each method is on two sets."""

from functools import partial

import pytest

from orthoplus.bench import claims
from orthoplus.bench.claims import CLAIMS, HELD, NOT_HELD
from orthoplus.bench.run import run_tables
from orthoplus.bench.table import Row, Rows, Session


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(claims, "QUICK_ROWS", 60)
    return Session(quick=True, limit=0.3)


def test_every_claim_is_checked_on_two_data_sets_or_more():
    known = {*claims.SETS, *claims.ALL_SMOOTH, *claims.QAPLIB}
    systems = {claim.split(":")[0].removesuffix(" apg") for claim in CLAIMS}
    assert systems == {
        "SNCP", "NSNCP", "GOPA", "AO-NMF", "Pan-Ng", "Wen-Yin", "SEPPG", "SEPPG0", "Support-Set",
    }  # fmt: skip
    for _, names in CLAIMS.values():
        assert len(names) >= 2
        assert set(names) <= known


def test_sets_are_nonnegative_and_have_classes(session):
    for data in claims.labeled_sets(session).values():
        assert data.A.min() >= 0
        assert len(data.A) == len(data.classes)
        assert data.k >= 3


def test_table_has_a_row_per_claim_and_set_with_a_verdict(session, monkeypatch):
    wanted = (
        "GOPA: exactly orthogonal",
        "Support-Set: feasible, f never rises",
        "Wen-Yin: columns stay orthonormal",
    )
    monkeypatch.setattr(claims, "CLAIMS", {name: CLAIMS[name] for name in wanted})
    (outcome,) = run_tables(["claims"], session, lambda table, row: None)
    assert not outcome.failure
    assert len(outcome.rows) == 3 + 4 + 4
    assert {row.figures["verdict"] for row in outcome.rows} == {HELD}
    assert outcome.verdicts[0] == f"{wanted[0]}: held on 3 of 3."


def test_claim_that_is_turned_round_does_not_hold(session):
    check = partial(claims.check_orthogonality, session, "wine")
    assert check(name="GOPA", limit=1e-10).is_held
    assert not check(name="NMF", limit=1e-10).is_held
    name = "nonnegative PCA, planted"
    runs = {"a": claims.Run(1.0, 2.0, False), "b": claims.Run(1.1, 1.0, False)}
    session.shared.update({("claims", method, name): run for method, run in runs.items()})
    assert claims.check_values(session, name, method="a", other="b").is_held
    assert not claims.check_values(session, name, method="b", other="a").is_held
    assert not claims.check_speed(session, name, method="a", other="b", factor=1.0).is_held
    assert claims.check_speed(session, name, method="a", other="b", factor=2.0).is_held


def test_relaxation_is_compared_with_a_proven_bound(session):
    found = claims.check_relaxation(session, "wine")
    assert found.is_held
    assert 0.0 < found.other <= found.own


def test_verdict_counts_what_held():
    rows = [
        Row("a claim", name, {"verdict": word}) for name, word in (("x", HELD), ("y", NOT_HELD))
    ]
    assert claims.judge(Rows(rows)) == ["a claim: held on 1 of 2."]


def test_method_that_was_cut_is_named(session):
    name = "nonnegative PCA, planted"
    runs = {"a": claims.Run(1.0, 2.0, True), "b": claims.Run(1.1, 1.0, False)}
    session.shared.update({("claims", method, name): run for method, run in runs.items()})
    check = partial(claims.check_values, method="a", other="b")
    assert claims._measure(session, check, name)["note"] == "a stopped after 0.3 CPU s"
