"""Measure CPU seconds, which depend less on a busy machine than wall time, and peak memory."""

import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """The return value of a call, with its CPU seconds and wall time."""

    value: T
    cpu: float
    wall: float


def timed(call: Callable[[], T]) -> Timed[T]:
    """Run a call and measure its CPU seconds and wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    value = call()
    return Timed(value, time.process_time() - cpu, time.perf_counter() - wall)


def take_turns(calls: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, Timed[T]]:
    """Interleave calls, so that a busy machine affects all equally, and keep the shortest times.

    The value is that of the call with the fewest CPU seconds.
    """
    found: dict[str, Timed[T]] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            new = timed(call)
            if name not in found or new.cpu < found[name].cpu:
                found[name] = new
    return found


# A tool that traces lines, such as one that measures coverage, holds a lock in its own functions.
# An exception there would leave it locked forever, so the limit waits until the tool has returned.
RETRY_SECONDS = 1e-3


class OutOfProcessorError(BaseException):
    """Raised if a call exceeds its CPU time.

    Not an `Exception`, like `KeyboardInterrupt`: it may come inside any ``try`` of a library, which
    would then report another error.
    """


@contextmanager
def processor_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfProcessorError` in this block once it has used this many CPU seconds.

    For code that does not check the time itself; infinite seconds set no limit. It works between
    two steps of Python, in the main thread, where the system has such a timer; elsewhere the block
    runs to its end.
    """
    has_timer = hasattr(signal, "setitimer")
    is_endless = seconds == float("inf")
    if is_endless or not has_timer or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if not _is_of_tracer(frame):
            raise OutOfProcessorError
        signal.setitimer(signal.ITIMER_VIRTUAL, RETRY_SECONDS)

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _is_of_tracer(frame: Any) -> bool:
    """Return whether a frame runs a function of the tool that traces this program."""
    tracer = sys.gettrace()
    home = getattr(tracer, "__module__", None) or type(tracer).__module__
    name: str = frame.f_globals.get("__name__", "")
    return tracer is not None and home.partition(".")[0] == name.partition(".")[0]


def peak_bytes() -> int:
    """Return the peak memory of this process.

    On Linux from ``/proc``: the value of `getrusage` includes the peak of the parent process.
    """
    return _status_bytes("VmHWM") or _greatest_bytes()


def resident_bytes() -> int:
    """Return the current memory of this process, or its peak if that is unknown."""
    return _status_bytes("VmRSS") or _greatest_bytes()


def _status_bytes(name: str) -> int:
    """Return a line of Linux's ``/proc/self/status``; 0 elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _greatest_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
