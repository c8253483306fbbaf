"""Scores of labels against known classes, as several tables show them."""

from orthoplus.bench.table import Column
from orthoplus.core.types import IntArray
from orthoplus.metrics import entropy, nmi, purity

SCORES = {"purity": purity, "nmi": nmi, "entropy": entropy}


def score(truth: IntArray, labels: IntArray) -> dict[str, float]:
    """Return purity, NMI and entropy in percent."""
    return {key: 100.0 * measure(truth, labels) for key, measure in SCORES.items()}


def score_columns(spec: str) -> tuple[Column, ...]:
    """Return the columns of the three scores."""
    return (
        Column("purity", "purity", spec, "most"),
        Column("nmi", "NMI", spec, "most"),
        Column("entropy", "entropy", spec, "least", "all three in percent"),
    )
