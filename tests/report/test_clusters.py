"""What the page of a clustering says: distinctive features, doubtful rows, nothing for nothing."""

import html
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from orthoplus.data import as_data
from orthoplus.estimators.row_fits import fit_rows
from orthoplus.report import figures, profiles
from orthoplus.report.clusters import ClusterFacts, cluster_page
from orthoplus.report.experts import percent

MESSAGE = "Converged: the method met its tolerances; the answer is feasible."


def record_of(history=(), **more):
    """Return a record as `orthoplus cluster` writes it."""
    result = {
        "objective": 2.0, "bound": 1.0, "gap": 1.0, "violation": 1e-16, "total": 10.0,
        "message": MESSAGE, "status": "CONVERGED", "success": True, "iterations": 3,
        "seconds": 0.1,
    }  # fmt: skip
    record = {
        "result": result, "data": {"file": "data.csv"}, "model": {"loss": "frobenius"},
        "command": "orthoplus cluster data.csv", "versions": {"orthoplus": "0"}, "finished": "now",
        "notes": [], "history": list(history),
    }  # fmt: skip
    return record | more


def facts_of(A, labels, k, **more):
    """Return facts with the sums of the rows of each cluster as components."""
    components = np.stack([A[labels == j].sum(axis=0) for j in range(k)])
    weights = 1.0 / np.bincount(labels, minlength=k)[labels]
    features = tuple(f"feature {j}" for j in range(A.shape[1]))
    record = more.pop("record", None) or record_of()
    is_kl = record["model"]["loss"] == "kullback-leibler"
    sums = np.stack([A[labels == j].sum(axis=0) for j in range(len(components))]) if is_kl else None
    fits = fit_rows(as_data(A), labels, components, sums)
    return ClusterFacts(record, A, labels, weights, components, fits, features, **more)


def step(n_iter, value, violation=0.0, sigma=0.0):
    return {"n_iter": n_iter, "value": value, "violation": violation, "sigma": sigma}


def text_of(facts):
    """Return the words of the page, without its style sheet."""
    body = cluster_page(facts).split("</style>")[1]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_distinctive_features_are_large_relative_to_the_other_clusters():
    # Feature 0 is the largest everywhere; 1 is common to both; 2 and 3 are those of one cluster.
    levels = np.array([[100.0, 5.0, 2.0, 0.1], [90.0, 5.0, 0.5, 0.3]])
    ratios = profiles.ratios_of(levels)
    np.testing.assert_allclose(ratios, levels / levels[::-1])
    present = np.ones(4)
    assert profiles.distinctive(ratios[0], present, most=3).tolist() == [2]
    assert profiles.distinctive(ratios[1], present, most=3).tolist() == [3]


def test_distinctive_features_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    levels, units = rng.random((4, 6)), 10.0 ** rng.integers(-4, 5, 6)
    np.testing.assert_allclose(profiles.ratios_of(levels * units), profiles.ratios_of(levels))


def test_a_word_of_most_rows_is_more_distinctive_than_a_rare_one():
    A = np.zeros((20, 3))
    A[:10, 0] = 1.0  # all rows of the first cluster
    A[0, 1] = 30.0  # one row of it
    A[10:, 2] = 1.0
    labels = np.repeat([0, 1], 10)
    for data in (A, csr_array(A)):
        presence = profiles.presence_of(data, labels, 2)
        np.testing.assert_allclose(presence, [[1.0, 0.1, 0.0], [0.0, 0.0, 1.0]])
    ratios = profiles.ratios_of(facts_of(A, labels, 2).levels)
    assert profiles.distinctive(ratios[0], presence[0], most=2).tolist() == [0, 1]


def test_low_features_are_distinctive_if_none_is_high():
    levels = np.array([[4.0, 1.0], [4.0, 1.0], [4.0, 0.5]])
    ratios = profiles.ratios_of(levels)
    assert profiles.distinctive(ratios[2], np.ones(2), most=2).tolist() == [1]
    alike = profiles.ratios_of(np.ones((3, 2)))
    assert profiles.distinctive(alike[0], np.ones(2), most=2).size == 0


