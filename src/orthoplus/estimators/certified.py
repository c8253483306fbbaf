"""Proofs for fitted estimators."""

from abc import abstractmethod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.problem import Problem


class Certified:
    """`certify` for an estimator that says which problem it has solved, and how."""

    def certify(self, X: Any, **options: Any) -> Certificate:
        """Bound how far the fitted answer is from the best one.

        Parameters
        ----------
        X : data
            The data that the estimator was fitted to.
        **options
            Those of `orthoplus.certify`: ``time_limit``, ``tol``, ``callback``, ``confidence``;
            and ``sample_weight`` as in ``fit``, if that has it.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        problem, answer = self._solved(X, options)
        return certify(problem, answer, **options)

    @abstractmethod
    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Problem, Any]:
        """Return the problem of the fit and its answer; take own options out of ``options``."""
