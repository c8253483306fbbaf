"""How a command ends: the exit codes, and errors as one sentence."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from orthoplus.status import Status

DONE, NOT_CONVERGED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

P = ParamSpec("P")


def exit_code(status: Status) -> int:
    """What a run that was written to disk ends with."""
    if status is Status.INTERRUPTED:
        return INTERRUPTED
    return DONE if status.success else NOT_CONVERGED


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """A command whose bad input ends with one sentence and code 2, and Ctrl-C with 130.

    The readers, `checks` and the calls themselves raise ValueError and TypeError with a sentence
    for the user; anything else is a mistake of ours and keeps its traceback.
    """

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            code = command(*args, **options)
        except (ValueError, TypeError) as error:
            typer.echo(f"Error: {error}", err=True)
            code = BAD_INPUT
        except (PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            typer.echo(f"Error: `{error.filename}`: {error.strerror}.", err=True)
            code = BAD_INPUT
        except KeyboardInterrupt:
            typer.echo("Interrupted before there was a result: nothing was written.", err=True)
            code = INTERRUPTED
        sys.stdout.flush()
        raise typer.Exit(code)

    return run
