"""Optional packages: imported when they are used, and missed with one sentence."""

from importlib import import_module
from typing import Any

from orthoplus.core.errors import MissingPackageError


def require(package: str, purpose: str, *, extra: str | None = None) -> Any:
    """Import an optional package, or raise one sentence with the command that installs it.

    Parameters
    ----------
    package : str
        The name it is imported by, also of a submodule such as ``"matplotlib.figure"``.
    purpose : str
        What needs it, as the beginning of a sentence.
    extra : str, optional
        The extra of this package that brings it; None for a package that none brings.

    Examples
    --------
    >>> require("math", "Counting").pi
    3.141592653589793
    >>> require("no_such_package", "Reading the stars", extra="sky")
    Traceback (most recent call last):
    orthoplus.core.errors.MissingPackageError: Reading the stars needs `no_such_package`, which ...
    """
    try:
        return import_module(package)
    except ImportError as error:
        root = package.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name != root:
            raise  # the package is there, something that it needs is not
        wanted = f'"orthoplus[{extra}]"' if extra else root
        raise MissingPackageError(
            f"{purpose} needs `{root}`, which is not installed. Install it with "
            f"`pip install {wanted}`.",
            name=root,
        ) from error
