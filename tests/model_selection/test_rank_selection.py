"""The choice of the rank, and the consensus over seeds."""

import json
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.model_selection import rank_tasks
from orthoplus.model_selection.agreement import (
    co_assignment,
    match_components,
    summarize_runs,
)
from orthoplus.model_selection.count_path import predict_hidden_counts
from orthoplus.model_selection.hidden_entries import predict_columns, predict_rows
from orthoplus.model_selection.rank_choice import RankRow, choose
from orthoplus.model_selection.rank_path import PathPoint, fit_path

RANKS = range(2, 8)


def planted(k, noise, seed, n=150, r=30):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(n) % k)
    rows = (0.5 + rng.random((n, 1))) * rng.random((k, r))[groups]
    return rows + noise * rng.random((n, r)), groups


@pytest.fixture(scope="module")
def data():
    return planted(4, 0.5, seed=0)


@pytest.fixture(scope="module")
def chosen(data):
    return op.select_rank(data[0], RANKS, n_splits=3)


@pytest.mark.parametrize(("k", "noise"), [(3, 1.0), (5, 0.1), (5, 0.5)])
def test_planted_rank_is_found(k, noise):
    A, groups = planted(k, noise, seed=k)
    found = op.select_rank(A, RANKS, n_splits=3)
    assert found.k == k
    assert adjusted_rand_score(groups, found.labels) > 0.9


def test_rank_of_signed_and_sparse_data():
    rng = np.random.default_rng(0)
    groups = np.arange(120) % 4
    A = rng.standard_normal((4, 20))[groups] + 0.5 * rng.standard_normal((120, 20))
    assert op.select_rank(A, RANKS, n_splits=2, allow_negative=True).k == 4
    B = np.kron(np.eye(4), np.ones((30, 8))) * (rng.random((120, 32)) < 0.6)
    dense = op.select_rank(B, RANKS, n_splits=2)
    sparse = op.select_rank(csr_array(B), RANKS, n_splits=2)
    assert sparse.k == dense.k == 4
    # Beyond the planted rank the splits of equal rows tie, and rounding decides between them.
    rows = [[row[:6] for row in found.rows if row.k <= 4] for found in (sparse, dense)]
    np.testing.assert_allclose(*rows, rtol=1e-6, atol=1e-9)


def test_table_and_reasons_say_what_was_found(chosen):
    assert [row.k for row in chosen.rows] == list(RANKS)
    errors = [row.unexplained for row in chosen.rows]
    assert (np.diff(errors) <= 1e-12).all()
    assert chosen.named == {"held-out": 4, "stability": 4, "knee": 4}
    assert chosen.reasons[0] == "k = 4: all three criteria choose it."
    assert len(chosen.reasons) == 4
    assert all(text in str(chosen) for text in chosen.reasons)
    assert str(chosen).splitlines()[3].startswith(">   4")


def test_same_seed_same_answer_in_one_process_or_two(data, chosen):
    again = op.select_rank(data[0], RANKS, n_splits=3, n_jobs=2)
    assert again.rows == chosen.rows
    np.testing.assert_array_equal(again.labels, chosen.labels)


def test_path_lowers_the_error_and_its_groups_are_those_of_its_centers(data):
    points = list(fit_path(as_data(data[0]), [2, 4, 9], n_init=1, seed=0))
    assert [len(point.centers) for point in points] == [2, 4, 9]
    assert points[0].unexplained > points[1].unexplained > points[2].unexplained
    model = op.OrthogonalNMF(4, random_state=0).fit(data[0])
    share = model.reconstruction_err_**2 / np.linalg.norm(data[0]) ** 2
    assert points[1].unexplained == pytest.approx(share, rel=1e-6)
    assert adjusted_rand_score(points[1].labels, model.labels_) == 1.0


