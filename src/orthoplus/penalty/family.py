r"""The penalty family.

Every penalty here is a function of :math:`s = \|XV\|_F^2`, which is at least 1 on OB+ and equals 1
exactly on S+ (Lemma 2.2):

.. math:: \sigma \varphi(s), \qquad
          \nabla = 2 \sigma \varphi'(s)\, X V V^\top, \qquad
          \nabla^2[D] = 2 \sigma \varphi'(s)\, D V V^\top
                      + 4 \sigma \varphi''(s) \langle X V V^\top, D \rangle\, X V V^\top.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import as_matrix, check_positive, check_range
from orthoplus.core.errors import InputError
from orthoplus.core.types import EPS, FloatArray, Linear
from orthoplus.geometry.stiefel import rounding_constant
from orthoplus.penalty.exactness import ExactPenalty, Measure

# zeta has a rounding error; derivatives that are singular at zeta + eps = 0 are evaluated here.
_ZETA_FLOOR = EPS


def check_mixing(V: FloatArray) -> FloatArray:
    """Return V as a k x r matrix after checking that ||V||_F = 1 and VV' > 0 entrywise.

    Examples
    --------
    >>> check_mixing(np.array([[1.0], [-1.0]]) / np.sqrt(2))
    Traceback (most recent call last):
    orthoplus.InputError: `V` is not admissible: the smallest entry of VV' is -0.5, but must be ...
    """
    V = as_matrix(V, "V").astype(np.float64, copy=False)
    size, smallest = float(np.linalg.norm(V)), float((V @ V.T).min())
    if abs(size - 1.0) > 1e-6:
        raise InputError(
            f"`V` is not admissible: its Frobenius norm is {size:.6g}, but must be 1. "
            f"Divide V by its norm."
        )
    if smallest <= 0:
        raise InputError(
            f"`V` is not admissible: the smallest entry of VV' is {smallest:.3g}, "
            f"but must be positive. Use a matrix with positive entries."
        )
    return V / size


@dataclass(frozen=True)
class Penalty(ExactPenalty, ABC):
    r"""A penalty sigma * phi(||XV||_F^2); a subclass implements phi and two derivatives.

    Parameters
    ----------
    sigma : float
        Penalty parameter, at least 0.
    V : ndarray of shape (k, r), optional
        Matrix of unit Frobenius norm with VV' > 0. None means e / sqrt(k), for which X V V' is the
        mean of each row and all operations cost O(nk) instead of O(nk^2).

    Examples
    --------
    >>> PowerPenalty(3.0).value(np.eye(4, 2))  # zero on S+
    0.0
    >>> round(PowerPenalty(3.0).value(np.array([[1.0, 1.0], [0.0, 0.0]])), 12)  # 3 (||XV||^2 - 1)
    3.0
    """

    # The smoothing parameter; a subclass with smoothing turns it into a field.
    eps = 0.0

    sigma: float
    V: FloatArray | None = None

    def __post_init__(self) -> None:
        check_range(self.sigma, "sigma", low=0.0)
        if self.V is not None:
            object.__setattr__(self, "V", check_mixing(self.V))

    @abstractmethod
    def profile(self, s: float) -> tuple[float, float, float]:
        """Return phi(s), phi'(s) and phi''(s), without sigma."""

    def rescaled(self, sigma: float, eps: float) -> Self:
        """Return this penalty with other parameters, without checking them again.

        A penalty without a field ``eps`` has no smoothing and ignores ``eps``.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self), sigma=sigma)
        if "eps" in vars(self):
            vars(other)["eps"] = eps
        return other

    def energy(self, X: FloatArray) -> float:
        """Return ||XV||_F^2."""
        if self.V is None:
            return kernels.row_energy(X)
        return float(np.linalg.norm(X @ self.V)) ** 2

    def mix(self, X: FloatArray) -> FloatArray:
        """Return X V V' or, if V = e / sqrt(k), the n x 1 column of row means in its place."""
        if self.V is None:
            return X.mean(axis=1, keepdims=True)
        return np.asarray(X @ (self.V @ self.V.T))

    def omega(self, k: int) -> float:
        """Return the smallest entry of VV'."""
        return 1.0 / k if self.V is None else float((self.V @ self.V.T).min())

    def smoothness(self, k: int) -> float | None:
        """Return a Lipschitz constant of the gradient over OB+, or None if none is known."""
        return None

    def value(self, X: FloatArray) -> float:
        """Return sigma * phi(||XV||^2)."""
        return self.sigma * self.profile(self.energy(X))[0]

    def gradient(self, X: FloatArray) -> FloatArray:
        """Return 2 sigma phi'(s) X V V'."""
        slope = self.profile(self.energy(X))[1]
        return np.broadcast_to(2.0 * self.sigma * slope * self.mix(X), X.shape)

    def hessian(self, X: FloatArray) -> Linear:
        """Return the map D -> Hessian product at X."""
        _, slope, bend = self.profile(self.energy(X))
        mixed = self.mix(X)

        def product(D: FloatArray) -> FloatArray:
            # grad s = 2 XVV', so phi(s) has the Hessian 2 phi' DVV' + 4 phi'' <XVV', D> XVV'.
            curved = 2.0 * self.sigma * slope * self.mix(D)
            if bend != 0.0:
                along = float((mixed * D).sum())
                curved = curved + 4.0 * self.sigma * bend * along * mixed
            return np.broadcast_to(curved, D.shape)

        return product

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return H = 2 sigma phi'(s) VV' with Hessian product DH, or None unless phi'' = 0."""
        _, slope, bend = self.profile(self.energy(X))
        k = X.shape[1]
        mixing = np.full((k, k), 1.0 / k) if self.V is None else self.V @ self.V.T
        return 2.0 * self.sigma * slope * mixing if bend == 0.0 else None


@dataclass(frozen=True)
class PowerPenalty(Penalty):
    r"""The paper's penalty, (1.8): :math:`\sigma (\|XV\|_F^q - 1 + \epsilon)^p`.

    Parameters
    ----------
    sigma, V
        As in `Penalty`.
    p, q : float
        Positive exponents. p >= 1 is smooth with eps = 0; p < 1 needs eps > 0 to be smooth.
    eps : float
        Smoothing, at least 0.

    Examples
    --------
    >>> PowerPenalty(2.0).value(np.ones((1, 2)))  # ||XV||^2 = 2 where both columns share a row
    2.0
    """

    p: float = 1.0
    q: float = 2.0
    eps: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.p, "p")
        check_positive(self.q, "q")
        check_range(self.eps, "eps", low=0.0)

    def profile(self, s: float) -> tuple[float, float, float]:
        """Return phi, phi' and phi'' of phi(s) = (s^(q/2) - 1 + eps)^p at s = ||XV||^2."""
        if self.p == 1.0 and self.q == 2.0:
            return s - 1.0 + self.eps, 1.0, 0.0
        # phi(s) = base^p with base = s^(q/2) - 1 + eps; inner and bend are base' and base''.
        half = self.q / 2.0
        base = max(s**half - 1.0, 0.0) + self.eps
        inner, bend = half * s ** (half - 1.0), half * (half - 1.0) * s ** (half - 2.0)
        safe = max(base, _ZETA_FLOOR)
        outer = self.p * safe ** (self.p - 1.0)
        outer_bend = self.p * (self.p - 1.0) * safe ** (self.p - 2.0)
        return base**self.p, outer * inner, outer_bend * inner**2 + outer * bend

    def smoothness(self, k: int) -> float | None:
        """Return 2 sigma max phi' + 4 sigma max s|phi''| over 1 <= s <= k.

        The factors are maximized separately; VV' has spectral norm at most 1 and ||XVV'||^2 <= s.
        The constant is sharp for p = 1, q = 2, where it is 2 sigma, section 6.1. It is None if
        phi'' is unbounded near S+.
        """
        half, low = self.q / 2.0, self.eps
        if low == 0 and self.p < 2 and self.p != 1:
            return None
        # base ranges over [low, high]; a power of it is largest at one of the ends.
        high = k**half - 1.0 + low
        outer = self.p * max(low ** (self.p - 1.0), high ** (self.p - 1.0))
        inner = half * max(1.0, k ** (half - 1.0))
        bend = outer * inner * abs(half - 1.0)
        if self.p != 1:
            steep = max(low ** (self.p - 2.0), high ** (self.p - 2.0)) * max(1.0, k ** (self.q - 1))
            bend += self.p * abs(self.p - 1.0) * half**2 * steep
        return float(self.sigma * (2.0 * outer * inner + 4.0 * bend))

    def measure(self, k: int) -> Measure:
        """Return Psi(z) = (z / rho_q)^(2p) with Q_0 = rho_q sqrt(eps), proof of Theorem 3.1."""
        rho = rounding_constant(k, self.q, omega=self.omega(k))
        largest = rho * (k ** (self.q / 2) - 1.0 + self.eps) ** 0.5
        return Measure(lambda z: (z / rho) ** (2 * self.p), rho * self.eps**0.5, largest)


