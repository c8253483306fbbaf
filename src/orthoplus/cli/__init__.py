"""The command ``orthoplus``: one file a command; what they need loads when it is called."""


def main() -> None:
    """Run the command line; Typer and Rich load here."""
    from orthoplus.cli.app import app

    app(prog_name="orthoplus")


__all__ = ["main"]
