"""Data that are read in blocks of rows: the answers of those in memory, in the memory given."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.data.groups import assign_rows, column_entries, stationarity_of_groups
from orthoplus.data.stored import Stored, parse_memory
from orthoplus.linalg.group_vectors import leading_directions, leading_vectors
from orthoplus.problems import ONMF

N, R, K = 700, 12, 4
# Blocks of about 40 rows: the limit counts eight times a block of float64.
LIMIT = 8 * 40 * R * 8
FORMS = ("memmap", "h5py", "zarr")


@pytest.fixture
def data(rng):
    return planted(rng, N)


def planted(rng, n, noise=0.05):
    labels = rng.integers(K, size=n)
    spectra = rng.random((K, R)) ** 4
    return (0.2 + rng.random((n, 1))) * spectra[labels] + noise * rng.random((n, R))


def store(A, form, folder):
    if form == "memmap":
        np.save(folder / "A.npy", A)
        return np.load(folder / "A.npy", mmap_mode="r")
    if form == "zarr":
        stored = zarr.create_array(folder / "A.zarr", shape=A.shape, dtype=A.dtype, chunks=(32, R))
    else:
        stored = h5py.File(folder / "A.h5", "w").create_dataset(
            "A", shape=A.shape, dtype=A.dtype, chunks=(32, R)
        )
    stored[:] = A
    return stored


def blocks_of(A):
    return Stored(A, LIMIT)


def test_every_sum_and_vector_is_that_of_the_whole(data, rng):
    whole, rows = as_data(data), blocks_of(data)
    assert len(list(rows.blocks())) > 10
    labels, weights = rng.integers(-1, K, size=N), rng.random(N)
    V = rng.random((K, R))
    for find in (
        lambda A: assign_rows(A, V).labels,
        lambda A: assign_rows(A, V).scores,
        lambda A: column_entries(A, labels, V, np.ones(K)),
        lambda A: leading_directions(A, labels, weights, K)[1],
        lambda A: stationarity_of_groups(A, labels, weights, V),
        lambda A: A.sample_rows(np.array([0, 39, 40, 41, 500, N - 1])).to_dense(),
        lambda A: A.group_products(labels, V),
    ):
        np.testing.assert_allclose(find(rows), find(whole), rtol=1e-10, atol=1e-12)


def test_groups_without_a_row_take_the_rows_that_are_fitted_worst(data):
    centers = np.vstack([np.ones((1, R)), -np.ones((3, R))]) / np.sqrt(R)
    labels, scores, _ = assign_rows(as_data(data), centers)
    missed = (data**2).sum(axis=1) - scores**2
    worst = np.argsort(-missed, kind="stable")[:3]
    np.testing.assert_array_equal(labels[worst], [1, 2, 3])
    np.testing.assert_array_equal(assign_rows(blocks_of(data), centers).labels, labels)


def test_leading_directions_are_those_of_the_groups(data, rng):
    A, labels = as_data(data), rng.integers(K, size=N)
    V, squares = leading_directions(A, labels, np.ones(N), K)
    for j in range(K):
        _, sizes, right = np.linalg.svd(data[labels == j])
        assert squares[j] == pytest.approx(sizes[0] ** 2, rel=1e-12)
        np.testing.assert_allclose(V[j], np.abs(right[0]), atol=1e-9)
    _, left_squares = leading_vectors(A, labels, np.ones(N), K)
    np.testing.assert_allclose(squares, left_squares, rtol=1e-12)


def test_stationarity_of_groups_is_that_of_the_matrix(data, rng):
    problem = ONMF(data, K)
    X = problem.refine(op.geometry.random_stiefel_plus(N, K, rng))
    labels, weights = X.argmax(axis=1), X.max(axis=1) ** 1.5
    for j in range(K):
        weights[labels == j] /= np.linalg.norm(weights[labels == j])
    X[np.arange(N), labels] = weights
    _, gradient = problem.value_and_gradient(X)
    W = problem.A.group_sums(labels, weights, K)
    ours = stationarity_of_groups(problem.A, labels, weights, W)
    assert ours == pytest.approx(op.optimality.stationarity(X, gradient), rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_estimator_gives_the_same_answer_from_disk(form, dtype, data, tmp_path):
    data = (100 * data).astype(dtype)
    stored = store(data, form, tmp_path)
    model = op.OrthogonalNMF(K, random_state=0, with_bound=True, memory_limit=LIMIT).fit(stored)
    whole = op.OrthogonalNMF(K, random_state=0, with_bound=True).fit(data)
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    rtol = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(model.components_, whole.components_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.orthonormal_, whole.orthonormal_, rtol=rtol, atol=rtol)
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=rtol)
    assert model.gap_ == pytest.approx(whole.gap_, abs=10 * rtol)
    assert model.score(stored) == pytest.approx(whole.score(data), rel=rtol)
    np.testing.assert_allclose(model.transform(stored), whole.transform(data), rtol=rtol)
    np.testing.assert_array_equal(model.predict(data), model.labels_)


def test_the_answer_does_not_depend_on_the_limit(data):
    few, many = (
        op.OrthogonalNMF(K, random_state=0, memory_limit=limit).fit(data)
        for limit in (LIMIT, "1GB")
    )
    np.testing.assert_array_equal(few.labels_, many.labels_)
    np.testing.assert_allclose(few.components_, many.components_, rtol=1e-10)


def test_solve_takes_a_dataset_and_other_methods_read_it_too(data, tmp_path):
    stored = store(data, "h5py", tmp_path)
    ours = op.solve(ONMF(stored, K))
    assert ours.success
    assert ours.bound <= ours.value
    other = op.solve(ONMF(stored, K), method=op.EP4Orth(penalty_growth=2.0))
    inside = op.solve(ONMF(data, K), method=op.EP4Orth(penalty_growth=2.0))
    assert other.value == pytest.approx(inside.value, rel=1e-9)


SCRIPT = """
import sys
import numpy as np
import orthoplus as op
from orthoplus.estimators import OrthogonalNMF
OrthogonalNMF(3, random_state=0).fit(np.random.default_rng(0).random((200, 50)))  # all is loaded
OrthogonalNMF(3, random_state=0, memory_limit=10**6).fit(
    np.random.default_rng(0).random((9000, 50)).astype(np.float32)
)
def peak():  # of this program alone: what `resource` tells begins with that of its parent
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
before = peak()
A = np.load(sys.argv[1], mmap_mode="r")
model = OrthogonalNMF(3, n_init=1, random_state=0, memory_limit=sys.argv[2]).fit(A)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read in /proc")
def test_peak_memory_is_set_by_the_limit(tmp_path):
    # 30 MB on disk; 150,000 rows have vectors of 1.2 MB.
    rng = np.random.default_rng(0)
    name = tmp_path / "A.npy"
    file = np.lib.format.open_memmap(name, "w+", np.float32, (150_000, 50))
    for start in range(0, len(file), 50_000):
        labels = rng.integers(3, size=50_000)
        file[start : start + 50_000] = np.eye(3, 50)[labels] + 0.1 * rng.random((50_000, 50))
    file.flush()
    del file
    command = [sys.executable, "-c", SCRIPT, str(name), "5MB"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 23e6  # the limit, and a dozen vectors


@pytest.mark.parametrize(
    ("words", "size"),
    [("512MB", 512e6), ("1.5 GiB", 1.5 * 2**30), ("2k", 2000), (7, 7), ("10", 10)],
)
def test_memory_is_read_from_words(words, size):
    assert parse_memory(words) == size


@pytest.mark.parametrize("words", ["much", "1.2.3MB", 0, -1, "", 1.5, True, "5XB"])
def test_words_that_are_not_an_amount_of_memory_are_refused(words):
    with pytest.raises(op.InputError, match=r"Invalid `memory_limit=.*`: pass a positive number"):
        op.OrthogonalNMF(2, memory_limit=words).fit(np.eye(4))


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.array([[1.0, np.nan], [1.0, 1.0]]), ValueError, "1 entries that are NaN or infinite"),
        (np.array([[1.0, np.inf], [1.0, np.inf]]), ValueError, "2 entries that are NaN"),
        (np.array([[1.0, -2.0], [1.0, 1.0]]), ValueError, r"the smallest is -2\): orthogonal NMF"),
        (np.ones(3), ValueError, r"shape \(3,\): a matrix"),
        (np.array([["a"]]), TypeError, "real numbers are needed"),
    ],
)
def test_bad_data_is_named(array, error, message):
    with pytest.raises(error, match=message):
        op.OrthogonalNMF(1, memory_limit="1MB").fit(array)


