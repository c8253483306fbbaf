"""Check what the articles on other methods claim, as far as this is possible with our data.

The claims are those of abstracts, in our words. A row is a claim on a data set: the figure of the
method, the figure it is compared with, and the verdict. Our implementations are judged as well: a
claim may fail because of a choice that the abstract does not mention.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus import metrics
from orthoplus.bench.general_methods import METHODS as GENERAL
from orthoplus.bench.general_methods import PENALTY, Run, run_once, starts_of
from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import Runs, run_method
from orthoplus.bench.qap import run_manifold
from orthoplus.bench.table import Column, Figure, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.core.method import iterate
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.datasets import load_arrays, planted_onmf, planted_partition, planted_projection
from orthoplus.geometry.stiefel import violation
from orthoplus.methods.baselines import SEPPG, ConvexRelaxation, SupportSet, WenYin
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.problems import ONMF, QAP, Projection, laplacian_embedding, nonnegative_pca
from orthoplus.run.api import solve

HELD, NOT_HELD = "held", "did not hold"
# Largest ||X'X - I|| of a factor that counts as orthogonal, and of one orthogonal by construction.
ORTHOGONAL, EXACTLY_ORTHOGONAL = 1e-3, 1e-10
# Tolerances for equal purities (in percentage points) and equal values (relative).
PURITY_TIE, VALUE_TIE = 1.0, 1e-6
# Largest factor that passes for "a little more time", the words of SEPPG's authors.
LITTLE_MORE = 3.0
# The gap to the best known value, in percent, that Wen and Yin print for the largest instance.
WEN_YIN_GAP = 0.842
ROWS, QUICK_ROWS = 600, 150
QAPLIB, QUICK_QAPLIB = ("nug20", "tai20a", "bur26a"), ("nug12", "chr12a")


class Labeled(NamedTuple):
    """A nonnegative matrix with its classes."""

    A: FloatArray
    classes: IntArray

    @property
    def k(self) -> int:
        """Return the number of classes."""
        return len(np.unique(self.classes))


class Check(NamedTuple):
    """The figure of a method, the figure it is compared with, and whether the claim held."""

    own: float
    other: float
    is_held: bool
    cpu: float
    other_cpu: float | None = None


# --- data -----------------------------------------------------------------------------------------


def labeled_sets(session: Session) -> dict[str, Labeled]:
    """Return a planted matrix, and digits and wine of scikit-learn, features scaled to [0, 1]."""
    from sklearn.datasets import load_digits, load_wine
    from sklearn.preprocessing import minmax_scale

    n = session.pick(ROWS, QUICK_ROWS)
    planted = planted_onmf(n, n // 2, 6, 1.0, session.rng(1))
    digits, wine = load_digits(), load_wine()
    return {
        "planted, noise 1": Labeled(planted.A, planted.labels),
        "digits": Labeled(digits.data[:n], digits.target[:n]),
        "wine": Labeled(minmax_scale(wine.data), wine.target),
    }


def smooth_problems(session: Session) -> dict[str, Problem]:
    """Return problems of the applications that Support-Set and SEPPG name."""
    n, k = session.pick((200, 5), (60, 3))
    planted = planted_onmf(n, n // 2, k, 1.0, session.rng(2))
    return {
        "nonnegative PCA, planted": nonnegative_pca(planted.A, k),
        "community detection": laplacian_embedding(
            planted_partition([n // k] * k, 0.2, 0.05, session.rng(3)).W, k
        ),
        "projection, planted": Projection(planted_projection(n, k, 0.95, session.rng(4)).C),
        "orthogonal NMF, planted": ONMF(planted.A, k),
    }


# --- checks of factorizations ---------------------------------------------------------------------


def _runs(session: Session, name: str, data: str) -> Runs:
    one = labeled_sets(session)[data]
    return run_method(session, _case(data), name, one.A, one.k)


def _case(data: str) -> str:
    """Return the key under which the session caches runs on a data set."""
    return f"claims {data}"


def check_purity(session: Session, data: str, *, name: str, others: tuple[str, ...]) -> Check:
    """Compare the purity in percent with the best of the others."""
    classes = labeled_sets(session)[data].classes

    def purity(method: str) -> float:
        runs = _runs(session, method, data)
        return 100.0 * runs.mean(lambda found: metrics.purity(classes, found.labels))

    own, other = purity(name), max(map(purity, others))
    return Check(own, other, own >= other - PURITY_TIE, _runs(session, name, data).cpu)


def check_orthogonality(session: Session, data: str, *, name: str, limit: float) -> Check:
    """Compare the violation of the returned factor with a limit."""
    runs = _runs(session, name, data)
    worst = max(found.violation for found in runs.answers)
    return Check(worst, limit, worst <= limit, runs.cpu)


def check_nearer(session: Session, data: str, *, name: str, other: str) -> Check:
    """Compare the violations of X'X = I, columns of norm 1, with that of another method."""
    own, than = (
        _runs(session, method, data).mean(lambda found: violation(_normalized(found.X)))
        for method in (name, other)
    )
    return Check(own, than, own < than, _runs(session, name, data).cpu)


