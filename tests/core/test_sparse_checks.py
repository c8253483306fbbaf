"""No compiled loop sees a sparse matrix whose indices leave it."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import orthoplus as op
from orthoplus.core.sparse_checks import as_csr, check_sparse

N = 12
SYMMETRIC = (lambda A: A + A.T)(np.random.default_rng(0).random((N, N)))


def spoiled(kind, part, value):
    """Return a matrix of this format with one number of one part replaced."""
    matrix = getattr(sp, f"{kind}_array")(SYMMETRIC)
    if kind == "lil":
        matrix.rows[3][0] = value
    elif kind == "coo":
        matrix.coords[part][5] = value
    else:
        getattr(matrix, part)[2] = value
    return matrix


SPOILED = {
    "far": ("csr", "indices", 10**7),
    "next": ("csr", "indices", N),
    "negative": ("csr", "indices", -1),
    "pointer": ("csr", "indptr", 10**7),
    "falling": ("csr", "indptr", 2),
    "columns": ("csc", "indices", N),
    "blocks": ("bsr", "indices", N),
    "row": ("coo", 0, N),
    "column": ("coo", 1, -5),
    "lists": ("lil", None, 10**6),
}
ENTRIES = {
    "ONMF": lambda M: op.solve(op.problems.ONMF(M, 2)),
    "KLONMF": lambda M: op.solve(op.problems.KLONMF(M, 2)),
    "TraceMin": lambda M: op.solve(op.problems.TraceMin(M, 2)),
    "SymmetricONMF": lambda M: op.solve(op.problems.SymmetricONMF(M, 2)),
    "nonnegative_pca": lambda M: op.solve(op.problems.nonnegative_pca(M, 2)),
    "laplacian_embedding": lambda M: op.problems.laplacian_embedding(M, 2),
    "ratio_cut": lambda M: op.problems.ratio_cut(M, 2),
    "OrthogonalNMF": lambda M: op.OrthogonalNMF(2).fit(M),
    "masked": lambda M: op.OrthogonalNMF(2, missing="mask").fit(M),
    "NonnegativePCA": lambda M: op.NonnegativePCA(2).fit(M),
    "KIndicators": lambda M: op.KIndicatorsClustering(2).fit(M),
    "spectral": lambda M: op.NonnegativeSpectralClustering(2, affinity="precomputed").fit(M),
    "select_rank": lambda M: op.select_rank(M, [2, 3]),
}


def in_parts(A, kind):
    """Return a CSR or CSC matrix that stores each entry as two, in falling order of the indices."""
    matrix = getattr(sp, f"{kind}_array")(A)
    ends = 2 * matrix.indptr
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in pairwise(ends)])
    data, indices = np.repeat(matrix.data / 2, 2)[order], np.repeat(matrix.indices, 2)[order]
    return type(matrix)((data, indices, ends), shape=matrix.shape)


def answer_of(found):
    """Return the numbers of a result, a fitted estimator, a selection of ranks or a problem."""
    if isinstance(found, op.problems.TraceMin):
        found = op.solve(found)
    names = ("reconstruction_err_", "labels_", "components_", "value", "rows")
    answer = next(getattr(found, name) for name in names if hasattr(found, name))
    return np.array(answer, dtype=np.float64)


@pytest.mark.parametrize("entry", ENTRIES)
def test_entry_in_several_parts_is_their_sum(entry):
    whole = answer_of(ENTRIES[entry](sp.csr_array(SYMMETRIC)))
    for kind in ("csr", "csc"):
        matrix = in_parts(SYMMETRIC, kind)
        np.testing.assert_allclose(answer_of(ENTRIES[entry](matrix)), whole, rtol=1e-9)
        assert matrix.nnz == 2 * SYMMETRIC.size  # the matrix of the user is not changed


@pytest.mark.parametrize("name", SPOILED)
@pytest.mark.parametrize("entry", ENTRIES)
def test_sparse_matrix_with_wrong_indices_is_refused(entry, name):
    with pytest.raises(op.InputError, match="is a sparse matrix"):
        ENTRIES[entry](spoiled(*SPOILED[name]))


def test_transform_of_a_fitted_estimator_looks_too():
    model = op.OrthogonalNMF(2).fit(SYMMETRIC)
    for work in (model.transform, model.predict, model.score):
        with pytest.raises(op.InputError, match="column index 12, but has 12 columns"):
            work(spoiled("csr", "indices", N))


def test_chunk_with_wrong_indices_is_refused():
    da = pytest.importorskip("dask.array")
    chunks = [spoiled("csr", "indices", N), sp.csr_array(SYMMETRIC)]
    data = da.concatenate(
        [da.from_delayed(c, (N, N), meta=sp.csr_array((0, 0))) for c in map(_delayed, chunks)]
    )
    with pytest.raises(op.InputError, match="column index 12"):
        op.OrthogonalNMF(2).fit(data)


def _delayed(value):
    from dask import delayed

    return delayed(value, traverse=False)


def test_entries_beyond_the_last_pointer_do_not_matter():
    matrix = sp.csr_array(SYMMETRIC)
    matrix.indices = np.append(matrix.indices, 10**7)
    matrix.data = np.append(matrix.data, 1.0)
    check_sparse(matrix, "A")
    matrix.data = matrix.data[:-3]
    with pytest.raises(op.InputError, match="144 entries with indices or values for only 142"):
        check_sparse(matrix, "A")


def test_other_shapes_and_types_are_refused():
    with pytest.raises(op.InputError, match=r"shape \(3,\): a matrix of two"):
        as_csr(sp.coo_array(np.ones(3)), "A")
    with pytest.raises(TypeError, match="real numbers are needed"):
        as_csr(sp.coo_array(np.eye(2) * 1j), "A")
    matrix = sp.csr_array(SYMMETRIC)
    matrix.indices = matrix.indices.astype(float)
    with pytest.raises(op.InputError, match="column indices of dtype float64"):
        check_sparse(matrix, "A")


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_sound_matrix_is_itself(kind):
    matrix = getattr(sp, f"{kind}_array")(SYMMETRIC)
    rows = as_csr(matrix, "A")
    assert (rows is matrix) == (kind == "csr")
    np.testing.assert_array_equal(rows.toarray(), SYMMETRIC)
