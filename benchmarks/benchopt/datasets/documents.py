"""Load the paper's text and image data sets from the folder ORTHOPLUS_DATA."""

from benchopt import BaseDataset

from orthoplus.datasets import MissingDataError, load_labelled
from orthoplus.datasets.real import IMAGE_SETS, TEXT_SETS


class Dataset(BaseDataset):
    """Data sets of section 6.2.2 of the paper; `orthoplus data fetch` downloads them."""

    name = "documents"
    parameters = {"set": [*TEXT_SETS, *IMAGE_SETS]}
    requirements = ["pip::orthoplus"]

    def skip(self):
        try:
            load_labelled(self.set)
        except MissingDataError as error:
            return True, str(error)
        return False, None

    def get_data(self):
        data = load_labelled(self.set)
        return {"A": data.A, "n_components": data.n_classes, "labels": data.labels}
