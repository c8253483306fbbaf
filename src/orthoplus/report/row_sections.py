"""Build the sections of a clustering about its rows: doubtful rows, a map, true classes."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import as_data
from orthoplus.report import figures
from orthoplus.report.experts import loss_of
from orthoplus.report.facts import ClusterFacts, unbroken
from orthoplus.report.page import Fact, Grid, GridCell, Section
from orthoplus.report.svg import hue

# Maximum number of rows in the table, and of points and rings on the map.
_MOST_DOUBTFUL, _MOST_POINTS, _MOST_RINGS = 10, 5000, 200
IMAGES_PER_ROW = 5


def images_of(facts: ClusterFacts, rows: IntArray) -> list[FloatArray]:
    """Return rows of the data as images."""
    dense = as_data(facts.A[rows], check=False).to_dense()
    return [row.reshape(facts.image) for row in dense]


def doubtful_section(facts: ClusterFacts) -> Section:
    """Return the section with the rows between two clusters, least certain first."""
    rows = facts.doubtful
    if not len(rows):
        return Section(
            "Doubtful rows", "There are no doubtful rows: each row clearly fits one cluster best."
        )
    count = "1 row fits" if len(rows) == 1 else f"{len(rows)} rows fit"
    by_cosine = loss_of(facts.record) == "frobenius"
    text = (
        f"{count} a second cluster almost as well as the assigned one. "
        + ("The least certain are listed first" if len(rows) > 1 else "It is listed")
        + (
            "; a cosine of 1 is a perfect fit, and 0 means no similarity."
            if by_cosine
            else ". The margin is the difference of the log-likelihoods per count between the "
            "assigned and the second-best cluster."
        )
    )
    shown = rows[:_MOST_DOUBTFUL]
    names = (
        ("cluster, cosine", "second best") if by_cosine else ("cluster", "second best", "margin")
    )
    header = ("row", *names, *(["class"] if facts.truth else []))
    # As many decimals as distinguish the two fits of a row, within reason.
    digits = 3 if np.abs(facts.fits.margins[shown]).max() >= 1e-3 else 5
    lines = tuple(_doubtful_line(facts, int(i), digits) for i in shown)
    drawn: tuple[tuple[str, str], ...] = ()
    if facts.image is not None:
        titles = [f"{facts.labels[i]} or {facts.fits.second_best[i]}?" for i in shown]
        images = images_of(facts, shown)
        svg = figures.image_grid("doubtful", images, titles, most=IMAGES_PER_ROW)
        drawn = (("The rows of the table as images.", svg),)
    return Section("Doubtful rows", text, grid=Grid(header, lines), figures=drawn)


def _doubtful_line(facts: ClusterFacts, i: int, digits: int) -> tuple[GridCell, ...]:
    own, second = int(facts.labels[i]), int(facts.fits.second_best[i])
    line: tuple[GridCell, ...] = (GridCell(unbroken(facts.row_name(i)), is_text=True),)
    if loss_of(facts.record) == "frobenius":
        cosines = (facts.fits.cosines[i], facts.fits.second_cosines[i])
        texts = [f"{cosine:.{digits}f}" for cosine in cosines]
        line += (
            GridCell(str(own), texts[0], color=hue(own)),
            GridCell(str(second), texts[1], color=hue(second)),
        )
    else:
        margin = GridCell(f"{facts.fits.margins[i]:.{digits}f}")
        line += (
            GridCell(str(own), color=hue(own)),
            GridCell(str(second), color=hue(second)),
            margin,
        )
    if facts.truth is None:
        return line
    codes, names = facts.truth
    return (*line, GridCell(names[codes[i]], is_text=True))


def map_section(facts: ClusterFacts) -> Section:
    """Return the map: the plane in which the mean cosines of the clusters differ most."""
    k, sizes, angles = len(facts.components), facts.sizes, facts.cosines
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
    rings = facts.doubtful
    rings = rings[np.isin(rings, rows)][:_MOST_RINGS]
    svg = figures.sample_map(
        (angles[rows] - middle) @ plane,
        facts.labels[rows],
        {int(j): (means[j] - middle) @ plane for j in np.flatnonzero(sizes)},
        (angles[rings] - middle) @ plane,
    )
    text = (
        "Each point is a row in the color of its cluster. Similar rows are close together, and the "
        "number of a cluster is at the mean of its rows. The map is a two-dimensional view: "
        "clusters that overlap here may be separated in other dimensions."
    )
    shown = f"{len(rows)} rows" + ("" if len(rows) == len(facts.labels) else ", a random sample")
    ringed = "; doubtful rows have a ring" if len(rings) else ""
    caption = f"{shown}{ringed}. Positions are computed from cosines with the components."
    return Section("A map of the rows", text, figures=((caption, svg),))


def classes_section(facts: ClusterFacts) -> Section:
    """Return the section that compares the clusters with the true classes."""
    assert facts.truth is not None
    codes, names = facts.truth
    k = len(facts.components)
    counts = np.bincount(codes * k + facts.labels, minlength=len(names) * k).reshape(-1, k)
    svg = figures.confusion(counts, names)
    caption = "Rows of each true class in each cluster; the color is the share of the class."
    found = _metric_facts(facts.record)
    return Section("Comparison with the true classes", facts=found, figures=((caption, svg),))


def _metric_facts(record: dict[str, Any]) -> tuple[Fact, ...]:
    meanings = {
        "purity": "share of rows in the most common class of their cluster",
        "nmi": "agreement with the true classes; 1 is perfect",
        "entropy": "how mixed the clusters are; 0 is best",
    }
    found = record.get("metrics", {})
    return tuple(
        Fact(name.upper() if name == "nmi" else name.capitalize(), f"{value:.3f}", meanings[name])
        for name, value in found.items()
    )
