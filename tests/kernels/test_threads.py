"""Threads of our own and of BLAS: the limits hold, and are gone afterwards."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import threadpoolctl

import orthoplus as op
from orthoplus.kernels import blocks, threads
from orthoplus.kernels.threads import BlasLimit, limited_threads, n_threads


def blas_threads():
    pools = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return [pool["num_threads"] for pool in pools]


@pytest.fixture
def two_blas_threads():
    """Two BLAS threads whatever the environment says, so that a limit of one can be seen."""
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.num_threads for library in libraries]
    for library in libraries:
        threads._set_threads(library, 2)
    assert set(blas_threads()) == {2}
    yield
    for library, number in zip(libraries, before, strict=True):
        threads._set_threads(library, number)


class Library:
    """Stands in for a BLAS of threadpoolctl."""

    threading_layer = "pthreads"

    def __init__(self, number):
        self.num_threads = number
        self.calls = []

    def set_num_threads(self, number):
        self.calls.append(number)
        self.num_threads = number


class LibraryOfEachThread(threading.local):
    """Stands in for a BLAS that uses OpenMP: a number for each thread."""

    threading_layer = "openmp"
    num_threads = 4

    def set_num_threads(self, number):
        self.num_threads = number


@pytest.fixture
def library(monkeypatch):
    library = Library(4)
    monkeypatch.setattr(threads, "_blas_libraries", lambda: [library])
    return library


def in_thread(work, *args):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()


def test_n_threads_follows_the_environment(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "3")
    assert n_threads() == 3
    for useless in ("", "0", "-1", "many"):
        monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", useless)
        assert n_threads() >= 1


def test_limited_threads_never_gives_more_than_the_environment(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "3")
    with limited_threads(8):
        assert n_threads() == 3
    with limited_threads(2):
        assert n_threads() == 2
    assert n_threads() == 3


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.usefixtures("two_blas_threads")
def test_threads_in_project_at_once_leave_blas_as_it_was(count, monkeypatch):
    """Thread 0 is the first to enter the limit and the first to leave it, and so on."""
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "2")
    C = np.random.default_rng(0).random((30_000, 40))
    before, expected = blas_threads(), op.project(C)
    all_inside = threading.Barrier(count)
    entered, ended = ([threading.Event() for _ in range(count)] for _ in range(2))
    own, pool, wait = threading.local(), blocks._pool, blocks.wait
    seen, results = [], [None] * count

    def pool_once_all_are_inside(*args):
        if not own.is_inside:
            own.is_inside = True
            entered[own.number].set()
            all_inside.wait(600)
        return pool(*args)

    def wait_until_the_former_has_ended(others):
        done = wait(others)
        if own.number and not own.may_leave:
            ended[own.number - 1].wait(600)
            seen.append(blas_threads())
        own.may_leave = True
        return done

    def work(number):
        own.number, own.is_inside, own.may_leave = number, False, False
        if number:
            entered[number - 1].wait(600)
        results[number] = op.project(C)
        ended[number].set()

    monkeypatch.setattr(blocks, "_pool", pool_once_all_are_inside)
    monkeypatch.setattr(blocks, "wait", wait_until_the_former_has_ended)
    started = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert blas_threads() == before
    assert len(seen) == count - 1
    assert all(set(numbers) == {1} for numbers in seen)  # somebody was inside all the time
    for result in results:
        np.testing.assert_array_equal(result.X, expected.X)


def test_limit_sets_once_and_restores_once_however_often_it_is_entered(library):
    limit = BlasLimit()
    with limit, limit:
        with limit:
            assert library.num_threads == 1
        assert library.num_threads == 1
    assert library.calls == [1, 4]


def test_limit_lasts_until_the_last_thread_leaves(library):
    limit = BlasLimit()
    limit.__enter__()
    in_thread(limit.__enter__)
    limit.__exit__()
    assert library.num_threads == 1
    in_thread(limit.__exit__)
    assert library.num_threads == 4
    assert library.calls == [1, 4]


def test_limit_holds_in_each_thread_if_each_has_a_number_of_its_own(monkeypatch):
    library = LibraryOfEachThread()
    monkeypatch.setattr(threads, "_blas_libraries", lambda: [library])
    limit, seen = BlasLimit(), []
    entered, may_leave = threading.Event(), threading.Event()

    def stay():
        with limit, limit:
            seen.append(library.num_threads)
            entered.set()
            may_leave.wait(600)
        seen.append(library.num_threads)

    thread = threading.Thread(target=stay)
    with limit:
        thread.start()
        entered.wait(600)
        assert library.num_threads == 1
    assert library.num_threads == 4  # though the other is still inside
    may_leave.set()
    thread.join()
    assert seen == [1, 4]


def test_limit_keeps_a_number_that_somebody_else_set_meanwhile(library):
    with BlasLimit():
        library.set_num_threads(3)
    assert library.num_threads == 3


def test_limit_that_is_not_heeded_changes_nothing(library):
    """As in threadpoolctl 3.8 while another thread is within limits of its own."""
    set_threads, library.set_num_threads = library.set_num_threads, lambda number: None
    with BlasLimit():
        assert library.num_threads == 4
        set_threads(2)  # the other thread leaves its limits
        library.set_num_threads = set_threads
    assert library.num_threads == 2


def test_limit_ends_with_an_exception(library):
    limit = BlasLimit()
    with pytest.raises(RuntimeError), limit:
        raise RuntimeError
    assert library.num_threads == 4
    assert limit.n_inside == 0


@pytest.mark.parametrize("failing_call", [1, 4])
def test_limit_interrupted_while_setting_threads_recovers(failing_call, library):
    """Ctrl-C within the limit's own calls: entering again and leaving restores the number."""
    limit = BlasLimit()
    set_threads = library.set_num_threads

    def fail(number):
        if number == failing_call:
            raise KeyboardInterrupt
        set_threads(number)

    library.set_num_threads = fail
    with pytest.raises(KeyboardInterrupt), limit:
        pass
    library.set_num_threads = set_threads
    assert limit.n_inside == 0
    with limit:
        assert library.num_threads == 1
    assert library.num_threads == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if a test before this one loaded it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("is_inside", [True, False])
