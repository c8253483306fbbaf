"""Run a relaxation until a deadline: decide when to compute a bound and when to stop."""

from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np

from orthoplus.certify.certificate import DensePart
from orthoplus.certify.relaxation import Relaxation
from orthoplus.core.types import FloatArray, IntArray

# A bound needs all eigenvalues. It is computed if the iterations since the last one took _PATIENCE
# times as long as a bound and the estimate fell by this share of the gap, or if they took
# _MOST_PATIENCE times as long.
_WORTHWHILE, _PATIENCE, _MOST_PATIENCE = 0.02, 2.0, 8.0
# A bound may be looser by this share of the gap, which is far less than the expected gain.
_SLACK = 2e-3
# Cuts are added once the last third of the time closed less than this share of the gap, after at
# least this many bounds.
_SLOW, _BOUNDS_BEFORE_CUTS, _TIME_PART_BEFORE_CUTS = 0.1, 4, 2 / 3
# Seconds per round of iterations.
_SHORTEST, _LONGEST = 0.02, 1.0
_FIRST_ITERATIONS = 3
# The relaxation has converged if the last half of its time closed less than this share of the gap,
# after at least this many bounds and iterations: on a busy machine the first bounds come after few
# iterations, before any gain. New cuts need time to act, so with cuts it is the last four fifths of
# the time.
_STALLED, _FEWEST_BOUNDS, _FEWEST_ITERATIONS = 1e-3, 12, 300
_TIME_PART, _TIME_PART_WITH_CUTS = 0.5, 0.2


def run_relaxation(
    relaxation: Relaxation,
    target: float,
    deadline: float,
    find_ratios: Callable[[], FloatArray | None] | None = None,
) -> Iterator[float]:
    """Yield nonincreasing upper bounds until the deadline or until the relaxation stalls.

    Parameters
    ----------
    relaxation : Relaxation
    target : float
        The best value reached; no bound can fall below it.
    deadline : float
        Deadline on the clock of ``time.perf_counter``; the last bound is computed before it.
    find_ratios : callable, optional
        Function that returns the ratios for cuts, or None. It is called once the relaxation
        converges slowly without cuts.

    Examples
    --------
    >>> M = np.array([[2.0, 1.5, 0.0], [1.5, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> bounds = list(run_relaxation(Relaxation(M, 2), 4.5, perf_counter() + 60.0))
    >>> round(bounds[-1], 6)
    4.5
    """
    started = perf_counter()
    upper = relaxation.upper_bound()
    cost = perf_counter() - started
    yield upper
    part = _TIME_PART if relaxation.ratios is None else _TIME_PART_WITH_CUTS
    seen, last, n_iter = [(0.0, upper)], perf_counter(), _FIRST_ITERATIONS
    while True:
        before = perf_counter()
        relaxation.advance(n_iter)
        spent = perf_counter() - before
        n_iter = _next_iterations(n_iter, spent, cost)
        # Leave enough time for one more round and a final bound, which may take longer than the
        # last.
        is_last = perf_counter() + 1.5 * cost + max(spent, _SHORTEST) >= deadline
        if is_last or _is_worthwhile(relaxation, upper, target, (perf_counter() - last) / cost):
            before = perf_counter()
            upper = min(upper, relaxation.upper_bound(_SLACK * max(upper - target, 0.0)))
            last = perf_counter()
            cost = last - before
            seen.append((last - started, upper))
            yield upper
        if is_last:
            return
        if find_ratios is not None and _is_slow(seen, target):
            ratios, find_ratios = find_ratios(), None
            if ratios is not None:
                relaxation.use_ratios(ratios)
                # The relaxation with cuts is a new problem: judge its progress from here.
                part, started, seen = _TIME_PART_WITH_CUTS, perf_counter(), [(0.0, upper)]
        elif relaxation.n_iter >= _FEWEST_ITERATIONS and _has_stalled(seen, target, part):
            return


def _next_iterations(n_iter: int, spent: float, cost: float) -> int:
    wanted = min(max(cost / 2, _SHORTEST), _LONGEST)
    return int(min(max(1.0, n_iter * wanted / max(spent, 1e-6)), 4.0 * n_iter))


def _is_worthwhile(relaxation: Relaxation, upper: float, target: float, patience: float) -> bool:
    if patience < _PATIENCE:
        return False
    fall = upper - relaxation.estimate()
    return fall > _WORTHWHILE * (upper - target) or patience > _MOST_PATIENCE


def _is_slow(seen: list[tuple[float, float]], target: float) -> bool:
    if len(seen) < _BOUNDS_BEFORE_CUTS:
        return False
    return _gain(seen, _TIME_PART_BEFORE_CUTS) < _SLOW * max(seen[-1][1] - target, 0.0)


def _gain(seen: list[tuple[float, float]], part: float) -> float:
    """Return how much the bound has fallen since this fraction of the elapsed time."""
    elapsed, upper = seen[-1]
    return next(bound for seconds, bound in reversed(seen) if seconds <= part * elapsed) - upper


def _has_stalled(seen: list[tuple[float, float]], target: float, part: float) -> bool:
    if len(seen) < _FEWEST_BOUNDS:
        return False
    return _gain(seen, part) < _STALLED * max(seen[-1][1] - target, 0.0)


def part_of(relaxation: Relaxation, rows: IntArray | None = None) -> DensePart:
    """Return the proof of the best bound of a relaxation as a `DensePart`."""
    S, cuts = relaxation.best_S, relaxation.best_cuts
    corners = np.stack([cuts.i, cuts.j, cuts.l], axis=1).astype(np.int64)
    own = np.zeros(0, dtype=np.int64) if rows is None else rows
    ratios = np.ones((len(corners), 2))
    if relaxation.unit is None and relaxation.ratios is not None:
        ratios = np.stack([relaxation.ratios[cuts.i, other] for other in (cuts.j, cuts.l)], axis=1)
        ratios[cuts.l < 0, 1] = 1.0
    return DensePart(own, pack(S), corners, np.asarray(cuts.mu, dtype=np.float64), ratios)


def pack(S: FloatArray) -> FloatArray:
    """Pack the upper triangle of S with its diagonal by rows, setting negative entries to 0.

    Examples
    --------
    >>> pack(np.array([[1.0, 2.0], [2.0, -3.0]]))
    array([1., 2., 0.])
    """
    half = np.concatenate([S[i, i:] for i in range(len(S))])
    return np.maximum(half, 0, out=half)


def unpack(half: FloatArray, n: int) -> FloatArray:
    """Return the symmetric S of order n from its packed half; an empty half stands for S = 0.

    Examples
    --------
    >>> unpack(np.array([1.0, 2.0, 0.0]), 2)
    array([[1., 2.],
           [2., 0.]])
    """
    S, start = np.zeros((n, n)), 0
    for i in range(n if len(half) else 0):
        S[i, i:] = S[i:, i] = half[start : start + n - i]
        start += n - i
    return S
