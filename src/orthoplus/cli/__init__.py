"""The command ``orthoplus``: one file a command; what they need loads when it is called."""

import sys


def main() -> None:
    """Run the command line; Typer and Rich load here."""
    try:
        from orthoplus.cli.app import app
    except KeyboardInterrupt:  # before there is a command that could say so
        sys.exit(130)
    app(prog_name="orthoplus")


__all__ = ["main"]
