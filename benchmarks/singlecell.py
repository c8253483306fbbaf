"""Orthogonal NMF of simulated cells compared with scanpy's PCA, neighbors and Leiden.

Counts are Poisson with a gamma rate (negative binomial), library sizes are log-normal, and a tenth
of the genes of each type are up. Both sides see the same counts, normalized and with logarithms,
the Kullback-Leibler loss the counts themselves. Each method runs in a separate process, after a
run on 500 cells that compiles its loops. Prints processor seconds, the memory beyond the loaded
matrix, the number of clusters and the adjusted Rand index.

    python benchmarks/singlecell.py [cells] [genes] [types]

scanpy takes approximate neighbors from pynndescent if it is told nothing, and scanpy 1.11.5 cannot
read what pynndescent 0.7.0 returns; with ``pip install "pynndescent<0.6"`` it can. The exact
neighbors are those of scikit-learn.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import anndata
import numpy as np
import scanpy
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer

import orthoplus as op
from orthoplus.bench.measure import peak_bytes, resident_bytes, timed
from orthoplus.bench.processes import in_process

# Counts of a cell on average; the spread of library sizes; how often a gene of a type is up, by
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


def find_neighbors(adata, is_exact):
    exact = KNeighborsTransformer(n_neighbors=N_NEIGHBORS) if is_exact else None
    scanpy.pp.neighbors(adata, transformer=exact)


def run_onmf(adata, n_types, **options):
    found = timed(lambda: op.singlecell.onmf(adata, n_types, **options))
    return adata.obs["onmf"].cat.codes, {"fit": found.cpu}


def run_scanpy(adata, n_types, is_exact):
    """Cluster as scanpy's tutorial does; it finds the number of clusters by itself."""
    steps = {
        "PCA": lambda: scanpy.pp.pca(adata, n_comps=N_COMPONENTS),
        "neighbors": lambda: find_neighbors(adata, is_exact),
        "Leiden": lambda: scanpy.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False),
    }
    spent = {name: timed(step).cpu for name, step in steps.items()}
    return adata.obs["leiden"], spent


# The matrix, the function and its options.
METHODS = {
    "orthoplus, log1p": ("log1p", run_onmf, {}),
    "orthoplus, counts, KL": ("counts", run_onmf, {"loss": "kullback-leibler"}),
    "scanpy, approximate neighbors": ("log1p", run_scanpy, {"is_exact": False}),
    "scanpy, exact neighbors": ("log1p", run_scanpy, {"is_exact": True}),
}


def measure(method, folder, n_types):
    """Run a method on the stored matrix; memory is the peak beyond the loaded matrix."""
    warnings.simplefilter("ignore")
    name, run, options = METHODS[method]
    X = sp.load_npz(folder / f"{name}.npz")
    adata, small = anndata.AnnData(X), anndata.AnnData(X[:500])
    try:
        run(small, 3, **options)
        before = resident_bytes()
        labels, steps = run(adata, n_types, **options)
    except Exception as error:  # neighbors that scanpy cannot read
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "memory": peak_bytes() - before,
        "rand": adjusted_rand_score(np.load(folder / "types.npy"), labels),
        "clusters": len(set(labels)),
        "steps": steps,
    }


def show(method, figures):
    if "error" in figures:
        print(f"{method:34s} {figures['error']}", flush=True)
        return
    steps = figures["steps"]
    parts = ", ".join(f"{name} {cpu:.1f}" for name, cpu in steps.items())
    print(
        f"{method:34s} {sum(steps.values()):7.1f} CPU s {figures['memory'] / 1e6:7.0f} MB "
        f"{figures['clusters']:3d} clusters  adjusted Rand index {figures['rand']:.4f}  ({parts})",
        flush=True,
    )


def main(n_cells=50_000, n_genes=2_000, n_types=12):
    warnings.simplefilter("ignore")
    counts, types = simulate(n_cells, n_genes, n_types)
    adata = anndata.AnnData(counts.copy())
    scanpy.pp.normalize_total(adata)
    scanpy.pp.log1p(adata)
    size = (counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes) / 1e6
    print(f"{n_cells} cells, {n_genes} genes, {n_types} types, {counts.nnz / n_cells:.0f} genes "
          f"per cell are not 0; the matrix has {size:.0f} MB")  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sp.save_npz(folder / "counts.npz", counts, compressed=False)
        sp.save_npz(folder / "log1p.npz", adata.X, compressed=False)
        np.save(folder / "types.npy", types)
        for method in METHODS:
            show(method, in_process(measure, method, folder, n_types))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
