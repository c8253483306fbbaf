"""The result of `certify`: how good an answer is, with the data that prove it."""

import json
import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from orthoplus.certify.between import Between
from orthoplus.certify.verify import Verification, fingerprint_of, is_same_data, verify
from orthoplus.core.archive import reading_archive
from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.types import BoolArray, FloatArray, IntArray

_FORMAT = "orthoplus-certificate-1"


class Progress(NamedTuple):
    """Record one improved bound or partition found on the way to a certificate.

    Examples
    --------
    >>> Progress(0.5, 12.0, 10.0, "spectral").bound
    10.0
    """

    seconds: float
    value: float
    bound: float
    kind: str


class DensePart(NamedTuple):
    """Store S and the cuts for all rows or for one block of rows.

    ``rows`` is increasing, and empty if the part holds all rows. ``half`` is the upper triangle of
    S with the diagonal, stored by rows, and is empty for S = 0. ``cuts`` of shape (m, 3) and
    ``ratios`` of shape (m, 2) hold the rows i, j, l and the numbers p, q of the triangle
    inequalities p Z_ij + q Z_il <= Z_ii + pq Z_jl, where l = -1 stands for the pair inequality p
    Z_ij <= Z_ii. For k-means, p = q = 1. ``multipliers`` has one entry per cut.
    """

    rows: IntArray
    half: FloatArray
    cuts: IntArray
    multipliers: FloatArray
    ratios: FloatArray


class Compressed(NamedTuple):
    """Store S = S_0 + DTD' as a closed form S_0, one micro group per row (a column of D), and T.

    ``micro`` is -1 for a row without a group; the entries of D are the weights of ``base``.
    ``multipliers`` is T, of shape (m, m), whose entries may be negative as long as S >= 0.
    """

    base: Between
    micro: IntArray
    multipliers: FloatArray


Proof = Between | Compressed | tuple[DensePart, ...] | None


