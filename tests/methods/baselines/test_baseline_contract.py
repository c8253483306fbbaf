"""Every baseline: the contract of the methods, planted groups, degenerate data, and `solve`."""

import warnings
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning

import orthoplus as op
from orthoplus.core.method import iterate, run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import labels_of
from orthoplus.methods import baselines
from orthoplus.methods.baselines import EMONMF, HALSONMF, OPNMF, UONMF
from orthoplus.problems import ONMF, Projection

STEPS = 5
ROUNDING = 1e-14
# The baselines of orthogonal NMF; the one of K-indicators has tests of its own.
BASELINES = {
    name: cls
    for name, cls in baselines.BASELINES.items()
    if "onmf" in baselines.TAKES.get(name, ("onmf",))
}
# Baselines that walk; the others hand the whole fit to scikit-learn in one step.
WALKERS = {name: cls for name, cls in BASELINES.items() if name not in baselines.ONE_STEP}

every_baseline = pytest.mark.parametrize("name", BASELINES)
every_walker = pytest.mark.parametrize("name", WALKERS)


def noisy(rng, n=30, r=20, k=3, noise=0.1):
    """Groups of rows along random directions, plus noise; and the groups."""
    labels = rng.permutation(np.arange(n) % k)
    weights = rng.uniform(1.0, 2.0, n)
    directions = rng.random((k, r)) * (rng.random((k, r)) < 0.6) + np.eye(k, r)
    return weights[:, None] * directions[labels] + noise * rng.random((n, r)), labels


def planted(rng, n=40, r=24, k=4):
    """Noise-free groups that share no column: every baseline has to find them."""
    labels = rng.permutation(np.arange(n) % k)
    directions = (np.arange(r) % k == np.arange(k)[:, None]) * rng.uniform(1.0, 2.0, (k, r))
    return rng.uniform(1.0, 1.2, n)[:, None] * directions[labels], labels


def states_of(method, problem, X, steps=STEPS):
    return list(islice(iterate(problem, method, method.init(problem, X)), steps + 1))