def test_hidden_entries_are_predicted_from_the_others_alone(rng):
    A, C = rng.standard_normal((9, 7)), rng.standard_normal((3, 7))
    folds = np.array_split(rng.permutation(7), 3)
    missed = 0.0
    for fold in folds:
        rest = np.setdiff1d(np.arange(7), fold)
        for row in A:
            fits = row[rest] @ C[:, rest].T / np.linalg.norm(C[:, rest], axis=1)
            center = C[fits.argmax()]
            weight = max(row[rest] @ center[rest], 0.0) / (center[rest] @ center[rest])
            missed += ((row[fold] - weight * center[fold]) ** 2).sum()
    pieces = [as_data(A[:, fold]) for fold in folds]
    ours = predict_rows(pieces, [C[:, fold] for fold in folds])
    assert ours == pytest.approx(missed / (A**2).sum())


def test_many_columns_are_searched_in_a_sketch_with_the_same_answer():
    A, _ = planted(4, 0.5, seed=1, n=120, r=400)
    path = [*fit_path(as_data(A), [2, 3, 4, 5], n_init=2, seed=0)]
    for point in path:
        exact = op.solve(op.problems.ONMF(A, point.k), n_init=3, with_bound=False)
        share = exact.value / (A**2).sum()
        assert point.unexplained == pytest.approx(share, rel=1e-3)
        assert point.centers.shape == (point.k, 400)
        np.testing.assert_allclose(np.linalg.norm(point.centers, axis=1), 1.0)
    assert all(a.unexplained >= b.unexplained for a, b in pairwise(path))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_callback_sees_every_fit(n_jobs):
    seen = []
    A, _ = planted(3, 0.5, seed=1, n=60, r=12)
    found = op.select_rank(A, [2, 3], n_splits=2, n_jobs=n_jobs, callback=seen.append)
    assert [step.n_done for step in seen] == sorted({step.n_done for step in seen})
    assert {step.n_total for step in seen} == {10}  # 2 ranks: all rows, and two halves twice
    assert seen[-1].n_done == 10
    assert len(seen) == (10 if n_jobs is None else 3)
    assert found.rows == op.select_rank(A, [2, 3], n_splits=2).rows


def test_callback_ends_the_selection_with_its_error():
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        op.select_rank(planted(3, 0.5, seed=1, n=60, r=12)[0], [2, 3], n_splits=2, callback=stop)
    with pytest.raises(op.InputTypeError, match="callback"):
        op.select_rank(planted(3, 0.5, seed=1, n=60, r=12)[0], [2, 3], callback=3)


def row(k, *, stability=0.9, heldout=0.5, unexplained=0.5, se=0.001):
    return RankRow(k, unexplained, stability, se, heldout, se)


def test_criteria_are_read_as_they_say():
    stability = [1.0, 0.6, 1.0, 0.8, 0.7]
    heldout = [0.9, 0.7, 0.401, 0.4, 0.41]
    unexplained = [0.9, 0.6, 0.3, 0.28, 0.26]
    rows = tuple(
        row(k, stability=s, heldout=h, unexplained=u)
        for k, s, h, u in zip(range(2, 7), stability, heldout, unexplained, strict=True)
    )
    noise = np.array([[0, 0], [0, 0], [0.01, -0.01], [0, 0], [0, 0]])
    k, named, reasons = choose(rows, np.array(heldout)[:, None] + noise)
    assert (k, named) == (4, {"held-out": 4, "stability": 4, "knee": 4})
    assert "as the best, k = 5" in reasons[1]
    k, named, _ = choose(rows, np.array(heldout)[:, None] + 0 * noise)
    assert (k, named["held-out"]) == (4, 5)  # without noise 0.001 is a difference


@pytest.mark.parametrize(
    ("stabilities", "heldouts", "errors", "k", "words"),
    [
        ([0.9, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.3, 0.2], 3, "middle one"),
        ([0.1, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.6, 0.3], 4, "held-out prediction decides"),
        ([0.1, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.6, 0.3], 4, "do not agree for any k"),
        ([0.1, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.6, 0.3], 4, "has no knee"),
        ([0.1, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.6, 0.3], 4, "largest that was tried"),
        ([0.1, 0.3, 0.3], [0.5, 0.4, 0.3], [0.9, 0.6, 0.3], 4, "agree on few clusters"),
        ([0.9, 0.9, 0.3], [0.5, 0.3, 0.3], [0.9, 0.6, 0.3], 3, "held-out and stability choose it"),
    ],
)
def test_reasons_when_the_criteria_differ(stabilities, heldouts, errors, k, words):
    rows = tuple(
        row(i, stability=s, heldout=h, unexplained=u)
        for i, s, h, u in zip((2, 3, 4), stabilities, heldouts, errors, strict=True)
    )
    found, _, reasons = choose(rows, np.repeat(np.array(heldouts)[:, None], 4, axis=1))
    assert found == k
    assert words in " ".join(reasons)


