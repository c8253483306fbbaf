"""
Parcellate a volume
===================

Brain parcellation by nonnegative factorization works on a matrix of voxels by subjects and assigns
every voxel to one parcel. The usual method, OPNMF, makes the parcels *nearly* orthogonal, so that
they are thresholded afterward; here they are disjoint by construction.
"""

# %%
# The synthetic head is an ellipsoid of about 9000 voxels with twelve compact parcels, forty
# subjects and smooth noise. It is stored as one 4D image and a mask.

import matplotlib.pyplot as plt
import numpy as np
from nibabel import Nifti1Image
from scipy.ndimage import gaussian_filter

import orthoplus as op

rng = np.random.default_rng(0)
shape, n_parcels, n_subjects = (36, 44, 14), 12, 40
grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, m) for m in shape], indexing="ij"), -1)
brain = (grid**2).sum(axis=-1) < 0.95
voxels = grid[brain]
seeds = voxels[rng.choice(len(voxels), 400, replace=False)]
for _ in range(30):  # spread the seeds: Lloyd's iterations
    owner = ((seeds[:, None] - seeds[None, :n_parcels]) ** 2).sum(-1).argmin(1)
    seeds[:n_parcels] = [
        seeds[n_parcels:][owner[n_parcels:] == j].mean(0) for j in range(n_parcels)
    ]
truth = ((voxels[:, None] - seeds[None, :n_parcels]) ** 2).sum(-1).argmin(1)

thickness = 2.5 + 0.8 * rng.standard_normal((n_parcels, n_subjects))
volumes = np.zeros((*shape, n_subjects), dtype=np.float32)
for s in range(n_subjects):
    volume = np.zeros(shape)
    volume[brain] = thickness[truth, s]
    noise = gaussian_filter(rng.standard_normal(shape), 1)
    volumes[..., s] = np.maximum(gaussian_filter(volume, 0.7) + 0.8 * noise / noise.std(), 0)
affine = np.diag([4.0, 4.0, 8.0, 1.0])
imgs, mask = Nifti1Image(volumes, affine), Nifti1Image(brain.astype(np.uint8), affine)

# %%
# Compute the parcels of the images, and those of OPNMF on the same voxels.

model = op.brain.Parcellation(n_parcels, mask=mask).fit(imgs)
A = volumes[brain]
opnmf = op.solve(op.problems.ONMF(A, n_parcels), method=op.baselines.OPNMF(max_iter=300))
maps = {
    "truth": truth,
    "op.brain": np.asarray(model.labels_img_.dataobj)[brain] - 1,
    "OPNMF, 300 steps": opnmf.labels,
}
scores = {name: op.metrics.nmi(truth, found) for name, found in maps.items()}
print(f"{len(voxels)} voxels;", {name: round(score, 3) for name, score in scores.items()})

# %%
# To choose the number of parcels, parcellate two halves of the subjects separately and compare the
# weights. They agree best for the planted number.

found = op.brain.Parcellation(mask=mask).reproducibility(imgs, range(8, 17, 2), n_splits=2)
print(found)

# %%
# The figure shows three slices of each map and the agreement of the halves.

figure = plt.figure(figsize=(9, 9.6), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(2.4, 1))
axes = above.subplots(3, 3)
for row, (name, labels) in zip(axes, maps.items(), strict=True):
    counts = np.array(
        [[((labels == j) & (truth == i)).sum() for j in range(n_parcels)] for i in range(n_parcels)]
    )
    color = counts.argmax(axis=0)  # a parcel has the color of the true one it covers most
    volume = np.full(shape, np.nan)
    volume[brain] = np.where(labels >= 0, color[labels], np.nan)
    for axis, depth in zip(row, (4, 7, 10), strict=True):
        axis.imshow(volume[:, :, depth], cmap="Paired", vmin=0, vmax=11, interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    row[1].set_title(f"{name}" + ("" if name == "truth" else f": NMI {scores[name]:.2f}"))
axis = below.subplots()
ranks = [row.k for row in found.rows]
for key, words in (("stability", "adjusted Rand index"), ("cosine", "cosine of matched weights")):
    values = [getattr(row, key) for row in found.rows]
    errors = [getattr(row, f"{key}_se") for row in found.rows]
    axis.errorbar(ranks, values, errors, fmt="o-", capsize=3, label=words)
axis.axvline(n_parcels, color="0.5", linestyle=":")
axis.set(xlabel="number of parcels", ylabel="two halves of the subjects")
axis.legend(loc="best", frameon=False)
plt.show()

# %%
# The assertions check that every voxel is in one parcel, that the parcels agree with the planted
# ones (NMI above 0.85) and are not worse than those of OPNMF by more than 0.01, and that the cosine
# of the halves of the subjects is largest for the planted number. :doc:`/parcellate` works with
# files.

assert scores["op.brain"] > 0.85
assert scores["op.brain"] >= scores["OPNMF, 300 steps"] - 0.01
assert (maps["op.brain"] >= 0).all()
assert max(found.rows, key=lambda row: row.cosine).k == n_parcels
