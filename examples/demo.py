"""Cluster the handwritten digits of scikit-learn by orthogonal NMF, and show what was found.

Run it with ``make demo``. It prints a report and writes a picture into the current folder.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

import orthoplus as op

N_GROUPS = 10
N_MEMBERS = 4
SIDE = 8  # the images are 8 x 8
INK, QUIET, WRONG = "#1f2937", "#6b7280", "#d9480f"


def factorise(problem: op.problems.ONMF, *, paper: bool) -> op.Result:
    """Orthogonal NMF: X groups the images and weighs them, the columns of Y are the groups."""
    method = op.EP4Orth.for_onmf() if paper else op.EP4Orth()
    return op.solve(problem, method=method)


def majority(labels: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """The digit that most images of each group show."""
    return np.array([np.bincount(digits[labels == j]).argmax() for j in range(N_GROUPS)])


def report(result: op.Result, digits: np.ndarray) -> str:
    """What was solved, how good the answer is, and how the groups compare with the truth."""
    n, k = result.X.shape
    right = majority(result.labels, digits)[result.labels] == digits
    nmi = normalized_mutual_info_score(digits, result.labels)
    rows = [
        ("images", f"{n} of 8 x 8 pixels, in {k} groups"),
        ("objective", f"{result.value:.4f}  = ||A - XX'A||^2 with ||A|| = 1"),
        ("bound", f"{result.bound:.4f}  no rank-{k} matrix, of any signs, fits better"),
        ("gap", f"{result.gap:.2f}    = (objective - bound) / bound: what is not proven"),
        ("violation", f"{result.violation:.1e} = ||X'X - I|| + ||min(X, 0)||"),
        ("stationarity", f"{result.stationarity:.1e}"),
        ("purity", f"{right.mean():.1%}   images in a group of mostly their digit"),
        ("NMI", f"{nmi:.3f}   agreement with the true digits, which were not used"),
        (
            "time",
            f"{result.seconds:.1f} s, {result.n_iter} steps of sigma; a first run also compiles",
        ),
        ("status", result.status.name),
    ]
    return "\n".join(f"  {name:<16}{text}" for name, text in rows)


def draw(result: op.Result, images: np.ndarray, digits: np.ndarray, path: Path) -> None:
    """One column a group: its part, a few of its images from heavy to light, what it holds."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = majority(result.labels, digits)
    order = np.argsort(found, kind="stable")
    height = [1.0] * (1 + N_MEMBERS)
    figure, axes = plt.subplots(
        1 + N_MEMBERS,
        N_GROUPS,
        figsize=(10, 6.0),
        height_ratios=height,
        gridspec_kw={"wspace": 0.16, "hspace": 0.12},
    )
    figure.subplots_adjust(left=0.085, right=0.99, top=0.79, bottom=0.09)
    for column, j in zip(axes.T, order, strict=True):
        members = np.flatnonzero(result.labels == j)
        members = members[np.argsort(-result.X[members, j])]
        share = (digits[members] == found[j]).mean()
        show(column[0], result.Y[:, j], "Blues")
        column[0].set_title(f"“{found[j]}”", fontsize=17, color=INK, pad=5)
        shown = members[np.linspace(0, len(members) - 1, N_MEMBERS).astype(int)]
        for axis, i in zip(column[1:], shown, strict=True):
            show(axis, images[i], "Greys", frame=None if digits[i] == found[j] else WRONG)
        text = f"{len(members)} images\n{share:.0%} are {found[j]}"
        column[-1].text(
            0.5, -0.13, text, transform=column[-1].transAxes, ha="center", va="top", color=INK
        )
    for row, text in ((0, "part"), (1, "heaviest"), (N_MEMBERS, "lightest")):
        axes[row, 0].set_ylabel(
            text, rotation=0, ha="right", va="center", labelpad=9, fontsize=11, color=INK
        )
    figure.text(
        0.085, 0.94, "Ten parts of 1797 handwritten digits", fontsize=19, color=INK, weight="bold"
    )
    figure.text(
        0.085,
        0.89,
        "Each image belongs to exactly one part, with a weight. Orange frames: another digit.",
        fontsize=12,
        color=QUIET,
    )
    figure.savefig(path, dpi=110, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(figure)


def show(axis: Any, pixels: np.ndarray, colours: str, *, frame: str | None = None) -> None:
    """One image on one axis."""
    axis.imshow(pixels.reshape(SIDE, SIDE), cmap=colours, vmin=0.0)
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(color=frame or "#d1d5db", linewidth=3.0 if frame else 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--save", type=Path, default=Path("orthoplus-demo.png"), help="where the picture goes"
    )
    parser.add_argument(
        "--paper", action="store_true", help="the paper's parameters: slower, a lower residual"
    )
    options = parser.parse_args()

    images, digits = load_digits(return_X_y=True)
    A = images / np.linalg.norm(images)
    print("\nOrthogonal NMF of the handwritten digits: min ||A - XX'A||,  X'X = I,  X >= 0\n")
    result = factorise(op.problems.ONMF(A, N_GROUPS), paper=options.paper)
    print(report(result, digits))
    draw(result, images, digits, options.save)
    print(f"""
  The parts, with images of each group, are in {options.save}

Try next:
  .venv/bin/python examples/demo.py --paper    the paper's parameters on the same data
  make docs                                    the documentation, in docs/_build/html/index.html
  make test                                    every test, a few minutes
""")


if __name__ == "__main__":
    main()
