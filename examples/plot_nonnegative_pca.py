"""
Principal components that do not overlap
========================================

Each principal component combines all variables with both signs. Nonnegative components that do not
overlap are groups of variables with weights, which are easier to interpret. Ordinary principal
components bound the loss of explained variance.
"""

# %%
# The data are thirty standardized measurements of cell nuclei; we compute three components of each
# kind.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import orthoplus as op

data = load_breast_cancer()
X = StandardScaler().fit_transform(data.data)
signed = PCA(3).fit(X)
grouped = op.NonnegativePCA(3, with_bound=True, random_state=0).fit(X)
kept, most = grouped.explained_variance_ratio_.sum(), signed.explained_variance_ratio_.sum()
print(f"explained: {most:.1%} with any signs, {kept:.1%} in disjoint groups")
for component in grouped.components_:
    print(", ".join(data.feature_names[component.argsort()[::-1][:4]]))

# %%
# In the left panel every variable contributes to every component; in the right panel each variable
# contributes to one.

order = np.lexsort((-grouped.components_.max(axis=0), grouped.feature_labels_))
figure, axes = plt.subplots(1, 2, figsize=(9, 6.2), layout="constrained", sharey=True)
for axis, model, title in (
    (axes[0], signed, "principal components"),
    (axes[1], grouped, "nonnegative, disjoint"),
):
    share = model.explained_variance_ratio_
    image = axis.imshow(
        model.components_.T[order], cmap="RdBu_r", vmin=-0.45, vmax=0.45, aspect="auto"
    )
    axis.set_xticks(range(3), [f"{value:.0%}" for value in share])
    axis.set_title(f"{title}\n{share.sum():.0%} of the variance")
    axis.spines[:].set_visible(False)
axes[0].set_yticks(range(30), data.feature_names[order], fontsize=9)
figure.colorbar(image, ax=axes, label="loading", shrink=0.6)
plt.show()

# %%
# The assertions check that the components are nonnegative, do not overlap, and explain at least 85
# percent of the variance that principal components explain. See :doc:`/spectral`.

assert (grouped.components_ >= 0).all()
assert ((grouped.components_ > 0).sum(axis=0) <= 1).all()
assert kept > 0.85 * most
