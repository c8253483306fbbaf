"""``orthoplus unmix`` from ENVI and GeoTIFF images to files that GDAL and Spectral Python read."""

import csv
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orthoplus.cli.app import app
from orthoplus.cli.unmix_files import Target, class_map
from orthoplus.io.geotiff import write_class_geotiff
from orthoplus.io.imagery import Imagery, Place

rasterio = pytest.importorskip("rasterio")
spectral = pytest.importorskip("spectral")

SPECTRA = np.array([[100, 200, 300, 100, 50], [400, 100, 50, 0, 10], [10, 30, 20, 200, 90]])
NODATA = -9999
MAP_INFO = "{UTM, 1, 1, 500000, 4100000, 20, 20, 11, North, WGS-84, units=Meters}"


def run(*words):
    done = CliRunner().invoke(app, ["unmix", *map(str, words), "--method", "auto"])
    assert done.exit_code in (0, 2), done.output
    return done


@pytest.fixture
def scene(tmp_path, monkeypatch, rng):
    """An ENVI image and the same as GeoTIFF, of three materials, with an empty corner."""
    monkeypatch.chdir(tmp_path)
    cube = np.round(rng.dirichlet([0.3] * 3, size=(9, 8)) @ SPECTRA).astype(np.int16)
    cube[:2, :3] = NODATA
    cube[4, 4, 1] = NODATA
    cube.transpose(0, 2, 1).tofile("s.img")
    Path("s.hdr").write_text(
        "ENVI\nsamples = 8\nlines = 9\nbands = 5\ndata type = 2\ninterleave = bil\nbyte order = 0\n"
        f"data ignore value = {NODATA}\nreflectance scale factor = 1000\nbbl = {{1,1,1,1,0}}\n"
        "wavelength = {450.5, 550, 650, 850, 940}\nwavelength units = Nanometers\n"
        f"map info = {MAP_INFO}\n"
    )
    with rasterio.open(
        "s.tif", "w", driver="GTiff", height=9, width=8, count=4, dtype="int16", nodata=NODATA,
        crs="EPSG:32611", transform=rasterio.Affine(20, 0, 500000, 0, -20, 4100000),
    ) as file:  # fmt: skip
        file.write(cube[..., :4].transpose(2, 0, 1))
        file.scales = (0.001,) * 4
    is_empty = (cube[..., :4] == NODATA).any(axis=2)
    return is_empty


def check_raster(path, is_empty, maps, names):
    """The fractions are those of maps.npz, and lie where the image does."""
    with rasterio.open(path) as file:
        fractions = file.read().transpose(1, 2, 0)
        assert file.dtypes == ("float32",) * 3
        assert file.descriptions == names
        assert file.nodata == NODATA
        assert file.crs == rasterio.crs.CRS.from_epsg(32611)
        assert tuple(file.transform)[:6] == (20.0, 0.0, 500000.0, 0.0, -20.0, 4100000.0)
    assert (fractions[is_empty] == NODATA).all()
    wanted = maps["abundances"].astype(np.float32)
    np.testing.assert_array_equal(fractions[~is_empty], wanted[~is_empty])
    assert (maps["labels"][is_empty] == -1).all()
    return fractions


@pytest.mark.parametrize(
    ("source", "format"),
    [("s.hdr", None), ("s.img", "geotiff"), ("s.tif", None), ("s.tif", "envi")],
)
def test_images_come_out_in_both_formats(scene, source, format):
    words = [] if format is None else ["--format", format]
    done = run(source, "-k", 3, "-o", "out", "--no-report", *words)
    assert done.exit_code == 0, done.stderr
    assert "7 of them without data" in done.stdout
    names = ("material 1", "material 2", "material 3")
    is_tiff = (format or ("geotiff" if source == "s.tif" else "envi")) == "geotiff"
    with np.load("out/maps.npz") as maps:
        maps = dict(maps)
    image = "out/fractions.tif" if is_tiff else "out/fractions.img"
    fractions = check_raster(image, scene, maps, names)
    classes = np.where(maps["labels"] < 0, 255, maps["labels"] + 1)
    with rasterio.open("out/materials.tif" if is_tiff else "out/materials.img") as file:
        assert file.dtypes == ("uint8",)
        assert file.nodata == 255
        np.testing.assert_array_equal(file.read(1), classes)
        assert len({file.colormap(1)[value] for value in range(4)}) == 4
    if not is_tiff:
        found = spectral.open_image("out/fractions.hdr")
        np.testing.assert_array_equal(np.asarray(found.load()), fractions)
        assert tuple(found.metadata["band names"]) == names
        assert spectral.open_image("out/materials.hdr").metadata["class names"][1:] == list(names)
        library = spectral.open_image("out/spectra.hdr")
        assert library.names == list(names)
        assert library.spectra.shape == (3, 4)


