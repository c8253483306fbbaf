"""Table 2: orthogonal NMF on synthetic data, section 6.2.1."""

import numpy as np

from orthoplus.bench.onmf_methods import DEFAULT, METHODS, round_any, run_method
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.types import FloatArray
from orthoplus.datasets import planted_onmf
from orthoplus.metrics import residual
from orthoplus.problems import ONMF

SIZE, QUICK_SIZE = (1000, 3000, 10), (200, 400, 5)
NOISES, QUICK_NOISES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0), (0.1, 10.0)
# Relative tolerance for equal residuals, and residual of an exact factorization up to rounding.
TIE, ROUNDING = 1e-5, 1e-13


def tasks(session: Session) -> Items:
    """Yield a case for each noise; all methods on the same matrix."""
    n, r, k = session.pick(SIZE, QUICK_SIZE)
    for noise in session.pick(NOISES, QUICK_NOISES):
        A = planted_onmf(n, r, k, noise, session.rng(n)).A
        for method in METHODS:
            yield one_row(f"xi = {noise:g}", method, _measure, session, noise, method, A, k)


def _measure(session: Session, noise: float, method: str, A: FloatArray, k: int) -> Figures:
    runs = run_method(session, f"synthetic xi = {noise:g}", method, A, k)
    refine = ONMF(A, k).refine  # the best weights for the groups of X
    return runs.figures("violation", "before") | {
        "residual": runs.mean(lambda found: residual(A, np.maximum(found.X, 0.0))),
        "refit": min(residual(A, refine(round_any(found.X))) for found in runs.answers),
    }


def judge(rows: Rows) -> list[str]:
    """Report whether the default has the smallest residual in every case and is feasible."""
    wins, worst, cases = 0, 0.0, rows.by_case()
    for methods in cases.values():
        ours = methods.pop(DEFAULT)
        others = [row.number(key) for row in methods.values() for key in ("residual", "refit")]
        wins += ours.number("residual") <= max(min(others) * (1 + TIE), ROUNDING)
        worst = max(worst, ours.number("violation"))
    return [
        f"The default has the smallest residual, after rounding and after refit, in {wins} of "
        f"{len(cases)} cases (ties within {TIE:g}); its violation is at most {worst:.1e}."
    ]


TABLE = Table(
    about=f"n, r, k = {SIZE}; noise of norm xi on a signal of norm 1.",
    columns=(
        Column("violation", "violation", ".0e", "least", "||X'X - I|| + ||min(X, 0)||, answer"),
        Column("before", "before", ".0e", "", "the same before rounding"),
        Column("residual", "residual", ".4g", "least", "||A - XX'A|| after rounding"),
        Column("refit", "refit", ".6g", "least", "with the best weights for each group; best seed"),
        Column("n_iter", "iterations", ".0f"),
        Column("cpu", "CPU s", ".1f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"n, r, k = {QUICK_SIZE}, xi = 0.1 and 10 only, a second or two per run",
)
