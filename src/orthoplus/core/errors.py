"""Exceptions of the package: an `InputError` can be fixed by the user, other errors are bugs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orthoplus.core.result import Result


class InputError(ValueError):
    """Report input that cannot be used: data, options, or a file.

    The message says what is wrong, what is expected and what to do; the command line prints it
    without a traceback. For an argument of the wrong type, the error is also a `TypeError`.

    Examples
    --------
    >>> import numpy as np, orthoplus as op
    >>> try:
    ...     op.project(np.ones((2, 3)))
    ... except op.InputError as error:
    ...     print(error)
    `C` has shape (2, 3), more columns than rows: no 2-by-3 matrix has orthonormal columns. ...
    """


class InputTypeError(InputError, TypeError):
    """Report an argument of the wrong type; both an `InputError` and a `TypeError`.

    Examples
    --------
    >>> import orthoplus as op
    >>> try:
    ...     op.project("a matrix")
    ... except TypeError as error:
    ...     print(isinstance(error, op.InputError))
    True
    """


class FileError(InputError):
    """Report a file that cannot be read or written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from orthoplus.io import read_matrix
    >>> try:
    ...     read_matrix(Path("nowhere.csv"))
    ... except FileError as error:
    ...     print(error)
    `nowhere.csv` does not exist.
    """


class MissingPackageError(ImportError):
    """Report an optional package that is not installed, with the command that installs it."""


class CallbackError(RuntimeError):
    """Report that a callback raised; ``result`` holds the best point so far.

    Examples
    --------
    >>> import numpy as np, orthoplus as op
    >>> def careless(state):
    ...     raise KeyError("missing")
    >>> try:
    ...     op.solve(op.problems.TraceMin(np.diag([3.0, 1.0, 2.0]), 2), callback=careless)
    ... except op.CallbackError as error:
    ...     print(error.result.status.name, error.result.violation < 1e-12)
    CALLBACK True
    """

    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message)
        self.result = result


class OutOfTimeError(Exception):
    """Report that the time limit was reached inside a step."""


# Tracebacks and pickles use the public names of these classes.
InputError.__module__ = InputTypeError.__module__ = CallbackError.__module__ = "orthoplus"