def test_one_rank_alone_and_rank_one(data):
    assert op.select_rank(data[0], [3], n_splits=2).k == 3
    single = op.select_rank(data[0], [1], n_splits=2)
    assert "abstains" in " ".join(single.reasons)
    assert not single.labels.any()


def test_run_is_resumed_with_the_same_answer(data, chosen, tmp_path, monkeypatch):
    file = tmp_path / "ranks.npz"
    original, computed = rank_tasks._run_task, []

    def counted(A, work, name, report):
        if len(computed) == 2 and not file.with_name("go").exists():
            raise KeyboardInterrupt
        computed.append(name)
        return original(A, work, name, report)

    monkeypatch.setattr(rank_tasks, "_run_task", counted)
    with pytest.raises(KeyboardInterrupt):
        op.select_rank(data[0], RANKS, n_splits=3, resume=file)
    assert [path.name for path in tmp_path.iterdir()] == ["ranks.npz"]
    file.with_name("go").touch()
    again = op.select_rank(data[0], RANKS, n_splits=3, resume=file)
    assert sorted(computed) == ["full", "split0", "split1", "split2"]  # none of them twice
    assert again.rows == chosen.rows
    monkeypatch.setattr(rank_tasks, "_run_task", None)  # nothing is left to compute
    assert op.select_rank(data[0], RANKS, n_splits=3, resume=file).rows == chosen.rows


def test_file_that_cannot_be_written_is_refused_before_the_first_fit(data, tmp_path, monkeypatch):
    monkeypatch.setattr(rank_tasks, "_run_task", None)
    with pytest.raises(FileNotFoundError, match=r"`resume=.*` is in a folder that does not exist"):
        op.select_rank(data[0], [2, 3], resume=tmp_path / "missing" / "ranks.npz")
    with pytest.raises(op.InputTypeError, match=r"`resume` must be .*; it is 3\."):
        op.select_rank(data[0], [2, 3], resume=3)
    with pytest.raises(op.InputTypeError, match=r"`checkpoint` must be .*; it is 3\."):
        op.solve(op.problems.ONMF(data[0], 2), checkpoint=3)


def test_file_of_another_run_is_refused(data, tmp_path):
    A, file = data[0], tmp_path / "ranks.npz"
    op.select_rank(A, [2, 3], n_splits=2, resume=file)
    with pytest.raises(ValueError, match="another run: it differs in ranks"):
        op.select_rank(A, [2, 4], n_splits=2, resume=file)
    with pytest.raises(ValueError, match="differs in random_state"):
        op.select_rank(A, [2, 3], n_splits=2, resume=file, random_state=1)
    with pytest.raises(ValueError, match="differs in data"):
        op.select_rank(2 * A, [2, 3], n_splits=2, resume=file)
    # Data with the same row norms, which differ in one bit or in the order of columns.
    flipped = A.copy()
    flipped[0, 0] = np.nextafter(A[0, 0], 2.0)
    for other in (A[:, ::-1], flipped):
        with pytest.raises(ValueError, match="differs in data"):
            op.select_rank(other, [2, 3], n_splits=2, resume=file)
    # The same numbers in another storage are the same data.
    again = op.select_rank(csr_array(A), [2, 3], n_splits=2, resume=file)
    assert again.rows == op.select_rank(A, [2, 3], n_splits=2).rows
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="not a file of `select_rank`, or is damaged"):
        op.select_rank(A, [2, 3], n_splits=2, resume=file)
    np.savez(file, x=json.dumps([1]))
    with pytest.raises(ValueError, match="not a file of `select_rank`"):
        op.select_rank(A, [2, 3], n_splits=2, resume=file)


