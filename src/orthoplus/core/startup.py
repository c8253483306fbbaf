"""Ctrl-C while the command ``orthoplus`` loads: it ends at once and shows nothing."""

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
    """Let Ctrl-C end this process as the system does, if it is the command; return what it did.

    There is nothing to save while modules load, and Python would print where it was.
    """
    is_main = threading.current_thread() is threading.main_thread()
    usual = signal.default_int_handler
    if not is_main or not is_command() or signal.getsignal(signal.SIGINT) is not usual:
        return None
    return signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_again() -> None:
    """Give Ctrl-C back what was taken from it when this module was imported."""
    if _BEFORE is not None:
        signal.signal(signal.SIGINT, _BEFORE)


_BEFORE = _end_quietly()
