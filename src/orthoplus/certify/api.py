"""Certify an answer by bounds of increasing cost, until the gap is closed or time runs out."""

from collections.abc import Callable, Iterator
from time import monotonic, perf_counter, process_time
from typing import Any

import numpy as np

from orthoplus.certify.anytime import part_of, run_relaxation
from orthoplus.certify.between import Between, alternate
from orthoplus.certify.blocks import can_be_cut, expected_loss, rows_per_block
from orthoplus.certify.branch import solve_exactly
from orthoplus.certify.certificate import Certificate, Progress
from orthoplus.certify.closed_form import closed_form
from orthoplus.certify.coarse import CoarseStart
from orthoplus.certify.compression import bounds_by_compression, can_be_compressed
from orthoplus.certify.eigenvalues import bound_without, dense_of
from orthoplus.certify.model import MOST_DENSE_ROWS, Model, fits_in_memory, read_answer
from orthoplus.certify.refining import bounds_by_blocks
from orthoplus.certify.relaxation import Relaxation
from orthoplus.certify.sampling import sampled_bound
from orthoplus.certify.stability import agreement_of, unsure_mass
from orthoplus.certify.verify import fingerprint_of
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import as_generator, check_positive, check_range
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.linalg.k_means import search_k_means

Callback = Callable[[Certificate], Any]

# A bound by a factorization of order n takes about this many seconds times n^3. Unless n is small,
# at least this many of them have to fit into the time.
_BOUND_SECONDS, _FEWEST_BOUNDS, _SMALL = 4e-11, 5, 600
# For more than MOST_DENSE_ROWS rows: the shares of the time at which the relaxations of groups of
# similar rows end, without and with cuts.
_COARSE_SHARES = (0.05, 0.12)
# The ratios of the weights of all rows take about this many seconds times n^3; they are computed
# only up to this many rows.
_RATIO_SECONDS, _MOST_RATIOS = 7e-10, 2000
# Share of the time that the trials of a closed form may take.
_CLOSED_FORM_SHARE = 0.2
# A better k-means clustering is searched for first if A has at most this many entries times k,
# which takes about a second.
_SEARCHED_WORK = 2e7
# Share of the time for compression if other bounds may be better: the first if only blocks of rows
# may, the second if all rows can also be relaxed at once.
_COMPRESSION_SHARES = (0.3, 0.1)
# Branch and bound runs for at most this many rows.
_MOST_BRANCHED = 100


def certify(  # noqa: PLR0913
    problem: Problem,
    answer: Any,
    *,
    time_limit: float = 30.0,
    tol: float = 1e-8,
    confidence: float | None = None,
    callback: Callback | None = None,
    rng: np.random.Generator | int | None = None,
) -> Certificate:
    r"""Prove how good a clustering is by a lower bound on f over all points of S+.

    Parameters
    ----------
    problem : Problem
        An `ONMF`, `KMeans`, `KIndicators`, `SymmetricONMF` or `TraceMin` problem, a problem from a
        function that builds one of these, or your own problem with a ``trace_form``.
    answer : Result or array-like of n labels
        A result of `solve`, or labels from any library: integers or strings, with -1 for a row
        without a cluster. There must be exactly k clusters. The weights within the clusters are
        optimized.
    time_limit : float
        Time limit in seconds. A step that has started is completed.
    tol : float
        Relative gap at or below which the answer counts as optimal.
    confidence : float, optional
        If given, also compute a bound from random blocks of rows that holds with this probability.
        Use it for data that are too large for a good proof; the result is never reported as a
        proof.
    callback : callable, optional
        Called as ``callback(certificate)`` with the current certificate after every improved bound.
        If it returns True, the search ends.
    rng : Generator or int, optional
        Random state for the random blocks. By default, the seed is 0.

    Returns
    -------
    Certificate
        The best certificate found. Ctrl-C ends the search and returns the best one so far.

    Notes
    -----
    The bounds are tried in this order: the spectral bound; a certificate in closed form, which
    proves that well-separated clusters are optimal in a few passes over the data, for any number of
    rows (see `orthoplus.certify.closed_form`); and a convex relaxation, with cuts for at most 2000
    rows. For more than 4000 rows, the relaxation is replaced by one of sums over small groups of
    rows (see `orthoplus.certify.compression`), followed, if time allows, by relaxations of blocks
    of rows, or of up to 12,000 rows at once if that is more promising and needs at most half of the
    memory.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> certificate = op.certify(op.problems.KMeans(A, 2), ["a", "a", "b", "b"])
    >>> round(certificate.value, 9), certificate.is_optimal, certificate.kind
    (2.5, True, 'closed form')
    """
    check_positive(time_limit, "time_limit", finite=False)
    check_range(tol, "tol", low=0.0)
    if confidence is not None and not 0.0 < confidence < 1.0:
        raise InputError(f"`confidence={confidence!r}` is out of range: choose a number in (0, 1).")
    if callback is not None and not callable(callback):
        raise InputTypeError(f"`callback` must be callable, got {type(callback).__name__}.")
    deadline = perf_counter() + time_limit
    search = Search(problem, answer, deadline=deadline, tol=tol, confidence=confidence, rng=rng)
    try:
        for _ in search.steps():
            if search.is_closed or perf_counter() >= search.deadline:
                break
            if callback is not None and callback(search.certificate()):
                break
        search.measure_agreement()
    except KeyboardInterrupt:
        pass
    return search.certificate()