@pytest.mark.parametrize(
    ("ranks", "options", "error", "message"),
    [
        ([], {}, ValueError, r"empty.*range\(2, 21\)"),
        ([2, 76], {}, ValueError, "half of the 150 rows of X are 75.*at most 75"),
        ([0, 2], {}, ValueError, "`ranks=0`"),
        ([2.5], {}, TypeError, "not an integer"),
        ([2], {"n_splits": 1}, ValueError, "n_splits=1"),
        ([2], {"n_init": 0}, ValueError, "n_init=0"),
        ([2], {"random_state": None}, TypeError, "random_state=None"),
    ],
)
def test_bad_option_is_named(data, ranks, options, error, message):
    with pytest.raises(error, match=message):
        op.select_rank(data[0], ranks, **options)


def test_bad_data_are_named(data):
    with pytest.raises(ValueError, match=r"negative entries.*allow_negative=True"):
        op.select_rank(data[0] - 1.0, RANKS)
    with pytest.raises(ValueError, match="at least two are needed"):
        op.select_rank(data[0][:, :1], RANKS)
    with pytest.raises(ValueError, match="NaN"):
        op.select_rank(np.where(data[0] > 1, np.nan, data[0]), RANKS)


def test_plot_shows_the_three_criteria(chosen, tmp_path):
    figure = chosen.plot()
    above, below = figure.axes
    assert "stability: k = 4" in {text.get_text() for text in above.get_legend().get_texts()}
    words = {text.get_text() for text in below.get_legend().get_texts()}
    assert {"fit", "held-out: k = 4", "knee: k = 4"} <= words
    figure.savefig(tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 1000


# --- consensus ------------------------------------------------------------------------------------


def test_consensus_of_planted_groups_is_complete(data):
    A, groups = data
    found = op.consensus(A, 4, n_runs=4)
    assert found.score == 1.0
    np.testing.assert_array_equal(found.stability, np.ones(4))
    np.testing.assert_allclose(found.cosines, 1.0)
    assert (found.agreement == 1.0).all()
    assert adjusted_rand_score(groups, found.labels) == 1.0
    model = op.OrthogonalNMF(4, random_state=0).fit(A)
    cosines = model.components_ @ found.components.T
    best = cosines.max(axis=1) / np.linalg.norm(model.components_, axis=1)
    np.testing.assert_allclose(best, 1.0)


def test_consensus_is_lower_without_groups(data, rng):
    noise = op.consensus(rng.random((80, 10)), 5, n_runs=5)
    assert noise.score < 0.9
    assert noise.stability.shape == (5,)
    assert noise.stability.min() < 1.0
    assert noise.agreement.min() < 1.0
    again = op.consensus(np.random.default_rng(0).random((80, 10)), 5, n_runs=5, n_jobs=2)
    once = op.consensus(np.random.default_rng(0).random((80, 10)), 5, n_runs=5)
    np.testing.assert_array_equal(again.labels, once.labels)


def test_runs_are_renamed_before_they_vote(rng):
    centers = np.eye(3)
    labels = np.array([0, 0, 1, 1, 2, 2])
    order = np.array([2, 0, 1])  # component j of the second run is component order[j] of the first
    moved = np.array([0, 0, 1, 2, 2, 2])
    names = np.argsort(order)
    runs = [
        PathPoint(3, centers, labels, 0.1),
        PathPoint(3, centers[order], names[moved], 0.2),
        PathPoint(3, centers, labels, 0.3),
    ]
    found = summarize_runs(runs)
    np.testing.assert_array_equal(found.matches[1], names)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.agreement, [1, 1, 1, 2 / 3, 1, 1])
    np.testing.assert_allclose(found.stability, [1, 2 / 3, 1])
    np.testing.assert_allclose(found.components, centers)
    pair = adjusted_rand_score(labels, moved)
    assert found.score == pytest.approx((1 + 2 * pair) / 3)


