"""Clustering and NMF of scikit-learn behind the protocol of the methods."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    entries_of,
    factor_state,
    quietly,
    start_state,
    times,
    times_transposed,
)

_INITS = ("nndsvda", "nndsvd", "nndsvdar", "random")


class _ScikitMethod(SeededMethod):
    """Base class that fits a model of scikit-learn in the first step and stops."""

    state_type = FactorState
    ends_with_search = False  # baselines are compared without a search

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
        """Return a stopping rule that ends the run after the fit."""
        return ChangeStop(tol=0.0, max_iter=1)

    def _fitted(self, state: FactorState, model: Any) -> FactorState:
        """Return the state after the fit, with a change of 0 if the fit converged."""
        return state._replace(change=0.0 if model.n_iter_ < self.max_iter else np.inf)


class _KMeansMethod(_ScikitMethod):
    """Base class for k-means on features of the rows; subclasses derive X from the labels."""

    n_init: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_init, "n_init", low=1)

    def _cluster(self, features: Any, k: int) -> Any:
        """Return the fitted model of scikit-learn."""
        from sklearn.cluster import KMeans

        model = KMeans(
            n_clusters=k,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.seed,
        )
        return quietly(model.fit, features)

    def _state(
        self, problem: Problem, X: FloatArray, model: Any, before: FactorState
    ) -> FactorState:
        Y = times_transposed(problem, X)
        return self._fitted(factor_state(problem, X, Y, before=before, products=Y), model)


@dataclass(frozen=True)
class KMeansBaseline(_KMeansMethod):
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
    One step performs the whole fit. The given X is not used.

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

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Fit the model and derive X from the labels."""
        model = self._cluster(entries_of(problem), problem.shape[1])
        X = _equal_weights(np.asarray(model.labels_), problem.shape[1])
        return self._state(problem, X, model, state)


@dataclass(frozen=True)
class SphericalKMeans(_KMeansMethod):
    r"""Spherical k-means: k-means of the rows of A, each divided by its norm.

    .. math:: \max \sum_i \cos(a_i, c_{\pi(i)}), \qquad
              x_{ij} \propto a_i^\top c_j / \|c_j\| \text{ for } \pi(i) = j, \text{ else } 0.

    Parameters
    ----------
    n_init, max_iter, tol
        As in `sklearn.cluster.KMeans`, which starts by k-means++.
    seed : int
        Its ``random_state``.

    Notes
    -----
    This is the usual way to cluster documents by cosine. It runs scikit-learn's k-means on
    normalized rows; the centers are means, which are not normalized between iterations. The weights
    of X are the projections of the rows onto their centers, as in orthogonal NMF. One step performs
    the whole fit; the given X is not used. A row of zeros gets a label but no weight.

    Dhillon and Modha, *Concept decompositions for large sparse text data using clustering*, Mach.
    Learn. 42 (2001).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=SphericalKMeans()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    seed: int = 0

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Fit the normalized rows and derive X from the labels and centers."""
        from sklearn.preprocessing import normalize

        model = self._cluster(normalize(entries_of(problem)), problem.shape[1])
        X = _projected_weights(problem, np.asarray(model.labels_), model.cluster_centers_)
        return self._state(problem, X, model, state)


@dataclass(frozen=True)
class LSAKMeans(_KMeansMethod):
    r"""Latent semantic analysis and k-means: the rows of A in few dimensions, normalized.

    .. math:: A \approx U_d \Sigma_d V_d^\top, \qquad
              \text{k-means of the normalized rows of } U_d \Sigma_d .

    Parameters
    ----------
    n_dimensions : int
        Number of dimensions d, at most the smaller dimension of A.
    n_init, max_iter, tol
        As in `sklearn.cluster.KMeans`.
    seed : int
        ``random_state`` of k-means and of the SVD, `sklearn.utils.extmath.randomized_svd`.

    Notes
    -----
    This follows the user guide of scikit-learn for documents: a truncated SVD, normalized rows,
    then k-means. X has equal weights in each column, as in `KMeansBaseline`. One step performs the
    whole fit; the given X is not used.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=LSAKMeans()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    n_dimensions: int = 100
    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_dimensions, "n_dimensions", low=1)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Reduce and normalize the rows, fit the model, and derive X from the labels."""
        from sklearn.preprocessing import normalize
        from sklearn.utils.extmath import randomized_svd

        A, k = entries_of(problem), problem.shape[1]
        d = min(self.n_dimensions, *A.shape)
        U, values, _ = randomized_svd(A, d, random_state=self.seed)
        model = self._cluster(normalize(U * values), k)
        return self._state(problem, _equal_weights(np.asarray(model.labels_), k), model, state)


def _equal_weights(labels: IntArray, k: int) -> FloatArray:
    """Return X with 1 / sqrt(size) in the column of each row."""
    X = np.zeros((len(labels), k))
    X[np.arange(len(labels)), labels] = 1.0 / np.sqrt(np.bincount(labels, minlength=k)[labels])
    return X


def _projected_weights(problem: Problem, labels: IntArray, centers: FloatArray) -> FloatArray:
    """Return X with the projection of each row onto its center and normalized columns."""
    k, rows = len(centers), np.arange(len(labels))
    norms = np.linalg.norm(centers, axis=1)
    scores = times(problem, (centers / np.where(norms > 0, norms, 1.0)[:, None]).T)
    X = np.zeros((len(labels), k))
    X[rows, labels] = np.maximum(scores[rows, labels], 0.0)
    return project_oblique_plus(X)


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
    One step performs the whole fit. The given X is not used. The SVD start requires that k is at
    most the number of columns of A; otherwise the start is random.

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
        """Fit the model and normalize its factors."""
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
        # Move the norms of the columns of W to H: WH = XY'.
        X, Y = W / np.where(norms > 0, norms, 1.0), H.T * norms
        return self._fitted(factor_state(problem, X, Y, before=state), model)
