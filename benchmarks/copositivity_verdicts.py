"""Check the verdicts of `orthoplus.is_copositive` against an exhaustive oracle in integers.

    python benchmarks/copositivity_verdicts.py --count 20000

Random matrices of order 2 to 6 of several kinds, among them many on the border, each scaled by
positive diagonal matrices between 1e-8 and 1e8 and by 1e-12, 1 or 1e12. Floating-point numbers are
fractions, so that the oracle is exact: on a smallest face where copositivity fails the determinant
is negative and no cofactor is (Cottle, Habetler and Lemke, Linear Algebra Appl. 3, 1970).

A verdict is wrong if it says True for a matrix that is not copositive, or False with an x for which
x'Mx < 0 does not hold. None is right within rounding of the border only: M + t Diag(M) must be
copositive and M - t Diag(M) must not be, t = 1e-12.
"""

import argparse
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np

from orthoplus import is_copositive

LARGEST_ORDER = 6
BORDER = 1e-12
HORN = np.array(
    [[1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]]
).astype(float)


# --- the oracle: exact, and no line of it is shared with the library ----------------------------


def as_integers(M):
    """Return M times a positive number as rows of Python integers."""
    parts = [[Fraction(float(entry)) for entry in row] for row in M]
    common = max(entry.denominator for row in parts for entry in row)  # powers of two
    return [[int(entry * common) for entry in row] for row in parts]


def determinant(B):
    """Eliminate in integers (Bareiss)."""
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


def fails(B):
    """Tell whether B is not copositive, all its smaller principal submatrices being so."""
    if determinant(B) >= 0:
        return False
    n = len(B)
    for i in range(n):
        for j in range(i, n):
            minor = [row[:j] + row[j + 1 :] for row in B[:i] + B[i + 1 :]]
            if (-1) ** (i + j) * determinant(minor) < 0:
                return False
    return True


def is_copositive_exactly(M):
    """Decide by all faces."""
    B = as_integers(M)
    for size in range(1, len(B) + 1):
        for face in combinations(range(len(B)), size):
            if fails([[B[i][j] for j in face] for i in face]):
                return False
    return True


def value_is_negative(M, x):
    """Tell whether x'Mx < 0 for x >= 0, exactly."""
    M = [[Fraction(float(entry)) for entry in row] for row in M]
    x = [Fraction(float(entry)) for entry in x]
    total = sum(
        a * entry * b for a, row in zip(x, M, strict=True) for entry, b in zip(row, x, strict=True)
    )
    return min(x) >= 0 and total < 0


# --- the matrices -------------------------------------------------------------------------------


def symmetric(rng, n):
    M = rng.standard_normal((n, n))
    return M + M.T + rng.choice([0.0, 1.5, 3.0]) * np.eye(n)


def whole_numbers(rng, n):
    M = np.triu(rng.integers(-2, 3, (n, n)))
    M = M + np.triu(M, 1).T
    np.fill_diagonal(M, rng.integers(0, 4, n))
    return M.astype(float)


def signs(rng, n):
    """Draw a unit diagonal and entries -1, 0 and 1: often on the border."""
    M = np.triu(rng.choice([-1, 0, 1, 1], (n, n)), 1)
    return (M + M.T + np.eye(n)).astype(float)


def near_horn(rng, n):
    """Shift the Horn matrix, which lies on the border, by a tiny or a clear amount."""
    M = np.zeros((max(n, 5), max(n, 5)))
    M[:5, :5] = HORN
    M[5:, 5:] = np.eye(len(M) - 5)
    M += rng.choice([-1, 0, 0, 1]) * 10.0 ** rng.integers(-17, -1) * np.eye(len(M))
    order = rng.permutation(len(M))
    return M[np.ix_(order, order)]


def singular(rng, n):
    """Add a semidefinite matrix of low rank, in whole numbers, to a nonnegative one."""
    F = rng.integers(-3, 4, (n, int(rng.integers(1, n + 1))))
    N = np.triu(rng.integers(0, 3, (n, n)) * rng.choice([0, 1], (n, n)), 1)
    return (F @ F.T + N + N.T).astype(float)


def hildebrand(rng, n):
    """Draw an extreme ray of order five, whose angles add up to less than pi."""
    t = rng.dirichlet(np.ones(6))[:5] * np.pi
    M = np.eye(5)
    for i in range(5):
        M[i, (i + 1) % 5] = M[(i + 1) % 5, i] = -np.cos(t[i])
        M[i, (i + 2) % 5] = M[(i + 2) % 5, i] = np.cos(t[i] + t[(i + 1) % 5])
    return M


KINDS = (symmetric, whole_numbers, signs, near_horn, singular, hildebrand)


def rescale(M, rng):
    """Return DMD with D between 1e-8 and 1e8, times 1e-12, 1 or 1e12, exactly symmetric.

    Powers of two keep what is on the border there; other numbers round it to one of its sides.
    """
    exponents = rng.uniform(-8, 8, len(M)) * np.log2(10.0)
    d = 2.0 ** (np.round(exponents) if rng.random() < 0.5 else exponents)
    M = rng.choice([1e-12, 1.0, 1e12]) * (d[:, None] * M * d)
    return np.triu(M) + np.triu(M, 1).T


def draw(number, rng):
    """Return the kind and the matrix with this number."""
    kind = KINDS[number % len(KINDS)]
    M = kind(rng, int(rng.integers(2, LARGEST_ORDER + 1)))
    return kind.__name__, M if rng.random() < 0.1 else rescale(M, rng)


# --- the count ----------------------------------------------------------------------------------


def judge(M):
    """Return the verdict on M, and whether it is right."""
    found = is_copositive(M)
    if found.is_copositive is False:
        return False, value_is_negative(M, found.x) and found.value < 0
    if found.is_copositive:
        return True, is_copositive_exactly(M)
    moved = BORDER * np.diag(M.diagonal())
    return None, is_copositive_exactly(M + moved) and not is_copositive_exactly(M - moved)


def count_verdicts(count, seed):
    """Return the numbers of verdicts by kind and verdict, and the matrices that were misjudged."""
    rng, verdicts, wrong = np.random.default_rng(seed), Counter(), []
    for number in range(count):
        kind, M = draw(number, rng)
        verdict, is_right = judge(M)
        verdicts[kind, verdict] += 1
        if not is_right:
            wrong.append((kind, verdict, M))
    return verdicts, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    verdicts, wrong = count_verdicts(options.count, options.seed)
    print(f"{'kind':<16}{'copositive':>12}{'refuted':>10}{'undecided':>11}")
    for kind in KINDS:
        row = [verdicts[kind.__name__, verdict] for verdict in (True, False, None)]
        print(f"{kind.__name__:<16}{row[0]:>12}{row[1]:>10}{row[2]:>11}")
    print(f"{options.count} verdicts checked, {len(wrong)} wrong")
    for kind, verdict, M in wrong[:5]:
        print(f"{kind}, judged {verdict}:\n{M!r}")


if __name__ == "__main__":
    main()
