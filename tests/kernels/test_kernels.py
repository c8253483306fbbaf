"""The compiled loops against their specification in NumPy."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from orthoplus import kernels
from orthoplus.kernels import blocks, fused, reference
from orthoplus.kernels.reference import delta, oblique

NAMES = [*oblique.__all__, *delta.__all__]
# Sums of m terms of size one are compared to m times this: a few roundings a term.
ROUNDING = {np.float32: 1e-6, np.float64: 1e-14}


def positive(rng, shape):
    return np.abs(rng.standard_normal(shape))


def with_zero_rows(rng, shape):
    X = positive(rng, shape)
    X[::2] = 0.0
    return X


def with_ties(rng, shape):
    return rng.integers(3, size=shape).astype(float)


POINTS = {"positive": positive, "zero_rows": with_zero_rows, "ties": with_ties}


def arguments(name, draw):
    """Fresh arguments of a kernel, those it writes among them; ``draw(kind)`` gives a matrix."""
    X, k = draw("point"), draw("point").shape[1]
    signed = draw("signed")
    shift = np.linspace(-0.5, 0.7, k)
    calls = {
        "column_dots": lambda: (signed, draw("signed")),
        "conjugate_step_into": lambda: (
            signed + 4.0,
            (X, draw("signed")),
            (0.8, 30.0),
            tuple(np.array(draw("point") + 0.1) for _ in range(3)),
        ),
        "gradient_step_into": lambda: (X, signed, 0.8, 0.3, np.full_like(X, np.nan)),
        "multipliers": lambda: (X, signed, 0.8),
        "assemble": lambda: (np.arange(len(X)) % (k + 1) - 1, 0.1 + X.max(axis=1), k),
        "gather": lambda: (signed, np.arange(len(X)) % (k + 1) - 1),
        "project_delta_into": lambda: (signed, X + X.dtype.type(0.1), np.full_like(X, np.nan)),
        "project_face_into": lambda: (X, draw("signed"), signed, np.full_like(X, np.nan)),
        "projected_step_into": lambda: (X, signed, 0.8, 0.3, np.full_like(X, np.nan)),
        "restrict_into": lambda: (X, signed, draw("signed") > 0, np.full_like(X, np.nan)),
        "normalize_step_into": lambda: (draw("point"), np.linspace(0.5, 2.0, k), X),
        "largest_entries": lambda: (X,),
        "row_energy": lambda: (X,),
        "secant_products": lambda: ((X, signed, 0.8), (draw("point"), draw("signed"), 0.5)),
        "stationarity_sq": lambda: (X, signed, 0.8, shift, 1.7),
    }
    assert name in calls, f"the kernel `{name}` is new: say here how to call it"
    return calls[name]()


def run(module, name, *, shape, dtype=np.float64, order="C", point="positive"):
    """All a kernel returns and writes, as a list of arrays."""
    rng = np.random.default_rng(0)

    def draw(kind):
        matrix = POINTS[point](rng, shape) if kind == "point" else rng.standard_normal(shape)
        return np.array(matrix, dtype=dtype, order=order)

    given = arguments(name, draw)
    answer = getattr(module, name)(*given)
    returned = () if answer is None else answer if isinstance(answer, tuple) else (answer,)
    flat = [a for g in given for a in (g if isinstance(g, tuple) else (g,))]
    return [np.asarray(a) for a in (*returned, *(a for a in flat if isinstance(a, np.ndarray)))]


def assert_same(name, *, dtype=np.float64, shape, **options):
    ours = run(fused, name, dtype=dtype, shape=shape, **options)
    theirs = run(reference, name, dtype=dtype, shape=shape, **options)
    assert len(ours) == len(theirs)
    tol = ROUNDING[dtype]
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype.kind == b.dtype.kind
        if a.shape == shape:  # entry by entry: no sum, one rounding of the result
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
        else:
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.prod(shape))


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut matrices of a few hundred entries into blocks as if they were large."""
    monkeypatch.setattr(blocks, "PARALLEL_SIZE", 64)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 16)


def test_modules_offer_the_same_kernels():
    for name in reference.__all__:
        assert callable(getattr(fused, name)), name
        assert callable(getattr(kernels, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = kernels.nonsense


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("point", POINTS)
def test_fused_is_reference(name, dtype, point):
    for shape in [(1, 1), (9, 1), (1, 5), (40, 3), (17, 16)]:
        assert_same(name, dtype=dtype, shape=shape, point=point)


@pytest.mark.parametrize("name", NAMES)
def test_fused_is_reference_when_order_is_fortran(name):
    assert_same(name, shape=(30, 4), order="F")


@pytest.mark.parametrize("name", NAMES)
def test_fused_is_reference_when_there_is_no_row(name):
    assert_same(name, shape=(0, 3))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.usefixtures("small_blocks")
def test_fused_is_reference_when_cut_into_blocks(name, dtype, threads, monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
    for shape in [(101, 4), (200, 1), (1, 100), (2, 64)]:
        assert_same(name, dtype=dtype, shape=shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("small_blocks")
def test_fused_has_the_same_bits_for_any_number_of_threads(name, dtype, monkeypatch):
    answers = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
        answers.append(run(fused, name, shape=(211, 7), dtype=dtype))
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_partition_rows_covers_every_row_once_and_depends_on_the_size_alone():
    for n, k in [(5, 2), (1 << 20, 1), (1 << 21, 3), (3, 1 << 20), (40, 1 << 16)]:
        cut = blocks.partition_rows(n, k)
        assert cut[0].start == 0
        assert cut[-1].stop == n
        assert all(a.stop == b.start for a, b in pairwise(cut))
        assert all(block.stop > block.start for block in cut)
        assert len(cut) <= blocks.MAX_BLOCKS
    assert len(blocks.partition_rows(1000, 10)) == 1
    assert len(blocks.partition_rows(1 << 20, 4)) > 1


def test_large_matrix_takes_the_threaded_path(monkeypatch):
    used = []
    pool = blocks._pool
    monkeypatch.setattr(blocks, "_pool", lambda *a: used.append(a) or pool(*a))
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "2")
    X = np.ones((blocks.PARALLEL_SIZE // 4, 4))
    assert fused.row_energy(X) == 4.0 * len(X)  # whole numbers: exact in any order
    assert used


def test_largest_entries_takes_the_smallest_column_among_ties_and_none_below_zero():
    X = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -3.0]])
    for module in (fused, reference):
        labels, entries = module.largest_entries(X)
        np.testing.assert_array_equal(labels, [0, 1, -1, -1])
        np.testing.assert_array_equal(entries, [1.0, 2.0, 0.0, 0.0])


@pytest.mark.parametrize("module", [fused, reference])
def test_gradient_step_counts_what_it_stores_when_float32_underflows(module):
    # 1e-30 squared is lost in float32, and 1e-50 is itself: no norm may come of a zero column.
    X = np.zeros((2, 2), dtype=np.float32)
    G = np.array([[-1e-25, -1e-30], [0.0, 0.0]], dtype=np.float32)
    out = np.empty_like(X)
    squares = module.gradient_step_into(X, G, 0.0, 1e-20, out)
    np.testing.assert_allclose(squares, (out.astype(float) ** 2).sum(axis=0), rtol=1e-12)


def test_environment_selects_the_reference_kernels():
    code = "from orthoplus import kernels; print(kernels.row_energy.__module__)"
    environment = os.environ | {"ORTHOPLUS_KERNELS": "reference"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "orthoplus.kernels.reference.oblique"
