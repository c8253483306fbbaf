"""How tests wait for other processes, however slow the machine, and read what these print."""

import contextlib
import os
import select
import time

# Seconds, which only a hang reaches. On an idle machine the longest wait, for loops to be
# compiled, takes ten.
PATIENCE = 900.0


class Clock:
    """The clock of a run that ends at a time limit where a test wants it: ``set_forward``."""

    def __init__(self):
        self.ahead = 0.0

    def perf_counter(self):
        return time.perf_counter() + self.ahead

    def set_forward(self):
        """Let more time pass than any test waits."""
        self.ahead = 10 * PATIENCE


def wait_until(is_enough, child):
    """Wait until ``is_enough()`` is true; fail if the child ends before."""
    deadline = time.monotonic() + PATIENCE
    while not is_enough():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def read_terminal(terminal, is_enough=lambda text: False):
    """Return what a terminal shows until it is enough, or closed by the other side."""
    shown, deadline = b"", time.monotonic() + PATIENCE
    while not is_enough(shown.decode("utf-8", "replace")):
        assert time.monotonic() < deadline
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        part = b""
        with contextlib.suppress(OSError):  # Linux, once nobody holds the other end
            part = os.read(terminal, 65536)
        if not part:
            break
        shown += part
    return shown.decode("utf-8", "replace")


def complaints(errors):
    """Return what a process printed to stderr, apart from the note that it compiles loops.

    Whether there is a note depends on which tests ran before: the loops they compiled are cached.
    """
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("orthoplus: compiling loops"))


@contextlib.contextmanager
def killed_in_the_end(child):
    """Leave no child behind if a test fails."""
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