def _normalized(X: FloatArray) -> FloatArray:
    norms = np.linalg.norm(X, axis=0)
    return np.asarray(X / np.where(norms > 0.0, norms, 1.0))


def check_seconds(session: Session, data: str, *, name: str, other: str) -> Check:
    """Compare the seconds with those of another method."""
    own, than = (_runs(session, method, data).cpu for method in (name, other))
    return Check(own, than, own <= than, own, than)


def check_relaxation(session: Session, data: str) -> Check:
    """Compare f after rounding with the value of a relaxation, which must be a bound."""
    one = labeled_sets(session)[data]
    problem = ONMF(one.A, one.k)
    run = timed(lambda: solve(problem, method=ConvexRelaxation(), with_bound=False))
    proof = certify(problem, run.value, time_limit=session.within(10.0, 1.0))
    value, bound = run.value.value, float(proof.bound)
    return Check(value, bound, value >= bound * (1.0 - VALUE_TIE), run.cpu)


# --- checks of methods for any f ------------------------------------------------------------------


def _general(session: Session, method: str, name: str) -> Run:
    def compute() -> Run:
        problem = smooth_problems(session)[name]
        return run_once(GENERAL[method], problem, next(starts_of(problem)), session.seconds)

    return session.once(("claims", method, name), compute)


def check_values(session: Session, name: str, *, method: str, other: str) -> Check:
    """Compare values of f from the same start: the claim is that f is not higher, up to ties."""
    own, than = _general(session, method, name), _general(session, other, name)
    is_held = own.value <= than.value + VALUE_TIE * abs(than.value)
    return Check(own.value, than.value, is_held, own.cpu, than.cpu)


def check_speed(session: Session, name: str, *, method: str, other: str, factor: float) -> Check:
    """Compare seconds from the same start with this multiple of the other's."""
    own, than = _general(session, method, name), _general(session, other, name)
    return Check(own.cpu, than.cpu, own.cpu <= factor * than.cpu, own.cpu, than.cpu)


def check_descent(session: Session, name: str) -> Check:
    """Follow Support-Set: the largest violation of S+ of its iterates; f must never rise."""
    problem, method = smooth_problems(session)[name], SupportSet()
    values, worst, stop = list[float](), 0.0, method.stop()

    def follow() -> None:
        nonlocal worst
        first = method.init(problem, next(starts_of(problem)))
        for state in iterate(problem, method, first):
            values.append(state.value)
            worst = max(worst, state.violation)
            if stop(state) is not Status.RUNNING:
                return

    cpu = timed(follow).cpu
    rises = bool((np.diff(values) > 1e-12 * np.abs(values[:-1])).any())
    return Check(worst, EXACTLY_ORTHOGONAL, worst <= EXACTLY_ORTHOGONAL and not rises, cpu)


def check_manifold(session: Session, name: str) -> Check:
    """Check the columns of Wen and Yin's last point, before rounding."""
    problem = smooth_problems(session)[name]
    run = timed(lambda: solve(problem, method=WenYin(), with_bound=False))
    U: Any = run.value.state.factor
    worst = float(np.linalg.norm(U.T @ U - np.eye(U.shape[1])))
    return Check(worst, EXACTLY_ORTHOGONAL, worst <= EXACTLY_ORTHOGONAL, run.cpu)


# --- checks of assignment -------------------------------------------------------------------------


