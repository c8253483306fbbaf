"""The plot of a rank selection."""

from typing import Any

from orthoplus.core.extras import require
from orthoplus.model_selection.rank_choice import RankRow

_INK = "#1f2937"
_STABLE, _HELD, _FIT, _COSINE = "#0072b2", "#d55e00", "#6b7280", "#009e73"


def draw_ranks(
    rows: tuple[RankRow, ...], k: int, named: dict[str, int | None], split: str = "rows"
) -> Any:
    """Plot stability (top) and held-out and fitted errors (bottom), marking the chosen rank."""
    require("matplotlib", "A plot", extra="cli")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8.0, 6.0), layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True)
    ranks = [row.k for row in rows]
    _curve(above, rows, "stability", _STABLE, f"two halves of the {split}")
    above.set_ylabel("adjusted Rand index")
    if all(row.cosine is not None for row in rows):
        _curve(above, rows, "cosine", _COSINE, "their matched weights")
        above.set_ylabel("adjusted Rand index, cosine")
    above.set(ylim=(min(0.0, *(r.stability for r in rows)), 1.05))
    _curve(below, rows, "heldout", _HELD, f"hidden entries of held-out {split}")
    below.plot(
        ranks, [row.unexplained for row in rows], "s-", color=_FIT, markersize=4, label="fit"
    )
    below.set(ylabel="share that is missed", xlabel="number of clusters k")
    for axis, criterion in ((above, "stability"), (below, "held-out"), (below, "knee")):
        _mark(axis, rows, criterion, named[criterion])
    for axis in (above, below):
        axis.axvline(k, color=_INK, linewidth=1, linestyle=":", zorder=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="best", frameon=False)
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    above.set_title(f"k = {k} is recommended", loc="left", color=_INK, weight="bold")
    return figure


def _curve(axis: Any, rows: tuple[RankRow, ...], name: str, color: str, label: str) -> None:
    values = [getattr(row, name) for row in rows]
    errors = [getattr(row, f"{name}_se") for row in rows]
    axis.errorbar(
        [row.k for row in rows], values, yerr=errors, fmt="o-", color=color, markersize=5,
        capsize=3, label=label,
    )  # fmt: skip


def _mark(axis: Any, rows: tuple[RankRow, ...], criterion: str, k: int | None) -> None:
    """Mark the point that a criterion chooses."""
    if k is None:
        return
    row = next(row for row in rows if row.k == k)
    value, color, shape = {
        "stability": (row.stability, _STABLE, "o"),
        "held-out": (row.heldout, _HELD, "o"),
        "knee": (row.unexplained, _FIT, "s"),
    }[criterion]
    axis.plot(
        [k], [value], shape, markersize=13, fillstyle="none", color=color,
        markeredgewidth=1.6, linestyle="none", label=f"{criterion}: k = {k}",
    )  # fmt: skip
