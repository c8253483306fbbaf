"""Parcels of synthetic brains: from image files, from the matrix, and by OPNMF.

Each run is in a separate process. Files hold smooth parcels that vary over subjects, with smooth
noise; the matrix is that of the same voxels.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from orthoplus.bench.measure import peak_bytes, resident_bytes, timed
from orthoplus.bench.onmf_methods import baseline, explained_share
from orthoplus.bench.processes import in_process
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.methods.baselines import OPNMF

# Numbers of voxels, subjects and parcels.
SIZE, QUICK_SIZE = (200_000, 300, 20), (8_000, 40, 8)
NOISE, SMOOTHING = 0.8, 1.0
IMAGES, BLOCKS, MATRIX, OTHER = "images", "images, in blocks", "matrix", "OPNMF"
# Memory limit relative to the size of the matrix, so that it is kept in a file.
BLOCK_SHARE = 0.5


def make_images(folder: Path, n: int, r: int, k: int, seed: int) -> None:
    """Write ``sub-*.nii``, ``mask.nii``, the matrix and the true parcels."""
    nibabel = require("nibabel", "Images of brains", extra="brain")
    rng = np.random.default_rng(seed)
    side = (n * 6 / np.pi) ** (1 / 3)
    shape = tuple(int(np.ceil(1.03 * part * side)) for part in (0.93, 1.09, 0.99))
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, m) for m in shape], indexing="ij"), -1)
    squares = (grid**2).sum(axis=-1)
    brain = squares <= np.partition(squares.ravel(), n - 1)[n - 1]
    truth = _voronoi(grid[brain], k, rng)
    levels = 2.5 + 0.8 * rng.standard_normal((k, r))
    A = np.lib.format.open_memmap(folder / "matrix.npy", "w+", np.float32, (int(brain.sum()), r))
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    for s in range(r):
        volume = np.zeros(shape, dtype=np.float32)
        volume[brain] = levels[truth, s]
        noise = gaussian_filter(rng.standard_normal(shape, dtype=np.float32), SMOOTHING)
        volume = gaussian_filter(volume, SMOOTHING) + NOISE / noise.std() * noise
        volume = np.where(brain, np.maximum(volume, 0.0), 0.0).astype(np.float32)
        A[:, s] = volume[brain]
        nibabel.Nifti1Image(volume, affine).to_filename(folder / f"sub-{s:04d}.nii")
    A.flush()
    nibabel.Nifti1Image(brain.astype(np.uint8), affine).to_filename(folder / "mask.nii")
    np.save(folder / "truth.npy", truth)


def _voronoi(places: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """Return k compact regions of similar size, by Lloyd's iterations on a sample."""
    sample = places[rng.choice(len(places), min(4000, len(places)), replace=False)]
    seeds = sample[:k].copy()
    for _ in range(20):
        owner = _nearest(sample, seeds)
        seeds = np.array([sample[owner == j].mean(axis=0) for j in range(k)])
    return _nearest(places, seeds)


def _nearest(places: FloatArray, seeds: FloatArray) -> IntArray:
    distances = (seeds**2).sum(axis=1) - 2.0 * places @ seeds.T
    return np.asarray(distances.argmin(axis=1))


def run_images(folder: Path, k: int, seed: int, limit: float, share: float = 0.0) -> dict[str, Any]:
    """Fit a `Parcellation` to the files, with a memory limit relative to the matrix if given."""
    from orthoplus.adapters.brain import Parcellation

    size = (folder / "matrix.npy").stat().st_size
    model = Parcellation(
        k, mask=str(folder / "mask.nii"), random_state=seed, memory_limit=int(share * size) or "1TB"
    )
    files = sorted(map(str, folder.glob("sub-*.nii")))
    read = timed(lambda: model.read(files))
    found = timed(lambda: model.fit(read.value))
    labels = model.estimator_.labels_
    same = float((np.load(folder / "labels.npy") == labels).mean())
    return _figures(folder, labels, found) | {"read": read.cpu, "same": same}


def run_blocks(folder: Path, k: int, seed: int, limit: float) -> dict[str, Any]:
    """Fit a `Parcellation` within half of the size of the matrix."""
    return run_images(folder, k, seed, limit, BLOCK_SHARE)


