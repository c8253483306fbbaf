"""Optimisation with nonnegative orthogonality constraints: min f(X), X'X = I, X >= 0."""

__version__ = "0.1.0.dev0"
