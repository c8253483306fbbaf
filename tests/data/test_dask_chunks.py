"""Chunks of every kind: empty, of one row, by columns, of mixed types and formats, of lies."""

from functools import cache
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import orthoplus as op
from orthoplus.data import dask as data_dask
from orthoplus.data.dask import DaskMatrix

N, R, K = 24, 6, 3
LABELS = np.arange(N) % K
DATA = (lambda rng: np.kron(np.eye(K), np.ones(2))[LABELS] + 0.1 * rng.random((N, R)))(
    np.random.default_rng(0)
)


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def stacked(heights, forms=(np.asarray,)):
    """Return DATA in chunks of these heights, each in one of the forms in turn."""
    edges = np.cumsum([0, *heights])
    assert edges[-1] == N
    chunks = [
        da.from_delayed(
            dask.delayed(forms[i % len(forms)])(DATA[a:b]), (b - a, R), dtype=np.float64
        )
        for i, (a, b) in enumerate(pairwise(edges))
    ]
    return da.concatenate(chunks)


def hidden(block):
    return np.ma.masked_less(block, 0.05)


def single(block):
    return block.astype(np.float32)


FORMS = {
    "masked without masked entries": lambda: da.ma.masked_less(stacked([10, 14]), -1),
    "one chunk": lambda: stacked([N]),
    "first is empty": lambda: stacked([0, 10, 14]),
    "some are empty": lambda: stacked([10, 0, 0, 8, 0, 6]),
    "last is empty": lambda: stacked([N, 0]),
    "all but one row": lambda: stacked([0, 23, 0, 1, 0]),
    "one row each": lambda: stacked([1] * N),
    "fewer rows than clusters": lambda: stacked([2] * 12),
    "by columns": lambda: da.from_array(DATA, chunks=(N, 1)),
    "by both": lambda: da.from_array(DATA, chunks=(7, 4)),
    "empty columns of chunks": lambda: da.concatenate([da.zeros((N, 0)), da.from_array(DATA)], 1),
    "sparse": lambda: stacked([10, 14], [sp.csr_array]),
    "dense and sparse": lambda: stacked([10, 0, 14], [np.asarray, sp.csr_array, sp.csc_matrix]),
    "lists": lambda: stacked([10, 14], [np.ndarray.tolist]),
    "columns in memory": lambda: stacked([10, 14], [np.asfortranarray]),
    "filtered": lambda: (lambda x: x[x[:, 0] > -1].compute_chunk_sizes())(stacked([10, 14])),
    "persisted": lambda: stacked([10, 14]).persist(),
}
CALLS = {
    "fit": lambda A: op.OrthogonalNMF(K, random_state=0).fit(A).labels_,
    "counts": lambda A: op.OrthogonalNMF(K, random_state=0, loss="kullback-leibler").fit(A).labels_,
    "solve": lambda A: op.solve(op.problems.ONMF(A, K)).labels,
    "indicators": lambda A: op.KIndicatorsClustering(K, random_state=0).fit(A).labels_,
}


# All forms for one call, the forms that differ most for the others, which take longer.
FEW = ["some are empty", "by both", "dense and sparse"]
PAIRS = [("fit", form) for form in FORMS] + [(c, f) for c in CALLS if c != "fit" for f in FEW]


@pytest.mark.parametrize(("call", "form"), PAIRS)
def test_answer_is_that_of_the_array(form, call):
    found = np.asarray(CALLS[call](FORMS[form]()))
    np.testing.assert_array_equal(found, expected(call))


@cache
def expected(call):
    return np.asarray(CALLS[call](DATA))


@pytest.mark.parametrize("form", ["some are empty", "by both", "all but one row", "persisted"])
def test_projection_is_that_of_the_array(form):
    C = FORMS[form]()[:, 1:4]
    np.testing.assert_array_equal(np.asarray(op.project(C).labels), op.project(DATA[:, 1:4]).labels)


