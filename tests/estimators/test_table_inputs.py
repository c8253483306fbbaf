"""Tables of pandas, polars and pyarrow: in as they are, out as `set_output` says."""

import numpy as np
import pytest
from sklearn.base import clone

import orthoplus as op

NAMES = ["a", "b", "c", "d"]
ESTIMATORS = [
    op.OrthogonalNMF(2),
    op.NonnegativePCA(2),
    op.KIndicatorsClustering(2),
    op.NonnegativeSpectralClustering(2, n_neighbors=3),
]


def as_table(values, library):
    columns = {name: values[:, i] for i, name in enumerate(NAMES)}
    if library == "pandas":
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(columns, index=[f"row {i}" for i in range(len(values))])
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    return pytest.importorskip("pyarrow").table(columns)


@pytest.fixture
def values(rng):
    return rng.random((16, 4))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_table_is_fitted_as_its_values(values, library, model):
    table = as_table(values, library)
    fitted, expected = clone(model).fit(table), clone(model).fit(values)
    assert fitted.feature_names_in_.tolist() == NAMES
    name = "labels_" if hasattr(fitted, "labels_") else "components_"
    np.testing.assert_array_equal(getattr(fitted, name), getattr(expected, name))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda model: type(model).__name__)
def test_output_is_a_table_with_names_and_the_index(values, library, model):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = as_table(values, library)
    plain = type(model)(2).fit(values).transform(values)
    names = [f"{type(model).__name__.lower()}{j}" for j in range(2)]
    out = type(model)(2).set_output(transform="pandas").fit(table).transform(table)
    assert isinstance(out, pandas.DataFrame)
    assert out.columns.tolist() == names
    if library == "pandas":
        assert out.index.equals(table.index)
    np.testing.assert_allclose(out.to_numpy(), plain)
    out = type(model)(2).set_output(transform="polars").fit_transform(table)
    assert isinstance(out, polars.DataFrame)
    assert out.columns == names


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_calls_take_tables(values, library):
    table = as_table(values, library)
    expected = op.solve(op.problems.ONMF(values, 2))
    np.testing.assert_array_equal(op.solve(op.problems.ONMF(table, 2)).labels, expected.labels)
    assert (
        op.select_rank(table, [2, 3], n_splits=2).k == op.select_rank(values, [2, 3], n_splits=2).k
    )
    assert op.unmix(table, 2).labels.shape == (16,)
    assert op.project(table).value == op.project(values).value


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_missing_entries_of_any_table_are_named_in_one_line(values, model):
    pandas = pytest.importorskip("pandas")
    table = as_table(values, "pandas")
    gaps = table.astype("Float64").mask(table > 0.9)
    sparse = table.where(table > 0.5).astype(pandas.SparseDtype(float, np.nan))
    for found in (gaps, gaps.astype(object), sparse):
        with pytest.raises(op.InputError, match=r"contains NaN\. \w") as raised:
            clone(model).fit(found)
        assert "\n" not in str(raised.value)


def test_missing_entries_of_any_table_are_masked(values):
    pandas = pytest.importorskip("pandas")
    table = as_table(values, "pandas")
    gaps = table.mask(table > 0.9)
    expected = op.OrthogonalNMF(2, missing="mask").fit(gaps)
    nullable = table.astype("Float64").mask(table > 0.9)
    sparse = gaps.astype(pandas.SparseDtype(float, np.nan))
    for found in (nullable, nullable.astype(object), sparse):
        model = op.OrthogonalNMF(2, missing="mask").fit(found)
        # The layouts in memory differ, and with them the roundings of BLAS.
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-12)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        assert model.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_repeated_names_are_refused_in_one_line(values, model):
    pyarrow = pytest.importorskip("pyarrow")
    table = as_table(values, "pandas")
    for found in (
        table.set_axis(["a", "b", "b", "c"], axis=1),
        pyarrow.Table.from_arrays([pyarrow.array(values[:, 0])] * 2, names=["b", "b"]),
    ):
        with pytest.raises(op.InputTypeError, match="2 columns called 'b'"):
            clone(model).fit(found)
