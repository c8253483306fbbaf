"""Print to the terminal safely: names from files cannot act as control sequences."""

import unicodedata

import typer
from rich.console import Console

# Unicode characters that change the direction of the text after them.
_BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    r"""Escape control characters, so that a terminal does not act on them.

    Examples
    --------
    >>> print(printable("a\x1b[2Jb"), printable("two\nlines"))
    a\x1b[2Jb two\nlines
    """
    return "".join(
        sign.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or sign in _BIDI_CONTROLS
        else sign
        for sign in text
    )


def echo_stderr(text: str) -> None:
    """Print one line to standard error."""
    typer.echo(printable(text), err=True)


def console() -> Console:
    """Return a console on standard output without markup and highlighting."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
