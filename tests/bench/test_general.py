"""The table of right answers counts what is right, and notices what is not."""

from types import SimpleNamespace

import numpy as np
import pytest

from orthoplus.bench import general, general_medium, invariances
from orthoplus.bench.run import run_tables
from orthoplus.bench.table import Row, Rows, Session
from orthoplus.bench.tiny_instances import FAMILIES


@pytest.fixture
def tiny(monkeypatch):
    """One small instance of each kind, one call."""
    for name, family in FAMILIES.items():
        monkeypatch.setitem(FAMILIES, name, family._replace(shapes=family.shapes[:1]))
    monkeypatch.setattr(general, "QUICK_INSTANCES", 1)
    monkeypatch.setattr(general, "CALLS", {"one start": {}})
    monkeypatch.setattr(general, "REPETITIONS", 1)
    monkeypatch.setattr(general_medium, "QUICK_SIZES", ((20, 5, 2),))
    monkeypatch.setattr(general_medium, "QUICK_SETS", ("iris",))
    monkeypatch.setattr(invariances, "QUICK_INSTANCES", 1)
    few = ("nonnegative PCA", "ONMF")
    monkeypatch.setattr(invariances, "MODELS", {name: invariances.MODELS[name] for name in few})
    monkeypatch.setattr(invariances, "N", 12)


def test_general_table_has_all_four_parts(tiny):
    (outcome,) = run_tables(["general"], Session(quick=True), lambda table, row: None)
    assert not outcome.failure
    assert outcome.n_failed == 0
    cases = [row.case for row in outcome.rows]
    assert cases[: len(FAMILIES)] == list(FAMILIES)
    rest = cases[len(FAMILIES) :]
    assert rest[:3] == ["nonnegative PCA, random", "nonnegative PCA, planted", "k-means, iris"]
    assert set(rest[4:-3]) == set(invariances.CASES)
    assert rest[-3:] == [general.COST] * 3
    assert all(row.figures["ms"] > 0.0 for row in outcome.rows if row.case == general.COST)
    assert sum("scikit-learn's" in verdict for verdict in outcome.verdicts) == 1


@pytest.mark.parametrize(
    ("excess", "share", "beaten"), [(0.0, 100.0, 0), (9e-7, 100.0, 0), (1e-3, 0.0, 0)]
)
def test_optima_are_counted_to_the_tolerance(monkeypatch, excess, share, beaten):
    check_counts(monkeypatch, excess, share, beaten)


def test_value_below_the_optimum_counts_against_the_oracle(monkeypatch):
    check_counts(monkeypatch, -1e-6, 100.0, general.QUICK_INSTANCES)


def check_counts(monkeypatch, excess, share, beaten):
    """A solver that ends so far above the optimum, in units of the range of f."""
    session = Session(quick=True)
    known = {id(i.problem): i for i in general.solve_instances("ONMF", session)}

    def solve(problem, **options):
        instance = known[id(problem)]
        return SimpleNamespace(value=instance.optimum + excess * instance.spread)

    monkeypatch.setattr(general, "solve", solve)
    figures = general.count_optima(session, "ONMF", {})
    assert figures["share"] == share
    assert figures["beaten"] == beaten
    assert figures["worst"] == pytest.approx(100.0 * max(excess, 0.0), abs=1e-9)


def test_components_are_compared_by_residual(monkeypatch):
    A = np.array([[1.0, 0.0], [0.0, 2.0]])  # ONMF leaves 1 of 5

    def solve(problem, **options):
        return SimpleNamespace(value=1.0 if hasattr(problem, "quartic") else -3.9)

    monkeypatch.setattr(general_medium, "solve", solve)
    figures = general_medium.compare_residuals([(A, 1)], {})
    assert figures["worst"] == pytest.approx(10.0)  # 5 - 3.9 = 1.1


def solver_with_labels(label):
    """A stand-in for `solve` that labels the rows of its data by a function of them."""

    def solve(problem, **options):
        return SimpleNamespace(labels=label(problem.A.to_dense()))

    return solve


MODEL = invariances.MODELS["ONMF"]


def test_labels_by_content_pass_and_labels_by_position_fail(monkeypatch, rng):
    A = rng.random((12, 4))
    monkeypatch.setattr(invariances, "solve", solver_with_labels(lambda A: A.argmax(axis=1)))
    assert all(holds(MODEL, A, np.random.default_rng(1)) for holds in invariances.CASES.values())
    monkeypatch.setattr(invariances, "solve", solver_with_labels(lambda A: np.arange(len(A)) % 3))
    assert not invariances.is_order_free(MODEL, A, np.random.default_rng(1))
    assert not invariances.is_fair(MODEL, A, np.random.default_rng(1))


