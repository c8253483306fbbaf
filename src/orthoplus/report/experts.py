"""Build the section for experts: objective, bound, violation, convergence, and the command."""

from typing import Any, NamedTuple

from orthoplus.core.status import Status
from orthoplus.report import figures
from orthoplus.report.page import Fact, Section, rows_of

# Larger gaps are shown as "over" this one, because they are no more informative.
_MOST_GAP = 1000.0
# Smallest change of the bound, relative to the total, that is drawn as a curve.
_LEAST_MOVE = 1e-4


class Measure(NamedTuple):
    """What the objective means, and what its share refers to."""

    share: str
    meaning: str


_MEASURES = {
    "frobenius": Measure("of the sum of squares", "the residual ||A-XX'A||\u2060²"),
    "kullback-leibler": Measure(
        "of the divergence from the independence model (row sums x column sums / total)",
        "the Kullback-Leibler divergence of the data from the model",
    ),
}


def loss_of(record: dict[str, Any]) -> str:
    """Return the loss that was minimized."""
    return str(record.get("model", {}).get("loss", "frobenius"))


def measure_of(record: dict[str, Any]) -> Measure:
    """Return what the objective of a run means."""
    return _MEASURES[loss_of(record)]


def remarks_of(record: dict[str, Any]) -> tuple[str, ...]:
    """Return remarks in the message of a successful run, for example on units."""
    result = record["result"]
    rest = result["message"].removeprefix(Status[result["status"]].message).strip()
    return (rest,) if result["success"] and rest != result["message"] and rest else ()


def explained_of(record: dict[str, Any]) -> float:
    """Return the explained share."""
    result = record["result"]
    return float(1 - result["objective"] / (result["total"] or 1.0))


def percent(share: float) -> str:
    """Format a share in percent, with enough decimals that only 1 is shown as 100%.

    Examples
    --------
    >>> percent(0.97134), percent(0.999996), percent(1.0)
    ('97.13%', '99.9996%', '100.00%')
    """
    texts = [f"{share:.{digits}%}" for digits in (2, 3, 4, 6)]
    return next((text for text in texts if float(text[:-1]) < 100.0), texts[0])


def most_of(record: dict[str, Any]) -> float | None:
    """Return the upper bound on the explained share, proven or quick, if known."""
    result = record["result"]
    bound = (record.get("proof") or result)["bound"]
    return None if bound is None else float(1 - bound / (result["total"] or 1.0))


def experts_section(record: dict[str, Any]) -> Section:
    """Return the folded section with the figures and curves of the optimization."""
    result, proof = record["result"], record.get("proof")
    total, drawn = result["total"] or 1.0, []
    if proof is not None and _moves(proof["history"], total):
        caption = "Explained share and its upper bound over the time of the proof."
        drawn.append((caption, figures.proof_curve(proof["history"], total)))
    curves = figures.convergence(record["history"], total)
    if curves:
        drawn.append((_curve_caption(record), curves))
    text = result["message"] if proof is None else f"{result['message']} {proof['message']}"
    return Section(
        "For experts",
        text,
        facts=quality_facts(record),
        figures=tuple(drawn),
        table=rows_of(
            {name: value for name, value in record.items() if name not in ("history", "format")}
        ),
        is_folded=True,
    )


def _moves(history: list[dict[str, Any]], total: float) -> bool:
    """Return whether the bound changes enough to be drawn as a curve."""
    bounds = [row["bound"] for row in history]
    return len(bounds) > 1 and max(bounds) - min(bounds) > _LEAST_MOVE * total


def _curve_caption(record: dict[str, Any]) -> str:
    is_penalty = any(row["violation"] for row in record["history"])
    if not is_penalty:
        return (
            f"The objective over the outer iterations, as a share {measure_of(record).share}. "
            "Every iterate is feasible, and the best one is kept."
        )
    return (
        "Penalty, violation and objective over the outer iterations. The penalty sigma grows until "
        "the columns no longer overlap and the violation vanishes. The objective, as a share of "
        "the sum of squares, first falls and then rises as the overlap disappears; rounding and "
        "refinement follow after the last point."
    )


def quality_facts(record: dict[str, Any]) -> tuple[Fact, ...]:
    """Return objective, bound, gap, violation and work."""
    result, proof = record["result"], record.get("proof")
    facts = [Fact("Objective", f"{result['objective']:.6g}", measure_of(record).meaning)]
    bounded = result if proof is None else proof
    if bounded["bound"] is not None:
        kind = "quick bound: the best rank-k residual" if proof is None else "proven"
        gap = "between objective and bound; 0 proves optimality"
        facts += [
            Fact("Bound", f"{bounded['bound']:.6g}", kind),
            Fact("Gap", _gap_text(bounded["gap"]), gap),
        ]
    return (
        *facts,
        Fact("Violation", f"{result['violation']:.1e}", "of X'X = I and X ≥ 0, due to rounding"),
        Fact("Work", f"{result['seconds']:.3g} s", f"{result['iterations']} outer iterations"),
    )


def _gap_text(gap: float | None) -> str:
    """Format the gap in percent; it is undefined for a bound of 0."""
    if gap is None:
        return "none"
    return f"{gap:.2%}" if gap <= _MOST_GAP else f"over {_MOST_GAP:.0%}"


def again_section(record: dict[str, Any]) -> Section:
    """Return the section with the command that repeats the run."""
    text = "The same command with the same file gives the same result."
    return Section("Run it again", text, code=record["command"])


def foot_of(record: dict[str, Any]) -> str:
    """Return the footer with version and time."""
    return f"orthoplus {record['versions']['orthoplus']}, {record['finished']}"
