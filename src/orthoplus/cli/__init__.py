"""The command ``orthoplus``: one file per command; what they need loads when it is called."""

import sys

from orthoplus.core.errors import MissingPackageError
from orthoplus.core.extras import check_installed

_PACKAGES = ("typer", "rich", "jinja2", "matplotlib")


def main() -> None:
    """Run the command line; Typer and Rich load here."""
    try:
        check_installed(_PACKAGES, "The command `orthoplus`", extra="cli")
        from orthoplus.cli.app import app
    except MissingPackageError as error:
        sys.exit(_refuse(f"Error: {error}"))
    except KeyboardInterrupt:  # before there is a command that could say so
        sys.exit(130)
    app(prog_name="orthoplus")


def _refuse(sentence: str) -> int:
    """Print without Typer; the code of bad input."""
    sys.stderr.write(f"{sentence}\n")
    return 2


__all__ = ["main"]
