"""Orthogonal NMF of AnnData objects: what scanpy's users expect of a tool."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.adapters.singlecell import _progress_bar
from orthoplus.model_selection.rank_tasks import RankProgress

anndata = pytest.importorskip("anndata")
# AnnData and scanpy meet the future of what they need.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"
)

N_TYPES = 3
ATTRIBUTES = ("X", "obs", "var", "obsm", "varm", "uns")
CONTAINERS = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "array": sp.csr_array,
    "dense": np.asarray,
}


@pytest.fixture
def cells(rng):
    """Counts of three types, a cell without any, and the types."""
    types = np.arange(90) % N_TYPES
    profiles = rng.gamma(0.5, 1.0, size=(N_TYPES, 30))
    counts = rng.poisson(profiles[types] * rng.gamma(4.0, 0.5, size=(90, 1))).astype(np.float32)
    counts[-1] = 0
    return counts, types


def as_anndata(values, container="csr"):
    adata = anndata.AnnData(CONTAINERS[container](values))
    adata.layers["doubled"] = adata.X * 2
    adata.var["chosen"] = np.arange(30) % 5 > 0
    return adata


@pytest.mark.parametrize("container", CONTAINERS)
def test_results_are_where_scanpy_leaves_them(cells, container):
    counts, types = cells
    adata = as_anndata(counts, container)
    assert op.singlecell.onmf(adata, N_TYPES, loss="kullback-leibler") is None
    assert adata.obs["onmf"].cat.categories.tolist() == ["0", "1", "2"]
    codes = adata.obs["onmf"].cat.codes.to_numpy()
    assert adjusted_rand_score(types[:-1], codes[:-1]) > 0.9
    assert codes[-1] == -1
    assert adata.obs["onmf"].isna().sum() == 1
    assert adata.obsm["X_onmf"].shape == (90, N_TYPES)
    assert adata.varm["onmf"].shape == (30, N_TYPES)
    assert adata.uns["onmf"]["params"] == {"n_components": N_TYPES, "loss": "kullback-leibler"}
    model = op.OrthogonalNMF(N_TYPES, loss="kullback-leibler").fit(counts)
    np.testing.assert_array_equal(codes, model.labels_)
    np.testing.assert_allclose(adata.varm["onmf"], model.components_.T, rtol=1e-5)
    np.testing.assert_allclose(adata.obsm["X_onmf"], model.transform(counts), rtol=1e-5)
    assert adata.uns["onmf"]["explained"] == pytest.approx(model.score(counts), rel=1e-5)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_integers_are_read_as_the_same_floats(cells, container, dtype, tmp_path):
    counts = cells[0].astype(dtype)
    expected = as_anndata(counts.astype(np.float64))
    op.singlecell.onmf(expected, N_TYPES)
    adata = anndata.AnnData(CONTAINERS[container](counts))
    op.singlecell.onmf(adata, N_TYPES)
    assert adata.obs["onmf"].equals(expected.obs["onmf"])
    if container == "csc" or dtype is not np.int64:  # CSC cannot be read by rows
        return
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    op.singlecell.onmf(backed, N_TYPES, key_added="again", memory_limit="10KB")
    backed.file.close()
    assert backed.obs["again"].tolist()[:-1] == expected.obs["onmf"].tolist()[:-1]


@pytest.mark.parametrize("container", ["csr", "dense"])
def test_backed_gives_the_same_and_is_read_in_blocks(cells, container, tmp_path, monkeypatch):
    from orthoplus.data.stored import Stored

    adata = as_anndata(np.log1p(cells[0]), container)
    op.singlecell.onmf(adata, N_TYPES)
    del adata.uns["onmf"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    heights, blocks = [], Stored.blocks

    def recorded(self):
        for rows, block in blocks(self):
            heights.append(len(block))
            yield rows, block

    monkeypatch.setattr(Stored, "blocks", recorded)
    op.singlecell.onmf(backed, N_TYPES, key_added="again", memory_limit=40_000)
    assert backed.isbacked
    assert max(heights) < 90
    assert (backed.obs["again"].astype(str) == backed.obs["onmf"].astype(str)).all()
    np.testing.assert_allclose(backed.varm["again"], backed.varm["onmf"], rtol=1e-4)
    with pytest.raises(op.InputError, match="copy=True"):
        op.singlecell.onmf(backed, 2, copy=True)
    backed.file.close()


def test_backed_by_columns_is_refused_with_what_to_do(cells, tmp_path):
    as_anndata(cells[0], "csc").write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(op.InputError, match="to_memory"):
        op.singlecell.onmf(backed, 2)
    backed.file.close()


def test_layer_and_genes_are_those_asked_for(cells):
    adata = as_anndata(cells[0])
    op.singlecell.onmf(adata, N_TYPES, mask_var="chosen")
    assert not adata.varm["onmf"][::5].any()
    op.singlecell.onmf(adata, N_TYPES, layer="doubled", mask_var="chosen", key_added="twice")
    np.testing.assert_allclose(adata.varm["twice"], 2 * adata.varm["onmf"], rtol=1e-5)
    assert adata.uns["twice"]["params"]["layer"] == "doubled"
    adata.var["highly_variable"] = adata.var["chosen"]
    op.singlecell.onmf(adata, N_TYPES, key_added="marked")
    np.testing.assert_array_equal(adata.varm["marked"], adata.varm["onmf"])


def test_copy_leaves_the_object_alone(cells):
    adata = as_anndata(cells[0])
    other = op.singlecell.onmf(adata, N_TYPES, copy=True)
    assert "onmf" in other.obs
    assert "onmf" not in adata.obs
    assert not adata.uns


def test_counts_get_a_note_and_logarithms_do_not(cells, recwarn):
    adata = as_anndata(cells[0])
    op.singlecell.onmf(adata, N_TYPES)
    assert 'loss="kullback-leibler"' in adata.uns["onmf"]["notes"][0]
    assert "log1p" in adata.uns["onmf"]["notes"][0]
    adata.X = adata.X.log1p()
    op.singlecell.onmf(adata, N_TYPES)
    assert len(adata.uns["onmf"]["notes"]) == 0
    assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]


def test_results_can_be_written_and_read(cells, tmp_path):
    adata = as_anndata(cells[0])
    op.singlecell.onmf(adata, N_TYPES, row_scale="l2", random_state=np.random.RandomState(0))
    adata.write_h5ad(tmp_path / "out.h5ad")
    read = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert read.uns["onmf"]["params"]["row_scale"] == "l2"
    assert read.obs["onmf"].equals(adata.obs["onmf"])


def test_rank_finds_the_types_and_reports(cells, capsys):
    adata, seen = as_anndata(cells[0]), []
    found = op.singlecell.rank(
        adata, range(2, 5), loss="kullback-leibler", n_splits=2, callback=seen.append
    )
    assert found.k == N_TYPES
    assert seen[-1].n_done == seen[-1].n_total
    assert not capsys.readouterr().err


def test_bar_moves_to_the_end(capsys):
    pytest.importorskip("tqdm")
    with _progress_bar(None, True) as move:
        move(RankProgress(2, 3))
        move(RankProgress(3, 3))
    assert "3/3" in capsys.readouterr().err


def test_scanpy_draws_the_clusters(cells):
    scanpy = pytest.importorskip("scanpy")
    pytest.importorskip("matplotlib").use("Agg")
    adata = as_anndata(cells[0])
    op.singlecell.onmf(adata, N_TYPES)
    axes = scanpy.pl.embedding(adata, "X_onmf", color=["onmf", "onmf_margin"], show=False)
    assert len(axes) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layer": "missing"}, "is not in `adata.layers`"),
        ({"mask_var": "missing"}, "is not a column"),
        ({"mask_var": "none"}, "selects no gene"),
        ({"mask_var": ["chosen"]}, "`mask_var` must be .* str"),
        ({"mask_var": np.ones(40, dtype=bool)}, "`mask_var` must be .* str"),
        ({"mask_var": "words"}, "other than True and False"),
        ({"mask_var": "gaps"}, "other than True and False"),
        ({"key_added": 3}, "key_added"),
        ({"n_components": 91}, "n_components=91"),
    ],
)
def test_what_is_not_there_is_named(cells, change, words):
    adata = as_anndata(cells[0])
    adata.var["none"] = False
    adata.var["words"] = "no"
    adata.var["gaps"] = adata.var["chosen"].astype("boolean").mask(adata.var["chosen"])
    with pytest.raises(op.InputError, match=words):
        op.singlecell.onmf(adata, **{"n_components": 2} | change)
    # The attributes of MuData include those of AnnData; a table has a method called mod.
    mudata = type("MuData", (), dict.fromkeys(("mod", *ATTRIBUTES)))()
    for value, advice in (
        (cells[0], "For a matrix"),
        ("a.h5ad", "Read"),
        (mudata, "Pass one modality"),
        (adata.obs, "For a matrix"),
    ):
        with pytest.raises(op.InputError, match=f"an AnnData object is expected. {advice}"):
            op.singlecell.onmf(value, 2)


def test_view_of_a_backed_object_is_refused_before_the_fit(cells, tmp_path, monkeypatch):
    as_anndata(cells[0]).write_h5ad(tmp_path / "cells.h5ad")
    part = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")[:40]
    monkeypatch.setattr(op.OrthogonalNMF, "fit", None)
    with pytest.raises(op.InputError, match=r"view of a backed AnnData.*to_memory"):
        op.singlecell.onmf(part, N_TYPES)


def test_sparse_cells_are_checked_before_compiled_loops_see_them(cells):
    spoiled = as_anndata(cells[0])
    spoiled.X.indices[3] = 1_000_000
    with pytest.raises(op.InputError, match=r"`adata\.X` .* index 1000000, but has 30 columns"):
        op.singlecell.onmf(spoiled, N_TYPES)
    unreal = anndata.AnnData(sp.csr_matrix(cells[0] * (1 + 1j)))
    with pytest.raises(op.InputError, match=r"`adata\.X` .* complex64: real numbers"):
        op.singlecell.onmf(unreal, N_TYPES)
