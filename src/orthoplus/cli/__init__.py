"""The command ``orthoplus``: one file per command; what they need loads when it is called."""

import logging
import sys

from orthoplus.core.errors import MissingPackageError
from orthoplus.core.extras import check_installed

_PACKAGES = ("typer", "rich", "jinja2", "matplotlib")


def main() -> None:
    """Run the command line; Typer and Rich load here."""
    try:
        check_installed(_PACKAGES, "The command `orthoplus`", extra="cli")
        from orthoplus.cli.app import app
        from orthoplus.cli.ending import TERMINATION

        logging.getLogger("orthoplus").setLevel(logging.ERROR)  # the display says when it compiles
        TERMINATION.install()
        app(prog_name="orthoplus")
    except MissingPackageError as error:
        sys.stderr.write(f"Error: {error}\n")  # Typer may be what is missing
        sys.exit(2)
    except KeyboardInterrupt:  # before there is a command that could say so, or after its end
        sys.exit(130)


__all__ = ["main"]
