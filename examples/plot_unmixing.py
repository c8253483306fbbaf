"""
Unmix a hyperspectral image
===========================

The synthetic scene resembles the Samson image: a lake, a shore and trees in 156 bands. The
illumination varies over the scene, and the borders are mixed. :func:`orthoplus.unmix` finds the
three spectra and the fraction of each material in every pixel.
"""

# %%
# The scene consists of smooth spectra for water, soil and trees, a map of the ground, varying
# brightness, and noise.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import orthoplus as op

rng = np.random.default_rng(0)
wavelength = np.linspace(400, 900, 156)  # nanometers


def bump(center, width):
    return np.exp(-(((wavelength - center) / width) ** 2))


red_edge = 1 / (1 + np.exp(-(wavelength - 715) / 12))
truth = np.array(
    [
        0.05 + 0.10 * bump(480, 90),  # water: dark, a little blue
        0.15 + 0.45 * (wavelength - 400) / 500,  # soil: rises evenly
        0.05 + 0.08 * bump(550, 35) + 0.60 * red_edge,  # trees: green, then the red edge
    ]
)
size = 70
height = gaussian_filter(rng.standard_normal((size, size)), 9)
height = height / height.std() + np.linspace(-1.6, 1.6, size)[:, None]
ground = np.digitize(height, [-0.5, 0.4])
shares = np.stack([gaussian_filter((ground == j).astype(float), 0.7) for j in range(3)], axis=-1)
light = 1 + 0.25 * gaussian_filter(rng.standard_normal((size, size)), 5)[..., None] / 0.06
cube = np.clip(light, 0.6, 1.5) * (shares @ truth)
cube += 0.005 * rng.standard_normal(cube.shape)

# %%
# One call finds the materials.

found = op.unmix(cube, 3)
order = op.metrics.match_spectra(found.endmembers, truth)
angle = found.spectral_angle(truth)
correct = (np.argsort(order)[found.labels] == ground).mean()
error = np.sqrt(((found.abundances[..., order] - shares) ** 2).mean())
print(f"spectral angle distance {angle:.3f}, error of the fractions {error:.3f}")
print(f"pixels with the right material {correct:.1%}")

# %%
# The figure shows maps and spectra; dashed lines are the true spectra.

figure = plt.figure(figsize=(10, 5.8), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.1])
axes = top.subplots(1, 4)
picture = cube[..., [150, 60, 20]] / np.quantile(cube[..., [150, 60, 20]], 0.98, axis=(0, 1))
axes[0].imshow(np.clip(picture, 0, 1))
axes[0].set_title("scene, false colors")
names = ("water", "soil", "trees")
colors = ("tab:blue", "tab:orange", "tab:green")
for axis, j, name, cmap in zip(axes[1:], order, names, ("Blues", "Oranges", "Greens"), strict=True):
    axis.imshow(found.abundances[..., j], cmap=cmap, vmin=0, vmax=1)
    axis.set_title(name)
for axis in axes:
    axis.set(xticks=[], yticks=[])
chart = bottom.subplots()
for j, spectrum, name, color in zip(order, truth, names, colors, strict=True):
    estimate = found.endmembers[j]
    chart.plot(wavelength, estimate / np.linalg.norm(estimate), color=color, label=name)
    chart.plot(wavelength, spectrum / np.linalg.norm(spectrum), "k--", linewidth=0.9)
chart.set(xlabel="wavelength [nm]", yticks=[], title="spectra of unit length")
chart.legend(loc="best", frameon=False, title="dashed: truth")
plt.show()

# %%
# The assertions check that the spectra are within 0.02 radians of the truth, that the error of the
# fractions is below 0.03, and that more than 98 percent of the pixels have the right material.
# :doc:`/unmix` covers borders of zeros, missing pixels and the method; ``orthoplus unmix scene.hdr
# -k 3`` reads ENVI files.

assert angle < 0.02
assert error < 0.03
assert correct > 0.98
