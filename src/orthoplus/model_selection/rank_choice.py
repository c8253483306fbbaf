"""The choice of a rank by three criteria, with reasons."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.bounds import relative_gap
from orthoplus.core.types import FloatArray

# Below this adjusted Rand index, two halves share hardly any clusters.
_UNSTABLE = 0.5
# A curve has a knee if it falls this far below its chord, as a share of its total decrease.
_KNEE = 0.1
# Differences of the adjusted Rand index below this are ignored, whatever their standard error.
_SAME_STABILITY = 0.01


class RankRow(NamedTuple):
    """Hold the means over the splits and their standard errors for one rank.

    ``unexplained`` is the share of ||X||^2 that the fit of all rows does not explain, ``heldout``
    that of hidden entries of held-out rows, and ``stability`` the adjusted Rand index of two
    halves. ``bound`` is a proven lower bound on ``unexplained`` for this rank, if requested.
    ``cosine`` is the mean cosine of the matched row weights in two halves of the columns.
    """

    k: int
    unexplained: float
    stability: float
    stability_se: float
    heldout: float
    heldout_se: float
    bound: float | None = None
    cosine: float | None = None
    cosine_se: float | None = None

    @property
    def gap(self) -> float | None:
        """Relative gap between the unexplained share and its bound."""
        return relative_gap(self.unexplained, self.bound)


def standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean of at least two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def choose(
    rows: tuple[RankRow, ...], heldout: FloatArray, split: str = "rows"
) -> tuple[int, dict[str, int | None], tuple[str, ...]]:
    """Return the rank chosen by most criteria, the choice of each criterion, and the reasons.

    ``heldout`` holds the held-out share of each rank (rows) in each half of each split (columns);
    ``split`` says whether rows or columns were halved.
    """
    found = {
        "held-out": _by_heldout(rows, heldout),
        "stability": _by_stability(rows, split),
        "knee": _by_knee(rows),
    }
    named = {name: k for name, (k, _) in found.items()}
    k, verdict = _vote(named)
    reasons = (verdict, *(reason for _, reason in found.values()), *_warnings(rows, k, split))
    return k, named, reasons


def _by_heldout(rows: tuple[RankRow, ...], heldout: FloatArray) -> tuple[int, str]:
    """Return the smallest rank within one standard error of the best one.

    The standard error is that of the difference, because both ranks are measured on the same
    halves.
    """
    best = int(heldout.mean(axis=1).argmin())
    # Differences on the same splits vary less than the errors themselves.
    excess = heldout - heldout[best]
    chosen = next(
        i for i in range(len(rows)) if i == best or excess[i].mean() <= standard_error(excess[i])
    )
    row = rows[chosen]
    text = f"Held-out: k = {row.k} predicts hidden entries best ({row.heldout:.4f} missed)."
    if chosen != best:
        text = (
            f"Held-out: k = {row.k} is the smallest that predicts hidden entries as well "
            f"({row.heldout:.4f} missed) as the best, k = {rows[best].k} "
            f"({rows[best].heldout:.4f}), up to a standard error."
        )
    return row.k, text


def _by_stability(rows: tuple[RankRow, ...], split: str) -> tuple[int | None, str]:
    """Return the largest rank that is as stable as the best one.

    A single cluster is always stable and is not considered.
    """
    several = [row for row in rows if row.k > 1]
    if not several:
        return None, "Stability: a single cluster is always stable, so this criterion abstains."
    best = max(several, key=lambda row: row.stability)
    if best.stability < _UNSTABLE:
        return None, (
            f"Stability: two halves of the {split} do not agree for any k (the best adjusted Rand "
            f"index is {best.stability:.2f}, for k = {best.k})."
        )
    # Within one standard error, a larger k is preferred.
    floor = best.stability - max(best.stability_se, _SAME_STABILITY)
    row = [row for row in several if row.stability >= floor][-1]
    return row.k, (
        f"Stability: k = {row.k} is the largest k for which two halves of the {split} agree as "
        f"well (adjusted Rand index {row.stability:.2f}) as for the best (k = {best.k}, "
        f"{best.stability:.2f})."
    )


def _by_knee(rows: tuple[RankRow, ...]) -> tuple[int | None, str]:
    """Return the rank where the scaled error curve is farthest below its chord."""
    x = np.array([row.k for row in rows], dtype=float)
    y = np.array([row.unexplained for row in rows])
    fall = y[0] - y[-1]
    if len(rows) >= 3 and fall > 0:
        # Distance below the chord from the first to the last point, with both axes scaled to [0,
        # 1].
        depth = (x[-1] - x) / (x[-1] - x[0]) - (y - y[-1]) / fall
        i = int(depth.argmax())
        if depth[i] >= _KNEE:
            return rows[i].k, (
                f"Knee: the error falls fast to {y[i]:.4f} at k = {rows[i].k}, then slowly."
            )
    return None, "Knee: the error falls evenly over these k and has no knee."


def _vote(named: dict[str, int | None]) -> tuple[int, str]:
    votes = [k for k in named.values() if k is not None]
    counts = {k: votes.count(k) for k in votes}
    # Most votes; if all differ, the choice of the held-out criterion.
    k = max(counts, key=lambda k: (counts[k], k == named["held-out"]))
    supporters = [name for name, other in named.items() if other == k]
    if len(supporters) == len(named):
        return k, f"k = {k}: all three criteria choose it."
    if len(supporters) > 1:
        return k, f"k = {k}: {' and '.join(supporters)} choose it."
    if len(votes) == len(named):
        middle = sorted(votes)[1]
        return middle, f"k = {middle}: the criteria differ; it is the middle one."
    return k, f"k = {k}: the criteria differ, and held-out prediction decides."


def _warnings(rows: tuple[RankRow, ...], k: int, split: str) -> list[str]:
    row = next(row for row in rows if row.k == k)
    found = []
    if k > 1 and row.stability < _UNSTABLE:
        found.append(
            f"Caution: at k = {k} two halves of the {split} agree on few clusters (adjusted Rand "
            f"index {row.stability:.2f}); other {split} would give other clusters."
        )
    if len(rows) > 1 and k == rows[-1].k:
        found.append(f"Caution: k = {k} is the largest that was tried. Try more.")
    return found
