"""The tables of the page "How it compares", from recorded rows only.

``python docs/results_table.py`` fills them in. Nothing is left out: `behind` has every case in
which a method is better than ours, `general` every case of the methods for any f, `claims` every
claim with its verdict.
"""

from collections.abc import Iterable, Mapping
from statistics import fmean, geometric_mean
from typing import Any

from results_table import HEADLINES, OWN, PAPERS, Headline, Row, text_of

# Figures that differ relatively by no more, or are both rounding, are a tie; so are excesses in
# percent.
TIE, ROUNDING, EXCESS_TIE = 1e-6, 1e-12, 1e-4
GENERAL, CLAIMS = "general-methods", "claims"
# The table of models for documents, and its hardest corpus.
DOCUMENTS, HARDEST = "divergence", "NewsG-t5"

# What is compared: the headlines, and what else a task is judged by.
COMPARED = [
    *HEADLINES.items(),
    ("text", Headline("share", "documents and images: share of the norm", True)),
    # Methods that take long run on fewer matrices: only the distance from the best is comparable.
    ("hard", Headline("behind", "hard matrices: largest distance from the best share", False)),
    ("unmixing", Headline("rmse", "unmixing: error of the fractions", False)),
]

Cases = dict[str, dict[str, Row]]


def standing(rows: Iterable[Row]) -> str:
    """Return for each task in how many cases ours is best, how often EP4Orth+, how often others."""
    head = [
        "| task: measure | cases | ours best or tied | EP4Orth+ best or tied "
        "| best, and better than ours |",
        "|--|--:|--:|--:|--|",
    ]
    lines, rows = [], list(rows)
    for name, headline in COMPARED:
        cases = _with_ours(rows, name, headline)
        if not cases:
            lines.append(f"| {headline.title} | | | | {_missing(name)} |")
            continue
        tops = [_tied_best(found, headline) for found in cases.values()]
        ours = sum(any(method in OWN for method in top) for top in tops)
        papers = sum(PAPERS in top for top in tops)
        counts: dict[str, int] = {}
        for top in tops:
            if not any(method in OWN for method in top):
                for method in top:
                    counts[method] = counts.get(method, 0) + 1
        words = ", ".join(f"{method} {n}" for method, n in sorted(counts.items(), key=_by_count))
        has_papers = any(PAPERS in found for found in cases.values())
        shown = str(papers) if has_papers else ""
        lines.append(f"| {headline.title} | {len(cases)} | {ours} | {shown} | {words} |")
    return "\n".join(head + lines)


def behind(rows: Iterable[Row]) -> str:
    """Return every case in which another method has a better figure than ours."""
    head = [
        "| task: measure | case | ours | better | how many | CPU s, ours and the other's |",
        "|--|--|--:|--:|--:|--:|",
    ]
    lines, rows = [], list(rows)
    for name, headline in COMPARED:
        for case, found in _with_ours(rows, name, headline).items():
            ours = _best(({m: r for m, r in found.items() if m in OWN}), headline)
            own = found[ours]["figures"][headline.key]
            better = {
                method: row
                for method, row in found.items()
                if method not in OWN and _is_better(row["figures"][headline.key], own, headline)
            }
            if better:
                best = _best(better, headline)
                value = better[best]["figures"][headline.key]
                seconds = (_seconds(found[ours]), _seconds(better[best]))
                cells = [headline.title, case, text_of(own), f"{text_of(value)} ({best})"]
                cells += [f"{len(better)} of {len(found) - 1}", ", ".join(seconds)]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(head + lines) if lines else "*Ours is best or tied in every recorded case.*"