def test_co_assignment_counts_pairs(rng):
    labels, runs = rng.integers(3, size=20), rng.integers(4, size=(5, 20))
    together = (runs[:, :, None] == runs[:, None, :]).mean(axis=0)
    for j, share in enumerate(co_assignment(labels, runs, 3)):
        rows = np.flatnonzero(labels == j)
        pairs = together[np.ix_(rows, rows)][~np.eye(len(rows), dtype=bool)]
        assert share == pytest.approx(pairs.mean())


def test_match_undoes_a_permutation(rng):
    C = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    order = rng.permutation(6)
    np.testing.assert_allclose(C[order][match_components(C, C[order])], C)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_runs": 1}, "n_runs=1"),
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": 151}, "150"),
    ],
)
def test_bad_option_of_consensus_is_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        op.consensus(data[0], **({"n_components": 3} | options))


def test_operator_is_refused_since_its_entries_are_held_out(data):
    with pytest.raises(TypeError, match="`X` is a LinearOperator: rows and columns are held out"):
        op.select_rank(aslinearoperator(data[0]), [2, 3])


def test_proof_bounds_what_is_unexplained_at_each_rank(rng):
    X = rng.random((3, 20))[np.arange(60) % 3] * rng.uniform(0.5, 1.0, (60, 1))
    X += 0.02 * rng.random(X.shape)
    plain = op.select_rank(X, (2, 3, 4))
    found = op.select_rank(X, (2, 3, 4), with_proof=2.0)
    assert all(row.bound is None for row in plain.rows)
    assert [row._replace(bound=None) for row in found.rows] == list(plain.rows)
    assert all(0 < row.bound <= row.unexplained for row in found.rows)
    assert found.rows[1].gap <= 1e-8
    assert "at least" in str(found)


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_rank_of_counts_is_found(container):
    rng = np.random.default_rng(0)
    profiles = rng.dirichlet(np.full(30, 0.2), 3)
    A = rng.poisson(30 * rng.uniform(0.5, 3, (90, 1)) * profiles[np.arange(90) % 3]).astype(float)
    found = op.select_rank(container(A), range(1, 6), loss="kullback-leibler", n_splits=2)
    assert found.k == 3
    assert found.rows[0].unexplained == pytest.approx(1.0)
    assert len(set(zip(found.labels.tolist(), (np.arange(90) % 3).tolist(), strict=True))) == 3


def test_hidden_counts_are_predicted_by_the_definition(rng):
    A = rng.poisson(3.0, (12, 6)).astype(float) + 1.0
    profiles = rng.dirichlet(np.ones(6), 2)
    mean = A.sum(axis=0) / A.sum()
    smooth = 0.9 * profiles + 0.1 * mean

    def missed(P):
        total = 0.0
        for hidden in ([0, 1, 2], [3, 4, 5]):
            shown = [j for j in range(6) if j not in hidden]
            for a in A:
                own = P[:, shown] / P[:, shown].sum(axis=1, keepdims=True)
                p = P[(np.log(own) @ a[shown]).argmax()]
                model = a[shown].sum() / p[shown].sum() * p[hidden]
                h = a[hidden]
                total += (h * np.log(h / model) - h + model).sum()
        return total

    pieces = [as_data(A[:, :3]), as_data(csr_array(A[:, 3:]))]
    share = predict_hidden_counts(pieces, [profiles[:, :3], profiles[:, 3:]])
    assert share == pytest.approx(missed(smooth) / missed(mean[None]), rel=1e-12)


def test_counts_have_no_proof_and_no_sign(rng):
    for options in ({"allow_negative": True}, {"with_proof": True}):
        with pytest.raises(op.InputError, match=r'needs `loss="frobenius"`'):
            op.select_rank(rng.random((20, 4)), [2], loss="kullback-leibler", **options)


# --- halves of the columns ------------------------------------------------------------------------


