"""What is not a matrix gets one sentence that says what to pass, at every entry."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from orthoplus.core.checks import describe
from orthoplus.core.foreign import check_not_foreign

OTHER = np.ones((2, 4))


def stand_in(library, name, **members):
    """Return an object that says it is of this class: the sentence needs no more."""
    return type(name, (), {"__module__": library, **members})()


def tensor(**members):
    def refuse(self, *args, **kwargs):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    return stand_in("torch", "Tensor", __array__=refuse, **members)


OBJECTS = {
    "AnnData": (stand_in("anndata._core.anndata", "AnnData"), r"`\w+\.X`"),
    "MuData": (stand_in("mudata._core", "MuData"), r'\["rna"\]\.X'),
    "NetworkX graph": (stand_in("networkx.classes", "Graph"), "to_scipy_sparse_array"),
    "igraph graph": (stand_in("igraph", "GraphBase"), "get_adjacency_sparse"),
    "LazyFrame": (stand_in("polars.lazyframe", "LazyFrame"), r"\.collect\(\)"),
    "tensor with gradient": (tensor(requires_grad=True), r"\.detach\(\)\.cpu\(\)\.numpy\(\)"),
    "texts": (["some words", "other words"], "CountVectorizer"),
    "text array": (np.array(["some words", "other words"]), "CountVectorizer"),
    "image": (stand_in("nibabel.spatialimages", "SpatialImage"), "get_fdata"),
    "Dataset": (stand_in("xarray.core", "Dataset"), r'\["name"\]'),
    "path": ("data.csv", "Read the file first"),
    "ragged": ([[1.0, 2.0], [3.0]], "rows of equal length"),
    "dict": ({"a": [1.0, 2.0]}, "Pass an array"),
    "None": (None, "Pass an array"),
    "object": (object(), "Pass an array"),
    "set": ({1.0, 2.0}, "Pass an array"),
}

ENTRIES = {
    "OrthogonalNMF": lambda X: op.OrthogonalNMF(2).fit(X),
    "KIndicatorsClustering": lambda X: op.KIndicatorsClustering(2).fit(X),
    "NonnegativePCA": lambda X: op.NonnegativePCA(2).fit(X),
    "NonnegativeSpectralClustering": lambda X: op.NonnegativeSpectralClustering(2).fit(X),
    "transform": lambda X: op.OrthogonalNMF(1).fit(OTHER).transform(X),
    "inverse_transform": lambda X: op.OrthogonalNMF(1).fit(OTHER).inverse_transform(X),
    "unmix": lambda X: op.unmix(X, 2),
    "abundances": lambda X: op.abundances(X, OTHER),
    "quadratic_assignment": lambda X: op.quadratic_assignment(OTHER, X),
    "select_rank": lambda X: op.select_rank(X, [2, 3]),
    "consensus": lambda X: op.consensus(X, 2),
    "project": op.project,
    "ONMF": lambda X: op.problems.ONMF(X, 2),
    "KLONMF": lambda X: op.problems.KLONMF(X, 2),
    "KMeans": lambda X: op.problems.KMeans(X, 2),
    "KIndicators": op.problems.KIndicators,
    "Projection": op.problems.Projection,
    "TraceMin": lambda X: op.problems.TraceMin(X, 2),
    "SymmetricONMF": lambda X: op.problems.SymmetricONMF(X, 2),
    "QAP": lambda X: op.problems.QAP(OTHER[:, :2], X),
    "nonnegative_pca": lambda X: op.problems.nonnegative_pca(X, 2),
    "laplacian_embedding": lambda X: op.problems.laplacian_embedding(X, 2),
    "ratio_cut": lambda X: op.problems.ratio_cut(X, 2),
}
# Graphs are welcome there.
ACCEPT_GRAPHS = ("NonnegativeSpectralClustering", "quadratic_assignment")


@pytest.mark.parametrize("entry", ENTRIES)
def test_object_gets_one_sentence_that_says_what_to_pass(entry):
    for name, (value, words) in OBJECTS.items():
        if name.endswith("graph") and entry in ACCEPT_GRAPHS:
            continue
        with pytest.raises(op.InputTypeError, match=words) as raised:
            ENTRIES[entry](value)
        assert str(raised.value).startswith("`"), name
        assert "\n" not in str(raised.value)


def test_tensor_that_numpy_reads_passes():
    values = stand_in("torch", "Tensor", __array__=lambda self, *a, **k: OTHER, requires_grad=False)
    check_not_foreign(values, "X")
    assert op.problems.ONMF(values, 1).shape == (2, 1)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_table_with_text_names_its_columns(library):
    pytest.importorskip(library)
    table = make_table(library, {"a": [1.0, 2.0], "name": ["x", "y"], "b": [3.0, 4.0]})
    with pytest.raises(op.InputTypeError, match=r"not numbers \('name'\).*select"):
        op.OrthogonalNMF(1).fit(table)
    with pytest.raises(op.InputTypeError, match=r"not numbers \('name'\).*select"):
        op.select_rank(table, [2])


def make_table(library, columns):
    if library == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    if library == "polars":
        import polars

        return polars.DataFrame(columns)
    import pyarrow

    return pyarrow.table(columns)


def test_real_objects_are_known():
    """The classes of the libraries, as far as they are installed, are those of the stand-ins."""
    networkx = pytest.importorskip("networkx")
    igraph = pytest.importorskip("igraph")
    polars = pytest.importorskip("polars")
    nibabel = pytest.importorskip("nibabel")
    xarray = pytest.importorskip("xarray")
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2), dtype=np.float32), np.eye(4))
    for value, words in (
        (networkx.path_graph(3), "NetworkX"),
        (networkx.MultiDiGraph(), "NetworkX"),
        (igraph.Graph.Ring(3), "igraph"),
        (polars.DataFrame({"a": [1.0]}).lazy(), "LazyFrame"),
        (image, "nibabel"),
        (xarray.Dataset({"a": ("x", [1.0])}), "Dataset"),
    ):
        with pytest.raises(op.InputTypeError, match=words):
            check_not_foreign(value, "X")
    check_not_foreign(xarray.DataArray(np.eye(2)), "X")


def test_linear_operator_is_welcome_to_problems_only():
    operator = aslinearoperator(OTHER)
    assert op.problems.ONMF(operator, 2).shape == (2, 2)
    with pytest.raises(op.InputTypeError, match=r"entries are unknown.*problems\.ONMF"):
        op.OrthogonalNMF(2).fit(operator)


def test_description_of_an_object_has_one_line_and_no_address():
    assert describe({"a": 1}) == "{'a': 1}"
    assert describe(object()) == "an object of type object"
    assert describe(np.eye(2)) == "an object of type ndarray"