def general(rows: Iterable[Row]) -> str:
    """Return what each method for any f finds, in a run and in equal time, and its seconds."""
    cases = _cases(rows, GENERAL)
    methods = list(dict.fromkeys(method for found in cases.values() for method in found))
    medium = {case: found for case, found in cases.items() if _has(found, "equal")}
    if not medium:
        return _missing(GENERAL)
    head = [
        "| method | tiny: optimal % | excess % of a run | in equal time % "
        "| CPU s of a run / EP4Orth+ | lower, higher than EP4Orth+ in equal time |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    lines = [f"| {' | '.join(_general_line(method, cases, medium))} |" for method in methods]
    names = " | ".join(methods)
    each = [f"| excess in equal time %, CPU s of a run | {names} |", f"|--{'|--:' * len(methods)}|"]
    for case, found in medium.items():
        cells = [_pair(found.get(method)) for method in methods]
        each.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join([*head, *lines, "", *each])


def claims(rows: Iterable[Row]) -> str:
    """Return every claim on every data set, with the figures and the verdict."""
    cases = _cases(rows, CLAIMS)
    if not cases:
        return _missing(CLAIMS)
    lines = ["| claim | data | measured | against | |", "|--|--|--:|--:|--|"]
    for claim, found in cases.items():
        for number, (data, row) in enumerate(found.items()):
            figures = row["figures"]
            verdict = figures.get("verdict") or row.get("note", "failed")
            cells = [claim if number == 0 else "", data, text_of(figures.get("own"))]
            lines.append(f"| {' | '.join([*cells, text_of(figures.get('other')), verdict])} |")
    return "\n".join(lines)


def documents(rows: Iterable[Row]) -> str:
    """Return the mean purity and NMI of each model for documents, and its NMI on one corpus."""
    found: Cases = {}
    for row in rows:
        if row["table"] == DOCUMENTS:
            found.setdefault(row["method"], {})[row["case"]] = row["figures"]
    head = [f"| model | purity ↑ | NMI ↑ | NMI of {HARDEST} ↑ |", "|--|--:|--:|--:|"]
    lines = [
        f"| {method} | {fmean(case['purity'] for case in cases.values()):.1f} "
        f"| {fmean(case['nmi'] for case in cases.values()):.1f} | {cases[HARDEST]['nmi']:.1f} |"
        for method, cases in found.items()
    ]
    return "\n".join(head + lines)


BLOCKS = {"standing": standing, "behind": behind, "general": general, "claims": claims}


def _cases(rows: Iterable[Row], table: str) -> Cases:
    """Return case -> method -> row of a table."""
    found: Cases = {}
    for row in rows:
        if row["table"] == table:
            found.setdefault(row["case"], {})[row["method"]] = row
    return found


def _with_ours(rows: Iterable[Row], table: str, headline: Headline) -> Cases:
    """Return the cases in which ours has the headline figure, with the rows that have it."""
    found = {
        case: {m: r for m, r in own.items() if r["figures"].get(headline.key) is not None}
        for case, own in _cases(rows, table).items()
    }
    return {case: own for case, own in found.items() if any(name in OWN for name in own)}


def _is_better(value: float, than: float, headline: Headline) -> bool:
    margin = max(TIE * max(abs(value), abs(than)), ROUNDING)
    return value > than + margin if headline.is_higher_better else value < than - margin


def _best(found: Mapping[str, Row], headline: Headline) -> str:
    sign = 1.0 if headline.is_higher_better else -1.0
    return max(found, key=lambda method: sign * found[method]["figures"][headline.key])


def _tied_best(found: Mapping[str, Row], headline: Headline) -> list[str]:
    top = found[_best(found, headline)]["figures"][headline.key]
    return [
        m for m, r in found.items() if not _is_better(top, r["figures"][headline.key], headline)
    ]


def _general_line(method: str, cases: Cases, medium: Cases) -> list[str]:
    own = [found[method] for found in cases.values() if method in found]
    shares = [_number(row, "share") for row in own]
    pairs = [(found[method], found[PAPERS]) for found in medium.values() if method in found]
    pairs = [(a, b) for a, b in pairs if _number(a, "equal") is not None]
    gaps = [_number(a, "equal") - _number(b, "equal") for a, b in pairs]
    if not pairs:
        return [method, _mean([s for s in shares if s is not None]), "", "", "", "failed"]
    ratio = geometric_mean([_number(a, "cpu") / _number(b, "cpu") for a, b in pairs])
    lower, higher = sum(g < -EXCESS_TIE for g in gaps), sum(g > EXCESS_TIE for g in gaps)
    return [
        method,
        _mean([share for share in shares if share is not None]),
        _mean([_number(a, "excess") for a, _ in pairs]),
        _mean([_number(a, "equal") for a, _ in pairs]),
        text_of(ratio),
        "" if method == PAPERS else f"{lower}, {higher} of {len(pairs)}",
    ]


def _number(row: Row, key: str) -> Any:
    return row["figures"].get(key)


def _mean(values: list[float]) -> str:
    return text_of(fmean(values)) if values else ""


def _pair(row: Row | None) -> str:
    if row is None:
        return ""
    if _number(row, "equal") is None:
        return row.get("note", "failed")
    return f"{_number(row, 'equal'):.3f}, {_number(row, 'cpu'):.2g}"


def _has(found: Mapping[str, Row], key: str) -> bool:
    return PAPERS in found and any(_number(row, key) is not None for row in found.values())


def _seconds(row: Row) -> str:
    seconds = row["figures"].get("cpu")
    return "-" if seconds is None else f"{seconds:.2g}"


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _missing(name: str) -> str:
    return f"*Not recorded yet: `orthoplus bench {name} -o docs/results --resume` does it.*"
