"""One gap for all: never negative, sane on exact fits, in both precisions."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.cli.display import percent
from orthoplus.core.bounds import bracket, relative_gap, rounding_margin
from orthoplus.core.problem import Problem
from orthoplus.data import as_data
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.problems import (
    ONMF,
    PROBLEMS,
    QAP,
    KIndicators,
    KMeans,
    Projection,
    Smooth,
    SymmetricONMF,
    TraceMin,
    laplacian_embedding,
)

numbers = st.integers(-(10**9), 10**9).map(lambda whole: whole / 1024)


@given(numbers, numbers, st.floats(0.0, 1.0))
def test_gap_is_never_negative_and_zero_within_rounding(value, bound, rounding):
    gap = relative_gap(value, bound, rounding)
    assert gap is None or gap >= 0
    if value - bound <= rounding:
        assert gap == 0.0
    elif abs(bound) > rounding:
        assert gap == pytest.approx((value - bound) / abs(bound))
    else:
        assert gap is None


@given(numbers, numbers, st.integers(-200, 200))
def test_gap_does_not_depend_on_the_scale(value, bound, exponent):
    scaled = relative_gap(np.ldexp(value, exponent), np.ldexp(bound, exponent))
    assert scaled == relative_gap(value, bound)


def test_gap_is_unknown_without_a_bound():
    assert relative_gap(1.0, None) is None
    assert bracket(ONMF(np.eye(2), 1), 1.0, None) == (1.0, None, None)


def test_bound_above_the_value_is_an_error_beyond_rounding():
    problem = ONMF(np.eye(3), 2)
    with pytest.raises(ArithmeticError, match=r"lower bound 1 of ONMF is above the value 0.5"):
        bracket(problem, 0.5, 1.0)
    within = bracket(problem, 1.0 - 1e-15, 1.0)
    assert within == (1.0, 1.0, 0.0)


class Sphere(Problem):
    """f = x'x - 1 + shift: ``shift`` on all of S+, with a bound of the user's own."""

    shape = (5, 1)

    def __init__(self, bound, shift):
        self.bound, self.shift = bound, shift

    def value_and_gradient(self, X):
        return float((X * X).sum()) - 1.0 + self.shift, 2.0 * X

    def lower_bound(self):
        return self.bound


def test_own_bound_is_clamped_by_rounding_only():
    for shift in (0.0, -1e-14):  # a value that rounding takes below the bound
        result = op.solve(Sphere(0.0, shift))
        assert result.bound == 0.0 <= result.value <= 1e-15
        assert result.gap in (0.0, None)
    with pytest.raises(ArithmeticError, match="of Sphere is above the value"):
        op.solve(Sphere(0.5, 0.0))
    assert op.solve(Sphere(0.5, 0.0), with_bound=False).bound is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(30))
def test_exact_fit_has_value_and_bound_zero_and_no_gap(seed, dtype):
    rng = np.random.default_rng(seed)
    n, r = rng.integers(6, 200, 2)
    k = int(rng.integers(1, min(n, r, 8) + 1))
    A = random_stiefel_plus(int(n), k, rng) @ rng.random((k, int(r))) * 10.0 ** rng.uniform(-6, 6)
    problem = ONMF(A.astype(dtype), k)
    result = op.solve(problem)
    assert result.gap == 0.0
    assert 0.0 <= result.bound <= result.value <= problem.rounding(dtype)
    model = op.OrthogonalNMF(k, with_bound=True).fit(A.astype(dtype))
    assert model.gap_ == 0.0
    assert 0.0 <= model.bound_ <= model.reconstruction_err_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-40, 0, 40])
def test_gap_of_a_bound_that_is_zero_is_unknown(dtype, exponent, rng):
    """k = rank: some matrix of rank k fits exactly, but none with disjoint columns does."""
    A = np.ldexp(rng.random((60, 3)) @ rng.random((3, 40)), exponent).astype(dtype)
    result = op.solve(ONMF(A, 3))
    assert result.bound == 0.0
    assert result.gap is None
    assert "gap" not in str(result)
    model = op.OrthogonalNMF(3, with_bound=True).fit(A)
    assert model.bound_ == 0.0
    assert model.gap_ is None


def test_printed_gap_stays_readable():
    assert percent(3.9e12) == "over 100000%"
    assert re.fullmatch(r"\d\d\.\d\d%", percent(0.1234))


def build(name, rng, dtype):
    """An instance of a problem that has a bound."""
    A, M = rng.random((40, 12)).astype(dtype), rng.standard_normal((40, 40)).astype(dtype)
    M = (M + M.T) / 2
    return {
        "projection": lambda: Projection(A[:, :3]),
        "onmf": lambda: ONMF(A, 3),
        "trace_min": lambda: TraceMin(M, 3),
        "symmetric_onmf": lambda: SymmetricONMF(np.abs(M), 3),
        "k_means": lambda: KMeans(A, 3),
        "k_indicators": lambda: KIndicators(A[:, :3]),
        "qap": lambda: QAP(M[:6, :6], np.abs(M[6:12, 6:12]), M[12:18, 12:18], 0.5),
    }[name]()


BOUNDED = ("projection", "onmf", "trace_min", "symmetric_onmf", "k_means", "k_indicators", "qap")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BOUNDED)
def test_bound_is_below_the_value_and_knows_its_rounding(name, dtype, rng):
    problem = build(name, rng, dtype)
    result = op.solve(problem)
    assert result.bound <= result.value
    assert result.gap is None or result.gap >= 0.0
    rounding = problem.rounding(result.X.dtype)  # k-means is in float64 whatever its data are
    assert 0.0 <= rounding <= 1e-3 * abs(result.value)
    # The value in the coarser arithmetic is right to the rounding that it admits.
    exact = build(name, np.random.default_rng(0), dtype)
    for field in ("A", "M", "U"):
        if hasattr(exact, field) and not isinstance(exact, (QAP, KMeans)):
            given = getattr(exact, field)
            if name == "onmf":
                finer = as_data(given.entries().astype(np.float64))
            else:
                finer = np.asarray(given, dtype=np.float64)
            object.__setattr__(exact, field, finer)
    assert abs(exact.value(result.X.astype(np.float64)) - result.value) <= rounding


def test_problems_with_a_bound_are_all_tested():
    with_bound = {
        name for name, kind in PROBLEMS.items() if kind.lower_bound is not Problem.lower_bound
    }
    assert with_bound == set(BOUNDED)
    without = {name for name, kind in PROBLEMS.items() if kind.rounding is Problem.rounding}
    assert without == set(PROBLEMS) - set(BOUNDED)


def test_bound_of_whole_numbers_is_exact():
    A = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    B = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    assert QAP(A, B).lower_bound() == 24.0
    assert QAP(A, B).rounding() == 0.0
    assert QAP(A / 3, B).lower_bound() < 8.0
    assert QAP(A / 3, B).rounding() > 0.0


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_graph_that_falls_apart_has_no_gap(convert):
    """As many groups as components: value and bound are 0 up to rounding of either sign."""
    rng = np.random.default_rng(0)
    W = np.kron(np.eye(3), np.ones((200, 200))) * np.kron(np.ones((3, 3)), rng.random((200, 200)))
    W = convert(W + W.T)
    problem = laplacian_embedding(W, 3)
    H = np.kron(np.eye(3), np.full((200, 1), 200**-0.5))
    result = op.solve(problem, H)
    assert result.gap == 0.0
    assert abs(result.value) <= problem.rounding()


def test_margin_covers_the_error_of_long_sums_in_float32():
    rng = np.random.default_rng(0)
    A = rng.random((20000, 60), dtype=np.float32)
    X = random_stiefel_plus(20000, 4, rng).astype(np.float32)
    value = ONMF(A, 4).value(X)
    exact = ONMF(A.astype(np.float64), 4).value(X.astype(np.float64))
    margin = rounding_margin(float((A.astype(np.float64) ** 2).sum()), 20060, np.float32)
    assert abs(value - exact) <= 0.1 * margin


def test_smooth_function_has_neither_bound_nor_rounding():
    problem = Smooth(lambda X: 0.0, (3, 1), jac=lambda X: 0.0 * X)
    assert problem.rounding() is None
    assert op.solve(problem).gap is None
