"""Check the options of ``orthoplus cluster`` before it runs; errors name them as typed."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, issparse

from orthoplus.cli.modeling import SPLITS, ModelOptions, choose
from orthoplus.core.errors import FileError, InputError
from orthoplus.io import Content

if TYPE_CHECKING:
    from orthoplus.cli.cluster import Job


def check_split(ranks: range, given: dict[str, Any]) -> None:
    """Raise `InputError` if ``--split`` is unknown or conflicts with other options."""
    split = choose(given.get("split"), "--split", SPLITS)
    if split is not None and len(ranks) == 1:
        raise InputError(
            f"`--split {split}` applies only if k is chosen from a range such as `-k 2-12`; omit "
            f"it for a single k."
        )
    if split == "columns" and ModelOptions.of(given).loss != "frobenius":
        raise InputError("`--split columns` requires `--loss frobenius`; omit one of them.")


def check_ranks(ranks: range, n: int, given: dict[str, Any], path: Path) -> None:
    """Raise `InputError` if there are fewer rows than clusters, also in each half of them."""
    if ranks[-1] > n:
        raise InputError(
            f"`-k {given['components']}` exceeds the {n} rows of `{path}`; use at most {n}."
        )
    if len(ranks) > 1 and given.get("split") != "columns" and ranks[-1] > n // 2:
        raise InputError(
            f"`-k {given['components']}` is too large for the {n} rows of `{path}`: k is chosen by "
            f"comparing two halves of {n // 2} rows. End the range at {n // 2} or below."
        )


def check_resume(ranks: range, given: dict[str, Any]) -> None:
    """Raise `InputError` if a checkpoint belongs to another phase: before or after choosing k."""
    from orthoplus.model_selection.rank_file import is_rank_file

    path = given["resume"]
    if path is None or not path.is_file() or is_rank_file(path) == (len(ranks) > 1):
        return
    if len(ranks) > 1:
        raise InputError(
            f"`--resume {path}` belongs to a run with a single k; pass that number instead of "
            f"`-k {given['components']}`."
        )
    raise InputError(
        f"`--resume {path}` was written while choosing k; pass the same range, such as `-k 2-12`."
    )


def check_write_back(path: Path, given: dict[str, Any], content: Content) -> None:
    """Raise `InputError` early if the results could not be added to the file."""
    from orthoplus.io.write_anndata import check_anndata

    if given["transpose"]:
        raise InputError(
            "`--write-back` cannot be combined with `--transpose`, which clusters the genes."
        )
    if (given["key"] or "").startswith("raw/"):
        raise InputError(
            f"`--write-back` cannot be combined with `{given['key']}`, whose genes are not those "
            f"of `varm`. Cluster `X` or a layer, or omit `--write-back`."
        )
    check_anndata(path, content.values.shape)


def is_masked(job: "Job") -> bool:
    """Return whether missing cells are left out of the fit."""
    values = job.content.values
    is_asked = job.options.get("missing") == "mask" and not issparse(values)
    return is_asked and bool(np.isnan(values).any())


def check_masked(job: "Job", chosen: ModelOptions) -> None:
    """Raise `InputError` if missing values conflict with other options."""
    if job.options["prove"] is not None:
        raise InputError(
            "`--prove` cannot be combined with `--missing mask`: no bound is known for data with "
            "missing values."
        )
    if chosen.weighting is not None:
        raise InputError(
            f"`--weighting {chosen.weighting}` cannot be combined with `--missing mask`; omit one "
            f"of them, or impute the missing values."
        )
    if chosen.loss != "frobenius":
        raise InputError(
            "`--loss kl` cannot be combined with `--missing mask`; omit one of them, or impute the "
            "missing values."
        )


def explain_entries(path: Path, content: Content, *, any_sign: bool = False) -> None:
    """Raise `FileError` that names the first entry that is negative, NaN or infinite, if any."""
    entries = coo_array(content.values)
    bad = np.flatnonzero(~((entries.data >= 0) | any_sign) | ~np.isfinite(entries.data))
    if not bad.size:
        return
    order = np.lexsort((entries.col[bad], entries.row[bad]))
    row, column = int(entries.row[bad][order[0]]), int(entries.col[bad][order[0]])
    rows, columns = content.row_names, content.column_names
    place = (
        f"row {row + 1 if rows is None else rows[row]!r}, column "
        f"{column + 1 if columns is None else columns[column]!r}"
        if content.places is None
        else content.places.of(row, column)
    )
    value = entries.data[bad][order[0]]
    what, needed = ("", "finite") if any_sign else ("negative, ", "finite and nonnegative")
    hint = ""
    if value < 0 and content.places is not None:
        hint = f" If {value:g} stands for a missing value, pass --na={value:g} --missing mask."
    elif np.isnan(value) and not (any_sign or issparse(content.values)):
        hint = " Or pass --missing mask to ignore missing values."
    raise FileError(
        f"`{path}` has {len(bad)} entries that are {what}NaN or infinite, the first at {place} "
        f"({value:g}); all entries must be {needed}. Shift, clip or impute them first."
        f"{hint}"
    )