def test_labels_by_size_are_not_scale_free(monkeypatch, rng):
    by_size = solver_with_labels(lambda A: (A.sum(axis=1) > 1.0).astype(int))
    monkeypatch.setattr(invariances, "solve", by_size)
    A = rng.random((12, 4))
    assert not invariances.is_scale_free(1e-12, MODEL, A, rng)


@pytest.mark.parametrize("case", invariances.MODELS)
def test_permuted_data_are_the_same_problem(case, rng):
    model, A, order = invariances.MODELS[case], rng.random((9, 4)), rng.permutation(9)
    data = model.data(A)
    permuted = model.permuted(data, order)
    X = np.kron(np.eye(3), np.ones((3, 1))) / np.sqrt(3)
    value = model.problem(data, 3).value(X)
    assert model.problem(permuted, 3).value(X[order]) == pytest.approx(value, rel=1e-10)


def optima(shares):
    return Rows(Row(case, "one start", {"share": share}) for case, share in shares.items())


def test_verdict_names_the_family_with_the_fewest_optima():
    rows = optima({"QAP": 27.0, "ONMF": 100.0, "KMeans": 97.0})
    verdict = general.judge(Rows(rows))[0]
    assert "in 2 of 3 families, the least 27.0 % (QAP)" in verdict


@pytest.mark.parametrize(("worst", "words"), [(0.05, "is within"), (0.2, "is not within")])
def test_verdict_weighs_the_residuals_by_their_number(worst, words):
    rows = [
        Row(f"{general_medium.PCA}, a", "one start", {"mean": 0.02, "worst": 0.04, "count": 3}),
        Row(f"{general_medium.PCA}, b", "one start", {"mean": 0.06, "worst": worst, "count": 1}),
    ]
    verdict = general.judge(Rows(rows))[1]
    assert words in verdict
    assert "0.030 % above on average" in verdict


def test_verdict_counts_sets_as_good_as_scikit_learn():
    rows = [
        Row(f"{general_medium.K_MEANS}, {name}", "one start", {"worst": worst, "share": share})
        for name, worst, share in (("a", -0.5, 100.0), ("b", 0.01, 0.0), ("c", 25.0, 0.0))
    ]
    verdict = general.judge(Rows(rows))[1]
    assert "on 2 of 3 sets, at most 25.00 % above" in verdict
    assert "scikit-learn's labels on 1." in verdict


@pytest.mark.parametrize(("labels", "share", "excess"), [([0, 0, 1, 1], 100.0, 0.0),
                                                         ([0, 1, 1, 1], 0.0, 2140.0)])  # fmt: skip
def test_clusters_are_compared_by_inertia_and_by_f(monkeypatch, labels, share, excess):
    problem = general_medium.KMeans(np.array([[0.0], [1.0], [9.0], [11.0]]), 2)

    def solve(problem, **options):
        X = problem.refine(problem.indicator(np.array(labels)))
        return SimpleNamespace(value=problem.value(X), labels=np.array(labels))

    monkeypatch.setattr(general_medium, "solve", solve)
    figures = general_medium.compare_clusters(Session(), "set", problem, {})
    assert figures["share"] == share
    # The best inertia is 1/2 + 2; that of {0} and {1, 9, 11}, with the mean 7, is 36 + 4 + 16.
    assert figures["worst"] == pytest.approx(excess, abs=1e-6)


def test_verdict_on_an_invariance_names_the_worst_model():
    case = next(iter(invariances.CASES))
    rows = [Row(case, "KMeans", {"share": 50.0}), Row(case, "ONMF", {"share": 100.0})]
    assert general.judge(Rows(rows))[-1] == f"{case}: on 50 % or more (KMeans)."


@pytest.mark.parametrize("name", general_medium.SETS)
def test_sets_have_more_rows_than_clusters_and_vary(name):
    A, k = general_medium.SETS[name](np.random.default_rng(0))
    assert len(A) > 10 * k
    assert (A.std(axis=0) > 0.0).any()


def test_medium_part_has_twenty_matrices():
    session = Session()
    made = [*general_medium.random_matrices(session), *general_medium.planted_matrices(session)]
    assert len(made) == 20
    assert max(A.shape for A, _ in made) == (1000, 100)
    assert max(k for _, k in made) == 10
    assert min(A.min() for A, _ in made) >= 0.0
