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
    "DataTree": (stand_in("xarray.core", "DataTree"), r'\["name"\]'),
    "class": (np.ndarray, "Pass an array"),
    "module": (np, "Pass an array"),
    "unreadable": (tensor(to_dense=None, float=None), r"to_dense\(\)\.float\(\)\.numpy\(\)"),
    "shape alone": (stand_in("other", "Shaped", shape=(2, 2)), "Pass an array"),
    "complex number": (1j, "Pass an array"),
    "ragged arrays": ([np.ones(2), np.ones(3)], "rows of equal length"),
    "ragged inside": ([[1.0, [2.0]], [3.0, 4.0]], "rows of equal length"),
    "texts inside": ([[1.0, "a"], [2.0, 3.0]], r"'a' at \(0, 1\)"),
    "dictionaries inside": ([[{}, {}], [{}, {}]], "of type dict"),
    "rows of generators": ([iter([1.0]), iter([2.0])], "of type list_iterator"),
    "dates": (np.array([["2026-01-01"]], dtype="M8[D]"), "datetime64"),
    "fields": (np.zeros(2, dtype=[("a", float), ("b", float)]), "structured_to_unstructured"),
    "masked": (np.ma.masked_array(np.eye(2), mask=np.eye(2) > 0), r"2 masked .*\.filled"),
    "huge integer": ([[10**400, 1], [1, 1]], "no float64 can hold"),
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
    "endmembers": lambda X: op.abundances(OTHER, X),
    "solve": lambda X: op.solve(op.problems.ONMF(OTHER, 1), X if X is not None else {}),
    "minimize": lambda X: op.minimize(lambda _: 0.0, X),
    "weights": lambda w: op.OrthogonalNMF(1).fit(OTHER, sample_weight=w if w is not None else {}),
    "check": lambda X: op.optimality.check(op.problems.ONMF(OTHER, 1), X),
    "residual": lambda X: op.metrics.residual(X, np.ones((2, 1))),
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


LABELS = {
    "certify": lambda labels: op.certify(op.problems.KMeans(OTHER, 1), labels),
    "purity": lambda labels: op.metrics.purity([0, 1], labels),
    "nmi": lambda labels: op.metrics.nmi(labels, [0, 1]),
    "entropy": lambda labels: op.metrics.entropy(labels, [0, 1]),
}


@pytest.mark.parametrize("entry", LABELS)
def test_object_that_is_not_labels_gets_one_sentence(entry):
    for name, (value, _) in OBJECTS.items():
        if name in ("texts", "text array", "huge integer"):  # these are labels, or too many
            continue
        with pytest.raises(op.InputError) as raised:
            LABELS[entry](value)
        assert "label" in str(raised.value), name
        assert "\n" not in str(raised.value)


def test_problem_is_asked_for_by_solve_and_certify():
    for name, (value, _) in OBJECTS.items():
        with pytest.raises(op.InputTypeError, match="problem"):
            op.solve(value)
        with pytest.raises(op.InputTypeError, match="problem"):
            op.certify(value, [0, 1])
        assert name


def test_function_that_returns_an_object_gets_one_sentence():
    for name, (value, _) in OBJECTS.items():
        with pytest.raises(op.InputError, match="real number") as raised:
            op.minimize(lambda _, value=value: value, (2, 1))
        assert "\n" not in str(raised.value), name
        with pytest.raises(op.InputError, match="shape of X") as raised:
            op.minimize(lambda _: 0.0, (2, 1), jac=lambda _, value=value: value)
        assert "\n" not in str(raised.value), name


OPTIONS = {
    "n_components": lambda value: op.OrthogonalNMF(value).fit(OTHER),
    "k": lambda value: op.problems.ONMF(OTHER, value),
    "rng": lambda value: op.solve(op.problems.ONMF(OTHER, 1), rng=value),
    "random_state": lambda value: op.OrthogonalNMF(1, random_state=value).fit(OTHER),
    "loss": lambda value: op.OrthogonalNMF(1, loss=value).fit(OTHER),
    "ranks": lambda value: op.select_rank(OTHER, value),
    "file": op.load_state,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_option_of_a_wrong_type_gets_one_line(option):
    pandas = pytest.importorskip("pandas")
    for value in (pandas.DataFrame({"a": [1.0, 2.0]}), np.ones((2, 2, 2)), {"a": 1}, 1j, OPTIONS):
        with pytest.raises(op.InputError, match=option) as raised:
            OPTIONS[option](value)
        assert "\n" not in str(raised.value)


def test_ranks_may_be_a_generator():
    assert op.select_rank(np.eye(4) + 0.1, (k for k in (1, 2))).k in (1, 2)


def test_numbers_as_strings_and_missing_entries_pass():
    check_not_foreign([["1", "2.5"], ["3", "4"]], "X")
    check_not_foreign([[1.0, None], [2.0, 3.0]], "X")
    with pytest.raises(op.InputError, match="one-dimensional"):
        op.OrthogonalNMF(1).fit(OTHER, sample_weight=3.0)


def test_graph_without_vertices_is_refused():
    networkx = pytest.importorskip("networkx")
    with pytest.raises(op.InputError, match="without vertices"):
        op.NonnegativeSpectralClustering(2).fit(networkx.Graph())


def test_tables_with_dates_and_repeated_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    times = {"date": pandas.to_datetime(["2026", "2027"]), "span": pandas.to_timedelta([1, 2])}
    for name, values in times.items():
        with pytest.raises(op.InputTypeError, match=rf"not numbers \('{name}'\)"):
            op.OrthogonalNMF(1).fit(table.assign(**{name: values}))
    twice = pandas.DataFrame([["a", 1.0], ["b", 2.0]], columns=["x", "x"])
    with pytest.raises(op.InputTypeError, match=r"not numbers \('x'\)"):
        op.problems.ONMF(twice, 1)
    with pytest.raises(op.InputTypeError, match="without columns"):
        op.OrthogonalNMF(1).fit(pandas.DataFrame())
    check_not_foreign(table.convert_dtypes(), "X")


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
