"""Print to the terminal safely: names from files cannot act as control sequences."""

import shutil
import sys
import textwrap
import unicodedata

import typer
from rich.console import Console

_LEAST_WIDTH = 20  # of a text that is wrapped
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
    """Print one line to standard error; on a terminal, lines that are not indented are wrapped.

    Indented lines are commands to copy, and progress.
    """
    lines = [printable(text)]
    if sys.stderr.isatty() and not text.startswith(" "):
        lines = wrapped(lines[0], shutil.get_terminal_size().columns)
    typer.echo("\n".join(lines), err=True)


def wrapped(text: str, width: int) -> list[str]:
    """Break a text at blanks into lines of this width; long words and narrow lines are kept.

    Examples
    --------
    >>> wrapped("the share that is explained", 21), wrapped("too narrow", 5)
    (['the share that is', 'explained'], ['too narrow'])
    """
    if width < _LEAST_WIDTH or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def console() -> Console:
    """Return a console on standard output without markup and highlighting."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
