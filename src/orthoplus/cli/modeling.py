"""Choose the model of ``orthoplus cluster``: the loss, the word weighting, the scaling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array, issparse

from orthoplus.cli.options import CLUSTER_METHODS
from orthoplus.core.errors import InputError
from orthoplus.data import as_data
from orthoplus.data.count_entries import count_facts

LOSSES = {
    "frobenius": "frobenius",
    "kl": "kullback-leibler",
    "kullback-leibler": "kullback-leibler",
}
WEIGHTINGS: dict[str, str | None] = {"none": None, "tfidf": "tfidf"}
ROW_SCALES: dict[str, str | None] = {"none": None, "l1": "l1", "l2": "l2"}
SPLITS = {"rows": "rows", "columns": "columns"}
COLUMN_SCALES: dict[str, str | None] = {"none": None, "std": "std", "max": "max"}


@dataclass(frozen=True)
class ModelOptions:
    """The options of the model, under the names of the estimator's parameters."""

    loss: str = "frobenius"
    weighting: str | None = None
    row_scale: str | None = None
    column_scale: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "ModelOptions":
        """Select and check the options of the model among all options of a command."""
        chosen = cls(
            loss=choose(given.get("loss"), "--loss", LOSSES) or "frobenius",
            weighting=choose(given.get("weighting"), "--weighting", WEIGHTINGS),
            row_scale=choose(given.get("scale_rows"), "--scale-rows", ROW_SCALES),
            column_scale=choose(given.get("scale_columns"), "--scale-columns", COLUMN_SCALES),
        )
        choose(given.get("method"), "--method", dict.fromkeys(CLUSTER_METHODS))
        if chosen.loss != "frobenius":
            if given.get("prove") is not None:
                raise InputError(
                    "`--prove` requires `--loss frobenius`: no bound is known for `--loss kl`."
                )
            if given.get("tol") is not None:
                raise InputError("`--tol` requires `--loss frobenius` and `--method ep4orth`.")
            if given.get("method") not in (None, "auto"):
                raise InputError(f"`--method {given['method']}` requires `--loss frobenius`.")
        return chosen

    @property
    def for_estimator(self) -> dict[str, Any]:
        """Return the parameters of `OrthogonalNMF`."""
        return {
            "loss": self.loss,
            "row_scale": self.row_scale,
            "column_scale": self.column_scale,
        }

    def problem(self, values: Any, k: int) -> Any:
        """Return the problem that the estimator will solve for these data."""
        from orthoplus.data import as_nonnegative_data
        from orthoplus.estimators.factorize import Model
        from orthoplus.estimators.scaling import fit_scaling

        A = as_nonnegative_data(as_data(values))
        scaling = fit_scaling(A, None, self.row_scale, self.column_scale)
        return Model(k, loss=self.loss).problem(scaling.samples(scaling.features(A)))

    def notes(self, values: Any) -> list[str]:
        """Return remarks on the units of the results, and suggestions."""
        found = []
        if self.weighting is not None:
            found.append(
                "The entries were weighted by tf-idf, as in scikit-learn's TfidfTransformer; the "
                "components are in these units."
            )
        elif self.loss == "frobenius" and count_facts(as_data(values, check=False)).are_counts:
            found.append(
                "The entries are integers and mostly 0, like word counts; `--loss kl` is designed "
                "for counts and often finds better clusters."
            )
        return found


def choose(given: Any, name: str, known: Mapping[str, Any]) -> Any:
    """Return the value that a word given for an option stands for; None if it is not given."""
    if given is None:
        return None
    if given not in known:
        raise InputError(f"`{name} {given}` is unknown; choose one of {', '.join(known)}.")
    return known[given]


def weigh_words(values: Any, weighting: str | None) -> Any:
    """Weight counts by tf-idf and scale the rows to unit norm; sparse input stays sparse.

    Examples
    --------
    >>> import numpy as np
    >>> weigh_words(np.array([[2.0, 0.0], [0.0, 5.0]]), "tfidf")
    array([[1., 0.],
           [0., 1.]])
    """
    if weighting is None:
        return values
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = csr_array(TfidfTransformer().fit_transform(csr_array(values)))
    return weighted if issparse(values) else weighted.toarray().astype(values.dtype)
