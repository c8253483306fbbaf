"""The certified projection at any scale: nothing underflows, nothing overflows, bounds hold."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.status import Status
from orthoplus.kernels import fused, reference
from orthoplus.kernels.pairs import Pairs, column_sums
from orthoplus.projection import certify, project_stiefel_plus


def test_entries_that_are_tiny_beside_others_do_not_divide_by_zero():
    C = np.full((12, 2), 1e-60)
    C[:5, 0] = C[5:10, 1] = 1.0
    result = op.project(C)
    assert result.status is Status.CERTIFIED
    assert result.value == pytest.approx(2.0 * np.sqrt(5.0), rel=1e-14)
    np.testing.assert_array_equal(result.labels[:10], np.repeat([0, 1], 5))


@pytest.mark.parametrize("seed", range(10))
def test_gaussian_scores_with_outliers_are_certified(seed):
    distances = 3.0 * np.random.default_rng(seed).standard_normal((60, 4))
    distances[:4] *= 30.0
    result = op.project(np.exp(-(distances**2) / 2.0))
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("seed", range(5))
def test_one_huge_entry_decides_the_value(seed):
    C = np.random.default_rng(seed).standard_normal((20, 5))
    C[3, 2] = 1e60
    result = op.project(C)
    assert result.labels[3] == 2
    assert result.value == pytest.approx(1e60, rel=1e-14)
    assert result.bound >= result.value
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("kernels", [fused, reference])
@pytest.mark.parametrize("gain", [1e-60, 1e-120, 1e-300, 5e-324, 0.0])
def test_transfers_between_tiny_gains_are_finite_and_keep_the_shares(kernels, gain):
    pairs = Pairs(
        np.array([0, 2, 4]),
        np.array([0, 1, 0, 1], dtype=np.int32),
        np.array([gain, gain, 1.0, gain]),
        np.array([0.0, 1.0, 1.0, 0.0]),
    )
    sums = np.array([1.0, gain])
    for _ in range(3):
        left = kernels.transfer_shares_into(np.arange(2), pairs, sums)
        assert np.isfinite(left)
    np.testing.assert_array_equal(pairs.share.reshape(2, 2).sum(axis=1), 1.0)
    assert (pairs.share >= 0.0).all()
    assert np.isfinite(sums).all()


@pytest.mark.parametrize("factor", [1e308, 1.7e308])
@pytest.mark.parametrize("shape", [(30, 4), (4, 4), (8, 3)])
def test_values_beyond_the_floating_point_range_are_refused_with_advice(factor, shape):
    C = (0.5 + 0.5 * np.random.default_rng(0).random(shape)) * factor
    with pytest.raises(ValueError, match=r"as large as .*e\+30.*Divide `C` by a number"):
        op.project(C)


def test_large_negative_entries_that_nobody_needs_change_nothing():
    C = np.random.default_rng(0).standard_normal((30, 4))
    C[np.arange(4), np.arange(4)] = -1.0
    plain = op.project(C * 1e-100)
    C[np.arange(4), np.arange(4)] = -1e300
    other = op.project(C * 1e-100)
    np.testing.assert_array_equal(plain.labels, other.labels)
    assert plain.value == other.value


def test_a_column_that_has_to_take_a_huge_negative_entry_takes_the_smallest():
    C = np.random.default_rng(0).random((30, 3)) * 1e-250
    C[:, 1] = -1e300 * (1.0 + np.arange(30.0))
    result = op.project(C)
    assert result.labels[0] == 1
    assert result.value == -1e300
    assert result.status is Status.CERTIFIED


def matrices():
    rng = np.random.default_rng(0)
    return {
        "tiny": rng.standard_normal((8, 3)),
        "square": rng.standard_normal((6, 6)),
        "normal": rng.standard_normal((40, 5)),
        "few rows": rng.standard_normal((30, 12)),
        "uniform": rng.random((60, 4)),
        "rank one": np.outer(rng.random(30), rng.random(4)),
        "binary": (rng.random((31, 4)) < 0.4).astype(float),
        "integers": rng.integers(-2, 4, (31, 4)).astype(float),
        "negative columns": rng.random((40, 6)) * [1, 1, -1, 1, -1, -1],
        "few rows, a gap": np.random.default_rng(2).standard_normal((31, 30)),
    }


@pytest.mark.parametrize("exponent", [-900, -61, -33, 1, 61, 900])
@pytest.mark.parametrize("name", matrices())
def test_powers_of_two_change_no_label_gap_or_status(name, exponent):
    C = matrices()[name]
    plain, scaled = op.project(C), op.project(C * 2.0**exponent)
    np.testing.assert_array_equal(plain.labels, scaled.labels)
    assert (scaled.gap, scaled.status) == (plain.gap, plain.status)
    assert scaled.value == plain.value * 2.0**exponent
    assert scaled.bound == plain.bound * 2.0**exponent


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["tiny", "square", "normal", "few rows", "uniform"])
def test_decimal_factors_change_no_label_and_no_status(name, factor):
    C = matrices()[name]
    plain, scaled = op.project(C), op.project(C * factor)
    np.testing.assert_array_equal(plain.labels, scaled.labels)
    assert scaled.status is plain.status
    assert scaled.gap == pytest.approx(plain.gap, abs=1e-14)  # both are rounding


def exact_optimum(C):
    """max <C, X> over S+ in extended precision, from sums over all sets of rows."""
    n, k = C.shape
    wide = C.astype(np.longdouble)
    best = np.where(np.arange(1 << n) == 0, np.longdouble(0.0), -np.inf)
    for j in range(k):
        sums, most = np.zeros(1 << n, np.longdouble), np.full(1 << n, -np.inf, np.longdouble)
        for i in range(n):
            sums[1 << i : 2 << i] = sums[: 1 << i] + max(wide[i, j], 0.0) ** 2
            most[1 << i : 2 << i] = np.maximum(most[: 1 << i], wide[i, j])
        gain = np.where(most > 0.0, np.sqrt(sums), most)
        sets = np.arange(1 << n)
        before, best = best, np.full(1 << n, -np.inf, np.longdouble)
        for part in range(1, 1 << n):
            rest = sets[(sets & part) == 0]
            np.maximum.at(best, rest | part, before[rest] + gain[part])
    return best[-1]


@pytest.mark.parametrize("tiny_rows", [10, 0])
@pytest.mark.parametrize("kind", ["plain", "row scales", "column scales", "float32"])
def test_bounds_hold_in_exact_arithmetic(kind, tiny_rows, monkeypatch):
    monkeypatch.setattr(certify, "TINY_ROWS", tiny_rows)
    rng = np.random.default_rng(5)
    for _ in range(60):
        C = rng.standard_normal((6, 3))
        if kind == "row scales":
            C *= 10.0 ** rng.uniform(-30, 30, (6, 1))
        elif kind == "column scales":
            C *= 10.0 ** rng.uniform(-30, 30, 3)
        elif kind == "float32":
            C = C.astype(np.float32)
        result = project_stiefel_plus(C)
        optimum = exact_optimum(C)
        assert result.bound >= optimum
        assert result.bound >= result.value
        assert result.gap >= 0.0
        if result.status is Status.CERTIFIED:
            assert optimum - result.value <= 1e-12 * result.size


def test_a_flip_that_takes_off_most_of_a_sum_leaves_no_bound_too_low():
    # S = 1e30 + 1 and a flip that takes off 1e30: what is left is 1, which rounding turns into 0.
    start, weights = np.array([0, 1]), np.array([0.5])  # the best S is 1
    for kernels in (fused, reference):
        least, _ = kernels.cheapest_flips(
            start, np.array([0.0]), np.array([-1e30]), np.array([1e30]), weights
        )
        assert least[0] <= 1e-6


def test_column_sums_of_many_rows_are_accurate_to_a_few_roundings():
    rng = np.random.default_rng(0)
    C = rng.random((200_000, 2)) + 1.0
    labels, sums = fused.assign_rows(C, np.ones(2))
    gains = C[np.arange(len(C)), labels].astype(np.longdouble) ** 2
    exact = np.array([gains[labels == j].sum() for j in range(2)])
    assert (np.abs(sums - exact) <= 4 * np.finfo(float).eps * exact).all()
    ours = column_sums(labels, gains.astype(float), 2)
    assert (np.abs(ours - exact) <= 100 * np.finfo(float).eps * exact).all()
