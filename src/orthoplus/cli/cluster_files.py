"""Write the tables of ``orthoplus cluster``: labels and components."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus.cli.writing import write_csv, write_npz
from orthoplus.core.types import FloatArray
from orthoplus.estimators.row_fits import RowFits
from orthoplus.io.content import text_array

if TYPE_CHECKING:
    from orthoplus.cli.cluster import Job
    from orthoplus.estimators import OrthogonalNMF

# Name of the results in an AnnData file.
KEY = "onmf"
# Characters that are stored of names if a few of them are much longer than the others.
_LONGEST_NAME = 200
COLUMNS = ("row", "cluster", "weight", "cosine", "second_best", "margin")


def write_clusters(
    job: "Job", model: "OrthogonalNMF", fits: RowFits, features: Sequence[str]
) -> dict[str, str]:
    """Write ``labels.csv``, ``components.csv`` and ``.npz``; return a description of each.

    Weights are scaled to mean 1 in each cluster. A component is then a typical row, in the units
    of the data, and weight times component is the approximation of a row.
    """
    k, labels = len(model.components_), model.labels_
    names = names_of_rows(job)
    means = mean_weights(fits.weights, labels, k)
    fits = fits._replace(weights=fits.weights / np.where(labels >= 0, means[labels], 1.0))
    components = means[:, None] * model.components_.astype(np.float64)
    is_safe = job.options.get("safe_csv", False)
    label_rows = _label_rows(names, labels, fits)
    write_csv(job.folder / "labels.csv", COLUMNS, label_rows, is_safe=is_safe)
    rows = ([j, *(f"{x:.9g}" for x in row)] for j, row in enumerate(components.tolist()))
    write_csv(job.folder / "components.csv", ("cluster", *features), rows, is_safe=is_safe)
    write_npz(job.folder / "components.npz", components=components, features=_as_array(features))
    return {
        "labels.csv": "per row: cluster, weight (mean 1), cosine, second-best cluster, margin",
        "components.csv, .npz": f"the profile of each cluster, {k} x {components.shape[1]}",
    }


def _as_array(names: Sequence[str]) -> Any:
    """Return names as an array of text for an .npz file.

    Names that are much longer than most others are cut off, because all take the same memory.
    """
    words = text_array(names)
    return words if words.dtype.kind == "U" else words.astype(f"U{_LONGEST_NAME}")


def add_to_anndata(
    job: "Job", model: "OrthogonalNMF", fits: RowFits, record: dict[str, Any]
) -> dict[str, str]:
    """Add the clusters to the ``.h5ad`` file, with the names that `orthoplus.singlecell` uses."""
    from orthoplus.io.write_anndata import Categories, Results, write_back

    labels, k = model.labels_, len(model.components_)
    weights = np.zeros((len(labels), k))
    used = np.flatnonzero(labels >= 0)
    weights[used, labels[used]] = fits.weights[used]
    model_options = {name: value for name, value in record["model"].items() if value is not None}
    params = {"n_components": k, "seed": job.options["seed"], **model_options}
    result = record["result"]
    results = Results(
        obs={
            KEY: Categories(labels.astype(np.int32), [str(j) for j in range(k)]),
            f"{KEY}_margin": fits.margins,
        },
        obsm={f"X_{KEY}": weights},
        varm={KEY: np.ascontiguousarray(model.components_.T)},
        uns={
            KEY: {
                "params": params | ({} if job.key is None else {"matrix": job.key}),
                "explained": float(1 - result["objective"] / (result["total"] or 1.0)),
                "message": result["message"],
                "command": record["command"],
                "version": record["versions"]["orthoplus"],
            }
        },
    )
    write_back(job.path, results)
    words = f"now with obs `{KEY}`, `{KEY}_margin`, obsm `X_{KEY}`, varm and uns `{KEY}`"
    return {job.path.name: words}


def names_of_rows(job: "Job") -> tuple[str, ...]:
    """Return the names of the rows, or their numbers from 0 if the file has no names."""
    return job.content.row_names or tuple(map(str, range(job.content.values.shape[0])))


def mean_weights(weights: FloatArray, labels: Any, k: int) -> FloatArray:
    """Return the mean weight of the rows of each cluster; 1 if it is 0 or the cluster is empty.

    Examples
    --------
    >>> mean_weights(np.array([1.0, 3.0, 0.0]), np.array([0, 0, -1]), 2)
    array([2., 1.])
    """
    used = labels >= 0
    sums = np.bincount(labels[used], weights[used], minlength=k)
    counts = np.bincount(labels[used], minlength=k)
    return np.where(sums > 0, sums / np.maximum(counts, 1), 1.0)


def _label_rows(names: Sequence[str], labels: Any, fits: RowFits) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of ``labels.csv``; unknown values are empty cells."""
    columns = (labels, fits.weights, fits.cosines, fits.second_best, fits.margins)
    for name, *cells in zip(names, *(column.tolist() for column in columns), strict=True):
        yield name, *("" if cell != cell else cell for cell in cells)
