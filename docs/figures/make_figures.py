"""Draw the figures of the documentation: ``python docs/figures/make_figures.py``."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits

import orthoplus as op
from orthoplus.penalty import PowerPenalty

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
INK, QUIET, BLUE, ORANGE, GREEN = "#1f2937", "#6b7280", "#1d4ed8", "#d9480f", "#15803d"
STYLE = {"font.size": 12, "axes.edgecolor": QUIET, "text.color": INK, "axes.labelcolor": INK}


def save(figure: Any, name: str) -> None:
    figure.savefig(HERE / name, dpi=120, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_square(axis: Any) -> None:
    """Draw OB+ for n = k = 2 as a square of two angles; S+ consists of two of its corners."""
    angles = np.linspace(0.0, np.pi / 2, 61)
    penalty = PowerPenalty(1.0)

    def column(angle: float) -> np.ndarray:
        return np.array([np.cos(angle), np.sin(angle)])

    zeta = [[penalty.value(np.stack([column(s), column(t)], 1)) for s in angles] for t in angles]
    degrees = np.rad2deg(angles)
    filled = axis.contourf(degrees, degrees, zeta, levels=np.linspace(0, 1, 11), cmap="Blues")
    axis.contour(degrees, degrees, zeta, levels=np.linspace(0.1, 0.9, 9), colors="white", alpha=0.5)
    for corner, offset, side in (((90, 0), (-8, 9), "right"), ((0, 90), (8, -16), "left")):
        axis.plot(*corner, "o", color=ORANGE, markersize=12, clip_on=False, zorder=5)
        axis.annotate(
            "$\\mathcal{S}_+$",
            corner,
            textcoords="offset points",
            xytext=offset,
            ha=side,
            color=ORANGE,
            fontsize=15,
        )
    axis.set(
        xlabel="angle of column $x_1$, degrees",
        ylabel="angle of column $x_2$, degrees",
        xticks=[0, 45, 90],
        yticks=[0, 45, 90],
        aspect="equal",
    )
    axis.set_title("$n = k = 2$: all of $\\mathcal{OB}_+$", color=INK, pad=12)
    bar = axis.figure.colorbar(filled, ax=axis, shrink=0.85, ticks=[0, 0.5, 1])
    bar.set_label("penalty $\\Vert XV\\Vert_F^2 - 1$")


def draw_octant(axis: Any) -> None:
    """Draw an arc of S+ for n = 3, k = 2: one column is fixed, the other moves on an arc."""
    t = np.linspace(0.0, np.pi / 2, 40)
    u, v = np.meshgrid(t, t)
    sphere = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
    axis.plot_surface(*sphere, color="#dbeafe", alpha=0.55, linewidth=0, shade=False)
    unit = np.eye(3)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        arc = np.outer(np.cos(t), unit[a]) + np.outer(np.sin(t), unit[b])
        axis.plot(*arc.T, color=BLUE if (a, b) == (0, 1) else "#93c5fd", linewidth=3)
    free = np.array([np.cos(0.45), np.sin(0.45), 0.0])
    for point, color in ((free, BLUE), (unit[2], ORANGE)):
        axis.plot(*np.stack([0 * point, point], 1), color=color, linewidth=2)
        axis.plot(*point[:, None], "o", color=color, markersize=10)
    for j, name in enumerate(("$e_1$", "$e_2$")):
        axis.plot(*np.stack([0 * unit[j], 1.12 * unit[j]], 1), color=QUIET, linewidth=1)
        axis.text(*(1.22 * unit[j]), name, color=QUIET, ha="center", va="center", fontsize=12)
    axis.text(-0.12, 0.12, 1.0, "$x_2 = e_3$", color=ORANGE, fontsize=12)
    axis.text(0.0, 0.0, -0.62, "$x_1$ anywhere on this arc", color=BLUE, fontsize=12, ha="center")
    axis.set_axis_off()
    axis.view_init(elev=24, azim=43)
    axis.set_box_aspect((1, 1, 1), zoom=1.05)
    axis.set_title("$n = 3,\\ k = 2$: one of six arcs of $\\mathcal{S}_+$", color=INK, pad=4)


def draw_sets() -> None:
    """Draw the set S+ inside OB+ for the smallest sizes, in two figures."""
    figure = plt.figure(figsize=(5.2, 4.4), layout="constrained")
    draw_square(figure.add_subplot())
    save(figure, "set-2.png")
    figure = plt.figure(figsize=(5.2, 4.4))
    draw_octant(figure.add_axes((0.0, 0.0, 1.0, 0.93), projection="3d"))
    save(figure, "set-3.png")


def draw_path() -> None:
    """Draw the objective and the violation of one run over the penalty parameter."""
    A = load_digits().data
    problem = op.problems.ONMF(A / np.linalg.norm(A), 10)
    result = op.solve(problem, method=op.EP4Orth())
    sigma = np.array([row.sigma for row in result.history])
    value = np.array([row.value for row in result.history])
    violation = np.array([row.violation for row in result.history])
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7, 5.2), sharex=True, layout="constrained", height_ratios=[1.15, 1]
    )
    top.semilogx(sigma, value, "o-", color=BLUE, markersize=4)
    top.axhline(result.value, color=GREEN, linewidth=1.5)
    top.axhline(result.bound, color=QUIET, linewidth=1.5, linestyle="--")
    for height, text, color in (
        (result.value, "the solution, rounded and refined", GREEN),
        (result.bound, "spectral bound: no rank-10 fit is lower", QUIET),
    ):
        top.text(sigma[5], height + 2e-3, text, color=color, va="bottom", fontsize=11)
    top.set_ylabel("$f(X^t)$, a share of $\\Vert A\\Vert_F^2$")
    bottom.loglog(sigma, np.maximum(violation, 1e-17), "o-", color=ORANGE, markersize=4)
    bottom.axhline(1e-8, color=QUIET, linewidth=1.5, linestyle="--")
    bottom.text(sigma[5], 2e-8, "the run stops below this line", color=QUIET, fontsize=11)
    bottom.set(xlabel="penalty parameter $\\sigma$", ylabel="violation $\\Vert XV\\Vert_F^2 - 1$")
    for axis in (top, bottom):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    save(figure, "penalty-path.png")


def draw_ranks() -> None:
    """Draw the example of the page on the choice of k."""
    rng = np.random.default_rng(0)
    profiles = rng.random((5, 40))
    X = rng.uniform(0.5, 1.5, size=(200, 1)) * profiles[rng.integers(5, size=200)]
    X += rng.random(X.shape)
    save(op.select_rank(X, range(2, 11)).plot(), "choose-k.png")


def draw_bound() -> None:
    """Draw the value of the assignment and the dual bound over the ratio of two weights."""
    C = np.random.default_rng(0).random((400, 2))
    P = C**2
    ratios = np.geomspace(0.02, 50.0, 600)

    def value(t: float) -> float:
        second = t * P[:, 1] > P[:, 0]
        return float(np.sqrt(P[~second, 0].sum()) + np.sqrt(P[second, 1].sum()))

    values = np.array([value(t) for t in ratios])
    bounds = [np.sqrt(np.maximum(P[:, 0], t * P[:, 1]).sum() * (1 + 1 / t)) for t in ratios]
    best = op.project(C).value
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axis.fill_between(ratios, values, bounds, color=BLUE, alpha=0.08)
    axis.semilogx(ratios, bounds, color=ORANGE, linewidth=2.2)
    axis.semilogx(ratios, values, color=BLUE, linewidth=2.2)
    touch = ratios[np.argmin(np.array(bounds) - values)]
    axis.plot(touch, best, "o", color=INK, markersize=9)
    axis.annotate(
        "value = bound: globally optimal",
        (touch, best),
        (touch, 0.76 * best),
        ha="center",
        arrowprops={"arrowstyle": "-", "color": QUIET},
    )
    axis.text(
        0.022, 1.19 * best, "bound $D(w)$: no\npoint of $\\mathcal{S}_+$ is above", color=ORANGE
    )
    axis.text(0.03, 0.97 * best, "rows assigned by $w$:\na point of $\\mathcal{S}_+$", color=BLUE)
    axis.set(xlabel="ratio of the weights $w_2 / w_1$", ylabel="$\\langle C, X\\rangle$")
    axis.set_ylim(0.65 * best, 1.35 * best)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    save(figure, "dual-bound.png")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_sets()
        draw_path()
        draw_ranks()
        draw_bound()
