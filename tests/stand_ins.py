"""Create small substitutes for the real data sets, in the same format."""

import numpy as np
from scipy.sparse import csr_array


def documents(rng, n, r, k):
    """Counts of k topics, as CSR parts with small index types."""
    labels = np.sort(np.concatenate([np.arange(k), rng.integers(k, size=n - k)]))
    topics = rng.random((k, r)) ** 4
    A = csr_array(rng.poisson(3.0 * topics[labels]).astype(np.uint8) + np.eye(n, r, dtype=np.uint8))
    return {
        "data": A.data,
        "indices": A.indices.astype(np.uint16),
        "indptr": A.indptr,
        "shape": np.array(A.shape),
        "labels": labels + 1,
    }


def scene(rng, height, width, bands, k):
    labels = rng.integers(k, size=height * width)
    spectra = rng.random((k, bands))
    abundances = np.eye(k)[labels]
    pixels = 1000.0 * abundances @ spectra + rng.random((height * width, bands))
    return {
        "A": pixels.astype(np.uint16),
        "endmembers": spectra,
        "abundances": abundances,
        "image_shape": np.array((height, width)),
        "scale": np.array(1000.0),
        "endmember_names": np.array([f"material {j}" for j in range(k)]),
    }


def write_sets(folder, rng):
    """The sets of a quick run of the tables."""
    folder.mkdir()
    np.savez(folder / "T-l10.npz", **documents(rng, 40, 60, 4))
    labels = np.repeat(np.arange(4), 6)
    images = rng.integers(50, size=(24, 30)) + 100 * (np.arange(30) % 4 == labels[:, None])
    np.savez(folder / "Yale.npz", A=images.astype(np.uint8), labels=labels + 1)
    np.savez(folder / "Samson.npz", **scene(rng, 6, 5, 12, 3))