@dataclass(frozen=True, eq=False)
class Certificate:
    """Report how good an answer is: its value, a lower bound for all answers, and the proof.

    Attributes
    ----------
    value : float
        The objective f at the answer with optimal weights; the inertia for k-means.
    bound : float
        Lower bound on f over S+ that accounts for rounding errors. If the data have too many rows
        and columns to compute all eigenvalues, it fails with a probability of at most 1e-12 over
        the random vectors of the search.
    gap : float or None
        The relative gap ``(value - bound) / |bound|``, or 0 if both agree up to rounding; None if
        the bound is 0 and the value is not.
    is_optimal : bool
        Whether the gap is at most ``tol`` and the bound is a proof.
    kind : str
        The method that gave the bound: "spectral", "closed form", "relaxation", "exact",
        "compression", "blocks" or "sampled".
    confidence : float or None
        The probability that a sampled bound holds; None for a proof.
    labels : ndarray of int, shape (n,)
        The best known partition: that of the answer unless ``improved`` is True.
    best_value : float
        The objective at ``labels``.
    improved : bool
        Whether a better partition than the answer was found. ``judge(labels)`` returns its
        certificate, and ``solve(problem, best_X())`` continues from it.
    agreement : float or None
        A lower bound on the share of rows on which every partition at least as good as the answer
        agrees with it; None if no such bound is known.
    seconds : float
        Wall time.
    history : tuple of Progress
        Every improved bound and every improved partition.
    tol : float
        Gap at or below which the answer counts as optimal.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0]])
    >>> certificate = op.certify(op.problems.ONMF(A, 2), [0, 0, 1, 1])
    >>> certificate.is_optimal, certificate.gap < 1e-8, bool(certificate.verify())
    (True, True, True)
    """

    value: float
    bound: float
    gap: float | None
    kind: str
    seconds: float
    tol: float
    labels: IntArray = field(repr=False)
    best_value: float = field(repr=False)
    improved: bool = False
    confidence: float | None = None
    agreement: float | None = None
    unsure: float | None = field(default=None, repr=False)
    history: tuple[Progress, ...] = field(default=(), repr=False)
    answer: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    weights: FloatArray = field(default_factory=lambda: np.zeros(0), repr=False)
    proof: Any = field(default=None, repr=False)
    unit: float = field(default=1.0, repr=False)
    problem: Problem | None = field(default=None, repr=False)
    fingerprint: FloatArray = field(default_factory=lambda: np.zeros(0), repr=False)

    @property
    def is_optimal(self) -> bool:
        """Whether the answer is proven to be optimal, to the gap ``tol``."""
        return self.gap is not None and self.gap <= self.tol and self.confidence is None

    @property
    def message(self) -> str:
        """Summary of the certificate in one or two sentences."""
        if self.is_optimal:
            text = "The answer is proven optimal."
        elif self.confidence is not None:
            text = f"The bound holds with a probability of {self.confidence:g}: it is not a proof."
        elif self.gap is None:
            text = "No positive bound is known."
        else:
            text = f"No partition lowers the value by more than {_percent(self.gap)} of the bound."
        if self.improved:
            text += (
                f" A better partition with value {self.best_value:.10g} was found; it is in "
                f"`labels`, and `solve(problem, certificate.best_X())` continues from it."
            )
        return text

    def __str__(self) -> str:
        gap = "gap unknown" if self.gap is None else f"gap {_percent(self.gap)}"
        if self.is_optimal:
            gap = "proven optimal"
        kind = self.kind if self.confidence is None else f"{self.kind}, {self.confidence:g}"
        text = f"value {self.value:.6g}, lower bound {self.bound:.6g}, {gap}"
        better = f"; better partition of value {self.best_value:.6g} found" if self.improved else ""
        return f"{text} ({kind}, {self.seconds:.2g} s){better}"

    def sure_rows(self) -> BoolArray:
        """Return a mask of the rows on which all partitions at least as good as the answer agree.

        Examples
        --------
        >>> import orthoplus as op
        >>> A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0]])
        >>> op.certify(op.problems.ONMF(A, 2), [0, 0, 1, 1]).sure_rows()
        array([ True,  True,  True,  True])
        """
        if self.unsure is None:
            return np.zeros(len(self.answer), dtype=bool)
        return np.asarray(self.weights**2 > self.unsure)

    def verify(self, problem: Problem | None = None) -> Verification:
        """Check the proof again from the data of the problem, by code independent of the search.

        The value, the bound, the gap and the best partition are checked; ``tol`` is a choice, and
        ``agreement`` and `sure_rows` are not computed again.

        Parameters
        ----------
        problem : Problem, optional
            Needed for a certificate from a file.

        Returns
        -------
        Verification
            True if every check passes; otherwise ``failures`` lists the failed checks.
        """
        from orthoplus.certify.judging import best_point

        problem = self._own_problem(problem, "verify(problem)")
        best = self.answer, self.weights
        if self.improved:
            point = best_point(self, problem)
            best = point.labels, np.asarray(point.weights, dtype=np.float64)
        return verify(problem, self, best)

    def judge(self, answer: Any, problem: Problem | None = None) -> "Certificate":
        """Certify another answer to the same problem with the same proof.

        Parameters
        ----------
        answer : Result or array-like of n labels
            A result of `solve`, or labels from any library, as for `orthoplus.certify`.
        problem : Problem, optional
            Needed for a certificate from a file.

        Returns
        -------
        Certificate
            The certificate of this answer; its ``labels`` are the better of the two partitions.

        Examples
        --------
        >>> import orthoplus as op
        >>> problem = op.problems.KMeans(np.array([[0.0], [1.0], [9.0], [11.0]]), 2)
        >>> certificate = op.certify(problem, [0, 0, 0, 1])
        >>> certificate.is_optimal, certificate.improved
        (False, True)
        >>> certificate.judge(certificate.labels).is_optimal
        True
        """
        from orthoplus.certify.judging import judge  # it returns certificates

        return judge(self, self._own_problem(problem, "judge(answer, problem)"), answer)

    def best_X(self, problem: Problem | None = None) -> FloatArray:
        """Return the point X of S+ for the best known partition, as a start for `orthoplus.solve`.

        Parameters
        ----------
        problem : Problem, optional
            Needed for a certificate from a file.

        Examples
        --------
        >>> import orthoplus as op
        >>> problem = op.problems.ONMF(np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]]), 2)
        >>> certificate = op.certify(problem, [0, 1, 1])
        >>> op.solve(problem, certificate.best_X()).labels
        array([0, 0, 1])
        """
        from orthoplus.certify.judging import best_point

        return best_point(self, self._own_problem(problem, "best_X(problem)")).dense()

    def _own_problem(self, problem: Problem | None, call: str) -> Problem:
        """Return the problem of the certificate after checking that its data match."""
        problem = self.problem if problem is None else problem
        if problem is None:
            raise InputError(
                "A certificate loaded from a file does not contain the data. Pass the problem: "
                f"`certificate.{call}`."
            )
        if not is_same_data(self.fingerprint, fingerprint_of(problem)):
            raise InputError(
                "The certificate belongs to a different problem: the data or k differ from those "
                "that were certified. Pass the problem that was certified."
            )
        return problem

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate atomically to an ``.npz`` file.

        Examples
        --------
        >>> import tempfile, orthoplus as op
        >>> from pathlib import Path
        >>> problem = op.problems.ONMF(np.eye(3), 2)
        >>> name = Path(tempfile.mkdtemp()) / "proof.npz"
        >>> op.certify(problem, [0, 1, 1]).save(name)
        >>> bool(op.Certificate.load(name).verify(problem))
        True
        """
        arrays = _proof_arrays(self.proof)
        for name in _ARRAYS:
            arrays[name] = getattr(self, name)
        header = {"format": _FORMAT, **{name: getattr(self, name) for name in _NUMBERS}}
        header["history"] = [list(row) for row in self.history]
        header["n_parts"] = len(self.proof) if type(self.proof) is tuple else -1
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        write_atomically(path, lambda file: np.savez(file, **arrays))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Certificate":
        """Read a certificate written by `save`. Pass the problem to `verify` it."""
        with reading_archive(path, _REFUSAL) as file:
            header = json.loads(bytes(file["header"]))
            if header.pop("format") != _FORMAT:
                raise KeyError("format")
            proof = _read_proof(file, header.pop("n_parts"))
            history = tuple(Progress(*row) for row in header.pop("history"))
            arrays = {name: file[name] for name in _ARRAYS}
            return Certificate(**header, **arrays, history=history, proof=proof)


_REFUSAL = (
    "`{path}` is not a certificate or is damaged ({error}). Pass a file written by "
    "`Certificate.save`."
)
_ARRAYS = ("labels", "answer", "weights", "fingerprint")
_NUMBERS = (
    "value", "bound", "gap", "kind", "seconds", "tol", "best_value", "improved", "confidence",
    "agreement", "unsure", "unit",
)  # fmt: skip


def _percent(gap: float) -> str:
    return f"{100.0 * gap:.2g} %"


def _proof_arrays(proof: Any) -> dict[str, Any]:
    if isinstance(proof, Compressed):
        own = {f"compressed/{name}": getattr(proof, name) for name in Compressed._fields[1:]}
        return {**_proof_arrays(proof.base), **own}
    if isinstance(proof, Between):
        return {
            f"between/{name}": part for name, part in proof._asdict().items() if part is not None
        }
    return {
        f"part{number}/{name}": array
        for number, part in enumerate(proof or ())
        for name, array in part._asdict().items()
    }


def _read_proof(file: Any, n_parts: int) -> Any:
    if n_parts >= 0:
        return tuple(
            DensePart(*(file[f"part{number}/{name}"] for name in DensePart._fields))
            for number in range(n_parts)
        )
    names = [f"between/{name}" for name in Between._fields]
    if names[0] not in file.files:
        return None
    parts: list[Any] = [file[name] if name in file.files else None for name in names]
    base = Between(*parts)
    names = [f"compressed/{name}" for name in Compressed._fields[1:]]
    return Compressed(base, *(file[name] for name in names)) if names[0] in file.files else base
