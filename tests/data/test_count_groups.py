"""Sets of rows with equal profiles, and slices by the number of stored entries."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from orthoplus.data import as_data
from orthoplus.data.count_groups import _equal_rows


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_only_rows_with_equal_profiles_in_one_group_are_a_set(dtype, convert):
    rng = np.random.default_rng(0)
    A = rng.integers(1, 9, (3000, 30)).astype(dtype)
    labels = rng.integers(4, size=3000)
    A[10], A[20], A[30] = 3 * A[500], A[500], A[500]  # a multiple, a copy, a copy elsewhere
    labels[[10, 20, 500]], labels[30] = 1, 2
    rows, first = _equal_rows(as_data(convert(A)), labels)
    np.testing.assert_array_equal(np.sort(rows), [10, 20, 500])
    assert first.tolist() == [True, False, False]


def test_slices_by_entries_do_not_depend_on_the_number_of_columns():
    A = as_data(random_array((2000, 100_000), density=2e-4, rng=0, format="csr"))
    assert len(A.entry_ranges(8)) == 1 < len(A.ranges(A.shape[1]))
    dense = as_data(np.ones((600, 1000)))
    parts = dense.entry_ranges(4)
    assert parts == dense.ranges(4000)
    assert len(parts) > 1
    assert parts[0].start == 0
    assert parts[-1].stop == 600
