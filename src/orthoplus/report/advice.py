"""What to do next with a clustering, from what it looks like."""

from typing import Any

import numpy as np

from orthoplus.report.experts import loss_of, remarks_of
from orthoplus.report.facts import ClusterFacts
from orthoplus.report.page import Section, Step

# Features whose largest levels differ by this factor count as features in different units.
_UNEQUAL_UNITS = 20.0
_FEW_ROWS = 2


def next_section(facts: ClusterFacts) -> Section:
    """Return the steps that make sense for the `ClusterFacts` of a run."""
    record = facts.record
    steps = [
        *_about_rows(facts),
        *_about_k(record, len(facts.components), len(facts.labels)),
        *_about_units(facts),
        *_about_proof(record),
        Step("The cluster of every row, for your next tool, is in", "labels.csv"),
    ]
    return Section("What to do next", steps=tuple(steps))


def _about_rows(facts: ClusterFacts) -> list[Step]:
    steps = []
    if len(facts.doubtful):
        text = (
            "Look at the doubtful rows: if they share something, they may be a cluster of their "
            "own, or two clusters may be one."
        )
        steps.append(Step(text))
    small = np.flatnonzero((facts.sizes > 0) & (facts.sizes <= _FEW_ROWS))
    if len(small) and len(facts.labels) > _FEW_ROWS * len(facts.components):
        names = ", ".join(map(str, small[:8])) + (", …" if len(small) > 8 else "")
        text = f"Look at the clusters of one or two rows ({names}): outliers, or mistakes in data?"
        steps.append(Step(text))
    return steps


def _about_k(record: dict[str, Any], k: int, n: int) -> list[Step]:
    """Return which other numbers of clusters to try, unless they were compared already."""
    low, high = max(2, k // 2), min(n, max(12, 2 * k))
    if record.get("ranks") or high <= low:
        return []
    text = "Compare other numbers of clusters (in Python: orthoplus.select_rank):"
    return [Step(text, f"-k {low}-{high}")]


def _about_units(facts: ClusterFacts) -> list[Step]:
    """Return the option that scales features, if some are many times as large as others."""
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
        "Some features are many times as large as most others and decide the clusters. If they "
        "are in different units, scale them:"
    )
    return [Step(text, "--scale-columns std")]


def _about_proof(record: dict[str, Any]) -> list[Step]:
    can_prove = loss_of(record) == "frobenius" and record["result"]["bound"] is not None
    if not can_prove or record.get("proof") is not None:
        return []
    return [Step("Look for a proof of how much better a clustering could be:", "--prove 30")]
