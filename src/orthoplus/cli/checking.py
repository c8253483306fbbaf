"""What ``orthoplus cluster`` checks before it runs, with sentences in the terms of the shell."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from orthoplus.cli.modeling import SPLITS, ModelOptions, choose
from orthoplus.core.errors import FileError, InputError
from orthoplus.io import Content


def check_split(ranks: range, given: dict[str, Any]) -> None:
    """Raise a sentence if ``--split`` is unknown, or cannot go with the other options."""
    split = choose(given.get("split"), "--split", SPLITS)
    if split is not None and len(ranks) == 1:
        raise InputError(
            f"`--split {split}` says how to choose k: give a range such as `-k 2-12`, or leave it "
            f"out."
        )
    if split == "columns" and ModelOptions.of(given).loss != "frobenius":
        raise InputError("`--split columns` needs `--loss frobenius`: leave out one of them.")


def check_ranks(ranks: range, n: int, given: dict[str, Any], path: Path) -> None:
    """Raise a sentence if there are fewer rows than clusters, also in each half of them."""
    if ranks[-1] > n:
        raise InputError(
            f"`-k {given['components']}` exceeds the {n} rows of `{path}`: each cluster needs a "
            f"row. Use at most {n}."
        )
    if len(ranks) > 1 and given.get("split") != "columns" and ranks[-1] > n // 2:
        raise InputError(
            f"`-k {given['components']}` is too much for the {n} rows of `{path}`: they are halved "
            f"to choose k, and each half has {n // 2}. End the range at {n // 2}."
        )


def check_resume(ranks: range, given: dict[str, Any]) -> None:
    """Raise a sentence if a checkpoint was written while k was chosen, or after that."""
    from orthoplus.model_selection.rank_file import is_rank_file

    path = given["resume"]
    if path is None or not path.is_file() or is_rank_file(path) == (len(ranks) > 1):
        return
    if len(ranks) > 1:
        raise InputError(
            f"`--resume {path}` is of a run with one number of clusters: give that number instead "
            f"of `-k {given['components']}`."
        )
    raise InputError(
        f"`--resume {path}` was written while k was chosen: give the same range, such as `-k 2-12`."
    )


def check_write_back(path: Path, given: dict[str, Any], content: Content) -> None:
    """Raise a sentence, before the work, if the results could not be added to the file."""
    from orthoplus.io.write_anndata import check_anndata

    if given["transpose"]:
        raise InputError(
            "`--write-back` cannot go with `--transpose`: the clusters would be of genes."
        )
    check_anndata(path, content.values.shape)


def is_masked(job: Any) -> bool:
    """Return whether cells without a value are left out of the fit."""
    return job.options.get("missing") == "mask" and bool(np.isnan(job.content.values).any())


def check_masked(job: Any, chosen: ModelOptions) -> None:
    """Raise a sentence if gaps cannot go with the other options."""
    if job.options["prove"] is not None:
        raise InputError("`--prove` cannot go with `--missing mask`: gaps have no proof.")
    if chosen.weighting is not None:
        raise InputError(
            f"`--weighting {chosen.weighting}` cannot go with `--missing mask`: leave out one of "
            f"them, or fill the gaps in."
        )
    if chosen.loss != "frobenius":
        raise InputError(
            "`--loss kl` cannot go with `--missing mask`: leave out one of them, or fill the gaps "
            "in."
        )


def explain_entries(path: Path, content: Content, *, any_sign: bool = False) -> None:
    """Raise a sentence that names the first entry that is negative, NaN or infinite, if any."""
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
    what, needed = ("", "") if any_sign else ("negative, ", " of at least 0")
    hint = f" If {value:g} stands for a missing value: --na={value:g} --missing mask."
    raise FileError(
        f"`{path}` has {len(bad)} entries that are {what}NaN or infinite, the first at {place} "
        f"({value:g}): finite numbers{needed} are needed. Shift, clip or impute them first."
        f"{hint if value < 0 and content.places is not None else ''}"
    )
