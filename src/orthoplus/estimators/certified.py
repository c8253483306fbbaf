"""Certificates for fitted estimators."""

from abc import abstractmethod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.problem import Problem


class Certified:
    """Add `certify` to an estimator that provides its problem and its solution."""

    def certify(self, X: Any, **options: Any) -> Certificate:
        """Bound how far the fitted solution is from the optimum.

        Parameters
        ----------
        X : data
            The data passed to ``fit``.
        **options
            Options of `orthoplus.certify`: ``time_limit``, ``tol``, ``callback``, ``confidence``;
            and ``sample_weight`` if ``fit`` supports it.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        problem, answer = self._solved(X, options)
        return certify(problem, answer, **options)

    @abstractmethod
    def _solved(self, X: Any, options: dict[str, Any]) -> tuple[Problem, Any]:
        """Return the problem of the fit and its solution; pop own options from ``options``."""
