"""Symmetric matrices: dense, sparse, operators, products, and sums of these."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NoReturn

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dsyevr, dsyevr_lwork
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, norm

from orthoplus.core.checks import as_matrix, check_finite, out_of_range
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.sparse_checks import as_csr
from orthoplus.core.types import EPS, SMALLEST_NORMAL, FloatArray

# Up to this many rows, eigenvectors are computed with a dense solver.
DENSE_ROWS = 64
# The same limit for blocks of a sparse matrix that keeps a dense copy. At 200 rows the dense solver
# takes two thirds of the time of Lanczos, at 100 rows a fifth.
_DENSE_OF_SPARSE = 200
# The same limit if the entries of the matrix are available.
_DENSE_BLOCK = 300
# A sparse matrix of at most this many rows keeps a dense copy, from which small blocks are taken.
_DENSE_WHOLE = 512
# Relative asymmetry that is attributed to rounding.
ASYMMETRY = 1e-10
# Number of Lanczos vectors per requested eigenvalue, and the minimum.
_LANCZOS_FACTOR = 4
_LANCZOS_LEAST = 40
# Relative accuracy of the norm of an operator, which is increased by this amount.
_NORM_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class SymmetricMap:
    r"""The symmetric matrix :math:`M = B + \sum_t U_t C_t U_t^\top`, used through products.

    Parameters
    ----------
    base : ndarray, SciPy CSR matrix, LinearOperator or None
        B of shape (n, n); None is zero.
    factors : tuple of pairs (U, C)
        U dense or sparse of shape (n, r); C a number or a symmetric array of shape (r, r). The
        product U C U' is never formed.

    Examples
    --------
    >>> U = np.array([[1.0], [2.0]])
    >>> M = SymmetricMap(np.eye(2), ((U, -1.0),))
    >>> M @ np.eye(2)
    array([[ 0., -2.],
           [-2., -3.]])
    """

    base: Any
    factors: tuple[tuple[Any, Any], ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, n), from the base matrix or the first factor."""
        n = self.base.shape[0] if self.base is not None else self.factors[0][0].shape[0]
        return n, n

    def __matmul__(self, X: FloatArray) -> FloatArray:
        product = None if self.base is None else np.asarray(self.base @ X)
        for U, C in self.factors:
            term = U @ _multiply(C, U.T @ X)
            product = term if product is None else product + term
        return np.asarray(product)

    def __neg__(self) -> "SymmetricMap":
        base = None if self.base is None else -self.base
        return SymmetricMap(base, tuple((U, -C) for U, C in self.factors))

    def block(self, rows: Any) -> "SymmetricMap":
        """Return the principal submatrix of these rows and columns."""
        base = self.base
        if isinstance(base, LinearOperator):
            base = _padded(base, rows)
        elif isinstance(base, np.ndarray):
            base = base[np.ix_(rows, rows)]
        elif base is not None:
            base = self._sparse_block(rows)
        return SymmetricMap(base, tuple((U[rows], C) for U, C in self.factors))

    def _sparse_block(self, rows: Any) -> Any:
        """Return the block of a sparse base, dense if it is small: a search asks for thousands."""
        if self.base.shape[0] <= _DENSE_WHOLE and len(rows) <= _DENSE_OF_SPARSE:
            return self._dense_base[np.ix_(rows, rows)]
        block = self.base[rows][:, rows]
        return block.toarray() if len(rows) <= DENSE_ROWS else block

    @cached_property
    def _dense_base(self) -> FloatArray:
        return self.base.toarray()

    def to_dense(self) -> FloatArray:
        """Return all entries; for small n."""
        if not self.factors and self.base is not None:
            if issparse(self.base):
                return self.base.toarray()
            if isinstance(self.base, np.ndarray):
                return self.base
        return self @ np.eye(self.shape[0])

    @cached_property
    def known_blocks(self) -> dict[tuple[bytes, str], FloatArray | None]:
        """Return the cache of bottom vectors of small blocks that `bottom_of_blocks` fills."""
        return {}

    @cached_property
    def diagonal(self) -> FloatArray | None:
        """Return the diagonal of M, or None if the base is an operator."""
        if isinstance(self.base, LinearOperator):
            return None
        diagonal = np.zeros(self.shape[0])
        if self.base is not None:
            diagonal += self.base.diagonal()
        for U, C in self.factors:
            image = U @ C if np.ndim(C) else C * U
            part = image.multiply(U).sum(axis=1) if issparse(U) else (image * U).sum(axis=1)
            diagonal += np.asarray(part).ravel()
        return diagonal

    @cached_property
    def norm(self) -> float:
        r"""Return an upper bound of :math:`\|M\|_2`.

        It uses absolute row sums, and :math:`\|U\|_1 \|U\|_\infty` for UU'. For an operator it is
        the largest absolute eigenvalue from Lanczos, increased by its tolerance.
        """
        if self.factors and self.shape[0] <= DENSE_ROWS:
            return float(np.abs(np.linalg.eigvalsh(self.to_dense())).max())
        size = 0.0
        if isinstance(self.base, LinearOperator):
            size = _operator_norm(self.base)
        elif issparse(self.base):
            size = float(norm(self.base, np.inf))
        elif self.base is not None:
            size = float(np.linalg.norm(self.base, np.inf))
        for U, C in self.factors:
            column_sum, row_sum = _norms(U)
            size += column_sum * row_sum * float(np.linalg.norm(np.atleast_2d(C), 2))
        return size

    @cached_property
    def largest(self) -> float:
        """Return a tight upper bound of the largest eigenvalue."""
        if self.base is None and all(np.ndim(C) == 0 and C <= 0 for _, C in self.factors):
            return 0.0  # -UU' is negative semidefinite
        start = np.random.default_rng(0).standard_normal(self.shape[0])
        found = (-self).eigenpairs(1, start, tol=_NORM_TOL)
        if found is None:
            return self.norm
        # Lanczos stops at a residual of _NORM_TOL (shift + eigenvalue), which is at most
        # 3 _NORM_TOL ||M||.
        return float(-found[0][0]) + 3.0 * _NORM_TOL * self.norm

    def eigenpairs(
        self, k: int, start: FloatArray, *, tol: float = 0.0
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the k smallest eigenvalues, ascending, and their vectors; None if Lanczos fails.

        Small n use a dense solver, otherwise Lanczos runs on ``shift I - M`` from ``start``. The
        start should be unstructured: one that follows the components of a graph would miss multiple
        eigenvalues. The shift makes the matrix positive definite, because Lanczos fails from a
        start in the kernel, such as the constant vector of a graph Laplacian, and converges slowly
        to eigenvalues near zero.
        """
        n = self.shape[0]
        is_small_block = n <= _DENSE_BLOCK and isinstance(self.base, np.ndarray)
        if n <= max(DENSE_ROWS, 2 * k) or is_small_block:
            # LAPACK's decisions depend on the scale of M; scaling by a power of two is exact.
            dense = self.to_dense()
            exponent = int(np.frexp(np.abs(dense).max())[1])
            values, vectors = _smallest_pairs(np.ldexp(dense, -exponent), k)
            return np.ldexp(values, exponent), vectors
        if self.norm == 0.0:
            return np.zeros(k), np.eye(n, k)
        shift = 2.0 * self.norm
        shifted = LinearOperator((n, n), matvec=lambda x: shift * x - self @ x, dtype=np.float64)
        lanczos = min(n, max(_LANCZOS_LEAST, _LANCZOS_FACTOR * k))
        try:
            values, vectors = eigsh(shifted, k=k, which="LA", v0=start, ncv=lanczos, tol=tol)
        except ArpackNoConvergence:
            return None
        order = np.argsort(-values)
        return shift - values[order], vectors[:, order]


def as_symmetric_entries(M: Any, name: str, *, instead: str) -> Any:
    """Apply `as_symmetric` to a matrix with entries; the error for others names ``instead``."""
    if isinstance(M, (LinearOperator, SymmetricMap)):
        raise InputTypeError(
            f"`{name}` is a {type(M).__name__}: its entries are needed for ||M - XX'||. Use "
            f"{instead}, which has the same minimizers."
        )
    return as_symmetric(M, name)


def entry_squares(M: Any) -> float:
    """Return ||M||_F^2 of a dense or sparse matrix."""
    entries = M.data if issparse(M) else M
    return float(np.vdot(entries, entries))


def as_symmetric(M: Any, name: str) -> Any:
    """Check M and return it as an array, float64 CSR matrix, LinearOperator or SymmetricMap."""
    if isinstance(M, SymmetricMap):
        return M
    if isinstance(M, LinearOperator):
        _check_square(M, name)
        _check_operator(M, name)
        return M
    if issparse(M):
        M = as_csr(M, name).astype(np.float64)
        check_finite(M.data, name)
    else:
        M = as_matrix(M, name)
    _check_square(M, name)
    top = float(abs(M).max())
    # Eigenvalues are at most n times the largest entry. Numbers close to the smallest one have few
    # digits, so that bounds and values differ by more than the usual rounding.
    if top > np.finfo(float).max / (4.0 * M.shape[0]) or 0.0 < top < SMALLEST_NORMAL / EPS:
        raise out_of_range(top, name)
    # Differences within rounding are accepted, and M is used as given.
    if abs(M - M.T).max() > ASYMMETRY * top:
        raise_asymmetric(name)
    return M


def raise_asymmetric(name: str) -> NoReturn:
    """Raise the error that says how to make a matrix symmetric."""
    raise InputError(
        f"`{name}` is not symmetric. Pass ({name} + {name}.T) / 2: it has the same traces."
    )


def _multiply(C: Any, X: FloatArray) -> FloatArray:
    return np.asarray(C * X if np.ndim(C) == 0 else C @ X)


def _norms(U: Any) -> tuple[float, float]:
    """Return the largest absolute column sum and the largest absolute row sum."""
    if issparse(U):
        return float(norm(U, 1)), float(norm(U, np.inf))
    return float(np.linalg.norm(U, 1)), float(np.linalg.norm(U, np.inf))


def _smallest_pairs(M: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the k smallest eigenvalues of a dense matrix and their vectors.

    This is `scipy.linalg.eigh` without its overhead, which is most of the time for ten rows.
    """
    if M.dtype != np.float64 or not np.isfinite(M).all():
        values, vectors = eigh(M, subset_by_index=[0, k - 1])
        return values, vectors
    sizes = _workspace_sizes(len(M))
    values, vectors, _, _, info = dsyevr(M, range="I", il=1, iu=k, lower=1, **sizes)
    if info != 0:
        raise LinAlgError("The smallest eigenvalues of a dense matrix were not found.")
    return values[:k], vectors


@cache
def _workspace_sizes(n: int) -> dict[str, int]:
    """Return the sizes that LAPACK recommends for a matrix of n rows."""
    lwork, liwork, _ = dsyevr_lwork(n, lower=1)
    return {"lwork": int(lwork), "liwork": int(liwork)}


def _operator_norm(M: LinearOperator) -> float:
    n = M.shape[0]
    if n <= DENSE_ROWS:
        return float(np.abs(np.linalg.eigvalsh(M @ np.eye(n))).max())
    start = np.random.default_rng(0).standard_normal(n)
    if not (M @ start).any():
        return 0.0
    value = eigsh(M, k=1, which="LM", v0=start, tol=_NORM_TOL, return_eigenvectors=False)
    return (1.0 + _NORM_TOL) * float(np.abs(value).max())


def _padded(M: LinearOperator, rows: Any) -> LinearOperator:
    """Return a principal block of an operator by padding with zeros, one full product each."""
    n, size = M.shape[0], len(rows)

    def product(X: FloatArray) -> FloatArray:
        padded = np.zeros((n, *X.shape[1:]))
        padded[rows] = X
        return np.asarray((M @ padded)[rows])

    return LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)


def _check_square(M: Any, name: str) -> None:
    if len(M.shape) != 2 or M.shape[0] != M.shape[1]:
        raise InputError(f"`{name}` has shape {M.shape}: a square matrix is needed.")
    if M.shape[0] == 0:
        raise InputError(f"`{name}` has shape {M.shape}: it is empty. At least one row is needed.")


def _check_operator(M: LinearOperator, name: str) -> None:
    """Check finiteness and symmetry of an operator by one random product."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, M.shape[0]))
    Mx, My = M @ x, M @ y
    if not (np.isfinite(Mx).all() and np.isfinite(My).all()):
        raise InputError(f"`{name}` has products that are NaN or infinite. Check its `matvec`.")
    # x'(My) and (Mx)'y of a symmetric M differ by rounding, relative to this size.
    size = float(np.linalg.norm(Mx) * np.linalg.norm(y) + np.linalg.norm(My) * np.linalg.norm(x))
    if abs(Mx @ y - My @ x) > ASYMMETRY * size:
        raise InputError(
            f"`{name}` is not symmetric: x'(My) and (Mx)'y differ. Pass ({name} + {name}.T) / 2: "
            f"it has the same traces."
        )