def _assignment(session: Session, name: str) -> tuple[FloatArray, FloatArray, float]:
    data = load_arrays("qaplib", session.folder)
    best = dict(zip(map(str, data["names"]), data["values"], strict=True))[name]
    return data[f"{name}_A"].astype(float), data[f"{name}_B"].astype(float), float(best)


def _penalty_gap(session: Session, name: str) -> float:
    """Run EP4Orth+ from the same starts as the others, and keep the best permutation."""
    A, B, best = _assignment(session, name)
    problem = QAP(A, B)
    starts = problem.starts(np.random.default_rng(session.seed))
    values = []
    for _ in range(session.pick(10, 3)):
        found = solve(problem, next(starts), method=EP4Orth(), search=False, with_bound=False)
        values.append(problem.value_of(found.labels))
    return 100.0 * (min(values) / best - 1.0)


def check_gap(session: Session, name: str) -> Check:
    """Compare the gap of Wen and Yin's method with the one they print for a larger instance."""
    A, B, best = _assignment(session, name)
    run = timed(lambda: run_manifold(WenYin, A, B, session))
    gap = 100.0 * (run.value.value / best - 1.0)
    return Check(gap, WEN_YIN_GAP, gap <= WEN_YIN_GAP, run.cpu)


def check_assignment(session: Session, name: str) -> Check:
    """Compare the gaps of SEPPG and EP4Orth+, neither with exchanges."""
    A, B, best = _assignment(session, name)
    own = timed(lambda: run_manifold(SEPPG, A, B, session))
    other = timed(lambda: _penalty_gap(session, name))
    gap = 100.0 * (own.value.value / best - 1.0)
    return Check(gap, other.value, gap <= other.value, own.cpu, other.cpu)


# --- the table ------------------------------------------------------------------------------------

SETS = ("planted, noise 1", "digits", "wine")
PCA = ("nonnegative PCA, planted", "community detection")
ALL_SMOOTH = (*PCA, "projection, planted", "orthogonal NMF, planted")
NMF_METHODS = ("U-onmf", "ONP-MF", "EM-ONMF")
SMOOTH, NONSMOOTH = "SEPPG smooth", "SEPPG nonsmooth"
Checks = Mapping[str, tuple[Callable[..., Check], tuple[str, ...]]]
CLAIMS: Checks = {
    "SNCP: purity of k-means or more": (
        partial(check_purity, name="SNCP", others=("K-means",)), SETS),
    "NSNCP: purity of k-means or more": (
        partial(check_purity, name="NSNCP", others=("K-means",)), SETS),
    "SNCP: purity of other ONMF or more": (
        partial(check_purity, name="SNCP", others=NMF_METHODS), SETS),
    "SNCP: ends orthogonal": (
        partial(check_orthogonality, name="SNCP", limit=ORTHOGONAL), SETS),
    "SNCP: fewer seconds than ONP-MF": (
        partial(check_seconds, name="SNCP", other="ONP-MF"), SETS),
    "GOPA: exactly orthogonal": (
        partial(check_orthogonality, name="GOPA", limit=EXACTLY_ORTHOGONAL), SETS),
    "GOPA: purity of approximate ONMF": (
        partial(check_purity, name="GOPA", others=("U-onmf", "AO-NMF")), SETS),
    "GOPA: batches are faster": (
        partial(check_seconds, name="GOPA batch", other="GOPA"), SETS),
    "GOPA: batches are as pure": (
        partial(check_purity, name="GOPA batch", others=("GOPA",)), SETS),
    "AO-NMF: fewer seconds than U-onmf": (
        partial(check_seconds, name="AO-NMF", other="U-onmf"), SETS),
    "AO-NMF: more orthogonal than NMF": (
        partial(check_nearer, name="AO-NMF", other="NMF"), SETS),
    "AO-NMF apg: more orthogonal than NMF": (
        partial(check_nearer, name="AO-NMF apg", other="NMF"), SETS),
    "Pan-Ng: relaxed value is a bound": (
        check_relaxation, ("planted, noise 1", "wine")),
    "Wen-Yin: columns stay orthonormal": (check_manifold, ALL_SMOOTH),
    f"Wen-Yin: QAP gap {WEN_YIN_GAP:g} % at most": (check_gap, QAPLIB),
    "SEPPG: f of EP4Orth+ or lower": (
        partial(check_values, method=SMOOTH, other=PENALTY), ALL_SMOOTH),
    "SEPPG: f of Wen-Yin or lower": (
        partial(check_values, method=SMOOTH, other="Wen-Yin"), ALL_SMOOTH),
    "SEPPG0: f of EP4Orth+ or lower": (
        partial(check_values, method=NONSMOOTH, other=PENALTY), ALL_SMOOTH),
    "SEPPG: QAP gap of EP4Orth+ or less": (check_assignment, QAPLIB),
    f"SEPPG: {LITTLE_MORE:g} times its seconds at most": (
        partial(check_speed, method=SMOOTH, other=PENALTY, factor=LITTLE_MORE), ALL_SMOOTH),
    "Support-Set: feasible, f never rises": (check_descent, ALL_SMOOTH),
    "Support-Set: faster than EP4Orth+": (
        partial(check_speed, method="Support-Set", other=PENALTY, factor=1.0), ALL_SMOOTH),
    "Support-Set: f of EP4Orth+ or lower": (
        partial(check_values, method="Support-Set", other=PENALTY), ALL_SMOOTH),
}  # fmt: skip


