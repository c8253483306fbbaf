"""The tables run on small data, judge their rows and fail in words."""

import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from orthoplus.bench import (
    GROUPS,
    TABLES,
    load_table,
    measure,
    names_of,
    onmf_methods,
    projection,
    qap,
    speed_growth,
    speed_large,
    speed_sets,
    synthetic,
    text,
)
from orthoplus.bench.printed import printed
from orthoplus.bench.run import INTERRUPTED, run_tables
from orthoplus.bench.table import Column, Row, Rows, Session, Table, Task, one_row

PNG = b"\x89PNG\r\n\x1a\n"


def run_quick(name, folder=None):
    """The outcome of one table."""
    session = Session(quick=True, folder=folder)
    (outcome,) = run_tables([name], session, lambda table, row: None)
    return outcome


@pytest.mark.parametrize("name", TABLES)
def test_table_says_what_it_is(name):
    table = load_table(name)
    assert table.name == name
    assert all((table.title, table.about, table.quick_about))
    assert len({column.key for column in table.columns}) == len(table.columns)
    assert {column.best for column in table.columns} <= {"", "least", "most"}


def test_groups_name_tables():
    assert all(name in TABLES for group in GROUPS.values() for name in group)
    assert set(GROUPS["all"]) == set(TABLES)


def test_unknown_table_is_refused():
    with pytest.raises(ValueError, match=r"`texts` is not a table\. Choose one of projection"):
        names_of("texts")


def test_projection_table_has_every_method_beside_the_paper(monkeypatch):
    def broken(planted, limit):
        raise RuntimeError("no luck")

    monkeypatch.setattr(projection, "N", 60)
    monkeypatch.setattr(projection, "QUICK_COLUMNS", (10,))
    monkeypatch.setattr(projection, "QUICK_SECONDS", 0.02)
    outcome = run_quick("projection")
    assert len(outcome.rows) == len(projection.METHODS) * len(projection.NOISES)
    counts = {row.method: row.figures["count"] for row in outcome.rows}
    assert counts == dict.fromkeys(projection.METHODS, 1) | {"EP4Orth+": 2, "certified": 2}
    assert outcome.verdicts[-1].startswith("Wen-Yin, on 6 instances: exact on ")
    monkeypatch.setitem(projection.RUNNERS, "SEPPG", broken)
    monkeypatch.setattr(projection, "NOISES", (0.5,))
    rows = list(next(iter(projection.tasks(Session(quick=True)))).compute())
    assert [row.is_failed for row in rows] == [False, False, True, False, False]
    assert rows[2].note == "failed, RuntimeError: no luck"
    first = outcome.rows[0]
    assert first.case == "k = 10, xi = 0.5"
    assert first.paper == {"exact": 100, "gap": 0.0, "cpu": 0.01, "projections": 20.5}
    assert "in 6 of 6 cells" in outcome.verdicts[0]


def test_synthetic_table_has_every_method(monkeypatch):
    monkeypatch.setattr("orthoplus.bench.table.QUICK_LIMIT", 0.1)
    monkeypatch.setattr(synthetic, "QUICK_SIZE", (60, 80, 4))
    monkeypatch.setattr(synthetic, "QUICK_NOISES", (0.1,))
    outcome = run_quick("synthetic")
    assert [row.method for row in outcome.rows] == list(onmf_methods.METHODS)
    by_method = {row.method: row.figures for row in outcome.rows}
    # No residual is below that of the best rank-k approximation; the planted groups are found.
    for figures in by_method.values():
        assert figures["refit"] <= figures["residual"] * (1 + 1e-12)
    assert by_method["default"]["violation"] < 1e-14
    assert by_method["default"]["residual"] == pytest.approx(by_method["EP4Orth+"]["refit"])


def make_rows(default, other, penalty):
    """Rows of one set: shares of two methods, and purity of EP4Orth+."""
    printed = {"purity": 84.5, "nmi": 79.9, "entropy": 20.1}
    own = printed | {"purity": penalty, "share": 0.1, "violation": 0.0}
    return Rows(
        [
            Row("T-l10", "default", {"share": default, "violation": 1e-15}),
            Row("T-l10", "OPNMF", {"share": other, "violation": 1.0}),
            Row("T-l10", "EP4Orth+", own, printed),
            Row("T-l10", "EP4Orth+ 1.05", own, printed),
        ]
    )


