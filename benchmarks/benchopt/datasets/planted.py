"""A planted factorization with noise."""

import numpy as np
from benchopt import BaseDataset

from orthoplus.datasets import planted_onmf


class Dataset(BaseDataset):
    """The synthetic data of section 6.2.1 of the paper."""

    name = "planted"
    parameters = {"n, r, k": [(1000, 3000, 10)], "xi": [0.1, 1.0, 10.0]}
    test_parameters = {"n, r, k": [(60, 40, 3)], "xi": [1.0]}
    requirements = ["pip::orthoplus"]

    def get_data(self):
        rng = np.random.default_rng(self.get_seed())
        planted = planted_onmf(self.n, self.r, self.k, self.xi, rng)
        return {"A": planted.A, "n_components": self.k, "labels": planted.labels}
