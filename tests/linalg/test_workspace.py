"""Work arrays come back to a run, but never while somebody can look at them."""

import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orthoplus as op
from orthoplus.linalg.workspace import Workspace, empty_like

LIKE = np.zeros((30, 4))


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture
def workspace():
    return Workspace()


def test_dropped_memory_is_used_again(workspace):
    first = address(workspace.empty_like(LIKE))
    assert address(workspace.empty_like(LIKE)) == first


def test_memory_is_plain_and_of_the_shape_and_type_asked_for(workspace):
    for X in (np.zeros((4, 3), order="F"), np.zeros((2, 6), np.float32), np.zeros((0, 3))):
        for _ in range(2):  # new, then reused
            lent = workspace.empty_like(X)
            assert type(lent) is np.ndarray
            assert (lent.shape, lent.dtype) == (X.shape, X.dtype)
            assert lent.flags.c_contiguous
            assert lent.flags.writeable
            del lent


def test_outside_of_a_run_memory_is_new():
    held = [empty_like(LIKE) for _ in range(3)]
    assert all(array.flags.owndata for array in held)


def test_runs_do_not_share_memory():
    outer, inner = Workspace(), Workspace()
    with outer.lending():
        dropped = address(empty_like(LIKE))
        with inner.lending():
            held = empty_like(LIKE)
        assert address(empty_like(LIKE)) == dropped
        assert address(held) != dropped
    assert empty_like(LIKE).flags.owndata


VIEWS = {
    "column": lambda X: X[:, 1],
    "transposed": lambda X: X.T,
    "reshaped": lambda X: X.reshape(-1)[3:5],
    "view of a view": lambda X: X[2:].T[1:].reshape(-1)[::2],
    "other class": lambda X: X.view(np.recarray),
    "other type": lambda X: X.view(np.int64).view(np.float64),
    "strided": lambda X: np.lib.stride_tricks.sliding_window_view(X, 3, axis=0),
    "buffer": lambda X: np.frombuffer(memoryview(X).cast("B"), dtype=X.dtype),
    "dlpack": lambda X: np.from_dlpack(X),
    "iterator": lambda X: X.flat,
}


@pytest.mark.parametrize("look", VIEWS.values(), ids=VIEWS)
def test_a_view_keeps_its_memory(look, workspace):
    lent = workspace.empty_like(LIKE)
    lent[:] = 7.0
    view = look(lent)
    del lent
    gc.collect(1)  # not the objects of all tests
    other = workspace.empty_like(LIKE)
    other[:] = 1.0
    assert (np.asarray(view) == 7.0).all()
    before = address(other)
    del view, other
    both = [workspace.empty_like(LIKE) for _ in range(2)]
    assert before in map(address, both)


def test_memory_is_kept_while_a_cycle_is_taken_apart(workspace):
    """A weak reference to a member of a cycle dies before its ``__del__`` runs: not so here."""
    seen = []

    class Holder:
        def __del__(self):
            workspace.empty_like(LIKE)[:] = 1.0
            seen.append(self.array.copy())

    holder = Holder()
    holder.itself = holder
    holder.array = workspace.empty_like(LIKE)
    holder.array[:] = 7.0
    del holder
    gc.collect(1)
    assert (seen[0] == 7.0).all()


def test_an_array_outlives_its_run(workspace):
    with workspace.lending():
        kept = empty_like(LIKE)
        kept[:] = 5.0
    with workspace.lending():
        empty_like(LIKE)[:] = 1.0
    del workspace
    assert (kept == 5.0).all()


def test_idle_memory_is_given_back_at_the_end(workspace):
    def memory_of(array):
        return weakref.ref(array.base.base)

    with workspace.lending():
        idle, held = empty_like(LIKE), empty_like(LIKE)
        memories = [memory_of(idle), memory_of(held)]
        del idle
        assert all(memory() is not None for memory in memories)
    assert [memory() is None for memory in memories] == [True, False]
    del held
    assert memories[1]() is None


def test_memory_is_given_back_when_the_block_raises(workspace):
    memories = []

    def fail():
        with workspace.lending():
            memories.append(weakref.ref(empty_like(LIKE).base.base))
            assert memories[0]() is not None
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert memories[0]() is None
    assert empty_like(LIKE).flags.owndata


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from(["f4", "f8"]))))
def test_arrays_that_are_held_stay_as_they_are(moves):
    held = {}
    workspace = Workspace()
    for number, (is_dropped, slot, dtype) in enumerate(moves):
        if is_dropped:
            held.pop(slot, None)
        else:
            array = workspace.empty_like(LIKE.astype(dtype))
            array[:] = number
            held[slot] = (array, number)
        for array, number_then in held.values():
            assert (array == number_then).all()


def test_threads_that_share_a_workspace_share_no_array(workspace):
    start, wrong = threading.Barrier(4), []
    passed_on = [None] * 4  # dropped by another thread than the one that asked for it

    def work(number):
        start.wait()
        for turn in range(2000):
            array = workspace.empty_like(LIKE)
            array[:] = mark = 10_000 * number + turn
            passed_on[(number + turn) % 4] = array[1:]
            if not (array == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_dropped_by_another_thread_comes_back(workspace):
    held = [workspace.empty_like(LIKE)]
    before = address(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert address(workspace.empty_like(LIKE)) == before


def test_states_kept_by_a_callback_stay_as_they_are():
    rng = np.random.default_rng(0)
    problem = op.problems.Projection(rng.standard_normal((200, 5)))
    kept = []

    def keep(state):
        kept.append((state.X, state.X.copy()))

    op.solve(problem, method=op.EP4Orth(max_iter=20), callback=keep, with_bound=False)
    assert len(kept) > 2
    for X, then in kept:
        np.testing.assert_array_equal(X, then)


def test_steps_of_a_run_take_no_new_memory(monkeypatch):
    """The number of arrays taken from the system does not depend on the number of steps."""
    taken = []
    made = Workspace.empty_like

    def count(self, X):
        lent = made(self, X)
        taken.append(address(lent))
        return lent

    monkeypatch.setattr(Workspace, "empty_like", count)
    rng = np.random.default_rng(0)
    problem = op.problems.Projection(rng.standard_normal((200, 5)))
    op.solve(problem, method=op.EP4Orth(max_iter=60), search=False, with_bound=False)
    assert len(taken) > 50
    assert len(set(taken)) < 12