def run_matrix(folder: Path, k: int, seed: int, limit: float) -> dict[str, Any]:
    """Fit `OrthogonalNMF` to the matrix of the same voxels."""
    from orthoplus.estimators import OrthogonalNMF

    read = timed(lambda: np.load(folder / "matrix.npy"))
    found = timed(lambda: OrthogonalNMF(k, random_state=seed).fit(read.value))
    np.save(folder / "labels.npy", found.value.labels_)
    figures = _figures(folder, found.value.labels_, found) | {"read": read.cpu}
    return figures | {"share": explained_share(read.value, k, found.value.orthonormal_)}


def run_opnmf(folder: Path, k: int, seed: int, limit: float) -> dict[str, Any]:
    """Run OPNMF on the matrix within the limit of CPU seconds."""
    read = timed(lambda: np.load(folder / "matrix.npy"))
    found = timed(lambda: baseline(OPNMF)(read.value, k, seed, limit))
    answer = found.value
    figures = _figures(folder, answer.labels, found) | {"read": read.cpu, "steps": answer.n_iter}
    figures = figures | {"share": explained_share(read.value, k, answer.X)}
    note = f"cut off after {limit:g} s" if answer.is_cut else ""
    return figures | {"note": note}


def _figures(folder: Path, labels: IntArray, found: Any) -> dict[str, Any]:
    from sklearn.metrics import adjusted_rand_score

    peak = peak_bytes()
    rand = adjusted_rand_score(np.load(folder / "truth.npy"), labels)
    return {"cpu": found.cpu, "peak": peak, "rand": rand}


RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    MATRIX: run_matrix,
    IMAGES: run_images,
    BLOCKS: run_blocks,
    OTHER: run_opnmf,
}


def measure(method: str, folder: Path, k: int, seed: int, limit: float) -> Figures:
    """Run a method on the files; memory is the peak divided by the size of the matrix."""
    with tempfile.TemporaryDirectory() as small:  # compile and import before memory is measured
        make_images(Path(small), 500, 8, 3, 0)
        for name in dict.fromkeys((MATRIX, method)):
            RUNS[name](Path(small), 3, 0, 0.1)
    before = resident_bytes()
    figures = RUNS[method](folder, k, seed, limit)
    size = (folder / "matrix.npy").stat().st_size
    return figures | {"memory": (figures.pop("peak") - before) / size}


def tasks(session: Session) -> Items:
    """Yield all methods on the same files, the matrix first, because it provides the labels."""
    n, r, k = session.pick(SIZE, QUICK_SIZE)
    with tempfile.TemporaryDirectory() as name:
        make_images(Path(name), n, r, k, session.seed)
        for method in RUNS:
            words = (measure, method, Path(name), k, session.seed, session.seconds)
            yield one_row(f"{n} voxels x {r} subjects, k = {k}", method, in_process, *words)


def judge(rows: Rows) -> list[str]:
    """Report whether the parcels agree, and compare seconds and memory with OPNMF."""
    lines = []
    for methods in rows.by_case().values():
        if not set(RUNS) <= set(methods):
            continue
        same = min(methods[name].number("same") for name in (IMAGES, BLOCKS))
        ours, theirs = methods[IMAGES], methods[OTHER]
        lines.append(
            f"{same:.2%} of the voxels have the same parcel from images as from the matrix."
        )
        lines.append(
            f"From images: {ours.number('read'):.1f} s to read and {ours.number('cpu'):.1f} s to "
            f"fit, adjusted Rand index {ours.number('rand'):.3f}; OPNMF: "
            f"{theirs.number('cpu'):.1f} s{', ' + theirs.note if theirs.note else ''}, "
            f"{theirs.number('rand'):.3f}. Peak memory {ours.number('memory'):.2f} and "
            f"{theirs.number('memory'):.2f} times the matrix, "
            f"{methods[BLOCKS].number('memory'):.2f} in blocks."
        )
    return lines


TABLE = Table(
    about="Smooth parcels with smooth noise in float32, one file per subject; each run is in a "
    "separate process. OPNMF gets the matrix.",
    columns=(
        Column("read", "read s", ".1f", "", "processor seconds to read files, through the masker"),
        Column("cpu", "CPU s", ".1f", "least"),
        Column("memory", "memory", ".2f", "", "peak, including the matrix, divided by its size"),
        Column("rand", "Rand", ".3f", "most", "adjusted Rand index with the planted parcels"),
        Column("same", "same", ".2%", "", "voxels with the same parcel as from the matrix"),
        Column("share", "share", ".5f", "most", "share of the sum of squares that is explained"),
        Column("steps", "steps", ".0f", "", "iterations of OPNMF"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="8000 voxels, 40 subjects, 8 parcels",
)
