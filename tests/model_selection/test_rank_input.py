"""What `select_rank` and `consensus` refuse, before they compute anything."""

import numpy as np
import pytest

import orthoplus as op

A = np.random.default_rng(0).random((20, 8))


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch):
    monkeypatch.setattr("orthoplus.model_selection.rank_tasks._run_task", None)


@pytest.mark.parametrize(("groups", "words"), [
    ([1.0, 2.0, 3.0, np.nan] * 2, "2 missing values"),
    (np.ma.masked_equal(np.arange(8) % 5, 2), "2 missing values"),
    (np.array(["2020-01-01", "NaT", "2020-01-03", "2020-01-04"] * 2, "M8[D]"), "2 missing values"),
    ([None, "a", "b", "c"] * 2, "cannot be compared"),
    ([[1], [1, 2]] * 4, "not a list of one value per column"),
    ([0, 1, 2], r"has shape \(3,\), but X has 8 columns"),
    ([0, 1] * 4, "has 2 groups"),
])  # fmt: skip
def test_groups_are_one_known_value_per_column(groups, words):
    with pytest.raises(op.InputError, match=f"`groups` .*{words}"):
        op.select_rank(A, [2, 3], split="columns", groups=groups)


@pytest.mark.parametrize("with_proof", [-1, float("nan"), "x", [1.0]])
def test_time_of_proofs_is_a_positive_number(with_proof):
    with pytest.raises(op.InputError, match="`with_proof"):
        op.select_rank(A, [2, 3], with_proof=with_proof)


@pytest.mark.parametrize("n_jobs", [0, "x", 1.5, 2.0, True])
@pytest.mark.parametrize("call", [
    lambda n_jobs: op.select_rank(A, [2, 3], n_jobs=n_jobs),
    lambda n_jobs: op.consensus(A, 2, n_jobs=n_jobs),
    lambda n_jobs: op.OrthogonalNMF(2, n_jobs=n_jobs).fit(A),
    lambda n_jobs: op.OrthogonalNMF(2, n_init=3, n_jobs=n_jobs).fit(A),
], ids=["select_rank", "consensus", "one run", "several runs"])  # fmt: skip
def test_number_of_processes_is_a_whole_number(call, n_jobs):
    with pytest.raises(op.InputError, match=r"`n_jobs=.*not a number of processes"):
        call(n_jobs)
