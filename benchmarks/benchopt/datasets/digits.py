"""The handwritten digits that come with scikit-learn."""

from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    """1797 images of 64 pixels."""

    name = "digits"
    requirements = ["pip::scikit-learn"]

    def get_data(self):
        images, labels = load_digits(return_X_y=True)
        return {"A": images, "n_components": 10, "labels": labels}
