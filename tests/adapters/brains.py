"""Create tiny brain images: four quarters of a ball that vary together over subjects."""

import nibabel
import numpy as np

SHAPE, N_PARCELS, N_SUBJECTS = (8, 9, 5), 4, 14
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])


def make_head(n_subjects=N_SUBJECTS, seed=0):
    """Return the mask, the parcel of each voxel in it from 0, and the matrix in float32."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, m) for m in SHAPE], indexing="ij"), -1)
    brain = (grid**2).sum(axis=-1) < 1.3
    truth = 2 * (grid[brain][:, 0] > 0) + (grid[brain][:, 1] > 0)
    levels = 2.5 + 0.8 * rng.standard_normal((N_PARCELS, n_subjects))
    noise = 0.1 * rng.standard_normal((len(truth), n_subjects))
    return brain, truth, np.maximum(levels[truth] + noise, 0.01).astype(np.float32)


def as_image(brain, columns):
    """Return columns of the matrix, or one of them, as an image."""
    volume = np.zeros((*SHAPE, *columns.shape[1:]), dtype=columns.dtype)
    volume[brain] = columns
    return nibabel.Nifti1Image(volume, AFFINE)


def mask_image(brain):
    """Return the mask as an image."""
    return nibabel.Nifti1Image(brain.astype(np.int8), AFFINE)


def labels_in(image, brain):
    """Return the labels of an image inside the mask."""
    return np.asarray(image.dataobj)[brain].astype(int)
