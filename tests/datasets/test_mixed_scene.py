"""Scenes with known fractions: what is promised of each kind of mixing."""

import numpy as np
import pytest

from orthoplus.datasets import mixed_scene


@pytest.mark.parametrize("mixing", ["smooth", "patches", "dirichlet", "mixed"])
def test_scene_is_a_mixture_with_noise_of_that_level(mixing):
    scene = mixed_scene((24, 20, 30), 4, np.random.default_rng(1), mixing=mixing, decibels=30.0)
    assert scene.image_shape == (24, 20)
    assert scene.A.min() >= 0
    np.testing.assert_allclose(scene.abundances.sum(axis=1), 1.0)
    signal = scene.abundances @ scene.endmembers
    share = ((scene.A - signal) ** 2).sum() / (signal**2).sum()
    assert 10 * np.log10(1 / share) == pytest.approx(30.0, abs=1.0)
    purest = scene.abundances.max(axis=1)
    assert (purest.max() <= 0.8 + 1e-12) == (mixing == "mixed")
    if mixing == "patches":
        assert (purest > 0.99).mean() > 0.1


def test_brightness_multiplies_whole_pixels():
    options = {"mixing": "patches", "decibels": 200.0}
    scene = mixed_scene((15, 15, 20), 3, np.random.default_rng(0), brightness=0.2, **options)
    factors = scene.A / (scene.abundances @ scene.endmembers)
    assert np.ptp(factors, axis=1).max() <= 1e-6
    assert factors[:, 0].std() == pytest.approx(0.2, abs=0.05)


def test_unknown_mixing_is_refused(rng):
    with pytest.raises(ValueError, match="mixing"):
        mixed_scene((5, 5, 5), 2, rng, mixing="shaken")
