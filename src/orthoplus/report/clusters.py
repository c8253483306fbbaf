"""Build the page of a clustering: the clusters, their quality, and details for experts."""

from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report import figures, profiles
from orthoplus.report.advice import next_section
from orthoplus.report.experts import (
    again_section,
    experts_section,
    explained_of,
    foot_of,
    loss_of,
    measure_of,
    most_of,
    percent,
    remarks_of,
)
from orthoplus.report.facts import ClusterFacts, unbroken
from orthoplus.report.page import (
    Component,
    Fact,
    Feature,
    Grid,
    GridCell,
    Page,
    Section,
    Trait,
    render,
)
from orthoplus.report.row_sections import (
    IMAGES_PER_ROW,
    classes_section,
    doubtful_section,
    images_of,
    map_section,
)
from orthoplus.report.svg import hue

__all__ = ["ClusterFacts", "cluster_page", "explained_words"]

_TOP_FEATURES, _TOP_ROWS = 6, 3
# Up to this many clusters are shown as cards, more as a table with at most this many lines.
_MOST_CARDS, _MOST_LINES = 24, 300
# Smallest difference that is visible in a bar.
_LEAST_DRAWN = 0.01


def explained_words(record: dict[str, Any]) -> str:
    """Return what the explained share refers to."""
    return measure_of(record).share


def cluster_page(facts: ClusterFacts) -> str:
    """Return the page as HTML."""
    record, result, k = facts.record, facts.record["result"], len(facts.components)
    n, r = facts.A.shape
    sections = [*_cluster_sections(facts), doubtful_section(facts), map_section(facts)]
    if facts.truth is not None:
        sections.append(classes_section(facts))
    sections.append(explained_section(record))
    if record.get("ranks"):
        sections.append(ranks_section(record["ranks"]))
    sections += [next_section(facts), again_section(record), experts_section(record)]
    reading = record.get("reading") or record["data"].get("reading")
    size = reading or f"{n} rows, {r} columns"
    page = Page(
        title=f"{Path(record['data']['file']).name}: {k} clusters",
        subtitle=f"{size}. Clustered by orthogonal nonnegative factorization{_by_loss(record)}"
        f"{_prepared(record)}.",
        status=_headline(facts) if result["success"] else result["message"],
        is_success=result["success"],
        facts=_first_facts(facts),
        sections=tuple(sections),
        notes=(*remarks_of(record), *record["notes"]),
        foot=foot_of(record),
    )
    return render(page)


def _prepared(record: dict[str, Any]) -> str:
    """Describe how the entries were weighted and scaled."""
    model = record.get("model", {})
    words = {
        "weighting": {"tfidf": "weighted by tf-idf"},
        "column_scale": {
            "std": "features divided by their standard deviation",
            "max": "features divided by their largest value",
        },
        "row_scale": {"l2": "rows scaled to unit norm", "l1": "rows scaled to sum 1"},
    }
    found = [of[model[name]] for name, of in words.items() if model.get(name)]
    return f" ({', '.join(found)})" if found else ""


def _by_loss(record: dict[str, Any]) -> str:
    return "" if loss_of(record) == "frobenius" else " with the Kullback-Leibler divergence"


def _size_words(sizes: IntArray) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{_rows(low)} each" if low == high else f"{low} to {_rows(high)} each"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _headline(facts: ClusterFacts) -> str:
    n_doubtful = len(facts.doubtful)
    doubt = {0: "no row is doubtful", 1: "1 row is doubtful"}.get(
        n_doubtful, f"{n_doubtful} rows are doubtful"
    )
    k = len(facts.components)
    name = "1 cluster" if k == 1 else f"{k} clusters"
    return f"{name} of {_size_words(facts.sizes)}; {doubt}."


def _first_facts(facts: ClusterFacts) -> tuple[Fact, ...]:
    record, n_doubtful = facts.record, len(facts.doubtful)
    most = most_of(record)
    found = [
        Fact("Clusters", str(len(facts.components)), _size_words(facts.sizes)),
        Fact("Explained", percent(explained_of(record)), explained_words(record)),
    ]
    if most is not None:
        kind = "by a quick bound" if record.get("proof") is None else "proven"
        found.append(Fact("Upper bound", percent(most), kind))
    share = n_doubtful / max(len(facts.labels), 1)
    doubt = f"{share:.1%}: between two clusters" if n_doubtful else "each fits one cluster"
    return (*found, Fact("Doubtful rows", str(n_doubtful), doubt))


def _cluster_sections(facts: ClusterFacts) -> list[Section]:
    """Return the sizes and descriptions of the clusters: images, cards, or a long table."""
    bars = ("Number of rows in each cluster.", figures.size_bars(facts.sizes))
    if facts.image is not None:
        return [Section("Clusters", figures=(bars, *_image_figures(facts)))]
    ratios = profiles.ratios_of(facts.levels)
    presence = profiles.presence_of(facts.A, facts.labels, len(facts.components))
    typical = profiles.typical_rows(
        facts.fits.cosines, facts.labels, len(facts.components), most=_TOP_ROWS
    )
    cards = [_card(facts, j, (ratios[j], presence[j]), rows) for j, rows in enumerate(typical)]
    text = (
        "The rows of a cluster are similar up to a factor; the component is their common profile. "
        "Distinctive features have a higher level than in the other clusters or, if there are "
        "none, a lower one. The largest features have the highest level within the cluster; "
        "several clusters may share them."
    )
    if len(cards) <= _MOST_CARDS:
        return [Section("Clusters", text, figures=(bars,), components=tuple(cards))]
    return [Section("Clusters", text, figures=(bars,), grid=_table(facts, cards, typical))]