@pytest.mark.parametrize(
    ("default", "wanted"), [(0.3, "on 1 of 1"), (0.3 - 9e-6, "on 1 of 1"), (0.2999, "on 0 of 1")]
)
def test_text_verdict_knows_ties(default, wanted):
    verdict = text.judge(make_rows(default, 0.3, 84.5))[-1]
    assert f"best of all methods {wanted} sets" in verdict


@pytest.mark.parametrize(
    ("purity", "near", "enough"), [(85.5, 1, 1), (85.6, 0, 1), (87.0, 0, 1), (87.1, 0, 0)]
)
def test_text_verdict_counts_points_from_the_paper(purity, near, enough):
    verdict = text.judge(make_rows(0.3, 0.3, purity))[0]
    assert f"on {near} of 1 sets, within 2.5 on {enough};" in verdict


def test_unmixing_table_finds_planted_spectra_and_draws_maps(small_data):
    outcome = run_quick("unmixing", small_data)
    angles = {row.method: row.figures["angle"] for row in outcome.rows}
    assert angles["default"] < 0.02  # the noise is a thousandth of the signal
    assert "within 0.075" in outcome.verdicts[0]
    errors = {row.method: row.figures["rmse"] for row in outcome.rows}
    assert {"VCA + FCLS", "VCA"} <= errors.keys()
    assert errors["default"] < 0.02  # as the truth has pure pixels
    assert "of 1 images" in outcome.verdicts[1]
    assert [drawing.name for drawing in outcome.drawings] == ["unmixing-Samson"]
    assert outcome.drawings[0].png[:8] == PNG


def test_text_and_speed_tables_share_runs_and_judge(small_data):
    session = Session(quick=True, folder=small_data)
    outcome, speed = run_tables(["text", "speed-sets"], session, lambda table, row: None)
    assert not outcome.failure
    assert [row.case for row in outcome.rows] == ["T-l10"] * len(text.TEXT_METHODS)
    for row in outcome.rows:
        assert 0.0 < row.figures["share"] <= 1.0
        assert 0.0 < row.figures["purity"] <= 100.0
    ours = [row for row in outcome.rows if row.method == "default"]
    assert all(row.figures["violation"] < 1e-14 for row in ours)
    assert "within 1 point of the paper's purity, NMI and entropy on" in outcome.verdicts[0]
    assert "best of all methods on" in outcome.verdicts[-1]
    assert [drawing.name for drawing in outcome.drawings] == ["convergence"]
    assert outcome.drawings[0].png[:8] == PNG
    seconds = {(row.case, row.method): row.figures["cpu"] for row in outcome.rows}
    for row in speed.rows:
        if row.method == "OPNMF":
            assert row.figures["cpu"] == seconds[row.case, "OPNMF"]
    ratios = [row.figures["ratio"] for row in speed.rows if row.method == "default"]
    assert ratios == [1.0]
    assert [verdict.split(" takes")[0] for verdict in speed.verdicts] == [
        *["The default"] * 2, "OPNMF", "ONP-MF"
    ]  # fmt: skip


def test_speed_verdicts_are_geometric_means_over_all_sets():
    ratios, shares = {"one": 2.0, "two": 0.5, "three": 8.0}, (0.3, 0.3, 0.2)
    rows = Rows()
    for (case, ratio), share in zip(ratios.items(), shares, strict=True):
        rows.append(Row(case, "default", {"ratio": 1.0, "share": share}))
        rows.append(Row(case, speed_sets.K_MEANS, {"ratio": ratio, "share": 0.25}))
    (line,) = speed_sets.judge(rows)
    assert "takes 0.50 times the CPU seconds of scikit-learn KMeans" in line
    assert "(geometric mean over 3 data sets; aim: at most 0.8)" in line
    assert line.endswith("lower on three.")


def test_large_table_measures_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(speed_large, "QUICK_SIZE", (3000, 40, 3))
    monkeypatch.setattr(speed_large, "QUICK_SCORES_SIZE", (3000, 5))
    outcome = run_quick("speed-large")
    default, opnmf, *projections = outcome.rows
    assert [row.method for row in projections] == ["tol = 1e-06", "tol = 1e-12"]
    assert max(row.figures["gap"] for row in projections) <= 1e-6
    assert min(default.figures["memory"], opnmf.figures["memory"]) >= 0.9  # the data is in it
    assert 0.9 < default.figures["share"] < 1.0
    assert opnmf.figures["cpu"] == pytest.approx(opnmf.figures["step"] * opnmf.figures["steps"])
    assert "projected" in opnmf.note
    assert "times the data" in outcome.verdicts[0]


