"""scikit-learn's KMeans, as it is, behind the protocol of the methods."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_count, check_range
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


@dataclass(frozen=True)
class KMeansBaseline(SeededMethod):
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

    state_type = FactorState
    ends_with_search = False  # a baseline is compared as it is

    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_init, "n_init", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """The given X, before the fit."""
        return start_state(problem, X)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """The fit; X from its labels."""
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
        sizes = np.bincount(labels, minlength=k)
        X = np.zeros((n, k))
        X[np.arange(n), labels] = 1.0 / np.sqrt(sizes[labels])
        Y = coimage(problem, X)
        change = 0.0 if model.n_iter_ < self.max_iter else np.inf
        return factor_state(problem, X, Y, before=state, products=Y)._replace(change=change)

    def stop(self) -> ChangeStop:
        """Stop after the fit."""
        return ChangeStop(tol=0.0, max_iter=1)
