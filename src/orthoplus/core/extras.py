"""Import optional packages on first use, with a helpful error if one is missing."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from orthoplus.core.errors import MissingPackageError


def require(package: str, purpose: str, *, extra: str | None = None) -> Any:
    """Import an optional package, or raise an error with the command that installs it.

    Parameters
    ----------
    package : str
        Import name of the package, or of one of its modules.
    purpose : str
        The feature that needs it, used as the subject of the error message.
    extra : str, optional
        The extra of orthoplus that installs it; None if no extra does.

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
        top = package.partition(".")[0]  # without it, the error of `top.module` names `top`
        if isinstance(error, ModuleNotFoundError) and error.name not in (top, package):
            raise  # the package is installed, but one of its own dependencies is missing
        raise _missing(top, purpose, extra) from error


def check_installed(packages: tuple[str, ...], purpose: str, *, extra: str) -> None:
    """Raise as `require` does unless all packages are installed, without importing them."""
    for package in packages:
        try:
            is_there = find_spec(package) is not None
        except (ImportError, ValueError):
            is_there = False
        if not is_there:
            raise _missing(package, purpose, extra)


def _missing(package: str, purpose: str, extra: str | None) -> MissingPackageError:
    wanted = f'"orthoplus[{extra}]"' if extra else package
    return MissingPackageError(
        f"{purpose} needs `{package}`, which is not installed. Install it with "
        f"`pip install {wanted}`.",
        name=package,
    )
