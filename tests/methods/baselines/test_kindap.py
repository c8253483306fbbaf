"""KindAP: its steps by their definition, the contract, planted groups, the published figures."""

from itertools import islice

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.method import iterate, run
from orthoplus.core.status import Status
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.baselines import KindAP
from orthoplus.problems import KIndicators, Projection


@pytest.fixture
def planted(rng):
    """Noisy indicators of four groups, orthonormal; and the groups."""
    groups = rng.permutation(np.arange(48) % 4)
    noisy = np.eye(4)[groups] + 0.1 * rng.standard_normal((48, 4))
    return np.linalg.svd(noisy, full_matrices=False)[0], groups


def last_state(method, problem):
    X = problem.start(np.random.default_rng(0))
    return run(problem, method, method.init(problem, X), method.stop())


@pytest.mark.parametrize(
    "method",
    [KindAP(), KindAP(normalize_rows=True), KindAP(binary=False), KindAP(lloyd=True, finish=False)],
    ids=["plain", "rows", "weights", "lloyd"],
)
def test_planted_groups_are_found(method, planted):
    U, groups = planted
    state, status = last_state(method, KIndicators(U))
    assert status is Status.CONVERGED
    assert len(set(zip(groups, state.labels, strict=True))) == 4
    result = op.solve(KIndicators(U), method=method)
    assert result.violation < 1e-13
    assert result.value <= state.value + 1e-12


def test_first_step_is_the_definition(planted):
    U, groups = planted
    method = KindAP(start="given", max_inner=2, inner_tol=0.0)
    problem, X = KIndicators(U), op.geometry.assemble(np.roll(groups, 1), np.ones(48), 4)
    state = method.step(problem, method.init(problem, X))
    first = np.maximum(U @ polar_factor(U.T @ X), 0)
    once = np.maximum(U @ polar_factor(U.T @ first), 0)
    twice = np.maximum(U @ polar_factor(U.T @ once), 0)
    labels = twice.argmax(axis=1)
    H = (labels[:, None] == np.arange(4)) / np.sqrt(np.bincount(labels, minlength=4))
    np.testing.assert_array_equal(state.labels, labels)
    np.testing.assert_allclose(state.X, H, atol=1e-15)
    np.testing.assert_allclose(state.Y, polar_factor(U.T @ H), atol=1e-13)
    assert state.distance == pytest.approx(np.linalg.norm(U @ state.Y - H))
    assert state.n_inner == 2


def test_scaling_of_rows_does_not_matter_when_they_are_normalized(planted, rng):
    U, _ = planted
    scaled = U * (0.5 + rng.random((48, 1)))
    states = [last_state(KindAP(normalize_rows=True), KIndicators(V))[0] for V in (U, scaled)]
    np.testing.assert_array_equal(states[0].labels, states[1].labels)


def test_step_is_pure_and_a_state_can_be_saved(planted, tmp_path):
    U, _ = planted
    problem, method = KIndicators(U), KindAP()
    states = list(islice(iterate(problem, method, method.init(problem, problem.start(None))), 4))
    op.save_state(tmp_path / "run.npz", states[1])
    resumed = op.load_state(tmp_path / "run.npz")
    for expected in states[2:]:
        resumed = method.step(problem, resumed)
        assert resumed.value == expected.value
        np.testing.assert_array_equal(resumed.X, expected.X)


def test_given_start_is_its_best_rotation(planted, rng):
    U, _ = planted
    X = op.geometry.random_stiefel_plus(48, 4, rng)
    state = KindAP(start="given").init(KIndicators(U), X)
    np.testing.assert_allclose(state.rotated, U @ polar_factor(U.T @ X))


def test_bad_options_and_problems_are_refused():
    for options in ({"tol": -1.0}, {"inner_tol": -1.0}, {"max_iter": 0}, {"max_inner": 0}):
        with pytest.raises(ValueError, match="out of range"):
            KindAP(**options)
    with pytest.raises(ValueError, match="Choose one of identity, given"):
        KindAP(start="random")
    with pytest.raises(TypeError, match=r"needs the problem KIndicators\(U\), got Projection"):
        op.solve(Projection(np.eye(4, 2)), method=KindAP())


# Deterministic; 0.1 is four images of catsndogs, 0.5 ten of flower.
@pytest.mark.parametrize(
    ("name", "purity", "nmi", "tolerance"),
    [("ORL", 87.75, 92.94, 0.02), ("catsndogs", 96.20, 76.80, 0.1), ("flower", 44.95, 63.52, 0.5)],
)
def test_figures_are_the_published_ones(name, purity, nmi, tolerance, load_data):
    parts = load_data(f"kind_{name}")
    state, _ = last_state(KindAP(), KIndicators(parts["A"]))
    truth = parts["labels"].ravel()
    assert abs(100 * op.metrics.purity(truth, state.labels) - purity) <= tolerance
    assert abs(100 * op.metrics.nmi(truth, state.labels) - nmi) <= tolerance
