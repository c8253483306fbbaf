"""``orthoplus cluster --write-back``: the clusters in the .h5ad file, which stays whole."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import orthoplus as op
from orthoplus.cli.app import app
from orthoplus.io import write_anndata

ENCODINGS = {
    "obs/onmf": "categorical",
    "obs/onmf/codes": "array",
    "obs/onmf/categories": "string-array",
    "obs/onmf_margin": "array",
    "obsm": "dict",
    "obsm/X_onmf": "array",
    "varm/onmf": "array",
    "uns/onmf": "dict",
    "uns/onmf/version": "string",
    "uns/onmf/params/n_components": "numeric-scalar",
}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def cells(rng, tmp_path, monkeypatch):
    """Write a file as AnnData does, with one row of zeros, and return its matrix."""
    monkeypatch.chdir(tmp_path)
    X = rng.random((2, 8))[np.arange(30) % 2] + 0.1 * rng.random((30, 8))
    X[7] = 0.0
    with h5py.File("cells.h5ad", "w") as file:
        write_anndata._mark(file, ("anndata", "0.1.0"))
        write_anndata._write(file, "X", X)
        for name, prefix, n in (("obs", "c", 30), ("var", "g", 8)):
            frame = write_anndata._mark(file.create_group(name), ("dataframe", "0.2.0"))
            frame.attrs["_index"] = "_index"
            frame.attrs.create("column-order", np.array([], dtype=float))
            write_anndata._write(frame, "_index", [f"{prefix}{i}" for i in range(n)])
    return X


def test_raw_counts_are_not_written_back(cells):
    with h5py.File("cells.h5ad", "r+") as file:
        file["raw/X"] = cells[:, ::-1]
    result = run("cluster", "cells.h5ad:raw/X", "-k", 2, "--write-back")
    assert result.exit_code == 2
    assert "`raw/X`, whose genes are not those of `varm`" in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["obs", "obsm", "uns", "obs/onmf"])
@pytest.mark.parametrize("kind", ["external", "soft"])
def test_links_are_never_written_through(cells, name, kind):
    shutil.copy("cells.h5ad", "other.h5ad")
    with h5py.File("other.h5ad", "r+") as file:
        for group in ("obsm", "uns", "obs/onmf"):
            file.create_group(group)
    with h5py.File("cells.h5ad", "r+") as file:
        if name == "obs":
            del file[name]
        external = h5py.ExternalLink("other.h5ad", name)
        file[name] = external if kind == "external" else h5py.SoftLink("/var")
    before = Path("other.h5ad").read_bytes()
    done = run("cluster", "cells.h5ad", "-k", 2, "--write-back", "-o", "out")
    assert Path("other.h5ad").read_bytes() == before
    assert done.exit_code == (2 if name == "obs" else 0), done.output
    if name != "obs":
        with h5py.File("cells.h5ad") as file:
            assert isinstance(file.get(name, getlink=True), h5py.HardLink)
            assert list(file["var"]) == ["_index"]


def test_results_are_added_with_the_encodings_of_anndata(cells):
    for _ in range(2):  # the second time they replace the first ones
        done = run("cluster", "cells.h5ad", "-k", 2, "--write-back", "-o", "out")
        assert done.exit_code == 0, done.output
    assert "cells.h5ad" in done.output
    model = op.OrthogonalNMF(2, random_state=0).fit(cells)
    with h5py.File("cells.h5ad") as file:
        for key, encoding in ENCODINGS.items():
            assert file[key].attrs["encoding-type"] == encoding
        assert list(file["obs"].attrs["column-order"]) == ["onmf", "onmf_margin"]
        np.testing.assert_array_equal(file["obs/onmf/codes"], model.labels_)
        assert file["obs/onmf/codes"][7] == -1
        W, H = file["obsm/X_onmf"][()], file["varm/onmf"][()]
        np.testing.assert_allclose(W @ H.T, model.transform(cells) @ model.components_)
        assert file["uns/onmf/version"].asstr()[()] == op.__version__


def test_file_opens_in_anndata(cells):
    anndata = pytest.importorskip("anndata")
    assert run("cluster", "cells.h5ad", "-k", 2, "--write-back", "-q").exit_code == 0
    adata = anndata.read_h5ad("cells.h5ad")
    assert adata.obs["onmf"].cat.categories.tolist() == ["0", "1"]
    assert adata.obs["onmf"].isna().tolist() == [i == 7 for i in range(30)]
    assert adata.varm["onmf"].shape == (8, 2)
    assert adata.uns["onmf"]["params"]["n_components"] == 2
    adata.write_h5ad("again.h5ad")


def test_file_is_left_as_it_was_if_writing_fails(cells, tmp_path, monkeypatch):
    before = (tmp_path / "cells.h5ad").read_bytes()

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write_anndata, "_write_column", fail)
    done = run("cluster", "cells.h5ad", "-k", 2, "--write-back", "-o", "out")
    assert (done.exit_code, "No space left" in done.output) == (2, True)
    assert (tmp_path / "cells.h5ad").read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cells.h5ad", "--transpose"), "`--write-back` cannot be combined with `--transpose`"),
        (("x.npy",), "`--write-back` requires an .h5ad file"),
        (("odd.h5ad",), "but the matrix that was clustered has 8"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(cells, words, message):
    np.save("x.npy", cells)
    with h5py.File("cells.h5ad") as source, h5py.File("odd.h5ad", "w") as file:
        source.copy("obs", file)
        source.copy("var", file)
        file["X"] = cells.T
    done = run("cluster", *words, "-k", 2, "--write-back", "-o", "out")
    assert (done.exit_code, message in done.output) == (2, True), done.output
