"""How a command ends: the exit codes, errors as one sentence, Ctrl-C at any time."""

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
    """Return what a run that was written to disk ends with."""
    if status is Status.INTERRUPTED:
        return INTERRUPTED
    return DONE if status.success else NOT_CONVERGED


class Terminating:
    """Whether the system asked the process to end: SIGTERM, which counts as Ctrl-C from then on.

    So a run is saved and its files are written, as far as there are any, before the process ends.
    """

    is_asked = False

    def install(self) -> None:
        """Take SIGTERM for Ctrl-C, unless it is ignored or this is not the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: Any) -> None:
        self.is_asked = True
        # Whoever lets Ctrl-C wait, for an import or for files, lets this wait as well.
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # Ctrl-C is ignored, as in the background of a shell
            raise KeyboardInterrupt
        interrupt(number, frame)

    def code(self, code: int) -> int:
        """Return the exit code in view of that."""
        return TERMINATED if self.is_asked and code == INTERRUPTED else code


TERMINATION = Terminating()


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Wrap a command so that errors are sentences: code 2 for bad input, 130 for Ctrl-C, 70 else.

    What the user can mend is an `InputError`; anything else is a bug. A traceback is shown if the
    environment has ``ORTHOPLUS_DEBUG``.
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
    """Print the error as a sentence and return the exit code."""
    if isinstance(error, (InputError, MissingPackageError)):
        # A file may be called like an option.
        text = str(error) if isinstance(error, FileError) else in_shell_terms(str(error))
        echo_stderr(f"Error: {text}")
        return BAD_INPUT
    if isinstance(error, OSError):
        where = f"`{error.filename}`: " if error.filename is not None else ""
        echo_stderr(f"Error: {where}{error.strerror or error}.")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        echo_stderr("Error: there is not enough memory for it. Give a smaller part of the data.")
        return BAD_INPUT
    echo_stderr(
        f"Internal error: {type(error).__name__}: {error} ({_last_place(error)}). This is a bug "
        f"in orthoplus, not a problem with your input: please report it. {DEBUG_VARIABLE}=1 shows "
        f"the traceback."
    )
    return BUG


def _last_place(error: Exception) -> str:
    """Return the last line of this package that the error came through."""
    place, traceback = "unknown place", error.__traceback__
    while traceback is not None:
        path = Path(traceback.tb_frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f"{path.relative_to(_PACKAGE.parent).as_posix()}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


@contextmanager
def resumable(command: str, source: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Say after Ctrl-C, if there is no result yet, with which command the run goes on."""
    from orthoplus.cli.record import command_line

    try:
        yield
    except KeyboardInterrupt:
        saved = options.get("checkpoint")
        has_state = saved is not None and Path(saved).is_file()
        echo_stderr("Interrupted before there was a result: nothing was written.")
        if has_state:
            echo_stderr(f"What was done until then is in the checkpoint {saved}. To go on:")
            options = {**options, "resume": saved}
        elif saved is not None:
            echo_stderr("There is nothing in the checkpoint yet. To start again:")
        if saved is not None:
            echo_stderr(f"  {command_line(command, source, options)}")
        raise typer.Exit(INTERRUPTED) from None


class Finishing:
    """Whether Ctrl-C came while the files were written."""

    is_interrupted = False

    def code(self, code: int) -> int:
        """Return the exit code in view of that."""
        return INTERRUPTED if self.is_interrupted else code


@contextmanager
def finishing() -> Iterator[Finishing]:
    """Let the first Ctrl-C wait until the files are written; a second one ends at once."""
    state = Finishing()
    if threading.current_thread() is not threading.main_thread():
        yield state
        return

    def wait(number: int, frame: Any) -> None:
        if state.is_interrupted:
            raise KeyboardInterrupt
        state.is_interrupted = True
        echo_stderr("Interrupted: finishing the files. Ctrl-C once more leaves them out.")

    before = signal.signal(signal.SIGINT, wait)
    try:
        yield state
    except KeyboardInterrupt:
        echo_stderr(
            "Interrupted while writing: the files that are there are whole, others missing."
        )
        raise typer.Exit(TERMINATION.code(INTERRUPTED)) from None
    finally:
        signal.signal(signal.SIGINT, before)
