"""scikit-learn's NMF, as it is, behind the protocol of the methods."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    entries_of,
    factor_state,
    quietly,
    start_state,
)

_INITS = ("nndsvda", "nndsvd", "nndsvdar", "random")


@dataclass(frozen=True)
class NMFBaseline(SeededMethod):
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

    state_type = FactorState
    ends_with_search = False  # a baseline is compared as it is

    init_factors: str = "nndsvda"
    max_iter: int = 200
    tol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.init_factors, "init_factors", _INITS)
        check_count(self.max_iter, "max_iter", low=1)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """The given X, before the fit."""
        return start_state(problem, X)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """The fit, and its factors."""
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
        change = 0.0 if model.n_iter_ < self.max_iter else np.inf
        return factor_state(problem, X, Y, before=state)._replace(change=change)

    def stop(self) -> ChangeStop:
        """Stop after the fit."""
        return ChangeStop(tol=0.0, max_iter=1)
