"""Simulate hyperspectral images with known spectra and fractions."""

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.types import FloatArray
from orthoplus.datasets.real import SceneData

MIXINGS = ("patches", "smooth", "dirichlet", "mixed")

# Width of patches and of smooth variations, relative to the image.
_PATCH = 1 / 12
# Width of spectral features relative to the number of bands; width of fringes in pixels.
_FEATURE, _FRINGE = 0.12, 1.0
# Upper limit of the fraction of one material per pixel in a "mixed" scene.
_MAX_FRACTION = 0.8


def mixed_scene(
    shape: tuple[int, int, int],
    k: int,
    rng: np.random.Generator,
    *,
    mixing: str = "smooth",
    brightness: float = 0.0,
    decibels: float = 30.0,
) -> SceneData:
    """Simulate an image of k materials with smooth random spectra, mixed linearly, plus noise.

    Parameters
    ----------
    shape : tuple of int
        Height, width and number of bands.
    k : int
        Number of materials.
    rng : numpy.random.Generator
        Source of all randomness.
    mixing : {"smooth", "patches", "dirichlet", "mixed"}
        How the fractions vary over the image: smoothly; in patches of one material with mixed
        fringes; independently for each pixel; independently with no fraction above 0.8, so that
        no pixel is pure.
    brightness : float
        Standard deviation of a smooth brightness factor of mean one that multiplies each pixel.
    decibels : float
        Signal-to-noise ratio of the Gaussian noise. Negative values are then set to zero.

    Examples
    --------
    >>> scene = mixed_scene((20, 30, 50), 3, np.random.default_rng(0))
    >>> scene.A.shape, scene.abundances.shape, scene.endmembers.shape
    ((600, 50), (600, 3), (3, 50))
    >>> bool(np.allclose(scene.abundances.sum(axis=1), 1.0))
    True
    """
    height, width, n_bands = shape
    for name, count in (("height", height), ("width", width), ("bands", n_bands), ("k", k)):
        check_count(count, name, low=1)
    check_choice(mixing, "mixing", MIXINGS)
    check_range(brightness, "brightness", low=0.0)
    F = _fractions((height, width), k, mixing, rng)
    E = _spectra(k, n_bands, rng)
    light = np.clip(1.0 + brightness * _field((height, width), 0.5, rng), 0.3, 2.0)
    A = light.reshape(-1, 1) * (F @ E)
    # The mean power of the signal over that of the noise is 10^(decibels / 10).
    A += np.sqrt((A**2).mean() / 10 ** (decibels / 10)) * rng.standard_normal(A.shape)
    names = tuple(f"material {j}" for j in range(k))
    return SceneData(f"{mixing} scene", np.maximum(A, 0.0), E, F, (height, width), names)


def _field(size: tuple[int, int], scale: float, rng: np.random.Generator) -> FloatArray:
    """Return a smooth random field of mean 0 and standard deviation 1."""
    field = gaussian_filter(rng.standard_normal(size), scale * _PATCH * max(size))
    spread = float(field.std())
    return np.asarray((field - field.mean()) / (spread if spread > 0.0 else 1.0))


def _fractions(size: tuple[int, int], k: int, mixing: str, rng: np.random.Generator) -> FloatArray:
    if mixing in ("dirichlet", "mixed"):
        F = rng.dirichlet(np.full(k, 0.6), size[0] * size[1])
        if mixing == "mixed" and k > 1:
            # Move pixels that are too pure along the line to the center (1/k, ..., 1/k) until
            # their largest fraction is `most`.
            top = F.max(axis=1, keepdims=True)
            most = max(_MAX_FRACTION, 1.0 / k)
            share = np.where(top > most, (top - most) / np.maximum(top - 1.0 / k, 1e-12), 0.0)
            F = (1.0 - share) * F + share / k
        return np.asarray(F)
    fields = np.stack([_field(size, 1.0, rng) for _ in range(k)], axis=-1)
    if mixing == "smooth":
        F = np.exp(3.0 * fields)
    else:
        owner = fields.argmax(axis=-1)
        F = np.stack([gaussian_filter((owner == j).astype(float), _FRINGE) for j in range(k)], -1)
    return np.asarray((F / F.sum(axis=-1, keepdims=True)).reshape(-1, k))


def _spectra(k: int, n_bands: int, rng: np.random.Generator) -> FloatArray:
    """Return smooth spectra between 0 and 1, some darker than others."""
    noise = rng.standard_normal((k, 3 * n_bands))
    curves = gaussian_filter1d(noise, _FEATURE * n_bands, axis=1)[:, n_bands : 2 * n_bands]
    curves /= np.maximum(curves.std(axis=1, keepdims=True), 1e-12)
    return np.asarray(0.02 + rng.uniform(0.3, 1.0, (k, 1)) / (1.0 + np.exp(-1.2 * curves)))
