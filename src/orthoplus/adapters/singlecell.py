"""Orthogonal NMF of single cells; results are stored in an AnnData object, as in scanpy."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np

from orthoplus.core.checks import check_type, describe
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, MemoryMatrix, as_data
from orthoplus.data.count_entries import count_facts
from orthoplus.estimators import OrthogonalNMF
from orthoplus.model_selection import select_rank
from orthoplus.model_selection.rank_selection import RankSelection
from orthoplus.model_selection.rank_tasks import RankProgress

# The column of ``adata.var`` in which scanpy marks highly variable genes.
HIGHLY_VARIABLE = "highly_variable"


def onmf(
    adata: Any,
    n_components: int,
    *,
    layer: str | None = None,
    mask_var: str | None = HIGHLY_VARIABLE,
    key_added: str = "onmf",
    copy: bool = False,
    **options: Any,
) -> Any:
    """Cluster the cells of an AnnData object by orthogonal NMF.

    Parameters
    ----------
    adata : AnnData
        Cells by genes, nonnegative; dense or sparse, in memory or backed. A backed matrix is read
        in blocks of rows.
    n_components : int
        The number of clusters.
    layer : str, optional
        The layer to use instead of ``adata.X``.
    mask_var : str, optional
        Boolean column of ``adata.var`` that selects the genes; None for all. The default is the
        column of ``scanpy.pp.highly_variable_genes``, or all genes if it does not exist.
    key_added : str
        Name under which the results are stored.
    copy : bool
        Whether to return a copy with the results instead of modifying ``adata``.
    **options
        Parameters of `orthoplus.OrthogonalNMF`, such as ``loss="kullback-leibler"`` for raw
        counts, ``random_state`` or ``memory_limit``.

    Returns
    -------
    AnnData or None
        The copy, or None. The results are:

        ``.obs[key_added]``
            The cluster of each cell, categorical; missing for a cell without counts.
        ``.obs[key_added + "_margin"]``
            How much better the component of the cell fits than the second best: the difference of
            the cosines, or of the log-likelihoods per count.
        ``.obsm["X_" + key_added]``
            The coefficients, one row per cell.
        ``.varm[key_added]``
            The components, genes by clusters; zeros for genes that were not used.
        ``.uns[key_added]``
            ``params``, the share ``explained``, how the run ended (``message``), and ``notes``
            with suggestions if the data look like raw counts.

    Examples
    --------
    >>> import anndata  # doctest: +SKIP
    >>> adata = anndata.AnnData(np.array([[3.0, 0], [5.0, 0], [0, 2.0]]))  # doctest: +SKIP
    >>> onmf(adata, 2)  # doctest: +SKIP
    >>> adata.obs["onmf"].tolist()  # doctest: +SKIP
    ['0', '0', '1']
    """
    check_anndata(adata)
    check_type(key_added, "key_added", str)
    if copy:
        adata = _copied(adata)
    elif adata.isbacked and adata.is_view:
        raise InputError(
            "`adata` is a view of a backed AnnData object, in which no results can be stored. Load "
            "it with `adata.to_memory()`, or pass the whole object."
        )
    A, genes = _read_cells(adata, layer, mask_var, options.get("memory_limit"))
    model = OrthogonalNMF(n_components, **options).fit(A)
    params = {"n_components": n_components, "layer": layer, **options}
    params["mask_var"] = None if genes is None else mask_var
    _write(adata, key_added, model, A, genes)
    adata.uns[key_added] = {
        "params": {name: _plain(value) for name, value in params.items() if value is not None},
        "explained": float(model.score(A)),
        "message": model.result_.message,
        "notes": np.array(_notes(A, model), dtype=object),
    }
    return adata if copy else None


def rank(
    adata: Any,
    ranks: Iterable[int],
    *,
    layer: str | None = None,
    mask_var: str | None = HIGHLY_VARIABLE,
    progress: bool = True,
    **options: Any,
) -> RankSelection:
    """Recommend the number of clusters of the cells, and give the reasons.

    Parameters
    ----------
    adata : AnnData
        As in `onmf`.
    ranks : iterable of int
        The numbers of clusters to try, such as ``range(2, 21)``.
    layer, mask_var : str, optional
        As in `onmf`.
    progress : bool
        Whether to show a progress bar, with tqdm.
    **options
        Parameters of `orthoplus.select_rank`, such as ``loss`` or ``n_jobs``.

    Returns
    -------
    RankSelection
        ``.k`` is the recommendation; ``print`` shows the table, ``.plot()`` draws it.

    Examples
    --------
    >>> import anndata  # doctest: +SKIP
    >>> rng = np.random.default_rng(0)  # doctest: +SKIP
    >>> rates = 5 * rng.random((3, 40))[np.arange(60) % 3]  # doctest: +SKIP
    >>> adata = anndata.AnnData(rng.poisson(rates).astype("float32"))  # doctest: +SKIP
    >>> rank(adata, range(2, 6), loss="kullback-leibler", progress=False).k  # doctest: +SKIP
    3
    """
    check_anndata(adata)
    A, _ = _read_cells(adata, layer, mask_var, None)
    with _progress_bar(options.pop("callback", None), progress) as callback:
        return select_rank(A, ranks, callback=callback, **options)


def check_anndata(adata: Any) -> None:
    """Raise an error unless ``adata`` is an AnnData object.

    Examples
    --------
    >>> check_anndata("cells.h5ad")
    Traceback (most recent call last):
        ...
    orthoplus.InputTypeError: `adata` has type str; an AnnData object is expected. ...
    """
    is_mudata = any(kind.__name__ == "MuData" for kind in type(adata).__mro__)
    names = ("X", "obs", "var", "obsm", "varm", "uns")  # a MuData object has these, too
    if is_mudata or not all(hasattr(adata, name) for name in names):
        advice = "For a matrix use `orthoplus.OrthogonalNMF(n_components).fit(X)`"
        if isinstance(adata, (str, PathLike)):
            advice = "Read the file first, `anndata.read_h5ad(adata)`"
        elif is_mudata:
            advice = 'Pass one modality, such as `adata["rna"]`'
        raise InputTypeError(
            f"`adata` has type {type(adata).__name__}; an AnnData object is expected. {advice}."
        )


def _copied(adata: Any) -> Any:
    if adata.isbacked:
        raise InputError(
            "`copy=True` would load a backed AnnData object into memory. Omit it, since only the "
            "results are written, or load the object with `adata.to_memory()` first."
        )
    return adata.copy()


def _read_cells(
    adata: Any, layer: str | None, mask_var: str | None, memory_limit: int | str | None
) -> tuple[DataMatrix, IntArray | None]:
    """Return the matrix of the cells, and the selected genes or None for all."""
    if layer is not None and not (isinstance(layer, str) and layer in adata.layers):
        known = ", ".join(map(repr, adata.layers)) or "none"
        raise InputError(f"`layer={describe(layer)}` is not in `adata.layers`, which has {known}.")
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise InputError("`adata.X` is None; pass the `layer` that has the data.")
    # The entries, including their signs and missing values, are checked by the estimator.
    A = as_data(X, "adata.X", memory_limit=memory_limit, check=False)
    if mask_var is not None:
        check_type(mask_var, "mask_var", str)
    if mask_var is None or (mask_var == HIGHLY_VARIABLE and mask_var not in adata.var):
        return A, None
    if mask_var not in adata.var:
        raise InputError(f"`mask_var={mask_var!r}` is not a column of `adata.var`.")
    if not adata.var[mask_var].isin([True, False]).all():
        raise InputError(
            f"`adata.var[{mask_var!r}]` has entries other than True and False. Pass a `mask_var` "
            f"of Booleans without missing values."
        )
    genes = np.flatnonzero(adata.var[mask_var].to_numpy(dtype=bool))
    if not len(genes):
        raise InputError(
            f"`adata.var[{mask_var!r}]` selects no gene. Pass `mask_var=None` for all."
        )
    return A.derive(_take_columns, args=(genes,), width=len(genes)), genes


def _take_columns(block: MemoryMatrix, columns: IntArray) -> DataMatrix:
    return as_data(block.entries()[:, columns], check=False)


def _write(
    adata: Any, key: str, model: OrthogonalNMF, A: DataMatrix, genes: IntArray | None
) -> None:
    """Store labels, margins, coefficients and components in ``adata``."""
    pandas = require("pandas", "AnnData", extra="singlecell")
    labels, H = np.asarray(model.labels_), model.components_
    names = [str(j) for j in range(len(H))]
    adata.obs[key] = pandas.Categorical.from_codes(labels, categories=names)
    adata.obs[f"{key}_margin"] = model.row_fits(A).margins
    adata.obsm[f"X_{key}"] = np.asarray(model.transform(A))
    components: FloatArray = np.zeros((adata.n_vars, len(H)), dtype=H.dtype)
    components[slice(None) if genes is None else genes] = H.T
    adata.varm[key] = components


def _notes(A: DataMatrix, model: OrthogonalNMF) -> list[str]:
    """Suggest another loss or logarithms for raw counts; else return the notes of the fit."""
    facts = count_facts(A)
    if not facts.are_counts:
        return list(model.result_.notes)
    if model.loss == "kullback-leibler":
        return []
    return [
        f"The data look like raw counts (integers; the variance of the genes is "
        f'{facts.dispersion:.1f} times their mean). Pass `loss="kullback-leibler"`, which is '
        f"designed for counts, or call `scanpy.pp.normalize_total` and `scanpy.pp.log1p` first."
    ]


def _plain(value: Any) -> Any:
    """Convert a parameter to a value that AnnData files can store."""
    return value if isinstance(value, (str, bool, int, float)) else str(value)


@contextmanager
def _progress_bar(
    callback: Callable[[RankProgress], object] | None, is_shown: bool
) -> Iterator[Callable[[RankProgress], object] | None]:
    """Yield a callback that updates a progress bar, if none is given and tqdm is installed."""
    if callback is not None or not is_shown or find_spec("tqdm") is None:
        yield callback
        return
    with import_module("tqdm.auto").tqdm(desc="fits") as bar:

        def move(progress: RankProgress) -> None:
            bar.total = progress.n_total
            bar.update(progress.n_done - bar.n)

        yield move
