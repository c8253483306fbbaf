"""Orthogonal NMF of simulated cells beside scanpy's PCA, neighbors and Leiden.

Counts are Poisson with a gamma rate (negative binomial), library sizes are log-normal, and a tenth
of the genes of each type are up. Both sides see the same counts, normalized and with logarithms,
the Kullback-Leibler loss the counts themselves. Prints processor seconds, seconds and the adjusted
Rand index of every step.

    python benchmarks/singlecell.py [cells] [genes] [types]

The neighbors are exact ones, by scikit-learn: scanpy 1.11.5 would take them from pynndescent, whose
version 0.7.0 returns a sparse array that this scanpy cannot read.
"""

import sys
import time
import warnings

import anndata
import numpy as np
import scanpy
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer

import orthoplus as op

# Counts of a cell in the mean; the spread of library sizes; how often a gene of a type is up, by
# which factor in the median; the shape of the gamma distribution.
DEPTH, SPREAD, SHARE_UP, FOLD, SHAPE = 200.0, 0.3, 0.1, 2.0, 2.0
# What scanpy takes unless told otherwise.
N_NEIGHBORS, N_COMPONENTS = 15, 50


def simulate(n_cells, n_genes, n_types, seed=0):
    """Simulate counts as CSR in float32, in blocks of cells; return them and the cell types."""
    rng = np.random.default_rng(seed)
    levels = rng.lognormal(0.0, 1.0, n_genes)
    ups = rng.random((n_types, n_genes)) < SHARE_UP
    profiles = levels * np.where(ups, FOLD * rng.lognormal(0.0, 0.5, ups.shape), 1.0)
    profiles /= profiles.sum(axis=1, keepdims=True)
    types = rng.choice(n_types, n_cells, p=rng.dirichlet(np.full(n_types, 5.0)))
    blocks = []
    for start in range(0, n_cells, 5000):
        own = types[start : start + 5000]
        depth = DEPTH * rng.lognormal(0.0, SPREAD, (len(own), 1))
        rates = depth * profiles[own] * rng.gamma(SHAPE, 1.0 / SHAPE, (len(own), n_genes))
        blocks.append(sp.csr_matrix(rng.poisson(rates).astype(np.float32)))
    return sp.vstack(blocks, format="csr"), types


def timed(words, work):
    """Run a step, and print and return its CPU seconds and wall time."""
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    spent = np.array([time.process_time() - cpu, time.perf_counter() - clock])
    print(f"{words:42s} {spent[0]:8.1f} CPU s {spent[1]:8.1f} s", flush=True)
    return spent


def report(words, labels, types):
    score = adjusted_rand_score(types, labels)
    print(
        f"{words:42s} {len(set(labels)):3d} clusters  adjusted Rand index {score:.4f}", flush=True
    )


def find_neighbors(adata, **options):
    scanpy.pp.neighbors(
        adata, transformer=KNeighborsTransformer(n_neighbors=N_NEIGHBORS), **options
    )


def compile_all(counts):
    """Compile the loops of both sides before the clock runs."""
    small = anndata.AnnData(counts[:500].log1p())
    for loss in ("frobenius", "kullback-leibler"):
        op.singlecell.onmf(small, 3, loss=loss)
    find_neighbors(small, use_rep="X")


def run_scanpy(adata, types):
    steps = {
        "pca": lambda: scanpy.pp.pca(adata, n_comps=N_COMPONENTS),
        "neighbors": lambda: find_neighbors(adata),
        "leiden": lambda: scanpy.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False),
    }
    total = sum(timed(f"scanpy: {name}", step) for name, step in steps.items())
    words = "scanpy: pca + neighbors + leiden"
    print(f"{words:42s} {total[0]:8.1f} CPU s {total[1]:8.1f} s")
    report(words, adata.obs["leiden"], types)


def main(n_cells=50_000, n_genes=2_000, n_types=12):
    warnings.simplefilter("ignore")
    counts, types = simulate(n_cells, n_genes, n_types)
    print(f"{n_cells} cells, {n_genes} genes, {n_types} types, {counts.nnz / counts.shape[0]:.0f} "
          f"genes per cell are not 0")  # fmt: skip
    compile_all(counts)
    adata, raw = anndata.AnnData(counts.copy()), anndata.AnnData(counts)
    scanpy.pp.normalize_total(adata)
    scanpy.pp.log1p(adata)
    words = "orthoplus, log1p"
    timed(words, lambda: op.singlecell.onmf(adata, n_types))
    report(words, adata.obs["onmf"].cat.codes, types)
    words = "orthoplus, counts, kullback-leibler"
    timed(words, lambda: op.singlecell.onmf(raw, n_types, loss="kullback-leibler"))
    report(words, raw.obs["onmf"].cat.codes, types)
    run_scanpy(adata, types)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
