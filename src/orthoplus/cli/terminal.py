"""Words on a terminal: names from files are shown, never obeyed."""

import unicodedata

import typer
from rich.console import Console

# Signs that turn the direction of the text after them.
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    r"""Return the text with control characters written out, so that a terminal cannot act on them.

    Examples
    --------
    >>> print(printable("a\x1b[2Jb"), printable("two\nlines"))
    a\x1b[2Jb two\nlines
    """
    return "".join(
        sign.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or sign in _TURNING
        else sign
        for sign in text
    )


def echo_stderr(text: str) -> None:
    """One line on standard error."""
    typer.echo(printable(text), err=True)


def console() -> Console:
    """Return standard output; words are never taken for markup, nor numbers colored."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
