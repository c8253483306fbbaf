"""Let Ctrl-C end the command ``orthoplus`` without a traceback while its modules load."""

import os
import signal
import sys
import threading
from typing import Any

_NAMES = ("orthoplus", "orthoplus.exe", "orthoplus-script.py")


def is_command() -> bool:
    """Return whether this process is the command, by its script or as ``python -m orthoplus``."""
    words = getattr(sys, "orig_argv", [])[1:3]
    return words == ["-m", "orthoplus"] or os.path.basename("".join(words[:1])) in _NAMES


def _end_quietly() -> Any:
    """Install the system's default handler for Ctrl-C if this is the command.

    Nothing has to be saved while modules load, and Python would print a traceback. Return the
    previous handler, or None if nothing was changed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    usual = signal.default_int_handler
    if not is_main or not is_command() or signal.getsignal(signal.SIGINT) is not usual:
        return None
    return signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_again() -> None:
    """Restore the handler for Ctrl-C that was replaced when this module was imported."""
    if _PREVIOUS_HANDLER is not None:
        signal.signal(signal.SIGINT, _PREVIOUS_HANDLER)


_PREVIOUS_HANDLER = _end_quietly()
