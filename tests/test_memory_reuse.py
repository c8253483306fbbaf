"""Work arrays come back to a run, but never while somebody looks at them."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoplus.linalg.workspace import empty_like, reused_memory

LIKE = np.zeros((30, 4))


def address(array):
    return array.__array_interface__["data"][0]


def test_dropped_memory_is_used_again():
    with reused_memory():
        first = address(empty_like(LIKE))
        assert address(empty_like(LIKE)) == first


def test_outside_of_a_run_memory_is_new():
    held = [empty_like(LIKE) for _ in range(3)]
    assert len({address(array) for array in held}) == 3


@pytest.mark.parametrize("look", [lambda X: X[:, 1], lambda X: X.T, lambda X: X.reshape(-1)[3:5]])
def test_a_view_keeps_its_memory(look):
    with reused_memory():
        lent = empty_like(LIKE)
        lent[:] = 7.0
        view = look(lent)
        del lent
        gc.collect()
        empty_like(LIKE)[:] = 1.0
        assert (view == 7.0).all()


def test_an_array_outlives_its_run():
    with reused_memory():
        kept = empty_like(LIKE)
        kept[:] = 5.0
    with reused_memory():
        empty_like(LIKE)[:] = 1.0
    assert (kept == 5.0).all()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from(["f4", "f8"]))))
def test_arrays_that_are_held_stay_as_they_are(moves):
    held = {}
    with reused_memory():
        for number, (is_dropped, slot, dtype) in enumerate(moves):
            if is_dropped:
                held.pop(slot, None)
            else:
                array = empty_like(LIKE.astype(dtype))
                array[:] = number
                held[slot] = (array, number)
            for array, number_then in held.values():
                assert (array == number_then).all()
