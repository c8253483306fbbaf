r"""A certificate in closed form, computed from the answer itself.

For every symmetric S with nonnegative entries and every X of S+,

.. math:: \langle M, XX^\top \rangle \le \langle M + S, XX^\top \rangle
          \le \lambda_1(M + S) + \dots + \lambda_k(M + S).

Let X be the answer, :math:`G = MX`, and l, j two of its groups. With a symmetric :math:`L_{lj}` at
least as large as every ratio :math:`g_{ij} / x_i` over the rows i of l, and :math:`g_{il} / x_i`
over those of j,

.. math:: v_{lj}(i) = L_{lj} x_i - g_{ij} \ge 0 \quad (i \in l), \qquad
          S_{lj} = \frac{v_{lj} v_{jl}^\top}{x_l^\top v_{lj}}

is nonnegative and makes :math:`(M + S) X = XL`, since :math:`x_l^\top v_{lj} = L_{lj} - x_l^\top M
x_j = x_j^\top v_{jl}`. If the eigenvalues of L are the leading ones of M + S, the bound is
:math:`\mathrm{tr}\, L = \langle M, XX^\top \rangle`: the answer is optimal. A few rows with large
ratios prevent this; then a smaller L, with v clipped at 0, gives a better bound. The bound is valid
whenever S >= 0, whatever the formula for S.

For k-means, every feasible X has :math:`XX^\top e = e`, so that with :math:`P = I - ee^\top / n`

.. math:: \langle M, XX^\top \rangle \le e^\top H e / n + \lambda_1(PHP) + \dots
          + \lambda_{k-1}(PHP), \qquad H = M + S.

Equality needs :math:`PHXc` in the span of X for each c with :math:`Xc \perp e`. With centers
:math:`c_l` and :math:`x_i = n_l^{-1/2}`, row i of l in :math:`HX` is :math:`n_j^{1/2} a_i^\top c_j
+ (S_{lj} x_j)_i`, without S for j = l; up to multiples of the vector of the :math:`n_j^{1/2}` it is
the same for all rows of l if :math:`(S_{lj} x_j)_i = n_j^{1/2} u_{lj}(i)` with

.. math:: u_{lj}(i) = D_{lj} + (a_i - c_l)^\top (c_l - c_j), \qquad
          S_{lj} = u_{lj} u_{jl}^\top / D_{lj},

since the sum of :math:`u_{lj}` over l is :math:`n_l D_{lj}`. It is nonnegative if the symmetric
:math:`D_{lj}` is at least as large as every :math:`(a_i - c_l)^\top (c_j - c_l)` over l and every
:math:`(a_i - c_j)^\top (c_l - c_j)` over j: how far the rows of one cluster reach toward the other
center, at most half the squared distance of the centers if each row is at its nearest.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from orthoplus.certify.between import Between, Setting
from orthoplus.certify.eigenvalues import Evaluation, evaluation_of
from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray

# Floors and caps of L, as shares of the largest ratio that a row in its best group can have. They
# are measured from the mean ratio, or from 0 for the whole caps. The caps next to the best one are
# refined this many times.
_FLOORS, _CAPS, _WHOLE_CAPS, _REFINEMENTS = (0.25, 0.5), (0.35, 0.15, 0.6, 1.0), (0.9, 0.8), 3
# A bound within this share of the size of M may be equal to the value: try the sharp bound.
_MAX_TIE_SHARE = 1e-6


class Bounded(NamedTuple):
    """Hold an upper bound on <M, XX'> and the S that proves it."""

    upper: float
    proof: Between


def closed_form(model: Model, point: SupportPoint) -> Iterator[Bounded]:
    """Yield the best bound after each trial, first of the closed form, then of other levels.

    Parameters
    ----------
    model : Model
    point : SupportPoint
        A point returned by ``model.refine``.

    Notes
    -----
    If M = AA' with few columns, the first bound takes three passes over the rows and each further
    one takes one pass, plus an eigenproblem of order r + k^2. Otherwise, each bound solves a dense
    eigenproblem of order n for small n, or uses `orthoplus.linalg.spectral_sum`, whose bounds hold
    with a probability of 1 - 1e-12.

    Examples
    --------
    >>> from orthoplus.problems import ONMF
    >>> A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0]])
    >>> model = Model(ONMF(A, 2))
    >>> point = model.refine(np.array([0, 0, 1, 1]))
    >>> found = next(closed_form(model, point))
    >>> abs(found.upper - model.trace(point)) < 1e-12
    True
    """
    setting = Setting(model, point)
    evaluation = evaluation_of(setting)
    best, trial = _evaluate(setting, evaluation, setting.levels(0.0, np.inf)), _Trial(0.0, np.inf)
    yield best
    seen = {trial: best.upper}
    for following in _trials(seen, has_means=bool(setting.mean.any())):
        levels = setting.levels(following.floor, following.cap, from_mean=following.from_mean)
        found = _evaluate(setting, evaluation, levels)
        seen[following] = found.upper
        best = min(best, found, key=lambda bounded: bounded.upper)
        yield best


class _Trial(NamedTuple):
    floor: float
    cap: float
    from_mean: bool = True


def _trials(seen: dict[_Trial, float], *, has_means: bool) -> Iterator[_Trial]:
    """Yield floors, then caps with the best floor, then caps next to the best cap."""
    for floor in _FLOORS:
        yield _Trial(floor, np.inf)
    floor = min(seen, key=lambda trial: seen[trial]).floor
    trials = [_Trial(floor, cap) for cap in _CAPS]
    if has_means:
        trials[1:1] = [_Trial(0.0, cap, from_mean=False) for cap in _WHOLE_CAPS]
    yield from trials
    for _ in range(_REFINEMENTS):
        best = min((trial for trial in seen if np.isfinite(trial.cap)), key=lambda t: seen[t])
        # Bisect between the best cap and its neighbors among the trials with the same floor.
        caps = sorted(t.cap for t in seen if t._replace(cap=0.0) == best._replace(cap=0.0))
        place = caps.index(best.cap)
        for other in caps[max(place - 1, 0) : place] + caps[place + 1 : place + 2]:
            if np.isfinite(other):
                yield best._replace(cap=(best.cap + other) / 2)


def _evaluate(setting: Setting, evaluation: Evaluation, levels: FloatArray) -> Bounded:
    S = evaluation.couple(levels)
    upper = evaluation.bound(S)
    if upper - setting.trace <= _MAX_TIE_SHARE * setting.model.size:
        upper = min(upper, evaluation.sharp_bound(S))
    return Bounded(upper, S)
