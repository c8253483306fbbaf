"""
Parts of digits that do not overlap
===================================

Nonnegative matrix factorization is known to find *parts*, but its parts overlap: most pixels belong
to several of them. With orthonormal nonnegative parts, each pixel belongs to at most one part.
"""

# %%
# Both models factorize the same 1797 images of 8 x 8 pixels into 10 components.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import orthoplus as op

X = load_digits().data
plain = NMF(10, init="nndsvd", tol=1e-2).fit(X).components_
parts = op.OrthogonalNMF(10, orthogonal="features", random_state=0).fit(X)
H = parts.components_

# %%
# Count the components that contribute to a pixel. For plain NMF there are several; for orthogonal
# NMF there is at most one, and the rows of H are orthonormal up to rounding errors.

overlap = (plain > 1e-3 * plain.max()).sum(axis=0)
print(
    f"NMF: {overlap.mean():.1f} components per pixel; orthogonal NMF: {(H > 0).sum(axis=0).max()}"
)
print(f"feasibility of H: {op.metrics.feasibility(H.T):.1e}")

# %%
# The figure shows the components of NMF, those of orthogonal NMF, and all ten parts at once, with a
# color and a number for each. A white pixel is zero in all images.

figure = plt.figure(figsize=(10, 5.2), layout="constrained")
left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1, 2])
for panel, components, title in (
    (left, plain, "NMF: parts overlap"),
    (middle, H, "orthogonal NMF"),
):
    panel.suptitle(title, fontsize="medium")
    for axis, component in zip(panel.subplots(5, 2).flat, components, strict=True):
        axis.imshow(component.reshape(8, 8), cmap="Blues")
        axis.set(xticks=[], yticks=[])
owner = np.where(H.any(axis=0), H.argmax(axis=0), np.nan).reshape(8, 8)
axis = right.subplots()
axis.imshow(owner, cmap="tab10", vmin=0, vmax=9)
for (row, column), part in np.ndenumerate(owner):
    if np.isfinite(part):
        axis.text(column, row, f"{part:.0f}", ha="center", va="center", color="white")
axis.set(xticks=[], yticks=[], title="each pixel is in at most one part")
plt.show()

# %%
# The assertions check that no pixel has two parts, that the parts are orthonormal to rounding
# errors, and that those of plain NMF overlap. The same estimator clusters the *images* with
# ``orthogonal="samples"``; see :doc:`/cluster`.

assert (H > 0).sum(axis=0).max() == 1
assert op.metrics.feasibility(H.T) < 1e-13
assert overlap.mean() > 2
