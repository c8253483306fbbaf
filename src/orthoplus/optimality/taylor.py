"""Taylor remainders along a direction: their order, and the rounding error that hides it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.types import ROUNDOFF, FloatArray

# Two steps per decade, from 1e-1 to 1e-9.
STEPS = 10.0 ** -np.arange(1.0, 9.25, 0.5)
# The slope is fitted to the finest two decades that are this far above the rounding error.
_STRETCH, _ABOVE_NOISE = 5, 30.0
# Threshold between the slopes 1 and 2; a fit over two decades is accurate to about 0.1.
_RIGHT_SLOPE = 1.75
# (4!)^2 / 8!: fourth differences of errors of variance s^2 have variance 70 s^2.
_FOURTH_DIFFERENCE, _NOISE_SAMPLES = 1.0 / 70.0, 9


@dataclass(frozen=True)
class Curve:
    """Hold the curve t -> fun(X + tD), where fun is f or its gradient."""

    fun: Callable[[FloatArray], FloatArray]
    X: FloatArray
    D: FloatArray

    def __call__(self, t: float) -> FloatArray:
        """Return fun(X + tD)."""
        return self.fun(self.X + self.X.dtype.type(t) * self.D)

    @property
    def eps(self) -> float:
        """Return the unit roundoff of X."""
        return ROUNDOFF[self.X.dtype]

    @cached_property
    def start(self) -> FloatArray:
        """Return fun(X)."""
        return self(0.0)

    @cached_property
    def noise(self) -> float:
        """Estimate the rounding error of one evaluation by fourth differences (Moré and Wild)."""
        # Fourth differences of the smooth part, of order eps^1.6, are far below eps. Wider steps
        # are for an f that is rounded so coarsely that most samples are equal.
        for t in self.eps**0.4 * np.array([1.0, 10.0, 100.0]):
            samples = np.array([self(j * t) for j in range(_NOISE_SAMPLES)])
            if len(np.unique(samples, axis=0)) > _NOISE_SAMPLES // 2:
                break
        if not np.isfinite(samples).all():
            raise InputError("f or its gradient is NaN or infinite next to `X`. Choose another X.")
        differences = np.diff(samples, n=4, axis=0)
        return _norm(differences) * float(np.sqrt(_FOURTH_DIFFERENCE / len(differences)))

    def tolerance(self, scale: float) -> float:
        """Return the possible error of differences; a rate within this error passes."""
        return float(10.0 * (np.sqrt(self.eps) * scale + self.noise / np.cbrt(self.eps)))

    @cached_property
    def rate(self) -> FloatArray:
        """Return the derivative at 0 by one-sided second-order differences, t > 0."""
        t = float(np.cbrt(self.eps))
        return np.asarray((4.0 * self(t) - 3.0 * self.start - self(2.0 * t)) / (2.0 * t))


@dataclass(frozen=True)
class Observation:
    """Remainders of a curve at `STEPS`, and whether they are of second order.

    ``is_telling`` is False if the curve moves by no more than its rounding error; ``tolerance`` is
    the possible error of differences relative to the rates.
    """

    remainders: list[float]
    slope: float
    is_right: bool
    is_telling: bool
    tolerance: float


def observe(curves: Sequence[Curve], rates: Sequence[FloatArray]) -> Observation:
    """Return the median observation, ordered by correctness and then by slope."""
    scale = max(_norm(rate) for rate in rates)
    seen = [_observe_one(*pair, scale) for pair in zip(curves, rates, strict=True)]
    return sorted(seen, key=lambda one: (one.is_right, one.slope))[len(seen) // 2]


def _observe_one(curve: Curve, rate: FloatArray, scale: float) -> Observation:
    """Fit the slope of ||curve(t) - curve(0) - t rate||; ``scale`` is the size of the rates."""
    points = [curve(t) for t in STEPS]
    with np.errstate(invalid="ignore", over="ignore"):  # too coarse a step may overflow
        moves = [point - curve.start for point in points]
        remainders = _norms(move - t * rate for t, move in zip(STEPS, moves, strict=True))
        size = np.maximum(_norms(points), STEPS * _norm(rate))
    floor = _ABOVE_NOISE * np.maximum(curve.noise, curve.eps * size)
    usable = np.flatnonzero(np.isfinite(remainders) & (remainders > floor))[-_STRETCH:]
    slope, error = np.inf, 0.0
    if len(usable) >= 2:
        steps, heights = STEPS[usable], remainders[usable]
        slope = float(np.polyfit(np.log(steps), np.log(heights), 1)[0])
        error = float(np.median(heights / steps))
    tolerance = curve.tolerance(scale)
    return Observation(
        remainders=remainders.tolist(),
        slope=slope,
        is_right=slope >= _RIGHT_SLOPE or error <= tolerance,
        is_telling=bool((_norms(moves) > floor).any()) or scale == 0.0,
        tolerance=tolerance / scale if scale > 0 else np.inf,
    )


def asymmetry(directions: Sequence[FloatArray], products: Sequence[FloatArray]) -> float:
    """Return the largest |<E, H[D]> - <D, H[E]>| of neighbors, relative to its factors' norms."""
    defects = [0.0]
    for (D, HD), (E, HE) in pairwise(zip(directions, products, strict=True)):
        size = max(_norm(E) * _norm(HD), _norm(D) * _norm(HE))
        defects.append(abs(float(np.vdot(E, HD) - np.vdot(D, HE))) / size if size > 0 else 0.0)
    return max(defects)


def fitted_ratio(rates: Sequence[FloatArray], curves: Sequence[Curve]) -> float:
    """Return the factor that best fits rates to difference quotients, or NaN if all are 0."""
    given, seen = np.array(rates), np.array([curve.rate for curve in curves])
    size = float(np.vdot(seen, seen))
    return float(np.vdot(given, seen)) / size if size > 0 else float("nan")


def _norm(array: FloatArray) -> float:
    return float(np.linalg.norm(array))


def _norms(arrays: Iterable[FloatArray]) -> FloatArray:
    return np.array([_norm(array) for array in arrays])
