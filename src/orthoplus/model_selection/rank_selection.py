"""Selection of the number of clusters by stability, held-out prediction and the knee."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orthoplus.certify.api import certify
from orthoplus.core.checks import check_choice, check_count, check_positive, describe
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_data, as_nonnegative_data
from orthoplus.model_selection.column_halves import check_groups
from orthoplus.model_selection.rank_choice import RankRow, choose, standard_error
from orthoplus.model_selection.rank_file import Arrays
from orthoplus.model_selection.rank_tasks import RankProgress, Report, run_tasks
from orthoplus.model_selection.rank_work import CRITERIA, FULL, Work
from orthoplus.problems import ONMF

_ADVICE = (
    "Shift or clip the data, or set `allow_negative=True` if only the orthogonal factor must be "
    "nonnegative."
)
# Seconds for the proof at each rank.
_PROOF_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class RankSelection:
    """Result of `select_rank`; ``print`` shows the table and the reasons.

    Attributes
    ----------
    k : int
        The recommended rank.
    reasons : tuple of str
        The reasons: the result of each of the three criteria, and warnings.
    rows : tuple of RankRow
        One row per rank; ``pandas.DataFrame(result.rows)`` gives a table.
    labels : ndarray of shape (n,)
        The clusters of the rows at rank k; -1 for a row of zeros.
    named : dict
        The rank chosen by each criterion, "held-out", "stability" and "knee", or None.
    split : str
        Whether "rows" or "columns" were halved.

    Examples
    --------
    >>> RankSelection(3, ("all agree",), (), np.zeros(4, dtype=int), {"knee": 3}).k
    3
    """

    k: int
    reasons: tuple[str, ...]
    rows: tuple[RankRow, ...] = field(repr=False)
    labels: IntArray = field(repr=False)
    named: dict[str, int | None] = field(repr=False)
    split: str = "rows"

    def plot(self) -> Any:
        """Draw the three criteria over k as a Matplotlib figure.

        ``savefig`` writes it to a file.
        """
        from orthoplus.model_selection.rank_plot import draw_ranks

        return draw_ranks(self.rows, self.k, self.named, self.split)

    def __str__(self) -> str:
        heading = "cosine           " if self.rows and self.rows[0].cosine is not None else ""
        lines = [f"    k  stability        {heading}held-out          unexplained"]
        for row in self.rows:
            # The cosine and the bound are known only for some selections.
            cosine = "" if row.cosine is None else f"{row.cosine:.3f} +- {row.cosine_se:.3f}  "
            bound = "" if row.bound is None else f", at least {row.bound:.4f}"
            lines.append(
                f"{'>' if row.k == self.k else ' '}{row.k:4d}  {row.stability:.3f} +- "
                f"{row.stability_se:.3f}  {cosine}{row.heldout:.4f} +- "
                f"{row.heldout_se:.4f}  {row.unexplained:.4f}{bound}"
            )
        return "\n".join([*lines, *self.reasons])


def select_rank(  # noqa: PLR0913
    X: Any,
    ranks: Iterable[int],
    *,
    n_splits: int = 5,
    n_init: int = 2,
    loss: str = "frobenius",
    split: str = "rows",
    groups: Any = None,
    allow_negative: bool = False,
    n_jobs: int | None = None,
    random_state: int = 0,
    with_proof: bool | float = False,
    resume: str | os.PathLike[str] | None = None,
    callback: Callable[[RankProgress], object] | None = None,
) -> RankSelection:
    r"""Recommend the number of clusters of the rows of X, with reasons.

    The rank chosen by most of three criteria is recommended, or the middle one if all differ:

    - *held-out*: fit a random half of the rows, hide a fifth of the features of the other half,
      assign these rows by the rest, and predict the hidden entries; each fifth in turn. Choose the
      smallest k within one standard error of the smallest error. Scoring the features that were
      used to assign a row would favor every larger k; hiding them does not.
    - *stability*: fit two random halves of the rows, extend both to all rows by the largest cosine,
      and compute the adjusted Rand index of the two labelings, without rows of zeros. Choose the
      largest k within one standard error of the best.
    - *knee*: choose the k where the error of the fit of all rows stops decreasing fast.

    With ``split="columns"`` both halves have all rows and half of the columns: *stability* compares
    their labels (and ``cosine`` in the table their weights, matched one to one), and *held-out*
    hides a fifth of the rows, estimates the entries of the components in a column of the other half
    from the rest, and predicts the hidden entries.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (n, r)
        As for `OrthogonalNMF`.
    ranks : iterable of int
        The ranks to try, such as ``range(2, 21)``; at most half the number of rows.
    n_splits : int
        Number of random halvings, at least two because of the standard errors.
    n_init : int
        Number of searches per fit, the first from the previous rank.
    loss : {"frobenius", "kullback-leibler"}
        As in `OrthogonalNMF`. For counts, errors are divergences relative to that of the
        independence model, and hidden counts are predicted by profiles mixed with a tenth of the
        overall profile.
    split : {"rows", "columns"}
        Whether to halve rows or columns. "rows" tests whether other rows would give the same
        clusters, for rows that are a sample, such as documents, cells or customers. "columns" tests
        whether other columns would give the same clusters of the rows, for columns that are a
        sample, such as subjects or days, and fixed rows, such as voxels or stations. It needs the
        Frobenius loss.
    groups : array of shape (r,), optional
        Groups of columns for ``split="columns"``, such as the time points of a subject, which stay
        in one half. At least four groups are needed.
    allow_negative : bool
        As in `OrthogonalNMF`.
    n_jobs : int, optional
        Number of processes, as in joblib; the splits and the fit of all rows are independent.
    random_state : int
        Seed of all random numbers; the same seed gives the same result.
    with_proof : bool or float
        Whether to bound the unexplained share at each rank by `orthoplus.certify`. A number gives
        the seconds per rank; True means 10. The rows of the table then have a ``bound`` and a
        ``gap``.
    resume : path, optional
        File for finished splits, written after each split. If it exists, only the remaining ones
        are computed, with the same result.
    callback : callable, optional
        Called as ``callback(progress)`` after each fit, or after each split if ``n_jobs`` is above
        one; ``progress.n_done`` of ``progress.n_total`` fits are done.

    Returns
    -------
    RankSelection

    Notes
    -----
    Each fit starts from that of the previous rank. Data with many columns are searched in the
    coordinates of their leading singular vectors, computed once for all ranks. See Owen and Perry,
    Ann. Appl. Stat. 3 (2009), on held-out rows and columns, and Lange et al., Neural Comput. 16
    (2004), on stability.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((3, 20))[np.arange(60) % 3] + 0.1 * rng.random((60, 20))
    >>> select_rank(X, range(2, 7)).k
    3
    """
    _check_loss(loss, split, allow_negative, with_proof)
    A = as_data(X, "X") if allow_negative else as_nonnegative_data(X, "X", advice=_ADVICE)
    own_ranks = _checked_ranks(ranks, A, split)
    of_columns = check_groups(groups, A, split)
    work = Work(own_ranks, n_splits, n_init, allow_negative, random_state, loss, split, of_columns)
    if callback is not None and not callable(callback):
        raise InputTypeError(f"`callback` must be callable, got {describe(callback)}.")
    done = run_tasks(A, work, n_jobs, resume, Report(work, callback))
    splits = [done[name] for name in work.tasks if name != FULL]
    rows = _summarize(work.ranks, done[FULL]["unexplained"], splits)
    if with_proof:
        is_number = not isinstance(with_proof, (bool, np.bool_))
        seconds = float(with_proof) if is_number else _PROOF_SECONDS
        rows = _prove(A, rows, done[FULL]["labels"], seconds, allow_negative)
    k, named, reasons = choose(rows, np.hstack([part["heldout"] for part in splits]), split)
    labels = done[FULL]["labels"][work.ranks.index(k)].astype(np.int64)
    return RankSelection(k, reasons, rows, labels, named, split)


def _check_loss(loss: str, split: str, allow_negative: bool, with_proof: bool | float) -> None:
    check_choice(loss, "loss", tuple(CRITERIA))
    check_choice(split, "split", ("rows", "columns"))
    if with_proof and not isinstance(with_proof, (bool, np.bool_)):
        check_positive(with_proof, "with_proof", finite=False)
    if loss != "frobenius" and split == "columns":
        raise InputError(
            f'`split="columns"` needs `loss="frobenius"`, but it is {loss!r}. Use `split="rows"`.'
        )
    if loss != "frobenius" and (allow_negative or with_proof):
        name = "allow_negative" if allow_negative else "with_proof"
        raise InputError(f'`{name}` needs `loss="frobenius"`: {loss!r} is a divergence of counts.')


def _checked_ranks(ranks: Iterable[int], A: DataMatrix, split: str) -> list[int]:
    try:
        given = list(ranks)
    except Exception as error:  # objects of other libraries raise what they like
        raise InputTypeError(
            f"`ranks` must be several integers, such as range(2, 21); it is {describe(ranks)}."
        ) from error
    for k in given:
        check_count(k, "ranks", low=1)
    ordered = sorted(set(given))
    if not ordered:
        raise InputError("`ranks` is empty. Pass the numbers to try, such as range(2, 21).")
    half = A.shape[0] // 2
    if split == "columns" and ordered[-1] > A.shape[0]:
        raise InputError(f"`ranks` goes up to {ordered[-1]}; use at most {len(A)}, the rows of X.")
    if split == "rows" and ordered[-1] > half:
        raise InputError(
            f"`ranks` goes up to {ordered[-1]}, but half of the {A.shape[0]} rows of X are {half}, "
            f"and each half is fitted separately. Use ranks of at most {half}."
        )
    if not A.has_entries:
        raise InputTypeError(
            "`X` is a LinearOperator: rows and columns are held out, which needs its entries. Pass "
            "a dense or sparse matrix."
        )
    if split == "columns" and A.shape[1] < 4:
        raise InputError(
            f"`X` has {A.shape[1]} columns: to halve them, at least four are needed, two in each "
            f'half. Use `split="rows"`.'
        )
    if A.shape[1] < 2:
        raise InputError(
            f"`X` has {A.shape[1]} column; at least two are needed, some to assign a row and "
            f"the others to predict."
        )
    return [int(k) for k in ordered]


def _summarize(
    ranks: list[int], unexplained: FloatArray, splits: list[Arrays]
) -> tuple[RankRow, ...]:
    stability = np.array([part["stability"] for part in splits]).T
    heldout = np.hstack([part["heldout"] for part in splits])
    has_cosines = all("cosine" in part for part in splits)
    cosine = np.array([part["cosine"] for part in splits]).T if has_cosines else None
    return tuple(
        RankRow(
            k=k,
            unexplained=float(unexplained[i]),
            stability=float(stability[i].mean()),
            stability_se=standard_error(stability[i]),
            heldout=float(heldout[i].mean()),
            heldout_se=standard_error(heldout[i]),
            cosine=None if cosine is None else float(cosine[i].mean()),
            cosine_se=None if cosine is None else standard_error(cosine[i]),
        )
        for i, k in enumerate(ranks)
    )


def _prove(
    A: DataMatrix, rows: tuple[RankRow, ...], labels: IntArray, seconds: float, allow_negative: bool
) -> tuple[RankRow, ...]:
    """Return the rows with bounds, except for ranks with an empty cluster."""
    proven = []
    for row, own in zip(rows, labels, strict=True):
        problem = ONMF(A, row.k, allow_negative=allow_negative)
        if len(np.unique(own[own >= 0])) == row.k and problem.total > 0:
            bound = certify(problem, own, time_limit=seconds).bound / problem.total
            row = row._replace(bound=min(bound, row.unexplained))
        proven.append(row)
    return tuple(proven)
