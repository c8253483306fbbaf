"""End a command: exit codes, plain error messages, Ctrl-C at any time."""

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import typer

from orthoplus.cli.terminal import echo_stderr
from orthoplus.cli.words import in_shell_terms
from orthoplus.core.errors import FileError, InputError, MissingPackageError
from orthoplus.core.status import Status

DONE, NOT_CONVERGED, BAD_INPUT, BUG, INTERRUPTED, TERMINATED = 0, 1, 2, 70, 130, 143
DEBUG_VARIABLE = "ORTHOPLUS_DEBUG"
_PACKAGE = Path(__file__).parents[1]

P = ParamSpec("P")


def exit_code(status: Status) -> int:
    """Return the exit code of a run whose results were written."""
    if status is Status.INTERRUPTED:
        return INTERRUPTED
    return DONE if status.success else NOT_CONVERGED


class Terminating:
    """Treat SIGTERM like Ctrl-C, and remember that it was received.

    A run is then saved and its results so far are written before the process ends.
    """

    is_requested = False

    def install(self) -> None:
        """Handle SIGTERM like Ctrl-C, unless it is ignored or this is not the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: Any) -> None:
        self.is_requested = True
        # Call the handler of Ctrl-C, which may delay it during an import or while writing files.
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # Ctrl-C is ignored, as in the background of a shell
            raise KeyboardInterrupt
        interrupt(number, frame)

    def code(self, code: int) -> int:
        """Return the exit code, changed if SIGTERM was received."""
        return TERMINATED if self.is_requested and code == INTERRUPTED else code


TERMINATION = Terminating()


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Wrap a command to print errors as sentences: exit code 2 for bad input, 130 for Ctrl-C.

    An error that the user can fix is an `InputError`; anything else is a bug and gives the code 70.
    The traceback is shown if ``ORTHOPLUS_DEBUG`` is set in the environment.
    """

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            code = command(*args, **options)
        except KeyboardInterrupt:
            echo_stderr("Interrupted before there was a result: nothing was written.")
            code = INTERRUPTED
        except (typer.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            code = _explain(error)
        sys.stdout.flush()
        raise typer.Exit(TERMINATION.code(code))

    return run


def _explain(error: Exception) -> int:
    """Print a plain error message and return the exit code."""
    if isinstance(error, (InputError, MissingPackageError)):
        # File errors are not translated: a file may have the name of an option.
        text = str(error) if isinstance(error, FileError) else in_shell_terms(str(error))
        echo_stderr(f"Error: {text}")
        return BAD_INPUT
    if isinstance(error, OSError):
        where = f"`{error.filename}`: " if error.filename is not None else ""
        echo_stderr(f"Error: {where}{error.strerror or error}.")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        echo_stderr("Error: out of memory. Use a smaller part of the data.")
        return BAD_INPUT
    echo_stderr(
        f"Internal error: {type(error).__name__}: {error} ({_last_place(error)}). This is a bug "
        f"in orthoplus, not a problem with your input; please report it. Set {DEBUG_VARIABLE}=1 "
        f"to see the traceback."
    )
    return BUG


def _last_place(error: Exception) -> str:
    """Return the innermost line of this package in the traceback."""
    place, traceback = "unknown place", error.__traceback__
    while traceback is not None:
        path = Path(traceback.tb_frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f"{path.relative_to(_PACKAGE.parent).as_posix()}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


@contextmanager
def resumable(command: str, source: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Print the command that continues a run if Ctrl-C is pressed before there is a result."""
    from orthoplus.cli.record import command_line

    try:
        yield
    except KeyboardInterrupt:
        saved = options.get("checkpoint")
        has_state = saved is not None and Path(saved).is_file()
        echo_stderr("Interrupted before there was a result: nothing was written.")
        if has_state:
            echo_stderr(f"The progress so far is in the checkpoint {saved}. To continue:")
            options = {**options, "resume": saved}
        elif saved is not None:
            echo_stderr("The checkpoint is still empty. To start again:")
        if saved is not None:
            echo_stderr(f"  {command_line(command, source, options)}")
        raise typer.Exit(TERMINATION.code(INTERRUPTED)) from None


class Finishing:
    """Remember whether Ctrl-C was pressed while the files were written."""

    is_interrupted = False

    def code(self, code: int) -> int:
        """Return the exit code, changed if Ctrl-C was pressed."""
        return INTERRUPTED if self.is_interrupted else code


@contextmanager
def finishing() -> Iterator[Finishing]:
    """Delay the first Ctrl-C until the files are written; the second one takes effect at once."""
    state = Finishing()
    if threading.current_thread() is not threading.main_thread():
        yield state
        return

    def wait(number: int, frame: Any) -> None:
        if state.is_interrupted:
            raise KeyboardInterrupt
        state.is_interrupted = True
        echo_stderr("Interrupted: finishing the files. Press Ctrl-C again to skip them.")

    # A first Ctrl-C must not interrupt the writing of a file; a second one does, on purpose.
    before = signal.signal(signal.SIGINT, wait)
    try:
        yield state
    except KeyboardInterrupt:
        echo_stderr("Interrupted while writing: files that exist are complete, others are missing.")
        raise typer.Exit(TERMINATION.code(INTERRUPTED)) from None
    finally:
        signal.signal(signal.SIGINT, before)
