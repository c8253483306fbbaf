"""
Cluster single cells, each cluster with its genes
=================================================

This example clusters the counts of genes in cells, stored in an ``AnnData`` object. Every cell gets
one cluster and a margin that measures how certain it is, and every cluster is described by its
genes. For raw counts, use the Kullback-Leibler divergence, which corresponds to their likelihood;
the squared error is dominated by the cells and genes with the most counts.
"""

# %%
# The simulated data have six types of cells and 400 genes, a tenth of which have a higher level in
# each type. Counts are Poisson with a gamma rate (negative binomial), and the number of counts per
# cell varies widely.

import sys
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import orthoplus as op

if find_spec("anndata") is None:
    sys.exit('This example needs anndata: pip install "orthoplus[singlecell]".')
import anndata

rng = np.random.default_rng(0)
n_cells, n_genes, n_types = 1500, 400, 6
levels = rng.lognormal(0.0, 1.0, n_genes)
is_up = rng.random((n_types, n_genes)) < 0.1
profiles = levels * np.where(is_up, 4.0, 1.0)
profiles /= profiles.sum(axis=1, keepdims=True)
types = rng.choice(n_types, n_cells, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
depth = 250 * rng.lognormal(0.0, 0.5, (n_cells, 1))
counts = rng.poisson(depth * profiles[types] * rng.gamma(3.0, 1 / 3, (n_cells, n_genes)))
adata = anndata.AnnData(sp.csr_matrix(counts.astype(np.float32)))
adata.var_names = [f"gene {j}" for j in range(n_genes)]

# %%
# Each loss takes one line. The results are stored in the object, where scanpy's tools look for
# them. The likelihood has local optima in which a large type is split and a rare one is lost. The
# default leaves them by swapping clusters.

op.singlecell.onmf(adata, n_types, loss="kullback-leibler", random_state=0)
op.singlecell.onmf(adata, n_types, key_added="squares", random_state=0)
print(adata.uns["squares"]["notes"][0])
clusters = {key: adata.obs[key].cat.codes.to_numpy() for key in ("onmf", "squares")}
purity = {key: op.metrics.purity(types, labels) for key, labels in clusters.items()}
print({key: round(value, 3) for key, value in purity.items()})

# %%
# The genes of a cluster are those whose share in its component is largest relative to their share
# in all cells. We count how many of the first twenty were planted for its type.

components = adata.varm["onmf"] / adata.varm["onmf"].sum(axis=0)
excess = components / (counts.sum(axis=0)[:, None] / counts.sum())
main_type = [np.bincount(types[clusters["onmf"] == j]).argmax() for j in range(n_types)]
leading = np.argsort(-excess, axis=0)[:20]
planted = np.array([is_up[main_type[j], leading[:, j]].mean() for j in range(n_types)])
print("planted among the leading genes:", planted)

# %%
# The left panel shows the cells ordered by cluster, with the leading genes of each cluster. The
# right panel shows the margins, which are small for cells in the cluster of another type.

margins = adata.obs["onmf_margin"].to_numpy()
is_right = np.array(main_type)[clusters["onmf"]] == types
order = np.lexsort((-margins, clusters["onmf"]))
shares = np.log1p(1e3 * counts / counts.sum(axis=1, keepdims=True))
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), layout="constrained", width_ratios=(2, 1)
)
picture = left.imshow(
    shares[order][:, leading.T.ravel()], aspect="auto", cmap="Blues", interpolation="nearest"
)
borders = np.cumsum(np.bincount(clusters["onmf"], minlength=n_types))[:-1]
left.hlines(borders, -0.5, leading.size - 0.5, color="0.3", linewidth=0.6)
left.set(
    xlabel="twenty leading genes of each cluster",
    ylabel="cells, by cluster and margin",
    xticks=10 + 20 * np.arange(n_types),
    xticklabels=[f"cluster {j}" for j in range(n_types)],
)
figure.colorbar(picture, ax=left, label="log(1 + counts per thousand)", pad=0.01)
bins = np.linspace(0, margins.max(), 40)
right.hist(margins[is_right], bins, color="0.75", label="in the cluster of their type")
right.hist(margins[~is_right], bins, color="C3", label="in another")
right.set(xlabel="margin (log-likelihood per count)", ylabel="cells", yscale="log", ylim=(0.7, 700))
right.legend(loc="best", frameon=False)
plt.show()

# %%
# The assertions check that nearly all cells are in the cluster of their type, more than with the
# squared error, that most of the leading genes are planted ones, and that misplaced cells have
# smaller margins. :doc:`/single-cell` covers files, the choice of k, and data larger than memory.

assert purity["onmf"] > 0.97
assert purity["onmf"] > purity["squares"]
assert planted.min() > 0.9
assert is_right.all() or np.median(margins[~is_right]) < np.median(margins[is_right])
