"""KMeans and NMF of scikit-learn, as they are, behind the protocol of the methods."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    coimage,
    entries_of,
    factor_state,
    quietly,
    start_state,
)

_INITS = ("nndsvda", "nndsvd", "nndsvdar", "random")


class _ScikitMethod(SeededMethod):
    """Fit a model of scikit-learn in the first step, and stop."""

    state_type = FactorState
    ends_with_search = False  # a baseline is compared as it is

    max_iter: int
    tol: float

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter", low=1)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the state at the given X, before the fit."""
        return start_state(problem, X)

    def stop(self) -> ChangeStop:
        """Stop after the fit."""
        return ChangeStop(tol=0.0, max_iter=1)

    def _fitted(self, state: FactorState, model: Any) -> FactorState:
        """Return the state after the fit: it changed nothing more if the fit converged."""
        return state._replace(change=0.0 if model.n_iter_ < self.max_iter else np.inf)


@dataclass(frozen=True)
class KMeansBaseline(_ScikitMethod):
    r"""k-means of the rows of A: :math:`\|A - XX^\top A\|_F^2` with equal weights in a column.

    .. math:: x_{ij} = 1 / \sqrt{|C_j|} \text{ for } i \in C_j, \text{ else } 0.

    Parameters
    ----------
    n_init, max_iter, tol
        As in `sklearn.cluster.KMeans`.
    seed : int
        Its ``random_state``.

    Notes
    -----
    One step is the whole fit. The given X is not used. Needs scikit-learn, imported when first
    used.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=KMeansBaseline()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_init, "n_init", low=1)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Fit, and take X from the labels."""
        from sklearn.cluster import KMeans

        A, (n, k) = entries_of(problem), problem.shape
        model = KMeans(
            n_clusters=k,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.seed,
        )
        labels = np.asarray(quietly(model.fit, A).labels_)
        X = np.zeros((n, k))
        X[np.arange(n), labels] = 1.0 / np.sqrt(np.bincount(labels, minlength=k)[labels])
        Y = coimage(problem, X)
        return self._fitted(factor_state(problem, X, Y, before=state, products=Y), model)


@dataclass(frozen=True)
class NMFBaseline(_ScikitMethod):
    r"""Plain NMF, :math:`\min_{W, H \ge 0} \|A - WH\|_F^2`, whose W is rounded to clusters.

    .. math:: x_j = w_j / \|w_j\|_2, \qquad y_j = \|w_j\|_2\, h_j.

    Parameters
    ----------
    init_factors, max_iter, tol
        As ``init``, ``max_iter`` and ``tol`` of `sklearn.decomposition.NMF`.
    seed : int
        Its ``random_state``.

    Notes
    -----
    One step is the whole fit. The given X is not used. Needs scikit-learn, imported when first
    used; its SVD start needs k at most the number of columns of A, beyond that it is at random.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=NMFBaseline()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    init_factors: str = "nndsvda"
    max_iter: int = 200
    tol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.init_factors, "init_factors", _INITS)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Fit, and take both factors."""
        from sklearn.decomposition import NMF

        A, k = entries_of(problem), problem.shape[1]
        model = NMF(
            n_components=k,
            init=self.init_factors if k <= min(A.shape) else "random",
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.seed,
        )
        W, H = quietly(model.fit_transform, A), model.components_
        norms = np.linalg.norm(W, axis=0)
        X, Y = W / np.where(norms > 0, norms, 1.0), H.T * norms
        return self._fitted(factor_state(problem, X, Y, before=state), model)