@pytest.mark.parametrize("kind", ["f4", "i4", "u1", "?"])
def test_chunks_of_mixed_types_have_the_type_of_the_array(kind):
    whole = (3 * DATA).astype(kind)
    mixed = stacked([8, 8, 8], [lambda block: (3 * block).astype(kind)])
    found = np.asarray(CALLS["fit"](mixed))
    np.testing.assert_array_equal(found, CALLS["fit"](whole.astype(np.float64)))
    together = da.concatenate([mixed[:10].astype(kind), mixed[10:]])
    np.testing.assert_array_equal(np.asarray(CALLS["fit"](together)), found)


REFUSED = {
    "nothing": (lambda: da.zeros((0, R)), "is needed"),
    "no columns": (lambda: da.zeros((N, 0)), "is needed"),
    "unknown": (lambda: (lambda x: x[x[:, 0] > 0])(stacked([N])), "compute_chunk_sizes"),
    "unknown columns": (lambda: (lambda x: x[:, x[0] > 0])(stacked([N])), "compute_chunk_sizes"),
    "masked": (lambda: da.ma.masked_less(da.from_array(DATA, chunks=(9, 4)), 0.05), "masked"),
    "masked chunk": (lambda: stacked([10, 14], [hidden]), "masked"),
    "vector": (lambda: da.zeros(N), "is needed"),
    "cube": (lambda: da.zeros((4, 3, 2)), "a matrix is needed"),
    "complex": (lambda: da.zeros((N, R), dtype=complex), "real numbers are needed"),
    "words": (lambda: da.zeros((N, R), dtype="U3"), "real numbers are needed"),
    "nan in one": (lambda: da.where(da.arange(N)[:, None] == 7, np.nan, DATA), "NaN"),
    "inf in one": (lambda: da.where(da.arange(N)[:, None] == 7, np.inf, DATA), "infinite"),
    "negative": (lambda: stacked([N]) - 5, "negative"),
    "lying chunk": (lambda: stacked([10, 14], [lambda block: block[1:]]), "chunk"),
    "wide chunk": (lambda: stacked([10, 14], [lambda block: block[:, 1:]]), "chunk"),
    "words in a chunk": (lambda: stacked([N], [lambda block: block.astype("U9")]), "chunk"),
    "complex in a chunk": (lambda: stacked([N], [lambda block: block * 1j]), "chunk"),
    "object in a chunk": (lambda: stacked([N], [lambda block: None]), "chunk"),
}


@pytest.mark.parametrize("call", ["fit", "solve"])
@pytest.mark.parametrize("name", REFUSED)
def test_bad_chunks_are_refused_in_a_sentence(name, call):
    make, message = REFUSED[name]
    with pytest.raises(op.InputError, match=message):
        CALLS[call](make())


def test_small_arguments_are_part_of_the_tasks_and_large_ones_are_sent_once(monkeypatch):
    A = DaskMatrix(stacked([8] * 3), "A")
    V = np.random.default_rng(1).random((R, 2))
    tasks, expected = [], A.normal_product(V)
    run = data_dask._run
    monkeypatch.setattr(data_dask, "_run", lambda act, made: tasks.append(made) or run(act, made))
    for small, n_shared in ((V.nbytes + 1000, 0), (V.nbytes, 1)):
        monkeypatch.setattr(data_dask, "_SMALL_BYTES", small)
        np.testing.assert_array_equal(A.normal_product(V), expected)
        assert sum(str(key).startswith("shared") for key in tasks[-1].graph) == n_shared


@pytest.mark.parametrize("n_chunks", [1, 2, 8, 12, 24])
def test_reduction_is_the_same_on_workers_and_in_the_client(n_chunks, monkeypatch):
    A = DaskMatrix(stacked([N // n_chunks] * n_chunks), "A")
    in_client = A.gram()
    monkeypatch.setattr(data_dask, "_NARROW", 0)
    np.testing.assert_array_equal(A.gram(), in_client)  # also bit for bit
    np.testing.assert_allclose(in_client, DATA.T @ DATA, rtol=1e-13)
