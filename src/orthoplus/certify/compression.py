r"""Bounds for any number of rows from a structured matrix S: compression.

Let :math:`S_0` be the closed form's S between groups (`orthoplus.certify.between`), and D the
n x m matrix of micro groups, finer than the groups: column p has the weights :math:`w_i` of the
answer at its rows. For every symmetric T with

.. math:: T_{pq} \ge -\tau_{pq}, \qquad \tau_{pq} = c_{lj} \min_{i \in p} \frac{v_{lj}(i)}{w_i}
          \min_{i \in q} \frac{v_{jl}(i)}{w_i} \quad (p \subset l, \ q \subset j),

the matrix :math:`S = S_0 + DTD^\top` has no negative entry, so that the k largest eigenvalues of
:math:`M + S` bound :math:`\langle M, XX^\top \rangle`. With M = AA', this matrix acts only on the
span of A, V and D, which leads to dense eigenproblems of order r + k^2 + m for any n, assembled
from sums over the rows. :math:`S_0` follows the rows inside the micro groups, T sets the level of
every pair of them.

The best T solves the relaxation in which :math:`D^\top FD` instead of F is nonnegative, by ADMM on
matrices of this order; see `orthoplus.certify.signed_block`. T = 0 and m = k is the closed form.
Splitting a micro group and copying its entries of T leaves S unchanged but gives T more freedom, so
that no bound is worse than the previous one. Micro groups are split where F has negative entries;
see `orthoplus.certify.micro_groups`.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np

from orthoplus.certify.between import Between, Setting
from orthoplus.certify.certificate import Compressed
from orthoplus.certify.eigenvalues import MOST_DENSE_ORDER, is_narrow
from orthoplus.certify.factored import (
    FactoredMatrix,
    GramSums,
    assemble_factors,
    gram_sums,
    pair_sums,
    sum_of_leading,
)
from orthoplus.certify.micro_groups import (
    Images,
    MicroSums,
    RowSample,
    Splits,
    apply_splits,
    choose_splits,
    micro_sums,
    sample_setting,
)
from orthoplus.certify.model import Model
from orthoplus.certify.signed_block import SignedBlock, Warmth
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.threads import single_blas

# Most micro groups, and most directions outside their span that the search for T considers.
_MOST_MICRO, _MOST_BESIDE = 1500, 300
# Each S_0 is tried until there are this many micro groups per group, or its time is spent.
_TRIED_MICRO, _TRIAL_SHARE = 4, 0.15
# Iterations between bounds, at most this share of the remaining time. Micro groups are split if the
# last iterations closed less than _STALLED of the gap; the last run ends at _CONVERGED.
_ITERATIONS, _PATIENCE, _STALLED, _CONVERGED = 30, 0.2, 0.03, 1e-3
# A refinement takes about this many times as long as its bound, and splits at least this share of
# the micro groups.
_SEARCH_COST, _FEWEST_SPLITS = 12.0, 0.1
# Share of the time spent on a sample of the rows.
_SAMPLE_SHARE = 0.5
# Directions shorter than this share of the longest are due to rounding.
_NEGLIGIBLE_EIGENVALUE = 1e-11


def can_be_compressed(model: Model) -> bool:
    """Return whether M is a product AA' with few columns."""
    return is_narrow(model)


def bounds_by_compression(
    model: Model, point: SupportPoint, closed: Between | None, deadline: float
) -> Iterator[tuple[float, Compressed]]:
    """Yield upper bounds on <M, XX'> and their proofs as T and the micro groups are refined.

    Parameters
    ----------
    model : Model
        See `can_be_compressed`.
    point : SupportPoint
        A point returned by ``model.refine``.
    closed : Between or None
        The best closed form of this point. The one that clips nothing is tried as well.
    deadline : float
        Deadline on the clock of ``time.perf_counter``.

    Notes
    -----
    Each refinement takes two passes over the rows. If there are many rows, the micro groups and a
    first T come from a sample, so that few refinements use all rows.

    Examples
    --------
    >>> from orthoplus.problems import ONMF
    >>> A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0], [1.0, 1.0], [1.1, 1.0]])
    >>> model = Model(ONMF(A, 2))
    >>> point = model.refine(np.array([0, 0, 1, 1, 0, 0]))
    >>> uppers = [upper for upper, _ in bounds_by_compression(model, point, None, np.inf)]
    >>> bool(model.trace(point) <= min(uppers) <= uppers[0])
    True
    """
    # On a busy machine, BLAS threads waiting for each other slow down small matrices.
    with single_blas:
        setting, data = Setting(model, point), gram_sums(model)
        levels = [setting.levels(0.0, np.inf)]
        if closed is not None and not np.array_equal(closed.levels, levels[0]):
            levels.insert(0, closed.levels)
        sampled = sample_setting(setting)
        if sampled is None:
            runs = _search(setting, data, levels, deadline)
        else:
            runs = _search_sample(setting, sampled, data, levels, deadline)
        for run in runs:
            yield run.upper, run.proof
        if perf_counter() < deadline:
            yield run.improve(deadline, _CONVERGED)