class Search:
    """Keep the best bound and the best partition while the steps of `certify` run."""

    def __init__(
        self,
        problem: Problem,
        answer: Any,
        *,
        deadline: float = np.inf,
        tol: float = 1e-8,
        confidence: float | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self.started, self.deadline, self.tol = perf_counter(), deadline, tol
        self._processor = process_time()
        self.confidence, self.rng = confidence, as_generator(rng)
        self.problem, self.model = problem, Model(problem)
        self.answer, weights = read_answer(answer, self.model)
        self.fingerprint = fingerprint_of(problem)
        self.point = self.model.answer_point(self.answer, weights)
        self.value: float = self.model.value_of(self.point)
        self.labels, self.best_value = self.answer, self.value
        self.bound, self.kind = self.model.form.least, "trivial"
        self.proof: Any = None
        self.closed: Between | None = None
        self.unsure: float | None = None
        self.history: list[Progress] = []

    # --- reporting --------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Wall time since the start, in seconds."""
        return perf_counter() - self.started

    @property
    def speed(self) -> float:
        """Share of one processor this process has received; below 1 on a busy machine."""
        return min(1.0, max(0.1, (process_time() - self._processor) / max(self.seconds, 1e-3)))

    @property
    def is_closed(self) -> bool:
        """Whether the best partition is proven optimal."""
        gap = self.model.gap(self.best_value, self.bound)
        return gap is not None and gap <= self.tol

    def improves(self, upper: float) -> bool:
        """Return whether an upper bound on <M, XX'> improves on the best known bound."""
        return self.kind == "trivial" or self.model.to_bound(upper) > self.bound

    def offer(self, upper: float, kind: str, proof: Any) -> None:
        """Store a bound if it improves on the best one so far."""
        if self.improves(upper):
            self.bound, self.kind, self.proof = self.model.to_bound(upper), kind, proof
            self._record()

    def offer_labels(self, labels: IntArray) -> None:
        """Store a partition if it improves on the best one so far by more than rounding."""
        value = self.model.value_of(self.model.answer_point(labels, None))
        if value < self.best_value - self.model.rounding:
            self.labels, self.best_value = labels, value
            self._record()

    def _record(self) -> None:
        self._check()
        self.history.append(Progress(self.seconds, self.best_value, self.bound, self.kind))

    def _check(self) -> None:
        if self.best_value < self.bound - self.model.rounding:
            raise ArithmeticError(
                f"The lower bound {self.bound:.10g} ({self.kind}) of "
                f"{type(self.problem).__name__} is above the value {self.best_value:.10g} that was "
                f"reached, by more than rounding ({self.model.rounding:.2g}). This is a bug in "
                f"orthoplus, not a problem with your input. Please report it."
            )

    def measure_agreement(self) -> None:
        """Bound how much a partition at least as good as the answer may differ from it."""
        proofs = [self.proof]
        if self.closed is not None and self.closed is not self.proof:
            proofs.append(self.closed)
        found = [unsure_mass(self.model, self.point, proof, self.deadline) for proof in proofs]
        self.unsure = min((mass for mass in found if mass is not None), default=None)

    def certificate(self) -> Certificate:
        """Return the certificate for the current state of the search."""
        bound = min(self.bound, self.best_value)
        weights = np.asarray(self.point.weights, dtype=np.float64)
        return Certificate(
            value=self.value,
            bound=bound,
            gap=self.model.gap(self.value, bound),
            kind=self.kind,
            seconds=self.seconds,
            tol=self.tol,
            labels=self.labels,
            best_value=self.best_value,
            improved=self.labels is not self.answer,
            confidence=self.confidence if self.kind == "sampled" else None,
            agreement=None if self.unsure is None else agreement_of(weights, self.unsure),
            unsure=self.unsure,
            history=tuple(self.history),
            answer=self.point.labels,
            weights=weights,
            proof=self.proof,
            unit=self.model.unit,
            problem=self.problem,
            fingerprint=self.fingerprint,
        )

    # --- the steps --------------------------------------------------------------------------------

    def steps(self) -> Iterator[None]:
        """Run the steps in the order of their cost, and yield after each of them."""
        self.offer(bound_without(self.model), "spectral", None)
        yield
        yield from self._closed_form(self.answer)
        yield from self._round(self._near_answer())
        if self._fits_densely():
            yield from self._relaxation()
            yield from self._exactly()
        elif self.confidence is not None and self.model.factor is not None:
            yield from self._sampled(self.confidence)
        else:
            yield from self._compression()
            if self._are_blocks_better():
                yield from self._many_rows()

    def _closed_form(self, labels: IntArray) -> Iterator[None]:
        end = perf_counter() + _CLOSED_FORM_SHARE * (self.deadline - perf_counter())
        for found in closed_form(self.model, self.model.refine(labels)):
            # The closed form of the answer is kept even if another bound is better:
            # `measure_agreement` uses it.
            if labels is self.answer:
                self.closed = found.proof
            self.offer(found.upper, "closed form", found.proof)
            yield
            if perf_counter() > end:
                break

    def _fits_densely(self) -> bool:
        """Return whether to relax all rows at once without considering blocks."""
        model = self.model
        if not can_be_cut(model):
            return model.n <= MOST_DENSE_ROWS
        return model.n <= MOST_DENSE_ROWS and (model.n <= _SMALL or self._is_affordable())

    def _is_affordable(self) -> bool:
        """Return whether a few bounds from an n x n matrix fit into the time."""
        seconds = _FEWEST_BOUNDS * _BOUND_SECONDS * self.model.n**3
        return perf_counter() + seconds <= self.deadline

    def _relaxation(self, coarse: CoarseStart | None = None) -> Iterator[None]:
        model, point = self.model, self.model.refine(self.labels)
        is_start = coarse is None and isinstance(self.proof, Between)
        relaxation = Relaxation(
            model.dense if model.n > MOST_DENSE_ROWS else model.dense(),
            model.k,
            has_row_sums=model.has_row_sums,
            start=(point.labels, point.weights),
            S=dense_of(model, self.proof) if is_start else None,
        )
        if coarse is not None:
            # Start from the relaxation of groups of similar rows, which saves most of the
            # iterations.
            relaxation.start_from(*coarse.lift())
        margin = rounding_margin(model.size, model.n + model.rank)
        value = model.trace(point)
        for upper in run_relaxation(relaxation, value, self.deadline, self._ratios):
            if self.improves(upper + margin):
                self.offer(upper + margin, "relaxation", (part_of(relaxation),))
            yield
            if not self.is_closed:
                yield from self._round(relaxation.partition())

    def _ratios(self) -> FloatArray | None:
        """Return bounds on the ratios of weights, or None if they do not exist or take too long."""
        model, seconds = self.model, _RATIO_SECONDS * self.model.n**3
        is_affordable = model.n <= _SMALL or perf_counter() + 10 * seconds <= self.deadline
        if not model.has_ratios or model.n > _MOST_RATIOS or not is_affordable:
            return None
        return model.ratios(model.dense())

    def _near_answer(self) -> IntArray:
        """Return the answer, improved by a local search if it is a small k-means problem."""
        model = self.model
        is_small = model.n * model.rank * model.k <= _SEARCHED_WORK
        if not (model.has_row_sums and model.factor is not None and is_small):
            return self.answer
        A = model.factor.to_dense().astype(np.float64) * model.scale
        return search_k_means(A, model.k, np.random.default_rng(0), self.answer)

    def _round(self, labels: IntArray) -> Iterator[None]:
        """Improve a partition locally and store it if it is the best one so far."""
        before = self.labels
        self.offer_labels(alternate(self.model, labels))
        if self.labels is not before:
            yield
            yield from self._closed_form(self.labels)

    def _exactly(self) -> Iterator[None]:
        """Close the gap by branch and bound if there are few rows."""
        model, left = self.model, self.deadline - perf_counter()
        if model.n > _MOST_BRANCHED or left <= 0:
            return
        point = model.refine(self.labels)
        M = model.dense()
        found = solve_exactly(
            M,
            model.k,
            has_row_sums=model.has_row_sums,
            start=(np.maximum(point.labels, 0), point.weights),
            ratios=model.ratios(M),
            deadline=monotonic() + left,
        )
        self.offer_labels(found.labels)
        margin = rounding_margin(model.size, model.n + model.rank)
        self.offer(found.upper + margin, "exact", None)
        yield

    def _sampled(self, confidence: float) -> Iterator[None]:
        point = self.model.refine(self.labels)
        upper = sampled_bound(self.model, point, confidence, self.deadline, self.rng)
        self.offer(upper, "sampled", None)
        yield

    def _compression(self) -> Iterator[None]:
        """Compute bounds from sums over small groups of rows."""
        model = self.model
        if not can_be_compressed(model):
            return
        share = _COMPRESSION_SHARES[fits_in_memory(model)]
        end = perf_counter() + share * (self.deadline - perf_counter())
        point = model.refine(self.labels)
        own = self.proof if isinstance(self.proof, Between) else self.closed
        closed = own if own is not None and np.array_equal(own.labels, point.labels) else None
        for upper, proof in bounds_by_compression(model, point, closed, self.deadline):
            self.offer(upper, "compression", proof)
            yield
            if perf_counter() > end and self._are_blocks_better():
                break

    def _are_blocks_better(self) -> bool:
        """Return whether blocks of rows may give a smaller gap in the remaining time."""
        model = self.model
        if not can_be_cut(model) or self.kind != "compression" or fits_in_memory(model):
            return can_be_cut(model)
        gap = model.gap(self.best_value, self.bound)
        return gap is None or gap > expected_loss(model, self.deadline - perf_counter())

    def _many_rows(self) -> Iterator[None]:
        """Relax all rows at once if that is affordable and seems better, otherwise blocks."""
        model, point = self.model, self.model.refine(self.labels)
        if fits_in_memory(model) and self._is_affordable():
            now, left = perf_counter(), self.deadline - perf_counter()
            first, second = _COARSE_SHARES
            coarse = CoarseStart(model, point, (now + first * left, now + second * left))
            seconds = (self.deadline - perf_counter()) * self.speed
            if coarse.favors_all_rows(rows_per_block(model, seconds)):
                yield from self._relaxation(coarse)
                return
        for upper, parts in bounds_by_blocks(model, point, self.deadline, self.speed):
            self.offer(upper, "blocks", parts)
            yield