def same_bits(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return one == other or (one != one and other != other)


def same_state(one, other):
    return all(same_bits(a, b) for a, b in zip(one, other, strict=True))


def same_partition(one, other):
    """Whether two labellings agree up to the names of the groups."""
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


@every_baseline
def test_iterates_have_unit_columns_and_belong_to_oblique_plus(name, rng):
    A, _ = noisy(rng)
    problem = ONMF(A, 3)
    for state in states_of(BASELINES[name](), problem, problem.start(rng), steps=1 + STEPS):
        assert state.X.min() >= 0
        assert np.abs(np.linalg.norm(state.X, axis=0) - 1).max() <= ROUNDING
        assert np.isfinite(state.value)
        assert state.violation >= 0
        assert (state.Y is None) if name in baselines.ANY_SMOOTH else (state.Y.shape == (20, 3))


@every_baseline
def test_run_is_deterministic_and_leaves_its_input(name, rng):
    A, _ = noisy(rng)
    problem, method = ONMF(A, 3), BASELINES[name]()
    X = random_oblique_plus(30, 3, rng)
    given_X, given_A = X.copy(), A.copy()
    X.flags.writeable = A.flags.writeable = False
    first, second = (states_of(method, problem, X, steps=2) for _ in range(2))
    assert all(same_state(a, b) for a, b in zip(first, second, strict=True))
    assert (X == given_X).all()
    assert (A == given_A).all()


@every_walker
def test_step_is_pure_and_resumed_run_equals_uninterrupted(name, rng):
    A, _ = noisy(rng)
    method, X = WALKERS[name](), random_oblique_plus(30, 3, rng)
    states = states_of(method, ONMF(A, 3), X)
    for state in states:
        for array in state:
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    resumed = islice(iterate(ONMF(A, 3), method, states[2]), STEPS - 1)
    assert all(same_state(a, b) for a, b in zip(states[2:], resumed, strict=True))


@every_baseline
def test_sparse_data_give_the_run_of_dense_data(name, rng):
    A, _ = noisy(rng)
    A *= rng.random(A.shape) < 0.7
    method, X = BASELINES[name](), random_oblique_plus(30, 3, rng)
    steps = 1 if name in (*baselines.ONE_STEP, *baselines.ANY_SMOOTH) else 3
    dense, sparse = (
        states_of(method, ONMF(data, 3), X, steps)[-1] for data in (A, csr_array(A))
    )  # fmt: skip
    assert np.allclose(dense.X, sparse.X, atol=1e-8)
    assert np.isclose(dense.value, sparse.value, rtol=1e-8)


@every_baseline
@pytest.mark.parametrize("seed", range(3))
def test_planted_groups_are_found(name, seed):
    A, labels = planted(np.random.default_rng(seed))
    options = {
        "em_onmf": {"n_init": 20},
        "k_means": {"n_init": 20},
        "opnmf": {"exponent": 0.5},
        "gopa": {"start": "given"},
    }
    method = BASELINES[name](**options.get(name, {}))
    problem = ONMF(A, 4)
    first = method.init(problem, problem.start(rng_of(seed)))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert same_partition(labels_of(state.X), labels)


def test_common_opnmf_swings_on_groups_that_share_no_column_but_finds_them(rng):
    A, labels = planted(rng)
    problem, method = ONMF(A, 4), OPNMF(max_iter=200)
    state, status = run(problem, method, method.init(problem, problem.start(rng)), method.stop())
    assert status is Status.MAX_ITER
    assert same_partition(labels_of(state.X), labels)


def rng_of(seed):
    return np.random.default_rng(seed + 100)


@every_baseline
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_zero_rows_and_columns_survive(name, sparse, rng):
    A, _ = noisy(rng)
    A[[0, 7]] = 0.0
    A[:, [1, 4]] = 0.0
    result = op.solve(ONMF(csr_array(A) if sparse else A, 3), method=short(BASELINES[name]()))
    assert result.violation < ROUNDING
    assert np.isfinite(result.value)
    state = result.state
    assert all(np.isfinite(part).all() for part in state if isinstance(part, np.ndarray))


def short(method):
    """The method with few iterations, where it counts them."""
    if not hasattr(method, "max_iter"):
        return method
    return replace(method, max_iter=min(method.max_iter, 100))


@every_baseline
def test_zero_data_give_a_feasible_point(name):
    result = op.solve(ONMF(np.zeros((6, 4)), 2), method=short(BASELINES[name]()))
    assert result.violation < ROUNDING
    assert result.value == 0.0


@every_baseline
def test_more_groups_than_columns_survive(name, rng):
    result = op.solve(ONMF(rng.random((9, 2)), 4), method=short(BASELINES[name]()))
    assert result.violation < ROUNDING
    assert np.isfinite(result.value)


@every_baseline
def test_solve_gives_a_feasible_point_no_worse_than_the_rounded_iterate(name, rng):
    A, _ = noisy(rng)
    problem = ONMF(A, 3)
    result = op.solve(problem, method=short(BASELINES[name]()))
    assert result.violation < ROUNDING
    assert result.X.min() >= 0
    rounded = op.geometry.round_to_stiefel_plus(result.state.X)
    # The value is a difference of numbers as large as ||A||^2.
    assert result.value <= problem.value(rounded) + ROUNDING * problem.total
    assert result.gap >= -1e-10  # a truncated SVD


@every_baseline
def test_estimator_takes_every_baseline(name, rng):
    A, labels = planted(rng)
    model = op.OrthogonalNMF(4, method=short(BASELINES[name]()), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations
        found = model.fit(A).labels_
    assert len(found) == len(labels)
    assert op.geometry.violation(model.orthonormal_) < ROUNDING
    assert (model.components_ >= 0).all()


@every_walker
def test_checkpoint_gives_the_state_back(name, tmp_path, rng):
    A, _ = noisy(rng)
    problem, method = ONMF(A, 3), WALKERS[name]()
    state = states_of(method, problem, problem.start(rng), steps=2)[-1]
    op.save_state(tmp_path / "run.npz", state)
    loaded = op.load_state(tmp_path / "run.npz")
    assert type(loaded) is type(state)
    assert same_state(loaded, state)


@pytest.mark.parametrize("name", [name for name in BASELINES if name not in baselines.ANY_SMOOTH])
def test_other_problems_are_refused(name):
    with pytest.raises(TypeError, match=r"cannot solve Projection\. Pass a problem such as ONMF"):
        op.solve(Projection(np.eye(4, 2)), method=BASELINES[name]())


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (name, {option: bad})
        for name, cls in BASELINES.items()
        for option, bad in {
            "max_iter": 0,
            "seed": -1,
            "tol": -1.0,
            "n_init": 0,
            "fill": -0.1,
        }.items()
        if option in cls.__dataclass_fields__
    ],
)
def test_bad_options_are_refused(name, changes):
    with pytest.raises(ValueError, match="out of range"):
        BASELINES[name](**changes)


def test_words_are_checked():
    for bad in ({"start": "pca"}, {"divergence": "hellinger"}):
        with pytest.raises(ValueError, match="Choose one of"):
            OPNMF(**bad)
    with pytest.raises(ValueError, match="Choose one of"):
        EMONMF(start="svd")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_em_objective_never_rises(seed, noise):
    A, _ = noisy(np.random.default_rng(seed), noise=noise)
    problem = ONMF(A, 3)
    states = states_of(EMONMF(seed=seed), problem, problem.start(rng_of(seed)), steps=15)[1:]
    values = [state.current_value for state in states if state.n_started == 1]
    assert len(values) > 1
    # The singular vectors are exact to a few roundoffs of the total.
    assert all(b <= a + 1e-12 * problem.total for a, b in pairwise(values))