def test_data_set_without_a_shape_is_refused(tmp_path):
    with h5py.File(tmp_path / "A.h5", "w") as file:
        empty = file.create_dataset("A", data=h5py.Empty("f"))
        for call in (op.OrthogonalNMF(1).fit, lambda cube: op.unmix(cube, 1)):
            with pytest.raises(op.InputError, match=r"has shape \(\): a matrix"):
                call(empty)


def test_other_number_of_features_is_refused(data):
    model = op.OrthogonalNMF(2, memory_limit="1MB").fit(data)
    with pytest.raises(ValueError, match=f"X has {R - 1} features, but OrthogonalNMF is expecting"):
        model.predict(data[:, 1:])


def test_image_is_read_as_its_pixels(rng):
    image = rng.random((6, 5, R))
    A = Stored(image, 8 * 2 * 5 * R * 8)
    assert A.shape == (30, R)
    assert [len(block) for _, block in A.blocks()] == [10, 10, 10]
    np.testing.assert_array_equal(A.to_dense(), image.reshape(30, R))


@pytest.mark.parametrize(("height", "expected"), [(100, 96), (40, 32), (20, 20)])
def test_blocks_are_whole_chunks_of_the_file(height, expected, data, tmp_path):
    A = Stored(store(data, "h5py", tmp_path), 8 * height * R * 8)  # chunks of 32 rows
    assert A.height == expected


def test_pages_of_a_memory_map_are_given_back_and_the_file_is_left(data, tmp_path):
    stored = store(data, "memmap", tmp_path)
    np.testing.assert_array_equal(blocks_of(stored).to_dense(), data)
    np.testing.assert_array_equal(blocks_of(stored[5:90:3]).to_dense(), data[5:90:3])
    np.testing.assert_array_equal(stored, data)
