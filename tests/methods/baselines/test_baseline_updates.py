"""One step of each rival against its formula, written out densely with n x n matrices."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.baselines import EMONMF, HALSONMF, ONPMF, OPNMF, UONMF, YooChoi
from orthoplus.problems import ONMF

N, R, K = 7, 5, 3
# A handful of products in another order.
ROUNDING = 1e-12


@pytest.fixture
def tiny(rng):
    """Positive data, a start, and the state before the step: one made of a first step."""
    A = rng.random((N, R)) + 0.1
    return A, ONMF(A, K), random_oblique_plus(N, K, rng)


def one_step(method, problem, X):
    """The states before and after the second step, where X and Y are no longer special."""
    before = method.step(problem, method.init(problem, X))
    return before, method.step(problem, before)


def close(one, other):
    return np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING)


def test_uonmf_step_is_its_formula(tiny):
    A, problem, X0 = tiny
    before, after = one_step(UONMF(start="given"), problem, X0)
    X, Y = before.factor, before.Y
    X_new = X * np.sqrt((A @ Y) / (X @ X.T @ A @ Y))
    Y_new = Y * (A.T @ X_new) / (Y @ X_new.T @ X_new)
    assert close(after.factor, X_new)
    assert close(after.Y, Y_new)
    assert np.isclose(after.value, np.linalg.norm(A - X_new @ Y_new.T) ** 2)
    assert np.isclose(after.change, np.linalg.norm(X_new - X) / np.linalg.norm(X))


@pytest.mark.parametrize("normalize", [False, True])
def test_yoo_choi_step_is_its_formula(tiny, normalize):
    A, problem, X0 = tiny
    before, after = one_step(YooChoi(start="given", normalize=normalize), problem, X0)
    X, Y = before.factor, before.Y
    X_new = X * (A @ Y) / (X @ Y.T @ A.T @ X)
    if normalize:
        X_new /= np.linalg.norm(X_new, axis=0)
    assert close(after.factor, X_new)
    assert close(after.Y, Y * (A.T @ X_new) / (Y @ X_new.T @ X_new))


@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_opnmf_step_is_its_formula(tiny, exponent):
    A, problem, X0 = tiny
    before, after = one_step(OPNMF(start="given", exponent=exponent), problem, X0)
    X, M = before.factor, A @ A.T
    X_new = X * ((M @ X) / (X @ X.T @ M @ X)) ** exponent
    X_new /= np.linalg.norm(X_new, 2)
    assert close(after.factor, X_new)
    assert np.isclose(after.value, np.linalg.norm(A - X_new @ X_new.T @ A) ** 2)


@pytest.mark.parametrize("as_data", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_opnmf_kl_step_is_its_formula(tiny, as_data):
    A, _, X0 = tiny
    A = A * (np.arange(N * R).reshape(N, R) % 4 > 0)
    before, after = one_step(OPNMF(start="given", divergence="kl"), ONMF(as_data(A), K), X0)
    X = before.factor
    Z, E = A / (X @ X.T @ A), np.ones_like(A)
    P, Q = Z @ A.T @ X + A @ Z.T @ X, E @ A.T @ X + A @ E.T @ X
    X_new = X * (P + X @ Q.T @ X) / (Q + X @ P.T @ X)
    X_new /= np.linalg.norm(X_new, 2)
    assert close(after.factor, X_new)
    model, positive = X_new @ X_new.T @ A, A > 0
    logs = A[positive] * np.log(A[positive] / model[positive])
    assert np.isclose(after.value, logs.sum() - A.sum() + model.sum())


def test_opnmf_kl_quotient_is_the_gradient_split_in_two(tiny):
    A, _, X = tiny

    def divergence(X):
        model = X @ X.T @ A
        return (A * np.log(A / model) - A + model).sum()

    Z, E = A / (X @ X.T @ A), np.ones_like(A)
    gradient = (E @ A.T @ X + A @ E.T @ X) - (Z @ A.T @ X + A @ Z.T @ X)
    D, t = np.cos(np.arange(N * K)).reshape(N, K), 1e-6
    slope = (divergence(X + t * D) - divergence(X - t * D)) / (2 * t)
    assert np.isclose(slope, (gradient * D).sum(), rtol=1e-7)  # central differences: t^2


def test_opnmf_start_has_its_zeros_filled(tiny):
    _, problem, X0 = tiny
    X0 = np.where(X0 > np.median(X0), X0, 0.0)
    filled = OPNMF(start="given", fill=0.1).init(problem, X0).factor
    assert np.allclose(filled[X0 == 0], 0.1 * np.sqrt((X0**2).mean()), rtol=1e-14)
    assert (filled[X0 > 0] == X0[X0 > 0]).all()
    kept = OPNMF(start="given", fill=0.0, floor=1e-16).init(problem, X0).factor
    assert (kept[X0 == 0] == 1e-16).all()


def test_hals_step_is_its_formula(tiny):
    A, problem, X0 = tiny
    before, after = one_step(HALSONMF(start="given"), problem, X0)
    X, Y = before.factor.copy(), before.Y.copy()
    for j in range(K):
        others = [i for i in range(K) if i != j]
        h = (A - X[:, others] @ Y[:, others].T) @ Y[:, j]
        s = X[:, others].sum(axis=1)
        x = np.maximum(h - (s @ h) / (s @ s) * s, 1e-16)
        X[:, j] = x / np.linalg.norm(x)
    for j in range(K):
        others = [i for i in range(K) if i != j]
        Y[:, j] = np.maximum((A - X[:, others] @ Y[:, others].T).T @ X[:, j], 1e-16)
    assert close(after.factor, X)
    assert close(after.Y, Y)


def test_onpmf_step_is_a_projected_gradient_step_on_the_lagrangian(tiny):
    A, problem, X0 = tiny
    before, after = one_step(ONPMF(start="given"), problem, X0)
    U, Y, N0 = before.factor, before.Y, before.multipliers
    rho = 1.01 * before.sigma

    def lagrangian(U):
        negative = np.minimum(U, 0.0)
        penalty = rho / 2 * (negative**2).sum() - (N0 * U).sum()
        return np.linalg.norm(A - U @ Y.T) ** 2 / 2 + penalty

    G = (U @ Y.T - A) @ Y - N0 + rho * np.minimum(U, 0.0)
    G -= U @ (U.T @ G + G.T @ U) / 2  # the part of the tangent space
    left, _, right = np.linalg.svd(U - after.step_length * G, full_matrices=False)
    assert np.allclose(after.factor, left @ right, atol=1e-10)
    # Armijo's condition, and twice the length breaks it unless it was the first tried.
    slope = (G**2).sum()
    assert lagrangian(after.factor) <= lagrangian(U) - 1e-4 * after.step_length * slope
    if after.n_inner > 1:
        left, _, right = np.linalg.svd(U - 2 * after.step_length * G, full_matrices=False)
        assert lagrangian(left @ right) > lagrangian(U) - 2e-4 * after.step_length * slope
    assert close(after.multipliers, np.maximum(N0 - 100 / 2 * after.factor, 0.0))
    assert close(after.Y, np.maximum(A.T @ after.factor, 0.0))
    assert np.isclose(after.value, np.linalg.norm(A - after.factor @ after.Y.T) ** 2)
    assert close(after.factor.T @ after.factor, np.eye(K))


def test_onpmf_direction_is_the_gradient_of_the_lagrangian_along_the_manifold(tiny, rng):
    from orthoplus.geometry.stiefel import polar_factor
    from orthoplus.methods.baselines.onpmf import _Lagrangian

    U = polar_factor(rng.standard_normal((N, K)))
    lagrangian = _Lagrangian(rng.standard_normal((N, K)), 3.0)
    D, t = rng.standard_normal((N, K)), 1e-6
    D -= U @ (U.T @ D + D.T @ U) / 2
    slope = (
        lagrangian.value(polar_factor(U + t * D)) - lagrangian.value(polar_factor(U - t * D))
    ) / (2 * t)
    assert np.isclose(slope, (lagrangian.gradient(U) * D).sum(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("columns", [3, 4])
def test_polar_factor_is_the_nearest_also_where_columns_repeat(columns, rng):
    from orthoplus.geometry.stiefel import polar_factor

    B = rng.standard_normal((N, columns))
    B[:, -1] = B[:, 0] if columns == 4 else B[:, -1]
    U = polar_factor(B)
    assert close(U.T @ U, np.eye(columns))
    assert np.isclose((U * B).sum(), np.linalg.svd(B, compute_uv=False).sum())


@pytest.mark.parametrize("cls", [UONMF, YooChoi, HALSONMF])
@pytest.mark.parametrize("seed", range(3))
def test_update_of_the_second_factor_never_raises_the_fit(cls, seed):
    rng = np.random.default_rng(seed)
    A = rng.random((12, 9))
    problem, method = ONMF(A, K), cls(start="given")
    state = method.init(problem, random_oblique_plus(12, K, rng))
    for _ in range(20):
        after = method.step(problem, state)
        between = np.linalg.norm(A - after.factor @ state.Y.T) ** 2
        assert after.value <= between * (1 + 1e-12)
        state = after


@pytest.mark.parametrize("seed", range(3))
def test_uonmf_update_of_x_lowers_the_lagrangian_of_its_multiplier(seed):
    # -2 tr(Y'A'X) + tr((Y'Y + S) X'X) with S = Y'A'X - Y'Y: the auxiliary function of the proof.
    rng = np.random.default_rng(seed)
    A = rng.random((12, 9))
    problem, method = ONMF(A, K), UONMF(start="given")
    state = method.init(problem, random_oblique_plus(12, K, rng))
    for _ in range(20):
        after = method.step(problem, state)
        X, Y = state.factor, state.Y
        C = X.T @ A @ Y

        def lagrangian(Z, A=A, Y=Y, C=C):
            return -2 * np.trace(Y.T @ A.T @ Z) + np.trace(Z @ C @ Z.T)

        assert lagrangian(after.factor) <= lagrangian(X) + 1e-12 * abs(lagrangian(X))
        state = after


# The start NNDSVDa of the others fills its zeros with the mean of A: that depends on the scale.
@pytest.mark.parametrize("name", ["uonmf", "opnmf"])
def test_scale_of_the_data_does_not_change_the_labels(name, rng):
    from orthoplus.geometry.stiefel import labels_of
    from orthoplus.methods.baselines import BASELINES

    A = np.kron(np.eye(K), np.ones((6, 5))) + 0.3 * rng.random((6 * K, 5 * K))
    runs = []
    for scale in (1.0, 1e-3, 1e3):
        problem, method = ONMF(scale * A, K), BASELINES[name]()
        state = method.init(problem, random_oblique_plus(6 * K, K, rng))
        for _ in range(30):
            state = method.step(problem, state)
        runs.append(state)
    for other in runs[1:]:
        assert np.allclose(other.X, runs[0].X, atol=1e-6)
        assert (labels_of(other.X) == labels_of(runs[0].X)).all()


def test_onpmf_best_second_factor_solves_least_squares(tiny):
    from scipy.optimize import nnls

    A, problem, X0 = tiny
    state = ONPMF(start="given").init(problem, X0)
    best = np.array([nnls(state.factor, column)[0] for column in A.T])
    assert np.allclose(state.Y, best, atol=1e-10)


def test_em_step_assigns_by_cosine_and_takes_leading_singular_vectors(tiny):
    A, problem, X0 = tiny
    before, after = one_step(EMONMF(start="given"), problem, X0)
    centers = before.Y / np.linalg.norm(before.Y, axis=0)
    labels = (A @ centers).argmax(axis=1)
    assert (after.X.argmax(axis=1) == labels).all()
    best = 0.0
    for j in range(K):
        rows = labels == j
        if rows.any():
            left, s, _ = np.linalg.svd(A[rows])
            assert np.allclose(after.X[rows, j], np.abs(left[:, 0]), atol=1e-8)
            best += s[0] ** 2
    assert np.isclose(after.value, np.linalg.norm(A) ** 2 - best)
