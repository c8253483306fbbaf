"""KindAP: alternating projections in two layers for K-indicators (Chen et al. 2019)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.errors import InputTypeError
from orthoplus.core.outer_method import Diagnostics, OuterMethodBase, RestStop
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import polar_factor, violation

# Distances below this count as zero.
_ZERO = 1e-12


class KindAPState(NamedTuple):
    """Hold the rotated embedding, the previous indicator matrix, and the current layer."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    n_inner: int
    rotated: FloatArray
    labels: IntArray
    distance: float
    phase: str

    @property
    def is_over(self) -> bool:
        """Return whether the outer layer has ended."""
        return self.phase == "end"


@dataclass(frozen=True)
class KindAP(OuterMethodBase):
    r"""Solve K-indicators by double-layered alternating projection.

    .. math:: N = \max(UY, 0),\; Y = \Pi(U^\top N) \text{ until convergence}; \qquad
              H = \text{the largest entry of each row of } N,\; Y = \Pi(U^\top H).

    Parameters
    ----------
    normalize_rows : bool
        Whether to normalize the rows of U, as the authors' Python code does by default; their
        article and MATLAB code use U without normalization.
    start : {"identity", "given"}
        The first Y: the identity, as published, or the optimal one for the given X.
    inner_tol, max_inner : float, int
        The inner layer ends when ``||UY - N||`` changes by at most this share or increases, or
        after ``max_inner`` iterations.
    tol, max_iter : float, int
        The outer layer ends when ``||UY - H||`` changes by at most this share or increases, when no
        label changes, or after ``max_iter`` iterations.
    binary : bool
        Whether H has equal entries in each column, as in the article. False keeps those of N while
        the inner layer is used, as the authors' MATLAB code does by default.
    finish : bool
        Whether to continue without the inner layer after convergence, until it converges again.
    lloyd : bool
        Whether to finish with k-means on the rows of U from the means of the clusters, which needs
        scikit-learn.

    Notes
    -----
    Chen, Yang, Xu, Zhang and Zhang, *Big-data clustering: K-means or K-indicators?* (2019); the
    parameters are those of the authors' code. An outer step consists of the whole inner layer, one
    rounding and one projection back. A column of H may be empty; then H is not in S+, and `solve`
    rounds it to a feasible point. An inner iteration costs two products of O(nk^2) and an SVD of k
    x k.

    Examples
    --------
    >>> import orthoplus as op
    >>> noisy = np.eye(2)[[0, 0, 1, 1]] + 0.1 * np.random.default_rng(0).standard_normal((4, 2))
    >>> U = np.linalg.svd(noisy, full_matrices=False)[0]
    >>> labels = op.solve(op.problems.KIndicators(U), method=KindAP()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3])
    (True, True)
    """

    state_type = KindAPState
    ends_with_search = False  # baselines are compared without a search

    normalize_rows: bool = False
    start: str = "identity"
    inner_tol: float = 1e-3
    max_inner: int = 200
    tol: float = 1e-6
    max_iter: int = 50
    binary: bool = True
    finish: bool = True
    lloyd: bool = False

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("identity", "given"))
        check_range(self.inner_tol, "inner_tol", low=0.0)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_inner, "max_inner", low=1)
        check_count(self.max_iter, "max_iter", low=1)

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> KindAPState:
        """Return the state with the first rotation, before any rounding."""
        U = self._embedding(problem)
        Y = np.eye(U.shape[1]) if self.start == "identity" else polar_factor(U.T @ X)
        labels = np.full(len(U), -1)
        return self._state(problem, X, Y, (U @ Y, labels, np.inf), (0, 0, "inner"))

    def step(self, problem: Problem, state: KindAPState) -> KindAPState:
        """Perform one outer iteration: the inner layer, H, and the rotation back to U."""
        U, n_iter = self._embedding(problem), state.n_iter + 1
        if state.phase == "lloyd":
            labels = _lloyd(U, state.labels)
            H = _indicator(U, labels, is_binary=True)
            return self._rotate(problem, U, H, labels, (n_iter, 0, "end"))
        n_inner, N = 0, np.maximum(state.rotated, 0.0)
        if state.phase == "inner":
            N, n_inner = self._inner_layer(U, N)
        # H keeps the largest entry of each row of N; Y = polar factor of U'H rotates U toward it.
        labels = N.argmax(axis=1)
        H = _indicator(N, labels, is_binary=self.binary or state.phase == "outer")
        new = self._rotate(problem, U, H, labels, (n_iter, n_inner, state.phase))
        if not self._rests(state, new):
            return new
        # Keep the last point if the final step without the inner layer made it worse.
        is_worse = new.distance > state.distance * (1.0 + self.tol) and state.phase != "inner"
        kept = state._replace(n_iter=n_iter) if is_worse else new
        return kept._replace(phase=self._next_phase(state.phase))

    def diagnostics(self, state: KindAPState) -> Diagnostics:
        """Return the number of iterations of the inner layer."""
        return Diagnostics(n_inner=state.n_inner)

    def stop(self) -> RestStop:
        """Return the stopping rule: the last layer has converged, or the limit is reached."""
        return RestStop("is_over", self.max_iter)

    def _embedding(self, problem: Problem) -> FloatArray:
        U = getattr(problem, "U", None)
        if U is None:
            own = type(problem.unwrapped).__name__
            raise InputTypeError(
                f"KindAP needs the problem KIndicators(U), got {own}. Use EP4Orth for any smooth f."
            )
        if not self.normalize_rows:
            return np.asarray(U)
        norms = np.linalg.norm(U, axis=1, keepdims=True)
        return np.asarray(U / np.where(norms > 0, norms, 1.0))

    def _inner_layer(self, U: FloatArray, N: FloatArray) -> tuple[FloatArray, int]:
        """Alternate between rotations of U and nonnegative matrices to convergence."""
        before, n_inner = np.inf, 0
        while n_inner < self.max_inner:
            n_inner += 1
            rotated = U @ polar_factor(U.T @ N)
            distance = float(np.linalg.norm(rotated - N))
            # The first comparison is with infinity, so that the first iteration never ends the
            # layer.
            if distance < _ZERO or distance >= before * (1.0 - self.inner_tol):
                break
            before, N = distance, np.maximum(rotated, 0.0)
        return N, n_inner

    def _rotate(
        self,
        problem: Problem,
        U: FloatArray,
        H: FloatArray,
        labels: IntArray,
        progress: tuple[int, int, str],
    ) -> KindAPState:
        Y = polar_factor(U.T @ H)
        rotated = U @ Y
        distance = float(np.linalg.norm(rotated - H))
        return self._state(problem, H, Y, (rotated, labels, distance), progress)

    def _state(
        self,
        problem: Problem,
        H: FloatArray,
        Y: FloatArray,
        at: tuple[FloatArray, IntArray, float],
        progress: tuple[int, int, str],
    ) -> KindAPState:
        X = project_oblique_plus(H)
        n_iter, n_inner, phase = progress
        return KindAPState(X, problem.value(X), violation(X), Y, n_iter, n_inner, *at, phase)

    def _rests(self, old: KindAPState, new: KindAPState) -> bool:
        if new.distance < _ZERO or (new.labels == old.labels).all():
            return True
        return new.distance >= old.distance * (1.0 - self.tol)

    def _next_phase(self, phase: str) -> str:
        if phase == "inner" and self.finish:
            return "outer"
        return "lloyd" if self.lloyd else "end"


def _indicator(N: FloatArray, labels: IntArray, *, is_binary: bool) -> FloatArray:
    """Return H with the labeled entry of each row (or 1) and unit columns, except empty ones."""
    rows = np.arange(len(N))
    H = np.zeros((len(N), N.shape[1]))
    H[rows, labels] = 1.0 if is_binary else N[rows, labels]
    norms = np.linalg.norm(H, axis=0)
    return np.asarray(H / np.where(norms > 0, norms, 1.0))


def _lloyd(U: FloatArray, labels: IntArray) -> IntArray:
    """Return the labels of k-means from the means of the clusters."""
    from sklearn.cluster import KMeans

    k = U.shape[1]
    sizes = np.bincount(labels, minlength=k)
    # The embedding has k columns, hence k centers in k dimensions.
    means = np.zeros((k, k))
    np.add.at(means, labels, U)
    means /= np.maximum(sizes, 1)[:, None]
    return np.asarray(KMeans(n_clusters=k, init=means, n_init=1).fit(U).labels_, dtype=np.int64)
