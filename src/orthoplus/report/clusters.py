"""The page of a clustering."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report import figures
from orthoplus.report.page import Component, Fact, Feature, Page, Section, render, rows_of
from orthoplus.report.svg import hue

_TOP_FEATURES = 10
# Clusters beyond these get no card of their own, and rows beyond those no point.
_MOST_CARDS, _MOST_POINTS = 60, 5000
# A gap beyond this says no more than that the bound is far.
_MOST_GAP = 1000.0


# What an objective is a share of, and what it is, by the loss.
_MEASURES = {
    "frobenius": ("of the sum of squares", "what is left, ||A-XX'A||²"),
    "kullback-leibler": (
        "of the divergence from the independence model (row sums x column sums / total)",
        "the Kullback-Leibler divergence of the data from the model",
    ),
}


def loss_of(record: dict[str, Any]) -> str:
    """Return the loss that was minimized."""
    return str(record.get("model", {}).get("loss", "frobenius"))


def explained_words(record: dict[str, Any]) -> str:
    """Return what the share that is explained is a share of."""
    return _MEASURES[loss_of(record)][0]


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """What the page is made from: the record of the run, and its arrays.

    Attributes
    ----------
    record : dict
        As in ``run.json``.
    A : matrix of shape (n, r)
        Dense or sparse, as it was factorized; used for the map of the rows only.
    labels, weights : ndarray of shape (n,)
    components : ndarray of shape (k, r)
        In the units of A.
    features : tuple of str
    truth : tuple, optional
        The class of each row as a number, and the names of the classes.
    image : tuple of int, optional
        Height and width, where features are pixels.
    """

    record: dict[str, Any]
    A: Any
    labels: IntArray
    weights: FloatArray
    components: FloatArray
    features: tuple[str, ...]
    truth: tuple[IntArray, tuple[str, ...]] | None = None
    image: tuple[int, int] | None = None

    @cached_property
    def sizes(self) -> IntArray:
        """The number of rows of each cluster."""
        return np.bincount(self.labels, minlength=len(self.components))


def cluster_page(facts: ClusterFacts) -> str:
    """The page as HTML."""
    record, result = facts.record, facts.record["result"]
    n, r = facts.A.shape
    k = len(facts.components)
    bars = ("Rows in each cluster.", figures.size_bars(facts.sizes))
    sizes = Section("Cluster sizes", figures=(bars,))
    sections = [sizes, _features(facts), _map(facts)]
    if result["bound"] is not None:
        sections.insert(0, _fit(record))
    if facts.truth is not None:
        sections.append(_confusion(facts))
    sections += [convergence_section(record), again_section(record)]
    page = Page(
        title=f"{Path(record['data']['file']).name}: {k} clusters",
        subtitle=f"{n} rows x {r} features{_prepared(record)}, grouped by orthogonal nonnegative "
        f"factorization{_by_loss(record)}.",
        status=result["message"],
        is_success=result["success"],
        facts=(*quality_facts(record), *_metric_facts(record)),
        sections=tuple(sections),
        notes=tuple(record["notes"]),
        foot=foot_of(record),
    )
    return render(page)


def _prepared(record: dict[str, Any]) -> str:
    """How the entries were weighted and scaled, in words."""
    model = record.get("model", {})
    words = {
        "weighting": {"tfidf": "weighted by tf-idf"},
        "column_scale": {
            "std": "each feature over its standard deviation",
            "max": "each feature over its largest value",
        },
        "row_scale": {"l2": "rows of unit norm", "l1": "rows of sum 1"},
    }
    found = [of[model[name]] for name, of in words.items() if model.get(name)]
    return f" ({', '.join(found)})" if found else ""


def _by_loss(record: dict[str, Any]) -> str:
    return "" if loss_of(record) == "frobenius" else " with the Kullback-Leibler divergence"


def quality_facts(record: dict[str, Any]) -> tuple[Fact, ...]:
    """Objective, bound, gap, violation and work, as every page begins."""
    result, proof = record["result"], record.get("proof")
    total = result["total"] or 1.0
    share, meaning = _MEASURES[loss_of(record)]
    facts = [
        Fact("Explained", f"{1 - result['objective'] / total:.2%}", share),
        Fact("Objective", f"{result['objective']:.6g}", meaning),
    ]
    bounded = result if proof is None else proof
    if bounded["bound"] is not None:
        kind = "the quick bound: no rank-k matrix leaves less" if proof is None else "proven"
        gap = "objective over bound; 0 would prove it optimal"
        facts += [
            Fact("Bound", f"{bounded['bound']:.6g}", kind),
            Fact("Gap", _gap_text(bounded["gap"]), gap),
        ]
    return (
        *facts,
        Fact("Violation", f"{result['violation']:.1e}", "of X'X = I and X ≥ 0: rounding"),
        Fact("Work", f"{result['seconds']:.3g} s", f"{result['iterations']} outer iterations"),
    )


def _gap_text(gap: float | None) -> str:
    """The gap in percent; a bound of 0 says nothing relative."""
    if gap is None:
        return "the bound is 0"
    return f"{gap:.2%}" if gap <= _MOST_GAP else f"over {_MOST_GAP:.0%}"


_PENALTY_TEXT = (
    "The penalty sigma grows until the columns no longer overlap and the violation is gone. "
    "The objective, as a share of the sum of squares, first falls, then rises as the overlap "
    "is given up; rounding and refinement come after the last point."
)
_FEASIBLE_TEXT = (
    "Every iterate is feasible, and the best one is kept: the objective never rises. It is drawn "
    "as a share, {share}. It falls where a search ends in a better clustering."
)


def convergence_section(record: dict[str, Any]) -> Section:
    """sigma, violation and objective."""
    history = record["history"]
    is_penalty = any(row["violation"] for row in history)
    text = _PENALTY_TEXT if is_penalty else _FEASIBLE_TEXT.format(share=explained_words(record))
    if not history:
        return Section("Convergence", "The run ended before its first iteration.")
    svg = figures.convergence(history, record["result"]["total"] or 1.0)
    return Section("Convergence", text, figures=(("Over the outer iterations.", svg),))


def again_section(record: dict[str, Any]) -> Section:
    """The command, and all there is to know."""
    lines = {name: value for name, value in record.items() if name not in ("history", "format")}
    return Section(
        "Run it again",
        "The same command with the same file gives the same answer.",
        code=record["command"],
        table=rows_of(lines),
    )


def foot_of(record: dict[str, Any]) -> str:
    return f"orthoplus {record['versions']['orthoplus']}, {record['finished']}"


def _metric_facts(record: dict[str, Any]) -> tuple[Fact, ...]:
    meanings = {
        "purity": "rows of the commonest class of their cluster",
        "nmi": "agreement with the true classes; 1 is perfect",
        "entropy": "how mixed the clusters are; 0 is best",
    }
    found = record.get("metrics", {})
    return tuple(
        Fact(name.upper() if name == "nmi" else name.capitalize(), f"{value:.3f}", meanings[name])
        for name, value in found.items()
    )


def _fit(record: dict[str, Any]) -> Section:
    result, proof = record["result"], record.get("proof")
    total = result["total"] or 1.0
    bound = result["bound"] if proof is None else proof["bound"]
    explained, most = 1 - result["objective"] / total, 1 - bound / total
    text = f"The clusters explain {explained:.2%} of the data's sum of squares. " + (
        f"No matrix of this rank, of any signs, explains more than {most:.2%}: the mark. That is a "
        f"quick bound, often far from what clusters can reach; `--prove 30` looks for a better one."
        if proof is None
        else f"It is proven that no clustering explains more than {most:.2%}: the mark. "
        f"{proof['message']}"
    )
    drawn = [("", figures.explained_bar(explained, most))]
    if proof is not None and len(proof["history"]) > 1:
        caption = "What is reached, and what is possible at most, while the proof was sought."
        drawn.append((caption, figures.proof_curve(proof["history"], total)))
    return Section("The objective against its bound", text, figures=tuple(drawn))


def _features(facts: ClusterFacts) -> Section:
    if facts.image is not None:
        images = [row.reshape(facts.image) for row in facts.components]
        titles = [f"cluster {j}" for j in range(len(images))]
        svg = figures.image_grid("images", images, titles, most=5)
        caption = "Each component as an image; bright is large."
        return Section("What the components look like", figures=((caption, svg),))
    cards = tuple(
        Component(f"Cluster {j}", hue(j), f"{facts.sizes[j]} rows", _top(row, facts.features))
        for j, row in enumerate(facts.components[:_MOST_CARDS])
    )
    text = "The features with the largest weight in each component; bars are relative to the first."
    return Section("Leading features", text, components=cards)


def _top(row: FloatArray, names: tuple[str, ...]) -> tuple[Feature, ...]:
    order = np.argsort(-row, kind="stable")[:_TOP_FEATURES]
    top = float(row[order[0]]) or 1.0
    return tuple(Feature(names[j], float(row[j]) / top) for j in order if row[j] > 0)


def _map(facts: ClusterFacts) -> Section:
    """The plane in which the clusters' means of the cosines with the components lie furthest."""
    k, sizes = len(facts.components), facts.sizes
    angles = _cosines(facts.A, facts.components)
    sums = np.stack([np.bincount(facts.labels, column, k) for column in angles.T], axis=1)
    means = sums / np.maximum(sizes, 1)[:, None]
    middle = angles.mean(axis=0)
    spread = np.sqrt(sizes)[:, None] * (means - middle)
    directions = np.linalg.svd(spread, full_matrices=False)[2][:2]
    plane = np.zeros((k, 2))
    plane[:, : len(directions)] = directions.T
    rows = np.arange(len(facts.labels))
    if len(rows) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_POINTS, replace=False))
    used = np.flatnonzero(sizes)
    svg = figures.sample_map(
        (angles[rows] - middle) @ plane,
        facts.labels[rows],
        {int(j): (means[j] - middle) @ plane for j in used},
    )
    text = (
        "Each point is a row, placed by its cosines with the components, in the plane where the "
        "clusters lie furthest apart; each number stands at the mean of its cluster. Clusters that "
        "overlap here may be apart in other directions."
    )
    shown = f"{len(rows)} rows" + ("" if len(rows) == len(facts.labels) else ", a random sample")
    return Section("A map of the rows", text, figures=((shown + ".", svg),))


def _cosines(A: Any, components: FloatArray) -> FloatArray:
    norms = np.linalg.norm(components, axis=1)
    fits = np.asarray(A @ (components / np.where(norms > 0, norms, 1.0)[:, None]).T)
    sizes = np.sqrt(np.asarray((A * A).sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    return np.asarray(fits / np.where(sizes > 0, sizes, 1.0))


def _confusion(facts: ClusterFacts) -> Section:
    assert facts.truth is not None
    codes, names = facts.truth
    k = len(facts.components)
    counts = np.bincount(codes * k + facts.labels, minlength=len(names) * k).reshape(-1, k)
    svg = figures.confusion(counts, names)
    caption = "Rows of each true class in each cluster; the colour is the share of the class."
    return Section("Against the true classes", figures=((caption, svg),))