def test_forked_child_is_not_limited_by_threads_it_does_not_have(is_inside):
    """Another thread is inside at the fork, and holds the lock of the limit."""
    limit, library = threads.single_blas, threads._blas_libraries()[0]
    before = library.num_threads
    threads._set_threads(library, 2)
    held, over = threading.Event(), threading.Event()

    def stay():
        with limit:
            with limit._lock:
                held.set()
                over.wait(600)

    thread = threading.Thread(target=stay)
    if is_inside:
        limit.__enter__()
    thread.start()
    held.wait(600)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: on purpose
            child = os.fork()
        if child == 0:
            signal.alarm(30)  # a lock that stays held must not hang the tests
            os._exit(_child_code(limit, library, is_inside))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        over.set()
        thread.join()
        if is_inside:
            limit.__exit__()
        is_restored = library.num_threads == 2
        threads._set_threads(library, before)
    assert is_restored


def _child_code(limit, library, is_inside):
    if is_inside:
        if (limit.n_inside, library.num_threads) != (1, 1):
            return 1
        limit.__exit__()
    if (limit.n_inside, library.num_threads) != (0, 2):
        return 2
    with limit:
        if library.num_threads != 1:
            return 3
    return 0 if library.num_threads == 2 else 4


@pytest.mark.usefixtures("two_blas_threads")
def test_failing_block_leaves_blas_as_it_was(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "2")
    before = blas_threads()

    def fail(number, rows):
        time.sleep(0.001)
        raise RuntimeError(number)

    with pytest.raises(RuntimeError):
        blocks.for_blocks(fail, [slice(0, 1), slice(1, 2)])
    assert blas_threads() == before


def test_every_block_is_worked_on_once(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "4")
    seen = []
    blocks.for_blocks(
        lambda number, rows: seen.append((number, rows)), [slice(i) for i in range(99)]
    )
    assert sorted(number for number, _ in seen) == list(range(99))
    assert all(rows == slice(number) for number, rows in seen)
