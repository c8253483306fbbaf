"""The command ``orthoplus``: one module per command; dependencies are imported when it runs."""

import logging
import sys

from orthoplus.core.errors import MissingPackageError
from orthoplus.core.extras import check_installed

_PACKAGES = ("typer", "rich", "jinja2", "matplotlib")


def main() -> None:
    """Run the command line; Typer and Rich are imported here."""
    try:
        check_installed(_PACKAGES, "The command `orthoplus`", extra="cli")
        from orthoplus.cli.app import app
        from orthoplus.cli.ending import TERMINATION

        logging.getLogger("orthoplus").setLevel(logging.ERROR)  # the display reports compilation
        TERMINATION.install()
        app(prog_name="orthoplus")
    except MissingPackageError as error:
        sys.stderr.write(f"Error: {error}\n")  # without Typer, which may be the missing package
        sys.exit(2)
    except KeyboardInterrupt:  # before a command starts or after it ends
        sys.exit(130)


__all__ = ["main"]
