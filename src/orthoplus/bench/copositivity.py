"""Verdicts of `is_copositive` against an exhaustive oracle in integers.

Random matrices of order 2 to 6 of several kinds, many of them on the boundary, each scaled by
positive diagonal matrices between 1e-8 and 1e8 and by 1e-12, 1 or 1e12. Floating-point numbers are
fractions, so that the oracle is exact: on a smallest face where copositivity fails the determinant
is negative and no cofactor is (Cottle, Habetler and Lemke, Linear Algebra Appl. 3, 1970).

A verdict is wrong if it says True for a matrix that is not copositive, or False with an x for which
x'Mx < 0 does not hold. None is right only within rounding of the boundary: M + t Diag(M) must be
copositive and M - t Diag(M) must not be, t = 1e-12.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.copositive import is_copositive
from orthoplus.core.types import FloatArray

COUNT, QUICK_COUNT = 3400, 40
LARGEST_ORDER = 6
BORDER = 1e-12
VERDICTS: dict[bool | None, str] = {True: "copositive", False: "refuted", None: "undecided"}
HORN = np.array(
    [[1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]]
).astype(float)
Integers = list[list[int]]


# --- the oracle: exact, and independent of the code of the library ------------------------------


def as_integers(M: FloatArray) -> Integers:
    """Scale M by a positive number to rows of Python integers."""
    parts = [[Fraction(float(entry)) for entry in row] for row in M]
    common = max(entry.denominator for row in parts for entry in row)  # powers of two
    return [[int(entry * common) for entry in row] for row in parts]


def determinant(B: Integers) -> int:
    """Run fraction-free elimination in integers (Bareiss)."""
    B, sign, last = [list(row) for row in B], 1, 1
    for k in range(len(B) - 1):
        if B[k][k] == 0:
            swap = next((i for i in range(k + 1, len(B)) if B[i][k]), None)
            if swap is None:
                return 0
            B[k], B[swap], sign = B[swap], B[k], -sign
        for i in range(k + 1, len(B)):
            for j in range(k + 1, len(B)):
                B[i][j] = (B[i][j] * B[k][k] - B[i][k] * B[k][j]) // last
        last = B[k][k]
    return sign * B[-1][-1] if B else 1


def fails(B: Integers) -> bool:
    """Return whether B is not copositive, given that its smaller principal submatrices are."""
    if determinant(B) >= 0:
        return False
    for i in range(len(B)):
        for j in range(i, len(B)):
            minor = [row[:j] + row[j + 1 :] for row in B[:i] + B[i + 1 :]]
            if (-1) ** (i + j) * determinant(minor) < 0:
                return False
    return True


def is_copositive_exactly(M: FloatArray) -> bool:
    """Decide copositivity by checking all faces."""
    B = as_integers(M)
    return not any(
        fails([[B[i][j] for j in face] for i in face])
        for size in range(1, len(B) + 1)
        for face in combinations(range(len(B)), size)
    )


def value_is_negative(M: FloatArray, x: FloatArray) -> bool:
    """Return whether x >= 0 and x'Mx < 0 hold exactly."""
    (weights,), rows = as_integers(x[None]), as_integers(M)
    products = [sum(m * b for m, b in zip(row, weights, strict=True)) for row in rows]
    total = sum(a * product for a, product in zip(weights, products, strict=True))
    return min(weights) >= 0 and total < 0


# --- the matrices -------------------------------------------------------------------------------