# Psi(z) with its first two derivatives.
Profile = Callable[[float], tuple[float, float, float]]


@dataclass(frozen=True)
class GeneralPenalty(Penalty):
    r"""The general model, (3.9): :math:`\sigma \Psi(Q(X))` with an increasing Psi.

    .. math:: Q(X) = \varrho_q \sqrt{\|XV\|_F^q - 1 + \epsilon}, \qquad
              Q_0 = \varrho_q \sqrt{\epsilon}.

    Parameters
    ----------
    sigma, V
        Penalty parameter and mixing matrix, as in `PowerPenalty`.
    psi : callable
        ``psi(z) -> (value, slope, curvature)`` for z >= Q_0, strictly increasing.
    k : int
        Number of columns of X, which enters the constant rho_q.
    q, eps : float
        Exponent and smoothing inside Q.

    Examples
    --------
    >>> square = GeneralPenalty(1.0, psi=lambda z: (z * z, 2 * z, 2.0), k=2)
    >>> X = np.ones((1, 2))
    >>> bool(np.isclose(square.value(X), 8.0 * PowerPenalty(1.0).value(X)))  # rho^2 = 2 k^2 = 8
    True
    """

    psi: Profile = lambda z: (z, 1.0, 0.0)
    k: int = 1
    q: float = 2.0
    eps: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.q, "q")
        check_range(self.eps, "eps", low=0.0)
        top = self._rho * np.sqrt(self.k ** (self.q / 2) - 1 + self.eps)
        grid = np.linspace(self._rho * np.sqrt(self.eps), top, 33)
        values = np.array([self.psi(float(z))[0] for z in grid])
        if self.k > 1 and not (np.diff(values) > 0).all():  # for k = 1 the range is a single point
            raise InputError(
                "`psi` is not strictly increasing on the range of Q: the penalty would not be "
                "exact. Pass an increasing function, psi(z) -> (value, slope, curvature)."
            )

    @property
    def _rho(self) -> float:
        return rounding_constant(self.k, self.q, omega=self.omega(self.k))

    def profile(self, s: float) -> tuple[float, float, float]:
        """Return Psi(Q) and its first two derivatives as functions of s = ||XV||^2."""
        half = self.q / 2.0
        base = max(s**half - 1.0, 0.0) + self.eps
        safe = max(base, _ZETA_FLOOR)
        inner, bend = half * s ** (half - 1.0), half * (half - 1.0) * s ** (half - 2.0)
        # Q = rho sqrt(base) and Q' = rho base' / (2 sqrt(base)); apply the chain rule twice.
        first = self._rho * inner / (2.0 * np.sqrt(safe))
        second = self._rho * (bend / (2.0 * np.sqrt(safe)) - inner**2 / (4.0 * safe**1.5))
        value = self.psi(self._rho * float(np.sqrt(base)))[0]
        _, slope, curve = self.psi(self._rho * float(np.sqrt(safe)))
        return value, slope * first, curve * first**2 + slope * second

    def measure(self, k: int | None = None) -> Measure:
        """Return Psi and Q_0 = rho_q sqrt(eps); k defaults to that of the penalty."""
        if k not in (None, self.k):
            raise InputError(
                f"`k={k}` differs from the number of columns of this penalty, {self.k}, on which "
                f"its constant rho_q depends. Create a `GeneralPenalty` with `k={k}`."
            )
        largest = self._rho * (self.k ** (self.q / 2) - 1.0 + self.eps) ** 0.5
        return Measure(lambda z: self.psi(z)[0], self._rho * self.eps**0.5, largest)

    def threshold(self, lipschitz: float, separation: float, k: int | None = None) -> float:
        """Return the sigma above which the penalty is exact; k defaults to the penalty's own."""
        return super().threshold(lipschitz, separation, self.k if k is None else k)