def test_levels_are_the_means_of_rows_that_are_multiples_of_one_profile():
    rng = np.random.default_rng(1)
    labels, profile = np.repeat([0, 1], 8), rng.random((2, 5))
    A = profile[labels] * rng.random((16, 1))
    norms = np.sqrt(np.bincount(labels, (A**2).sum(axis=1)))
    weights = np.linalg.norm(A, axis=1) / norms[labels]  # orthonormal columns
    components = np.stack([weights[labels == j] @ A[labels == j] for j in (0, 1)])
    means = np.stack([A[labels == j].mean(axis=0) for j in (0, 1)])
    np.testing.assert_allclose(profiles.levels_of(components, weights, labels), means)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_doubtful_rows_come_with_the_smallest_margin_first(seed, k):
    rng = np.random.default_rng(seed)
    A, H, labels = rng.random((7, 4)), rng.random((k, 4)), rng.integers(0, k, 7)
    fits = fit_rows(as_data(A), labels, H)
    assert (np.diff(fits.margins[fits.doubtful()]) >= 0).all()
    assert fits.is_doubtful[fits.margins <= 0].all()


@pytest.mark.parametrize(
    ("own", "other", "is_doubtful"),
    [
        (0.98, 0.95, False),  # dense: the second leaves more than twice as much
        (0.98, 0.9795, True),
        (0.3, 0.1, False),  # sparse: the second explains a ninth
        (0.3, 0.29, True),
        (1.0, 1.0, True),
        (1.0, 0.0, False),
    ],
)
def test_a_row_is_doubtful_if_a_second_cluster_fits_almost_as_well(own, other, is_doubtful):
    H = np.array([[own, np.sqrt(1 - own**2)], [other, np.sqrt(1 - other**2)]])
    fits = fit_rows(as_data(np.array([[1.0, 0.0]])), np.array([0]), H)
    assert fits.is_doubtful.tolist() == [is_doubtful]


def between():
    """Two clear clusters, and a row in the middle, which the first one has."""
    A = np.vstack([np.tile([9.0, 0.1], (5, 1)), np.tile([0.1, 9.0], (5, 1)), [[1.0, 0.99]]])
    return A, np.array([0] * 5 + [1] * 5 + [0])


def test_page_names_the_doubtful_row_and_typical_rows():
    A, labels = between()
    names = (*(f"sample {i}" for i in range(10)), "the odd one")
    facts = facts_of(A, labels, 2, rows=names)
    assert facts.fits.doubtful().tolist() == [10]
    text = text_of(facts)
    assert "1 row fits a second cluster almost as well" in text
    assert "1 doubtful row the odd one" in text
    assert "Typical rows sample 0, sample 1, sample 2" in text
    assert "row 10" in text_of(facts_of(A, labels, 2))
    clear = text_of(facts_of(A[:10], labels[:10], 2))
    assert "no row is doubtful" in clear
    assert "Doubtful rows There are no doubtful rows" in clear


def test_objective_bound_and_status_are_for_experts_only():
    A, labels = between()
    page = cluster_page(facts_of(A, labels, 2))
    first, experts = page.split('<section id="part-', 1)[0], page.split("For experts")[-1]
    assert "Explained" in first
    assert "80.00%" in first
    for word in ("Objective", "Violation", "Gap", MESSAGE):
        assert word in experts
        assert word not in page.split("For experts")[0]
    assert page.count('class="folded"') == 1


def test_failure_and_remarks_are_said_at_the_top():
    A, labels = between()
    record = record_of()
    record["result"] |= {"success": False, "status": "TIME_LIMIT", "message": "Out of time."}
    assert "Out of time." in cluster_page(facts_of(A, labels, 2, record=record)).split("<dl")[0]
    from orthoplus.core.status import Status

    record = record_of()
    record["result"]["message"] = f"{Status.CONVERGED.message} Mind the units."
    page = cluster_page(facts_of(A, labels, 2, record=record))
    assert "<p>Mind the units.</p>" in page.split('<section id="part-')[0]