def symmetric(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw Gaussian entries, with a heavier diagonal in two thirds of the cases."""
    M = rng.standard_normal((n, n))
    return np.asarray(M + M.T + rng.choice([0.0, 1.5, 3.0]) * np.eye(n))


def whole_numbers(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw small integers with a nonnegative diagonal."""
    M = np.triu(rng.integers(-2, 3, (n, n)))
    M = M + np.triu(M, 1).T
    np.fill_diagonal(M, rng.integers(0, 4, n))
    return M.astype(float)


def signs(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw a unit diagonal and entries -1, 0 and 1, which is often on the boundary."""
    M = np.triu(rng.choice([-1, 0, 1, 1], (n, n)), 1)
    return (M + M.T + np.eye(n)).astype(float)


def near_horn(rng: np.random.Generator, n: int) -> FloatArray:
    """Shift the Horn matrix, which is on the boundary, by a tiny or a large amount."""
    M = np.eye(max(n, 5))
    M[:5, :5] = HORN
    M += rng.choice([-1, 0, 0, 1]) * 10.0 ** rng.integers(-17, -1) * np.eye(len(M))
    order = rng.permutation(len(M))
    return M[np.ix_(order, order)]


def singular(rng: np.random.Generator, n: int) -> FloatArray:
    """Add a semidefinite integer matrix of low rank to a nonnegative one."""
    F = rng.integers(-3, 4, (n, int(rng.integers(1, n + 1))))
    N = np.triu(rng.integers(0, 3, (n, n)) * rng.choice([0, 1], (n, n)), 1)
    return np.asarray(F @ F.T + N + N.T).astype(float)


def hildebrand(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw an extreme ray of order five, whose angles add up to less than pi."""
    t = rng.dirichlet(np.ones(6))[:5] * np.pi
    M = np.eye(5)
    for i in range(5):
        M[i, (i + 1) % 5] = M[(i + 1) % 5, i] = -np.cos(t[i])
        M[i, (i + 2) % 5] = M[(i + 2) % 5, i] = np.cos(t[i] + t[(i + 1) % 5])
    return M


KINDS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (symmetric, whole_numbers, signs, near_horn, singular, hildebrand)
}


def rescale(M: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return DMD with D between 1e-8 and 1e8, times 1e-12, 1 or 1e12, exactly symmetric.

    Powers of two keep a matrix on the boundary; other factors round it to one of the sides.
    """
    exponents = rng.uniform(-8, 8, len(M)) * np.log2(10.0)
    d = 2.0 ** (np.round(exponents) if rng.random() < 0.5 else exponents)
    M = rng.choice([1e-12, 1.0, 1e12]) * (d[:, None] * M * d)
    return np.asarray(np.triu(M) + np.triu(M, 1).T)


# --- the table ----------------------------------------------------------------------------------


def check_verdict(M: FloatArray) -> tuple[bool | None, bool]:
    """Return the verdict on M, and whether it is right."""
    found = is_copositive(M)
    if found.is_copositive is False:
        assert found.x is not None
        is_right = value_is_negative(M, found.x) and float(found.value or 0.0) < 0
    elif found.is_copositive:
        is_right = is_copositive_exactly(M)
    else:
        moved = BORDER * np.diag(M.diagonal())
        is_right = is_copositive_exactly(M + moved) and not is_copositive_exactly(M - moved)
    return found.is_copositive, is_right


def count_verdicts(kind: str, count: int, rng: np.random.Generator) -> dict[str, object]:
    """Count verdicts and wrong verdicts; a note shows the first wrong one."""
    verdicts, note = Counter({"wrong": 0, **dict.fromkeys(VERDICTS.values(), 0)}), ""
    for _ in range(count):
        M = KINDS[kind](rng, int(rng.integers(2, LARGEST_ORDER + 1)))
        M = M if rng.random() < 0.1 else rescale(M, rng)
        verdict, is_right = check_verdict(M)
        verdicts[VERDICTS[verdict]] += 1
        verdicts["wrong"] += not is_right
        note = note or ("" if is_right else f"judged {VERDICTS[verdict]}: {M.tolist()}")
    return {**verdicts, "note": note}


def tasks(session: Session) -> Items:
    """Yield a case for each kind of matrix."""
    for number, kind in enumerate(KINDS):
        yield one_row(kind, "is_copositive", _measure, session, kind, number)


def _measure(session: Session, kind: str, number: int) -> Figures:
    count = session.pick(COUNT, QUICK_COUNT)
    run = timed(lambda: count_verdicts(kind, count, session.rng(number)))
    return {**run.value, "cpu": run.cpu}  # type: ignore[dict-item]


def judge(rows: Rows) -> list[str]:
    """Report how many verdicts were checked, and how many are wrong."""
    count = sum(sum(rows.numbers(verdict)) for verdict in VERDICTS.values())
    return [f"{count:,.0f} verdicts checked, {sum(rows.numbers('wrong')):.0f} wrong."]


TABLE = Table(
    about="Random matrices of order 2 to 6, scaled by diagonal matrices, against an oracle in "
    "integers; `undecided` is correct only within rounding errors of the boundary.",
    columns=(
        *(Column(verdict, verdict, ".0f") for verdict in VERDICTS.values()),
        Column("wrong", "wrong", ".0f"),
        Column("cpu", "CPU s", ".1f", "", "with the oracle"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_COUNT} matrices of each kind instead of {COUNT:,}",
)
