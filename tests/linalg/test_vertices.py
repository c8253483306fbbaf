"""Vertex component analysis: exact vertices, brightness, noise, degenerate data."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.datasets import mixed_scene
from orthoplus.linalg.vertices import VertexSearch


def simplex(rng, k, n=80, r=15):
    """Return mixtures without noise whose first k rows are pure, and the spectra."""
    E = rng.random((k, r)) + 0.1
    F = np.vstack([np.eye(k), rng.dirichlet(np.ones(k), n)])
    return F @ E, E


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_pure_rows_are_found_whatever_their_brightness(k, seed):
    rng = np.random.default_rng(seed)
    A, _ = simplex(rng, k)
    for data in (A, rng.uniform(0.5, 2.0, (len(A), 1)) * A):
        search = VertexSearch.of(as_data(data), k)
        rows = search.draw(np.random.default_rng(seed))
        # All rows are equally good if there is one material.
        assert k == 1 or sorted(rows) == list(range(k))
        np.testing.assert_allclose(search.scores[rows] @ search.basis.T, data[rows], atol=1e-9)


@pytest.mark.parametrize("decibels", [5.0, 40.0])
def test_noise_decides_the_projection_and_the_basis_does_not_matter(decibels, rng):
    scene = mixed_scene((30, 30, 40), 4, rng, mixing="dirichlet", decibels=decibels)
    search = VertexSearch.of(as_data(scene.A), 4)
    assert search.decibels == pytest.approx(decibels, abs=3.0)
    is_clean = decibels > 30
    assert (np.ptp(search.points[:, -1]) > 1e-9) == is_clean  # otherwise a constant is appended
    flipped = VertexSearch(
        -search.basis, -search.scores, search.points * (s := np.array([-1.0, 1.0, -1.0, 1.0])),
        search.axes * s, search.avoided * s, search.decibels, 4,
    )  # fmt: skip
    one, other = (found.draw(np.random.default_rng(3)) for found in (search, flipped))
    np.testing.assert_array_equal(one, other)


def test_data_with_fewer_vertices_than_asked_for_are_borne():
    A = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0], [3.0, 1.0]])
    rows = VertexSearch.of(as_data(A), 4).draw(np.random.default_rng(0))
    assert 3 in rows
    assert np.isin(rows, [0, 1]).any()  # two rows of one direction
    assert np.isfinite(VertexSearch.of(as_data(np.zeros((5, 3))), 2).points).all()


def test_baseline_gives_fractions_of_vertices(rng):
    A, E = simplex(rng, 3)
    result = op.solve(op.problems.ONMF(A, 3), method=op.baselines.VCA(seed=1), with_bound=False)
    state = result.state
    assert op.metrics.spectral_angle_distance(state.Y.T, E) <= 1e-6
    norms = np.linalg.norm(state.Y, axis=0) / np.linalg.norm(
        E[op.metrics.match_spectra(E, state.Y.T)], axis=1
    )
    np.testing.assert_allclose((state.X * norms).sum(axis=1), 1.0, atol=1e-6)
    assert state.value == pytest.approx(0.0, abs=1e-9)