def test_growth_is_the_exponent():
    rows = Rows(Row("dense", str(n), {"size": n, "cpu": 3.0 * n**1.5}) for n in (10, 20, 40))
    assert speed_growth.slope_of(rows) == pytest.approx(1.5)


def test_growth_table_covers_dense_and_sparse(monkeypatch):
    monkeypatch.setattr(speed_growth, "QUICK_ROWS", (100, 200))
    monkeypatch.setattr(speed_growth, "QUICK_SPARSE_SIZE", (60, 50))
    monkeypatch.setattr(speed_growth, "QUICK_PER_ROW", (5, 10))
    outcome = run_quick("speed-growth")
    assert [row.case for row in outcome.rows] == ["dense, rows"] * 2 + ["sparse, entries"] * 2
    assert len(outcome.verdicts) == 2


def test_missing_data_is_a_sentence_not_a_traceback(tmp_path):
    outcome = run_quick("text", tmp_path)
    assert outcome.rows == ()
    assert "The data set T-l10 was not found" in outcome.failure
    assert "orthoplus data fetch T-l10" in outcome.failure


def patch_tasks(monkeypatch, tasks):
    """The table of projections with other tasks."""
    monkeypatch.setattr(projection, "TABLE", replace(load_table("projection"), tasks=tasks))


def whole():
    return [Row("a case", "a method", {"exact": 100.0, "bound": 0.0})]


def raising(error):
    def compute():
        raise error

    return compute


def test_interrupted_table_keeps_its_rows_and_ends_the_run(monkeypatch):
    def tasks(session):
        yield Task("a case", ("a method",), whole)
        yield Task("another", ("a method",), raising(KeyboardInterrupt))

    patch_tasks(monkeypatch, tasks)
    outcomes = list(run_tables(["projection", "text"], Session(), lambda table, row: None))
    assert len(outcomes) == 1
    assert len(outcomes[0].rows) == 1
    assert outcomes[0].failure == INTERRUPTED


def test_failing_task_costs_its_own_rows_only(monkeypatch):
    def tasks(session):
        yield Task("broken", ("one", "two"), raising(ZeroDivisionError("no\n way.")))
        yield Task("a case", ("a method",), whole)

    patch_tasks(monkeypatch, tasks)
    seen = []
    (outcome,) = run_tables(["projection"], Session(), lambda table, row: seen.append(row))
    assert [row.is_failed for row in outcome.rows] == [True, True, False]
    assert outcome.rows[0].note == "failed, ZeroDivisionError: no way"
    assert (outcome.n_failed, outcome.failure) == (2, "")
    assert tuple(seen) == outcome.rows


def test_error_between_tasks_costs_one_table_only(monkeypatch):
    def tasks(session):
        yield Task("a case", ("a method",), whole)
        raise OSError("damaged")

    patch_tasks(monkeypatch, tasks)
    outcomes = list(run_tables(["projection"] * 2, Session(), lambda table, row: None))
    assert [o.failure for o in outcomes] == ["Ended early by an error, OSError: damaged."] * 2
    assert outcomes[0].verdicts == []


def test_baseline_is_stopped_at_the_limit_and_says_so(rng):
    session = Session(limit=0.0)
    session.once("warm", lambda: None)
    runs = onmf_methods.run_method(session, "case", "OPNMF", rng.random((30, 20)), 3)
    assert runs.figures()["note"] == "stopped after 0 CPU s, before it converged"


def test_limit_ends_the_starts_of_scipy(rng):
    A, B = rng.integers(9, size=(2, 6, 6)).astype(float)
    solver = qap.SOLVERS["SciPy 2opt"]
    assert solver(A, B, Session(quick=True)).n_starts == qap.QUICK_STARTS
    A, B = rng.integers(9, size=(2, 80, 80)).astype(float)
    assert solver(A, B, Session(limit=0.02)) == (np.inf, 0)  # in the midst of the first


def test_method_without_an_answer_has_no_gap_and_is_not_the_best():
    nothing = (qap.measure, lambda: qap.Found(np.inf, 0), 10.0, 10)
    (done,) = one_row("x, n = 9", "SciPy 2opt", *nothing).compute()
    assert "gap" not in done.figures
    assert done.note == "0 of 10 starts finished within the time limit"
    others = [
        Row("x, n = 9", name, {"gap": gap, "cpu": 1.0})
        for name, gap in (("orthoplus", 0.0), ("SciPy faq", 2.0))
    ]
    verdict = qap.judge(Rows([*others, done]))
    assert "SciPy 2opt: median gap inf %, mean none" in verdict[2]
    assert "Our median gap is the smallest" in verdict[3]


