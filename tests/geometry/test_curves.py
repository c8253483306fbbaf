"""Curves on the Stiefel manifold: they stay on it, and their slope is that of the gradient."""

import numpy as np
import pytest

from orthoplus.geometry.curves import cayley_curve, polar_curve, stiefel_gradient
from orthoplus.geometry.stiefel import polar_factor

CURVES = (cayley_curve, polar_curve)
SHAPES = [(5, 5), (5, 3), (9, 2), (30, 4), (3, 1)]


def draw(rng, shape, size=1.0):
    return polar_factor(rng.standard_normal(shape)), size * rng.standard_normal(shape)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("t", [1e-6, 1.0, 1e3, 1e8])
def test_curve_stays_on_the_manifold(curve, shape, t, rng):
    U, G = draw(rng, shape)
    moved = curve(U, G, t)
    assert np.abs(moved.T @ moved - np.eye(shape[1])).max() <= 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_cayley_curve_is_its_formula_with_n_equations(shape, rng):
    U, G = draw(rng, shape)
    W, identity = G @ U.T - U @ G.T, np.eye(shape[0])
    expected = np.linalg.solve(identity + 0.35 * W, (identity - 0.35 * W) @ U)
    assert np.allclose(cayley_curve(U, G, 0.7), expected, atol=1e-12)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("shape", SHAPES)
def test_linear_function_falls_along_the_curve_at_least_as_fast_as_the_gradient_says(
    curve, shape, rng
):
    U, G = draw(rng, shape)
    D, t = stiefel_gradient(U, G), 1e-6
    slope = float(((curve(U, G, t) - curve(U, G, -t)) * G).sum()) / (2 * t)
    inner = U.T @ G
    skew = 0.5 * (inner - inner.T)
    extra = float((skew**2).sum()) if curve is cayley_curve else 0.0
    # The Cayley curve counts the part within the span of U twice: the canonical metric.
    assert np.isclose(slope, -float((D**2).sum()) - extra, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_tangent_and_orthogonal_to_what_it_leaves_out(shape, rng):
    U, G = draw(rng, shape)
    D = stiefel_gradient(U, G)
    assert np.allclose(U.T @ D + D.T @ U, 0.0, atol=1e-12)
    assert abs(float((D * (G - D)).sum())) <= 1e-11