@pytest.mark.parametrize(
    ("values", "is_drawn"),
    [((), False), ((5.0,), False), ((5.0, 5.0 + 1e-12, 5.0), False), ((5.0, 4.0), True)],
)
def test_flat_curves_are_not_drawn(values, is_drawn):
    history = [step(i, value, violation=1e-16 * (i % 2)) for i, value in enumerate(values)]
    assert bool(figures.convergence(history, 10.0)) == is_drawn
    A, labels = between()
    page = cluster_page(facts_of(A, labels, 2, record=record_of(history)))
    assert ('id="convergence-' in page) == is_drawn


def test_penalty_runs_show_sigma_and_violation():
    history = [step(i, 5.0, violation=10.0**-i, sigma=10.0**i) for i in range(3)]
    svg = figures.convergence(history, 10.0)
    assert "violation" in svg
    assert "sigma" in svg
    assert "objective" not in svg


@pytest.mark.parametrize(("k", "is_table"), [(24, False), (25, True), (60, True)])
def test_many_clusters_become_a_table(k, is_table):
    labels = np.repeat(np.arange(k), 3)
    A = np.eye(k)[labels] + 0.01
    facts = facts_of(A, labels, k)
    page = cluster_page(facts)
    assert page.count("<article") == (0 if is_table else k)
    assert page.count('<td class=""><span class="mark"') == (k if is_table else 0)
    words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    # Each cluster has one feature of its own.
    times = "(>100x)" if is_table else ">100x"
    assert all(f"feature {j} {times}" in html.unescape(words) for j in range(k))


@given(st.integers(0, 10**6), st.integers(2, 40))
def test_numbers_on_a_map_are_pushed_apart(seed, k):
    rng, size = np.random.default_rng(seed), np.array([300.0, 260.0])
    places = rng.random((k, 2)) * size
    places[1] = places[0]
    found = figures.spread_out(places, size, 15.0)
    assert (found >= 0).all()
    assert (found <= size).all()

    def nearest(at):
        apart = np.linalg.norm(at[:, None] - at[None], axis=2)
        return (apart + 1e9 * np.eye(k)).min()

    assert nearest(found) > 7.5
    if nearest(places) >= 15.0:
        np.testing.assert_array_equal(found, places)


def test_next_steps_follow_from_the_run():
    A, labels = between()
    text = text_of(facts_of(A, labels, 2))
    for words in ("-k 2-11", "--prove 30", "Look at the doubtful rows", "labels.csv"):
        assert words in text
    assert "--scale-columns" not in text
    proof = {"bound": 2.0, "gap": 0.0, "message": "Proven.", "history": []}
    ranks = {
        "k": 2,
        "reasons": ["All criteria name 2."],
        "curves": [
            {"k": 2, "stability": 0.9, "heldout": 0.2, "unexplained": 0.1},
            {"k": 3, "stability": 0.5, "heldout": 0.3, "unexplained": 0.09},
        ],
    }
    done = text_of(facts_of(A, labels, 2, record=record_of(proof=proof, ranks=ranks)))
    assert "-k 2-11" not in done
    assert "--prove 30" not in done
    assert "All criteria name 2." in done
    B = np.hstack([1000.0 * A, A, A])
    assert "--scale-columns std" in text_of(facts_of(B, labels, 2))


@given(st.floats(0.0, 1.0))
def test_percent_calls_nothing_all_that_is_not(share):
    assert (float(percent(share)[:-1]) < 100.0) or share > 1 - 1e-8


def test_bar_is_drawn_only_if_it_shows_a_difference():
    A, labels = between()
    far = facts_of(A, labels, 2)  # explained 80 %, at most 90 %
    near = facts_of(A, labels, 2, record=record_of())
    near.record["result"]["bound"] = 1.95
    assert "the mark" in text_of(far)
    assert "the mark" not in text_of(near)
    assert "at most 80.50% can be explained" in text_of(near)


def test_options_in_notes_are_set_as_code_and_names_are_escaped():
    A, labels = between()
    notes = ["Try `--loss kl`.", "`<b>`", "a lone ` sign <i>"]
    page = cluster_page(facts_of(A, labels, 2, record=record_of(notes=notes)))
    assert "Try <code>--loss kl</code>." in page
    assert "<code>&lt;b&gt;</code>" in page
    assert "a lone ` sign &lt;i&gt;" in page