def _search_sample(
    setting: Setting,
    sampled: Setting,
    data: GramSums,
    levels: list[FloatArray],
    deadline: float,
) -> Iterator["Compression"]:
    """Find micro groups and T on a sample of the rows, then prove them with all rows."""
    end, run = perf_counter() + _SAMPLE_SHARE * (deadline - perf_counter()), None
    for found in _search(sampled, gram_sums(sampled.model), levels, end):
        if run is None and found.is_chosen:
            run = found.moved_to(setting, data)
            run.improve(deadline, _STALLED)
            yield run
    run = found.moved_to(setting, data)
    del found  # free its matrices
    run.improve(deadline, _STALLED)
    yield run
    yield from _refine(run, deadline)


def _search(
    setting: Setting, data: GramSums, levels: list[FloatArray], deadline: float
) -> Iterator["Compression"]:
    """Yield the state after each refinement: first of every S_0, then of the best one."""
    runs = []
    for own in levels:
        run = Compression(setting, own, data)
        runs.append(run)
        end = perf_counter() + _TRIAL_SHARE * (deadline - perf_counter())
        run.improve(end, _STALLED)
        yield run
        while len(levels) > 1 and run.m < _TRIED_MICRO * setting.model.k and run.split(end):
            run.improve(end, _STALLED)
            yield run
    run = min(runs, key=lambda run: run.upper)
    run.is_chosen = True
    yield run
    yield from _refine(run, deadline)


def _refine(run: "Compression", deadline: float) -> Iterator["Compression"]:
    while run.split(deadline):
        run.improve(deadline, _STALLED)
        yield run


class _Frame(NamedTuple):
    """Hold coordinates in the span of the unit columns of D and of further directions.

    Let U be [A, V] with unit columns. ``B`` holds its coordinates along D and ``R`` those along the
    further directions, which are U ``back`` minus its part in the span of D. ``K`` is M + S_0 - D
    tau D' in these coordinates, and ``root`` holds the norms of the columns of D.
    """

    K: FloatArray
    B: FloatArray
    R: FloatArray
    back: FloatArray
    root: FloatArray
    tau: FloatArray
    unit: FloatArray | None


class _Vectors(NamedTuple):
    """Hold vectors of the form D ``own`` + U ``beside``."""

    own: FloatArray
    beside: FloatArray