def test_limit_of_the_processor_ends_a_loop_and_is_lifted():
    with pytest.raises(measure.OutOfProcessorError), measure.processor_limit(0.02):
        sum(iter(lambda: 1, 0))  # without end
    with measure.processor_limit(30.0):
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_limit_of_the_processor_is_not_taken_for_an_error_of_a_library():
    def convert():  # as `numpy.linalg.norm` does with its argument `axis`
        try:
            sum(iter(lambda: 1, 0))  # without end
        except Exception as error:
            raise TypeError("`axis` must be an integer") from error

    with pytest.raises(measure.OutOfProcessorError), measure.processor_limit(0.01):
        convert()


def test_limit_of_the_processor_waits_for_a_tracing_tool_to_return(monkeypatch):
    """A tool for coverage holds a lock in its functions: an exception there would block it."""
    tracers = [lambda frame, event, arg: None]  # of this module, so the next loop counts as its
    monkeypatch.setattr(measure.sys, "gettrace", lambda: tracers[0])

    def work():
        end = time.process_time() + 0.03
        while time.process_time() < end:
            pass
        tracers[0] = None
        sum(iter(lambda: 1, 0))  # without end

    with pytest.raises(measure.OutOfProcessorError), measure.processor_limit(0.01):
        work()
    assert tracers == [None]


def test_peak_memory_is_that_of_this_process():
    assert 0 < measure.resident_bytes() <= measure.peak_bytes()


def test_session_computes_once():
    session, calls = Session(), []
    for _ in range(2):
        session.once("key", lambda: calls.append(1))
    assert calls == [1]


def test_table_without_a_judge_counts_the_best():
    columns = (Column("gap", "gap", ".1f", "least"), Column("cpu", "CPU s", ".1f"))
    table = Table("About.", columns, lambda session: iter(()), "less")
    rows = [
        Row(c, m, {"gap": g})
        for c, m, g in (("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("b", "y", 3))
    ]
    assert table.count_best(Rows(rows)) == ["Cases with the best gap, of 2: x 2, y 1."]


def test_round_any_gives_every_column_a_row(rng):
    X = np.zeros((5, 3))
    X[:, 0] = 1.0
    X[0, 1] = X[1, 2] = 0.5
    rounded = onmf_methods.round_any(X)
    assert (rounded.any(axis=0)).all()
    assert np.abs(rounded.T @ rounded - np.eye(3)).max() < 1e-14


def test_explained_share_is_the_sum_of_leading_singular_values(rng):
    A = rng.random((9, 5))
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    share = sum(np.linalg.norm(A[labels == j], 2) ** 2 for j in range(3)) / np.linalg.norm(A) ** 2
    X = np.eye(3)[labels] * rng.uniform(0.5, 1.5, (9, 1))
    assert onmf_methods.explained_share(A, 3, X) == pytest.approx(share, rel=1e-10)


def test_penalty_method_reproduces_the_paper_on_documents(load_data, tmp_path):
    parts = load_data("T-l10")
    np.savez(tmp_path / "T-l10.npz", **parts)
    data = text.load_labelled("T-l10", tmp_path)
    figures, paper = (
        text.measure(Session(quick=True), data, "EP4Orth+"),
        printed("text", "T-l10", "EP4Orth+"),
    )
    for key in text.SCORES:
        assert abs(figures[key] - paper[key]) <= 0.5


def test_brain_table_compares_images_with_the_matrix(monkeypatch):
    pytest.importorskip("nilearn")
    from orthoplus.bench import brain

    monkeypatch.setattr(brain, "QUICK_SIZE", (900, 12, 3))
    monkeypatch.setattr(brain, "in_process", lambda measure, *arguments: measure(*arguments))
    outcome = run_quick("brain")
    found = {row.method: row for row in outcome.rows}
    assert list(found) == list(brain.RUNS)
    assert not any(row.is_failed for row in outcome.rows), outcome.rows
    for name in (brain.IMAGES, brain.BLOCKS):
        assert found[name].figures["same"] == 1.0
    assert found[brain.MATRIX].figures["rand"] > 0.5
    assert found[brain.MATRIX].figures["share"] >= found[brain.OTHER].figures["share"] - 1e-3
    assert "100.00% of the voxels have the same parcel" in outcome.verdicts[0]
