"""Suggest what to do next with a clustering."""

from typing import Any

import numpy as np

from orthoplus.report.experts import loss_of, remarks_of
from orthoplus.report.facts import ClusterFacts
from orthoplus.report.page import Section, Step

# Features whose largest levels differ by this factor are taken to have different units.
_UNEQUAL_UNITS = 20.0
_FEW_ROWS = 2


def next_section(facts: ClusterFacts) -> Section:
    """Return the section with suggestions for a run."""
    record = facts.record
    steps = [
        *_about_rows(facts),
        *_about_k(record, len(facts.components), len(facts.labels)),
        *_about_units(facts),
        *_about_proof(record),
        Step("Use the cluster of every row in other tools; it is in", "labels.csv"),
    ]
    return Section("What to do next", steps=tuple(steps))


def _about_rows(facts: ClusterFacts) -> list[Step]:
    steps = []
    if len(facts.doubtful):
        text = (
            "Look at the doubtful rows: if they have something in common, they may form a separate "
            "cluster, or two clusters may belong together."
        )
        steps.append(Step(text))
    small = np.flatnonzero((facts.sizes > 0) & (facts.sizes <= _FEW_ROWS))
    if len(small) and len(facts.labels) > _FEW_ROWS * len(facts.components):
        names = ", ".join(map(str, small[:8])) + (", …" if len(small) > 8 else "")
        text = f"Check the clusters of one or two rows ({names}) for outliers or data errors."
        steps.append(Step(text))
    return steps


def _about_k(record: dict[str, Any], k: int, n: int) -> list[Step]:
    """Suggest other numbers of clusters, unless they were already compared."""
    low, high = max(2, k // 2), min(n, max(12, 2 * k))
    if record.get("ranks") or high <= low:
        return []
    text = "Compare other numbers of clusters (in Python: orthoplus.select_rank):"
    return [Step(text, f"-k {low}-{high}")]


def _about_units(facts: ClusterFacts) -> list[Step]:
    """Suggest scaling the features if some are much larger than the others."""
    record = facts.record
    is_plain = not record.get("model", {}).get("column_scale")
    is_said = any("--scale-columns" in text for text in (*remarks_of(record), *record["notes"]))
    if not is_plain or is_said or facts.image is not None or loss_of(record) != "frobenius":
        return []
    largest = facts.levels.max(axis=0)
    largest = largest[largest > 0]
    if not len(largest) or largest.max() < _UNEQUAL_UNITS * np.median(largest):
        return []
    text = (
        "Some features are much larger than the others and dominate the clustering. If their "
        "units differ, scale them:"
    )
    return [Step(text, "--scale-columns std")]


def _about_proof(record: dict[str, Any]) -> list[Step]:
    can_prove = loss_of(record) == "frobenius" and record["result"]["bound"] is not None
    if not can_prove or record.get("proof") is not None:
        return []
    return [Step("Bound how much better any clustering could be:", "--prove 30")]