def _card(
    facts: ClusterFacts, j: int, traits: tuple[FloatArray, FloatArray], typical: IntArray
) -> Component:
    ratios = traits[0]
    found = profiles.distinctive(*traits, most=_TOP_FEATURES)
    doubtful = facts.doubtful
    doubtful = doubtful[facts.labels[doubtful] == j]
    rows = [("Typical rows", _names(facts, typical))] if len(typical) else []
    if len(doubtful):
        title = "1 doubtful row" if len(doubtful) == 1 else f"{len(doubtful)} doubtful rows"
        rows.append((title, _names(facts, doubtful[:_TOP_ROWS], more=len(doubtful) > _TOP_ROWS)))
    share = facts.sizes[j] / max(len(facts.labels), 1)
    return Component(
        f"Cluster {j}",
        hue(j),
        f"{_rows(int(facts.sizes[j]))}, {share:.0%}",
        _top(facts.components[j], facts.features),
        tuple(Trait(facts.features[i], _times(ratios[i])) for i in found),
        tuple(rows),
    )


def _names(facts: ClusterFacts, rows: IntArray, *, more: bool = False) -> str:
    return ", ".join([unbroken(facts.row_name(int(i))) for i in rows] + ["…"] * more)


def _times(ratio: float) -> str:
    if ratio >= profiles.MOST_RATIO:
        return f">{profiles.MOST_RATIO:.0f}x"
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def _top(row: FloatArray, names: tuple[str, ...]) -> tuple[Feature, ...]:
    order = np.argsort(-row, kind="stable")[:_TOP_FEATURES]
    top = float(row[order[0]]) or 1.0
    return tuple(Feature(names[j], float(row[j]) / top) for j in order if row[j] > 0)


def _table(facts: ClusterFacts, cards: list[Component], typical: list[IntArray]) -> Grid:
    """Return a table with one line per cluster, if there are too many for cards."""
    header = ("cluster", "rows", "distinctive (times the others)", "largest", "typical row")
    lines = []
    for j, card in enumerate(cards[:_MOST_LINES]):
        traits = ", ".join(unbroken(f"{t.name} ({t.times})") for t in card.traits[:3])
        names = ", ".join(unbroken(feature.name) for feature in card.features[:3])
        name = facts.row_name(int(typical[j][0])) if len(typical[j]) else ""
        lines.append(
            (
                GridCell(str(j), color=card.color),
                GridCell(str(facts.sizes[j])),
                *(GridCell(text, is_text=True) for text in (traits or "-", names, unbroken(name))),
            )
        )
    return Grid(header, tuple(lines))


def _image_figures(facts: ClusterFacts) -> list[tuple[str, str]]:
    """Return the components, and the most typical row of each cluster, as images."""
    k = len(facts.components)
    used = [j for j in range(k) if facts.sizes[j]]
    typical = profiles.typical_rows(facts.fits.cosines, facts.labels, k, most=1)
    rows = images_of(facts, np.array([typical[j][0] for j in used], dtype=int))
    components = [row.reshape(facts.image) for row in facts.components]
    names = [f"cluster {j}" for j in range(k)]
    drawn = (
        ("images", components, names, "Each component as an image."),
        ("typical", rows, [names[j] for j in used], "The most typical row of each cluster."),
    )
    return [
        (caption, figures.image_grid(name, images, titles, most=IMAGES_PER_ROW))
        for name, images, titles, caption in drawn
    ]


def explained_section(record: dict[str, Any], row: str = "row", group: str = "cluster") -> Section:
    """Return the section on the explained share and its upper bound."""
    explained, most, proof = explained_of(record), most_of(record), record.get("proof")
    text = (
        f"The model replaces every {row} by a multiple of the component of its {group}. This "
        f"explains {percent(explained)} {explained_words(record)}. "
    )
    if most is None:
        return Section("How much is explained", text)
    is_drawn = most - explained >= _LEAST_DRAWN
    mark = " (the mark)" if is_drawn else ""
    if proof is None:
        text += (
            f"With this number of {group}s, at most {percent(most)} can be explained{mark}. "
            "This is a quick bound, which is often not attainable."
        )
    else:
        text += f"It is proven that no clustering explains more than {percent(most)}{mark}."
    if not is_drawn:
        return Section("How much is explained", text)
    caption = "Blue: explained share. Orange mark: upper bound."
    return Section(
        "How much is explained", text, figures=((caption, figures.explained_bar(explained, most)),)
    )


def ranks_section(ranks: dict[str, Any], name: str = "clusters") -> Section:
    """Return the section on the choice of k: the curves and reasons of `select_rank`."""
    rows = list(ranks.get("curves", ()))
    drawn: tuple[tuple[str, str], ...] = ()
    if len(rows) > 1:
        caption = (
            f"Above: agreement of the {name} of two halves of the data; 1 is perfect. Below: "
            "the unexplained share of the data and of hidden entries; lower is better."
        )
        drawn = ((caption, figures.rank_curves(rows, ranks.get("k"), name)),)
    reasons = tuple(map(str, ranks.get("reasons", ())))
    return Section(f"How many {name}", figures=drawn, remarks=reasons)
