"""``--prove``: certify a clustering and show the progress."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from orthoplus.certify.certificate import Certificate
from orthoplus.cli.display import SECONDS_BETWEEN_LINES, is_live, percent, waiting
from orthoplus.cli.terminal import echo_stderr

if TYPE_CHECKING:
    from orthoplus.estimators import OrthogonalNMF
    from orthoplus.problems import KLONMF, ONMF

Follow = Callable[[Certificate], None]


def prove(
    model: "OrthogonalNMF", values: Any, total: float, seconds: float, *, silent: bool
) -> Certificate:
    """Certify a fitted estimator within a time limit, and show the gap while it shrinks.

    Ctrl-C stops with the best bound so far.
    """
    with following(total, silent=silent) as follow:
        certificate: Certificate = model.certify(values, time_limit=seconds, callback=follow)
    return certificate


class Proof(NamedTuple):
    """A certificate of the final result, and a remark if the proof improved the result."""

    certificate: Certificate
    found: str | None = None


def improve(
    model: "OrthogonalNMF", values: Any, problem: "ONMF | KLONMF", certificate: Certificate
) -> Proof:
    """Update a fitted estimator if the proof found a better partition."""
    if not certificate.improved:
        return Proof(certificate)
    before, total = model.result_.value, problem.total or 1.0
    after = model.improve(values, certificate).result_.value
    if not after < before:  # the difference was only rounding
        return Proof(certificate)
    return Proof(
        certificate.judge(model.result_, problem),
        f"The proof found a better partition: explained {1 - before / total:.2%} -> "
        f"{1 - after / total:.2%}, objective {before:.6g} -> {after:.6g}. It was written.",
    )


@contextmanager
def following(total: float, *, silent: bool) -> Iterator[Follow]:
    """Yield a function that shows a certificate: one changing line on a terminal, else lines."""
    if silent:
        yield lambda certificate: None
    elif is_live():
        with waiting("Proving", silent=False) as say:
            yield lambda certificate: say(f"Proving: {sentence(certificate, total)}")
    else:
        yield _plain_lines(total)


def _plain_lines(total: float) -> Follow:
    printed = -float("inf")

    def follow(certificate: Certificate) -> None:
        nonlocal printed
        if time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            echo_stderr(f"  {sentence(certificate, total)}  {certificate.seconds:.1f} s")

    return follow


def sentence(certificate: Certificate, total: float) -> str:
    """Return one line with the explained share and the upper bound on it."""
    total = total or 1.0
    gap = "" if certificate.gap is None else f", gap {percent(certificate.gap)}"
    return (
        f"explained {1 - certificate.value / total:.2%}, upper bound "
        f"{1 - certificate.bound / total:.2%}{gap}"
    )


def describe_proof(certificate: Certificate) -> dict[str, Any]:
    """Return the figures of a certificate for the record of a run."""
    names = ("value", "bound", "gap", "kind", "is_optimal", "agreement", "seconds", "message")
    found = {name: getattr(certificate, name) for name in names}
    return found | {"history": [row._asdict() for row in certificate.history]}
