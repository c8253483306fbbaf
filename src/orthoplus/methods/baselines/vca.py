"""VCA + FCLS: vertex component analysis for spectra, constrained least squares for fractions."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_count
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.data import DataMatrix
from orthoplus.linalg.fractions import fractions_of_rows
from orthoplus.linalg.vertices import VertexSearch
from orthoplus.methods.factors import ChangeStop, FactorState, data_of, factor_state, start_state


@dataclass(frozen=True)
class VCA(SeededMethod):
    r"""Unmix linearly: find rows of A that are vertices, and their fractions in every row.

    .. math:: A \approx F E, \qquad F \ge 0,\; F e = e, \qquad x_j = f_j / \|f_j\|_2, \;
              y_j = \|f_j\|_2\, e_j.

    E comes from vertex component analysis (`orthoplus.linalg.vertices.VertexSearch`), F from fully
    constrained least squares (`orthoplus.linalg.fractions.fit_fractions`).

    Parameters
    ----------
    seed : int
        Seed of the random directions.

    Notes
    -----
    Nascimento and Bioucas-Dias, IEEE TGRS 43 (2005); Heinz and Chang, IEEE TGRS 39 (2001). Both
    were implemented from the papers; negative entries of the projected spectra are set to zero.
    Tests verify that vertices of noise-free mixtures with pure rows are found exactly, and that the
    fractions satisfy the optimality conditions. There was no comparison with the authors' programs.
    One step performs the whole fit; the given X is not used. The fractions are not orthogonal;
    rounding turns them into clusters. The cost is O(n r^2).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=VCA()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    state_type = FactorState
    ends_with_search = False  # baselines are compared without a search

    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the state at the given X, before the fit."""
        return start_state(problem, X)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Find the vertices, then the fractions."""
        A = data_of(problem)
        E = self.find_spectra(A, problem.shape[1])
        F = A.gather(fractions_of_rows(A, E, "fcls")).astype(np.float64, copy=False)
        norms = np.linalg.norm(F, axis=0)
        # Scale the columns of F to unit norm and the spectra inversely: FE = XY'.
        X, Y = F / np.where(norms > 0.0, norms, 1.0), E.T * norms
        return factor_state(problem, X, Y, before=state)._replace(change=0.0)

    def find_spectra(self, A: DataMatrix, k: int) -> FloatArray:
        """Return the k x r spectra of the vertices."""
        search = VertexSearch.of(A, k)
        rows = search.draw(np.random.default_rng(self.seed))
        return np.maximum(search.scores[rows] @ search.basis.T, 0.0)

    def stop(self) -> ChangeStop:
        """Return a stopping rule that ends the run after the fit."""
        return ChangeStop(tol=0.0, max_iter=1)
