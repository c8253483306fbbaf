"""Fixtures of the tests: a seeded generator, and the real data sets if available."""

import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from stand_ins import write_sets

if "PYTEST_XDIST_WORKER" in os.environ:
    # BLAS threads that wait for each other, on processors that other workers use, make small
    # eigenproblems ten times slower. The variable is for child processes: a plugin has loaded NumPy
    # before this file is read.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    threadpool_limits(1, user_api="blas")

# Child processes load cached bytecode instead of compiling the package and the tests again, even if
# the environment forbids to write it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs without Ctrl-C, and children inherit that: tests that send it
    # would wait forever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, unless a seed asks for others. No deadline, and no complaint that
# examples are slow to make: the first call of a kernel compiles it, and the machine may be busy.
SEED = os.environ.get("ORTHOPLUS_TEST_SEED", "")
settings.register_profile(
    "orthoplus",
    deadline=None,
    derandomize=not SEED,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("orthoplus")

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without the garbage collector, then exempt what lives to the end from its passes.

    Modules and tests are half a million objects. To look through them again and again takes a third
    of the time of the collection, and 0.7 s for each full pass while the tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture
def rng():
    """Return a separate generator for each test; nightly runs set another seed."""
    return np.random.default_rng(int(SEED or 0))


@pytest.fixture
def data_folder():
    """Return the folder of the real data sets, which may be missing."""
    return Path(os.environ.get("ORTHOPLUS_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture
def load_data(data_folder):
    """Return ``load_data(name)``, which reads a data set, or skips the test if it is missing."""

    def load(name):
        path = data_folder / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"real data: no {path}; set ORTHOPLUS_DATA to the folder that holds it")
        with np.load(path, allow_pickle=False) as parts:
            return {key: parts[key] for key in parts.files}

    return load


@pytest.fixture
def small_data(tmp_path, rng, monkeypatch):
    """Return a folder with the data sets of a quick run; baselines get a tenth of a second."""
    monkeypatch.setattr("orthoplus.bench.table.QUICK_LIMIT", 0.1)
    write_sets(tmp_path / "data", rng)
    return tmp_path / "data"