def test_spectra_have_wavelengths_units_and_scale(scene):
    assert run("s.hdr", "-k", 3, "-o", "out", "--names", "water,dry soil,leaf").exit_code == 0
    header, *rows = csv.reader(Path("out/spectra.csv").read_text().splitlines())
    assert header == ["band", "wavelength (Nanometers)", "water", "dry soil", "leaf"]
    assert [row[:2] for row in rows] == [["1", "450.5"], ["2", "550"], ["3", "650"], ["4", "850"]]
    spectra = np.array([row[2:] for row in rows], dtype=float)
    assert spectra.max() < 0.5  # reflectance, not counts
    library = spectral.open_image("out/spectra.hdr")
    assert library.bands.centers == [450.5, 550, 650, 850]
    assert library.bands.band_unit == "Nanometers"
    np.testing.assert_allclose(library.spectra, spectra.T, rtol=1e-6)
    page = Path("out/report.html").read_text(encoding="utf-8")
    for word in ("wavelength (nm)", "reflectance", "dry soil", "1 of 5 bands are marked as bad"):
        assert word in page
    record = json.loads(Path("out/run.json").read_text())
    assert record["result"]["materials"] == ["water", "dry soil", "leaf"]
    assert sum(record["result"]["mean_fractions"]) == pytest.approx(1.0)


def test_blocks_give_the_same_maps(scene):
    assert run("s.hdr", "-k", 3, "-o", "whole", "--no-report").exit_code == 0
    limited = ("-o", "blocks", "--no-report", "--memory-limit", "2KB")
    assert run("s.hdr", "-k", 3, *limited).exit_code == 0
    with np.load("whole/maps.npz") as whole, np.load("blocks/maps.npz") as blocks:
        np.testing.assert_allclose(blocks["abundances"], whole["abundances"], atol=1e-6)
        np.testing.assert_array_equal(blocks["labels"], whole["labels"])


def test_image_from_other_files_has_no_place_but_a_format(scene, rng):
    np.save("a.npy", rng.random((4, 5, 6)))
    assert run("a.npy", "-k", 2, "-o", "out", "--format", "geotiff", "-q").exit_code == 0
    with warnings.catch_warnings(action="ignore"), rasterio.open("out/fractions.tif") as file:
        assert file.crs is None
        assert file.shape == (4, 5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "png"), "`--format png` is unknown; choose one of envi, geotiff, npz"),
        (("--names", "water"), "3 distinct names, separated by commas"),
        (("--names", "a,a,b"), "3 distinct names"),
        (("--names", "a,{b,c"), "names must not contain any of"),
        (("--memory-limit", "much"), "`--memory-limit much`"),
        (("--bands-first",), "`s.hdr` defines the order of its pixels"),
    ],
)
def test_bad_options_are_explained(scene, words, message):
    done = run("s.hdr", "-k", 3, *words)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not Path("s-k3").exists()


def test_missing_rasterio_is_said_before_the_run(scene, monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)
    done = run("s.hdr", "-k", 3, "--format", "geotiff")
    assert done.exit_code == 2
    assert 'pip install "orthoplus[geo]"' in " ".join(done.stderr.split())
    assert run("s.hdr", "-k", 3, "-q", "--no-report").exit_code == 0  # ENVI needs nothing


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(None, -9999), (0, -9999), (0.5, -9999), (-1e300, -9999), (65535, 65535), (-1, -1)],
)
def test_value_for_no_data_is_kept_unless_it_could_be_a_fraction(given, wanted):
    about = Imagery("envi", Path("a.img"), (1,), nodata=given)
    assert Target("envi", (), Place(), about, None).nodata == wanted
    is_nan = Target("envi", (), Place(), replace(about, nodata=np.nan), None).nodata
    assert np.isnan(is_nan)


def test_many_materials_have_a_wider_type(tmp_path):
    classes = class_map(np.array([[299, -1, 0]]), 300)
    np.testing.assert_array_equal(classes, [[300, 65535, 1]])
    colors = [(j % 256, j // 256, 0) for j in range(301)]
    names = tuple(map(str, range(301)))
    place = Place(transform=(20.0, 0.0, 0.0, 0.0, -20.0, 0.0))
    write_class_geotiff(tmp_path / "c.tif", classes, names, colors, place)
    with rasterio.open(tmp_path / "c.tif") as file:
        assert (file.dtypes, file.nodata) == (("uint16",), 65535)
        assert file.colormap(1)[300] == (44, 1, 0, 255)