def tasks(session: Session) -> Items:
    """Yield one case per claim with one row per data set."""
    for options in GENERAL.values():  # compile
        problem = nonnegative_pca(np.eye(12, 4) + 0.1, 2)
        run_once(options, problem, next(starts_of(problem)), session.seconds)
    for claim, (check, names) in CLAIMS.items():
        for name in session.pick(QAPLIB, QUICK_QAPLIB) if names is QAPLIB else names:
            yield one_row(claim, name, _measure, session, check, name)


def _measure(session: Session, check: Callable[..., Check], name: str) -> Figures:
    found = check(session, name)
    verdict = HELD if found.is_held else NOT_HELD
    note = _cut_runs(session, check, name)
    figures: dict[str, Figure] = {
        "note": note,
        "own": found.own,
        "other": found.other,
        "verdict": verdict,
        "cpu": found.cpu,
    }
    return figures if found.other_cpu is None else figures | {"other_cpu": found.other_cpu}


def _cut_runs(session: Session, check: Callable[..., Check], name: str) -> str:
    """Return a note on the methods of a check that were stopped by the time limit."""
    options = check.keywords if isinstance(check, partial) else {}
    methods = [options.get("name"), options.get("method"), options.get("other")]
    cut = []
    for method in filter(None, [*methods, *options.get("others", ())]):
        runs = session.shared.get(("onmf", _case(name), method))
        run = session.shared.get(("claims", method, name))
        is_cut = runs is not None and any(answer.is_cut for answer in runs.answers)
        if is_cut or (run is not None and run.is_cut):
            cut.append(method)
    return f"{', '.join(cut)} stopped after {session.seconds:g} CPU s" if cut else ""


def judge(rows: Rows) -> list[str]:
    """Report for each claim on how many data sets it held."""
    lines = []
    for claim, found in rows.by_case().items():
        n_held = sum(row.figures.get("verdict") == HELD for row in found.values())
        lines.append(f"{claim}: held on {n_held} of {len(found)}.")
    return lines


TABLE = Table(
    about="Claims of the abstracts of other methods, in our words, checked with our "
    "implementations on the available data. Purities are in percent, with ties within "
    f"{PURITY_TIE:g}; values of f are from the same start, with ties within {VALUE_TIE:g}; "
    f"violations of X'X = I are compared with {ORTHOGONAL:g}, or with {EXACTLY_ORTHOGONAL:g} for "
    "methods that are exact by construction. "
    "The authors of SEPPG report slightly more time than EP4Orth+. "
    "Wen and Yin print their gap for an instance with n = 256, which is not among ours.",
    columns=(
        Column("own", "own", ".3g", about="of the method that the claim is about"),
        Column("other", "other", ".3g", about="of the method it is compared with, or the limit"),
        Column("verdict", "verdict", ""),
        Column("cpu", "CPU s", ".2f"),
        Column("other_cpu", "other s", ".2f", about="of the method it is compared with"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_ROWS} rows, smaller problems and assignments",
)
