"""The command ``orthoplus``: one module per command; dependencies are imported when it runs."""

import io
import logging
import os
import sys

from orthoplus.core.errors import MissingPackageError
from orthoplus.core.extras import check_installed

_PACKAGES = ("typer", "rich", "jinja2", "matplotlib")


def _prepare_streams() -> None:
    """Make printing safe: streams may be closed (``>&-``) or unable to show some characters.

    Without a null device in place of a closed stream, the next file that is opened would get its
    number, and child processes would write into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line; Typer and Rich are imported here."""
    try:
        _prepare_streams()
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