def subjects_with_clusters(rng, n=60, r=40, k=4, noise=0.5):
    """Return fixed rows in k clusters that every column shows, and the clusters."""
    truth = np.arange(n) % k
    X = rng.uniform(0.5, 1.5, n)[:, None] * rng.random((k, r))[truth]
    return X + noise * rng.random(X.shape), truth


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_halves_of_columns_find_clusters_that_all_columns_show(rng, form):
    X, truth = subjects_with_clusters(rng)
    found = op.select_rank(form(X), range(2, 8), n_splits=3, split="columns")
    assert (found.k, found.split) == (4, "columns")
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert "halves of the columns" in " ".join(found.reasons)
    assert found.rows[2].stability > 0.95
    found.plot()


def test_halves_of_columns_disagree_if_each_half_has_its_own_clusters(rng):
    # Three columns show one clustering of the rows, the others another: no half shows both.
    one, other = rng.permutation(np.arange(60) % 3), rng.permutation(np.arange(60) % 3)
    X = np.hstack([np.eye(3)[one], np.eye(3)[other]])
    X += 0.01 * rng.random(X.shape)
    by_rows, by_columns = (
        op.select_rank(X, [9], n_splits=3, split=split).rows[0].stability
        for split in ("rows", "columns")
    )
    assert by_rows > 0.95  # nine clusters, and every half of the rows shows them
    assert by_columns < 0.8


def test_prediction_of_columns_is_that_of_a_loop(rng):
    X, truth = subjects_with_clusters(rng, n=15, r=6, k=3)
    labels, weights = truth, rng.random(15)
    folds = [np.arange(0, 4), np.arange(4, 9), np.arange(9, 15)]
    missed = 0.0
    for fold in folds:
        shown = np.setdiff1d(np.arange(15), fold)
        for i in fold:
            own = shown[labels[shown] == labels[i]]
            y = weights[own] @ X[own] / (weights[own] @ weights[own])
            missed += ((X[i] - weights[i] * y) ** 2).sum()
    point = PathPoint(3, np.eye(3, 6), labels, 0.0)
    pieces = [as_data(X[fold]) for fold in folds]
    found = predict_columns(pieces, point, weights, folds)
    assert found == pytest.approx(missed / (X**2).sum())


def test_cluster_that_no_shown_row_has_predicts_nothing():
    X, labels = np.array([[3.0, 4.0], [1.0, 1.0], [1.0, 1.0]]), np.array([0, 1, 1])
    folds = [np.array([0, 1]), np.array([2])]
    point = PathPoint(2, np.eye(2), labels, 0.0)
    share = predict_columns([as_data(X[f]) for f in folds], point, np.ones(3), folds)
    assert share == pytest.approx(25.0 / 29.0)  # the first row is missed, the others are predicted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "both"}, "split"),
        ({"split": "columns", "loss": "kullback-leibler"}, 'Use `split="rows"`'),
    ],
)
def test_split_that_cannot_be_is_refused(rng, options, message):
    with pytest.raises(op.InputError, match=message):
        op.select_rank(rng.random((9, 5)), [2], **options)
    with pytest.raises(op.InputError, match="at least four"):
        op.select_rank(rng.random((9, 3)), [2], split="columns")


def test_groups_of_columns_stay_in_one_half(rng):
    from orthoplus.model_selection.column_halves import halve_columns

    groups = [0, 1, 2, 3, 0, 1, 2, 3]
    halves = halve_columns(8, groups, np.array([2, 0, 3, 1]))
    assert [half.tolist() for half in halves] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    X = rng.random((4, 12))[np.arange(40) % 4] + 0.1 * rng.random((40, 12))
    found = op.select_rank(X, [3, 4], split="columns", groups=np.arange(12) // 3, n_splits=2)
    assert found.rows[1].cosine > 0.99
    assert found.rows[1].cosine_se >= 0
    for bad, words in (
        (np.zeros(5), r"shape \(5,\), but X has 12 columns"),
        (np.arange(12) // 4, "3 groups: to halve them"),
    ):
        with pytest.raises(op.InputError, match=words):
            op.select_rank(X, [3], split="columns", groups=bad)
    with pytest.raises(op.InputError, match='needs `split="columns"`'):
        op.select_rank(X, [3], groups=np.arange(12))
    assert op.select_rank(X, [3], n_splits=2).rows[0].cosine is None