@pytest.mark.parametrize("seed", range(5))
def test_cautious_opnmf_objective_never_rises_once_normalized(seed):
    A, _ = noisy(np.random.default_rng(seed))
    problem = ONMF(A, 3)
    method = OPNMF(exponent=0.5)
    states = states_of(method, problem, problem.start(rng_of(seed)), steps=200)[20:]
    assert all(b.value <= a.value * (1 + 1e-6) for a, b in pairwise(states))


@pytest.mark.parametrize("cls", [UONMF, OPNMF, HALSONMF])
@pytest.mark.parametrize("seed", range(3))
def test_violation_falls_from_a_random_start(cls, seed):
    A, _ = noisy(np.random.default_rng(seed))
    problem, method = ONMF(A, 3), cls(start="given")
    first = method.init(problem, random_oblique_plus(30, 3, rng_of(seed)))
    last, _ = run(problem, method, first, method.stop())
    assert last.violation < 0.5 * first.violation


def test_onpmf_ends_nearly_nonnegative_with_orthonormal_columns(rng):
    A, _ = noisy(rng)
    problem, method = ONMF(A, 3), op.baselines.ONPMF()
    last, status = run(problem, method, method.init(problem, problem.start(rng)), method.stop())
    assert status is Status.CONVERGED
    assert last.negativity <= 1e-3
    assert np.allclose(last.factor.T @ last.factor, np.eye(3), atol=1e-12)
    assert last.violation <= 1e-3 * np.sqrt(3) + 1e-12


def test_em_starts_are_different_and_the_best_is_kept(rng):
    A, _ = noisy(rng, noise=1.0)
    problem = ONMF(A, 3)
    X = problem.start(rng)

    def best(**options):
        method = EMONMF(**options)
        return run(problem, method, method.init(problem, X), method.stop())[0]

    many = best(n_init=8)
    assert many.n_started == 8
    assert many.value <= best().value
    assert len({best(seed=seed).value for seed in range(8)}) > 1
    walk = states_of(EMONMF(n_init=8), problem, X, steps=many.n_iter)[1:]
    assert all(b.value <= a.value for a, b in pairwise(walk))
    assert walk[-1].value == min(state.current_value for state in walk)


def test_em_fills_a_group_that_runs_empty():
    A = np.array([[1.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.0, 0.0, 1.0], [0.0, 0.1, 1.0]])
    X = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    method = EMONMF(start="given")
    state = method.step(ONMF(A, 3), method.init(ONMF(A, 3), X / np.linalg.norm(X, axis=0)))
    assert sorted(np.bincount(labels_of(state.X), minlength=3)) == [1, 1, 2]


def test_registry_is_reachable_from_the_package():
    assert op.baselines.BASELINES is baselines.BASELINES
    assert op.baselines.OPNMF is OPNMF
    assert set(BASELINES) >= {"uonmf", "yoo_choi", "opnmf", "onpmf", "em_onmf", "hals_onmf"}


@every_baseline
def test_float32_data_give_nearly_the_run_of_float64(name, rng):
    A, _ = noisy(rng)
    A = A.astype(np.float32)
    method, X = BASELINES[name](), random_oblique_plus(30, 3, rng)
    steps = 1 if name in (*baselines.ONE_STEP, *baselines.ANY_SMOOTH) else 3
    single, double = (
        states_of(method, ONMF(data, 3), X, steps)[-1] for data in (A, A.astype(float))
    )
    if name in baselines.ANY_SMOOTH:
        # Over the Stiefel manifold f is the same for every rotation of U: rounding turns the
        # columns. A step is a hundred iterations, in float32 to roundings of ||A||^2.
        assert abs(single.value - double.value) <= 1e-4 * ONMF(A, 3).total
        return
    # Products in float32, three steps: a thousand roundings.
    assert np.allclose(single.X, double.X, atol=1e-3)
    assert np.isclose(single.value, double.value, rtol=1e-3)


@every_baseline
def test_operator_gives_the_run_of_its_matrix_or_is_refused(name, rng):
    A, _ = noisy(rng)
    method, X = BASELINES[name](), random_oblique_plus(30, 3, rng)
    if name in baselines.NEED_ENTRIES:
        with pytest.raises(TypeError, match="a LinearOperator only has products"):
            states_of(method, ONMF(aslinearoperator(A), 3), X, 1)
        return
    known, blind = (states_of(method, ONMF(B, 3), X, 3)[-1] for B in (A, aslinearoperator(A)))
    assert np.allclose(known.X, blind.X, atol=1e-8)


def test_divergence_needs_entries(rng):
    A, _ = noisy(rng)
    with pytest.raises(TypeError, match="needs the entries of A"):
        op.solve(ONMF(aslinearoperator(A), 3), method=OPNMF(divergence="kl"))