class Compression:
    """Refine the bound of one S_0 by micro groups and their T.

    Attributes
    ----------
    upper : float
        The best bound so far, proven by ``proof``.
    is_chosen : bool
        Whether this S_0 is the best of those that were tried.
    rules : list of tuple of (Images, Splits)
        The splits that produced the micro groups, in order.
    """

    def __init__(self, setting: Setting, levels: FloatArray, data: GramSums) -> None:
        self.setting, self.model = setting, setting.model
        self.is_chosen = False
        self.rules: list[tuple[Images, Splits]] = []
        self._seconds, self._passes = 0.0, 0.0
        pairs = pair_sums(setting, levels)
        self.base = setting.between(levels, pairs.dots)
        self.factors = assemble_factors(data, pairs, self.base.couplings, self.model.n)
        self.sizes = np.sqrt(np.maximum(np.diag(self.factors.gram), 0.0))
        self.sample: RowSample | None = None
        self.groups: IntArray = np.arange(self.model.k)
        self.micro: IntArray = setting.own.labels
        self.T: FloatArray = np.zeros((self.model.k, self.model.k))
        self.upper, self.proof = np.inf, Compressed(self.base, self.micro, self.T)
        self._look()
        # The start F = YY' is XX': the columns of X in the frame.
        self._Y: FloatArray = np.zeros((len(self.frame.K), self.model.k))
        self._Y[self.groups, self.groups] = 1.0
        self._penalty: float | None = None

    @property
    def m(self) -> int:
        """Number of micro groups."""
        return len(self.groups)

    def _look(self) -> None:
        """Compute the sums over the micro groups and choose the frame."""
        self.sums = micro_sums(self.model, self.base, self.micro, self.m)
        self.frame = self._frame(self.sums)

    def _beside(self, sums: MicroSums) -> FloatArray:
        """Return D'[A, V] without normalizing any columns."""
        k, r = self.model.k, self.model.rank
        wide = np.zeros((self.m, k, k))
        wide[np.arange(self.m), self.groups] = sums.slopes
        return np.hstack([sums.cross, wide.reshape(self.m, k * k)])[:, : r + k * k]

    def _frame(self, sums: MicroSums) -> _Frame:
        sizes = np.where(self.sizes > 0, self.sizes, 1.0)
        scales = np.outer(sizes, sizes)
        root = np.sqrt(np.where(sums.squares > 0, sums.squares, 1.0))
        B = self._beside(sums) / sizes / root[:, None]
        # Gram matrix of the part of U that is orthogonal to D; its eigenvectors span the further
        # directions.
        rest = self.factors.gram / scales - B.T @ B
        core = self.factors.core * scales
        values, turn = np.linalg.eigh((rest + rest.T) / 2)
        kept = values > _NEGLIGIBLE_EIGENVALUE * max(values[-1], _NEGLIGIBLE_EIGENVALUE)
        R = np.sqrt(values[kept])[:, None] * turn[:, kept].T
        back = turn[:, kept] / np.sqrt(values[kept])
        if len(R) > _MOST_BESIDE:
            # Keep the directions in which M + S_0 is largest. Only the search for T is restricted
            # to them; the bound uses all directions.
            images = R @ core @ np.hstack([R.T, B.T])
            leading = np.linalg.eigh(images @ images.T)[1][:, -_MOST_BESIDE:]
            R, back = leading.T @ R, back @ leading
        J = np.vstack([B, R])
        K = J @ core @ J.T
        g = self.groups
        # tau_pq = c_lj min v_lj(i) / w_i min v_jl(i) / w_i, as in the head of this module.
        floors = sums.floors[:, g]
        tau = floors * floors.T * self.base.couplings[np.ix_(g, g)]
        K[: self.m, : self.m] -= tau * np.outer(root, root)
        unit = None
        if self.model.has_row_sums:
            unit = np.concatenate([sums.sums / root, np.zeros(len(R))])
            unit /= np.linalg.norm(unit)
        return _Frame((K + K.T) / 2, B, R, back, root, tau, unit)

    def bound(self, T: FloatArray) -> float:
        """Return the bound of this T, valid in floating point."""
        before, sums, H = perf_counter(), self.sums, self.factors
        cross = self._beside(sums)
        # M + S = BKB' with B = [A, V, D] and K = diag(core, T); see `orthoplus.certify.factored`.
        gram = np.block([[H.gram, cross.T], [cross, np.diag(sums.squares)]])
        core = np.zeros_like(gram)
        core[: -self.m, : -self.m], core[-self.m :, -self.m :] = H.core, T
        whole = FactoredMatrix(gram, core, np.concatenate([H.sums, sums.sums]), H.n)
        upper = sum_of_leading(whole, self.model.k, has_row_sums=self.model.has_row_sums)
        self._seconds = perf_counter() - before
        return upper

    def improve(self, deadline: float, stalled: float) -> tuple[float, Compressed]:
        """Iterate until the gain is small or time runs out; return the best bound so far."""
        frame, scales = self.frame, np.outer(self.frame.root, self.frame.root)
        start = Warmth(self._Y, (self.T + frame.tau) * scales, self._penalty)
        block = SignedBlock(frame.K, self.model.k, start, frame.unit)
        self._iterate(block, deadline - self._seconds, stalled)
        # The iteration works with T + tau >= 0 in the frame, which may have dropped some
        # directions; the bound of T is computed with all of them.
        T = np.maximum(block.best_T / scales - frame.tau, -frame.tau)
        upper = self.bound(T)
        if upper < self.upper:
            self.upper, self.T = upper, T
            self.proof = Compressed(self.base, self.micro, T)
        self._penalty = block.penalty
        F = block.solution()
        self._Y = F.vectors * np.sqrt(F.shares)
        return self.upper, self.proof

    def _iterate(self, block: SignedBlock, deadline: float, stalled: float) -> None:
        last, n_iter = block.upper_bound(), _ITERATIONS
        while perf_counter() < deadline:
            before = perf_counter()
            block.advance(n_iter)
            bound = block.upper_bound()
            if last - bound < stalled * max(last - self.setting.trace, 0.0) * n_iter / _ITERATIONS:
                break
            last, spent = bound, (perf_counter() - before) / n_iter
            n_iter = int(np.clip(_PATIENCE * (deadline - before) / spent, 1, _ITERATIONS))

    def split(self, deadline: float) -> bool:
        """Split micro groups where F has negative entries; return whether any was split."""
        model, m = self.model, self.m
        room = min(self._room(deadline), m)
        if room < _FEWEST_SPLITS * m:
            return False
        if self.sample is None:
            self.sample = RowSample(model, self.base)
        vectors = self._vectors()
        images = self._images(vectors)
        rows = self.sample.rows
        U = self.sample.images(images, self.micro)
        splits = choose_splits(U, self.micro[rows], self.base.weights[rows], m, room)
        if (splits.child < 0).all():
            return False
        before = perf_counter()
        self.micro = apply_splits(model, self.base, self.micro, [(images, splits)])
        origin = splits.origin()
        self.rules.append((images, splits))
        self.groups, self.T = self.groups[origin], self.T[np.ix_(origin, origin)]
        self._look()
        self._passes = perf_counter() - before
        self._Y = self._coordinates(_Vectors(vectors.own[origin], vectors.beside))
        return True

    def _room(self, deadline: float) -> int:
        """Return how many micro groups may be added, given the largest order and the time."""
        model, m = self.model, self.m
        order = model.rank + model.k**2
        most = min(_MOST_MICRO, model.n, MOST_DENSE_ORDER - order)
        left = deadline - perf_counter() - self._passes
        if left <= 0:
            return 0
        # The cost of a bound grows with the cube of the order; the search for T takes _SEARCH_COST
        # bounds.
        growth = (left / (_SEARCH_COST * max(self._seconds, 1e-6))) ** (1 / 3)
        return int(min(most - m, growth * (order + m) - (order + m)))

    def _vectors(self) -> "_Vectors":
        """Return the vectors of F as combinations of the columns of D and U."""
        frame, m = self.frame, self.m
        beside = frame.back @ self._Y[m:]
        own = (self._Y[:m] - frame.B @ beside) / frame.root[:, None]
        return _Vectors(own, beside)

    def _coordinates(self, vectors: "_Vectors") -> FloatArray:
        """Return the coordinates of these vectors in the frame."""
        frame = self.frame
        own = vectors.own * np.where(self.sums.squares > 0, frame.root, 0.0)[:, None]
        return np.vstack([own + frame.B @ vectors.beside, frame.R @ vectors.beside])

    def _images(self, vectors: "_Vectors") -> Images:
        """Return the coefficients of these vectors with respect to A, V and D."""
        k, r = self.model.k, self.model.rank
        coefficients = vectors.beside / np.where(self.sizes > 0, self.sizes, 1.0)[:, None]
        return Images(coefficients[:r], coefficients[r:].reshape(k, k, -1), vectors.own)

    def moved_to(self, setting: Setting, data: GramSums) -> "Compression":
        """Transfer S_0, the micro groups and T from a sample to all rows."""
        run = Compression(setting, self.base.levels, data)
        run.micro = apply_splits(run.model, run.base, run.micro, self.rules)
        run.groups, run.T, run.rules = self.groups, self.T, self.rules
        run._penalty, run._seconds = self._penalty, self._seconds
        run._look()
        vectors = self._vectors()
        sizes = np.divide(run.sizes, self.sizes, out=np.zeros_like(run.sizes), where=self.sizes > 0)
        run._Y = run._coordinates(vectors._replace(beside=vectors.beside * sizes[:, None]))
        return run
