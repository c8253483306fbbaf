"""Ctrl-C while the compiled loops are imported for the first time."""

import importlib
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from numba.core import event

from orthoplus import kernels
from waiting import PATIENCE

# The signal comes when a module of Numba has just been executed: one that is imported with Numba,
# and one that Numba loads afterwards. Neither can be loaded a second time.
MODULES = ["numba.core.typing", "numba.np.types.datetime_registry"]

CHILD = """
import signal, sys
import numpy
from orthoplus import kernels

def interrupt(frame, event, arg):
    name = frame.f_globals.get("__name__")
    if event == "return" and frame.f_code.co_name == "<module>" and name == sys.argv[1]:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

sys.setprofile(interrupt)
try:
    kernels.row_energy(numpy.ones((3, 2)))
except KeyboardInterrupt:
    print("interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(kernels.row_energy(numpy.ones((3, 2))))
"""


@pytest.mark.parametrize("module", MODULES)
def test_interrupt_while_numba_loads_leaves_the_process_usable(module):
    package, _, _ = module.rpartition(".")
    if find_spec(package) is None or find_spec(module) is None:
        pytest.skip(f"this Numba has no {module}")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, module],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "6.0"]


@pytest.fixture
def calls():
    """Return the list of interrupts that reach a handler which the user has set."""
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    yield came
    signal.signal(signal.SIGINT, before)


def test_interrupt_reaches_the_handler_of_the_user_afterwards(calls):
    with kernels.interrupted_later():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert calls == []
    assert calls == [signal.SIGINT]


def test_handler_is_restored_when_the_import_fails(calls):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ImportError), kernels.interrupted_later():
        raise ImportError
    assert signal.getsignal(signal.SIGINT) is before
    assert calls == []


def test_other_threads_leave_the_handler_alone(calls):
    before, seen = signal.getsignal(signal.SIGINT), []

    def look():
        with kernels.interrupted_later():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("stage", ["load", "compile"])
def test_interrupt_waits_until_a_loop_is_ready(calls, stage):
    """Numba loses a loop if the interrupt arrives in a callback of LLVM."""
    cache = importlib.import_module("orthoplus.kernels.fused.cache")
    seen = []

    def interrupt():
        signal.raise_signal(signal.SIGINT)
        seen.append(list(calls))

    @cache.njit()
    def double(x):
        return 2 * x

    if stage == "load":

        class Interrupting:
            def load_overload(self, *args):
                interrupt()

            def save_overload(self, *args):
                pass

        double._cache = Interrupting()
        assert double(3) == 6
    else:

        class Listening(event.Listener):
            def on_start(self, event):
                interrupt()

            def on_end(self, event):
                pass

        double._cache.disable()
        with event.install_listener("numba:compile", Listening()):
            assert double(3) == 6
    assert seen == [[]]
    assert calls == [signal.SIGINT]


def test_loop_works_after_an_interrupt_at_any_moment_of_its_first_call():
    """The loop is read from the cache, where an interrupt once made Numba fail."""
    oblique = importlib.import_module("orthoplus.kernels.fused.oblique")

    def call_interrupted(moment):
        """Call a loop for the first time; interrupt it at this Python call, and count them."""
        loop = oblique._compiled(oblique._row_energy.py_func)
        energy, n_calls = np.empty(1), 0

        def interrupt(frame, event, arg):
            nonlocal n_calls
            n_calls += 1
            if n_calls == moment:
                signal.raise_signal(signal.SIGINT)

        sys.setprofile(interrupt)
        try:
            loop(np.ones((3, 2)), energy)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        loop(np.ones((3, 2)), energy)
        return energy[0], n_calls

    energy, n_calls = call_interrupted(0)  # compiled, unless it is in the cache
    for moment in range(1, n_calls, max(1, n_calls // 100)):
        assert call_interrupted(moment)[0] == energy == 6
