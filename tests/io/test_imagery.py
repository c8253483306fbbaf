"""ENVI and GeoTIFF images keep their units, their gaps and their place, in and out."""

import sys
from pathlib import Path

import numpy as np
import pytest
from formats import CUBE, write_envi

from orthoplus.data import as_data
from orthoplus.io import FileError, envi_write, read_cube
from orthoplus.io.envi_write import (
    write_class_envi,
    write_spectral_library,
)
from orthoplus.io.georeference import place_for
from orthoplus.io.geotiff import write_class_geotiff, write_geotiff
from orthoplus.io.imagery import Place

rasterio = pytest.importorskip("rasterio")
spectral = pytest.importorskip("spectral")

MAP_INFO = "{UTM, 1, 1, 500000, 4100000, 20, 20, 11, North, WGS-84, units=Meters}"
WAVELENGTHS = "wavelength = {0.45, 0.55, 0.65, 0.85}\nwavelength units = Micrometers\n"
PLACED = f"map info = {MAP_INFO}\n"
COLORS = [(0, 0, 0), (255, 0, 0), (0, 255, 0)]


def raster(path, values=CUBE, *, nodata=None, crs="EPSG:32611", tags=(), **options):
    """Write a GeoTIFF with rasterio itself."""
    with rasterio.open(
        path, "w", driver="GTiff", height=values.shape[0], width=values.shape[1],
        count=values.shape[2], dtype=values.dtype, nodata=nodata, crs=crs,
        transform=rasterio.Affine(20, 0, 500000, 0, -20, 4100000), **options,
    ) as file:  # fmt: skip
        file.write(values.transpose(2, 0, 1))
        for band, own in enumerate(tags, 1):
            file.update_tags(band, **own)
    return path


# --- ENVI in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".img", ".dat", ".bsq", ".raw", "", ".a.rfl"])
def test_image_finds_its_header(tmp_path, ending):
    write_envi(tmp_path / "s.hdr")
    image = (tmp_path / "s.img").rename(tmp_path / f"s{ending}")
    if ending == ".a.rfl":
        (tmp_path / "s.hdr").rename(tmp_path / "s.a.rfl.hdr")
    content = read_cube(image)
    np.testing.assert_array_equal(content.values, CUBE)
    assert content.imagery.path == image


def test_image_without_header_says_where_one_was_looked_for(tmp_path):
    (tmp_path / "s.img").write_bytes(b"0" * 100)
    with pytest.raises(FileError, match=r"no ENVI header: none of s\.img\.hdr, s\.hdr"):
        read_cube(tmp_path / "s.img")


def test_header_says_units_place_and_names(tmp_path):
    extra = f"{WAVELENGTHS}fwhm = {{1,2,3,4}}\nband names = {{a, b, c, d}}\n{PLACED}"
    write_envi(tmp_path / "s.hdr", extra=extra + "bbl = {1, 0, 1, 1}\n")
    content = read_cube(tmp_path / "s.hdr")
    about = content.imagery
    np.testing.assert_array_equal(content.values, CUBE[..., [0, 2, 3]])
    assert about.band_numbers == (1, 3, 4)
    assert about.wavelengths == content.column_names == ("0.45", "0.65", "0.85")
    assert (about.fwhm, about.band_names) == (("1", "3", "4"), ("a", "c", "d"))
    assert about.units == "Micrometers"
    assert about.place.envi == {"map info": MAP_INFO}
    assert content.notes == ("1 of 4 bands are marked as bad and were left out.",)


def test_values_are_scaled_as_the_header_says(tmp_path):
    write_envi(tmp_path / "s.hdr", dtype=np.int16, extra="reflectance scale factor = 100.0\n")
    content = read_cube(tmp_path / "s.hdr")
    np.testing.assert_allclose(content.values, CUBE / 100)
    assert content.imagery.quantity == "reflectance"
    extra = "data gain values = {1, 2, 3, 4}\ndata offset values = {0, 0, 0, 5}\n"
    write_envi(tmp_path / "s.hdr", dtype=np.int16, extra=extra)
    np.testing.assert_allclose(
        read_cube(tmp_path / "s.hdr").values, CUBE * [1, 2, 3, 4] + [0, 0, 0, 5]
    )


@pytest.mark.parametrize("in_blocks", [False, True])
def test_pixels_without_data_are_zeros(tmp_path, in_blocks):
    cube = 1 + CUBE
    cube[0, 0] = cube[:, :, 2] = cube[1, 2, 0] = -99
    write_envi(tmp_path / "s.hdr", values=cube, dtype=np.float32, extra="data ignore value = -99\n")
    content = read_cube(tmp_path / "s.hdr", in_blocks=in_blocks)
    wanted = (1 + CUBE)[..., [0, 1, 3]]
    wanted[0, 0] = wanted[1, 2] = 0
    np.testing.assert_array_equal(content.values[:], wanted)
    assert content.values.dtype == np.float32
    assert content.notes == (
        "1 bands have no data in any pixel and were left out.",
        "1 pixels have the ignore value -99 and count as empty.",
        "1 pixels lack data in some bands and count as empty.",
    )


def test_zeros_for_no_data_may_be_dark_values(tmp_path):
    cube = CUBE.copy()
    cube[0, 0, 0] = 7  # dark in no band
    cube[0, 1, :2] = 0
    cube[1, 1] = 0
    write_envi(tmp_path / "s.hdr", values=cube, extra="data ignore value = 0\n")
    content = read_cube(tmp_path / "s.hdr")
    np.testing.assert_array_equal(content.values, cube)
    assert content.notes == ("1 pixels have the ignore value 0 and count as empty.",)
    cube[0, 1, 1] = np.nan
    write_envi(tmp_path / "s.hdr", values=cube, extra="data ignore value = 0\n")
    assert not read_cube(tmp_path / "s.hdr").values[0, 1].any()


def test_nan_is_no_data_even_if_nothing_says_so(tmp_path):
    cube = CUBE.copy()
    cube[1, 1] = np.nan
    write_envi(tmp_path / "s.hdr", values=cube)
    content = read_cube(tmp_path / "s.hdr")
    assert not content.values[1, 1].any()
    assert content.notes == ("1 pixels have no data and count as empty.",)


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_lines_are_read_in_blocks(tmp_path, interleave, rng):
    cube = rng.random((7, 5, 4))
    write_envi(tmp_path / "s.hdr", interleave, values=cube)
    raw = (tmp_path / "s.img").read_bytes()
    (tmp_path / "s.img").write_bytes(b"header" + raw)
    text = (tmp_path / "s.hdr").read_text().replace("header offset = 0", "header offset = 6")
    (tmp_path / "s.hdr").write_text(text)
    lines = read_cube(tmp_path / "s.hdr", in_blocks=True).values
    A = as_data(lines, memory_limit=8 * 5 * 4 * 8 * 2)
    blocks = [block.values for _, block in A.blocks()]
    assert [len(block) for block in blocks] == [10, 10, 10, 5]
    np.testing.assert_array_equal(np.concatenate(blocks), cube.reshape(-1, 4))


def test_other_files_are_not_read_in_blocks(tmp_path):
    np.save(tmp_path / "a.npy", CUBE)
    with pytest.raises(FileError, match="ENVI and GeoTIFF images can"):
        read_cube(tmp_path / "a.npy", in_blocks=True)


HOSTILE = {
    "data file = ../secret.img": "`data file = ../secret.img`; it must name a file in the folder",
    "data file = /etc/passwd": "`data file = /etc/passwd`",
    "data file = {..}": r"`data file = \.\.`",
    "data file = link.img": "`data file = link.img`",
    "data file = missing.img": "`data file = missing.img`",
    "data ignore value = none": "`data ignore value = none`; a number is expected",
    "reflectance scale factor = 0": "`reflectance scale factor = 0`; it must be positive",
    "reflectance scale factor = nan": "`reflectance scale factor = nan`",
    "reflectance scale factor = 1e999": "`reflectance scale factor = inf`",
    "bbl = {1, 1}": "`bbl` has 2 entries; it must list 4 numbers in braces, one per band",
    "bbl = {1, 1, x, 1}": "`bbl` has 4 entries; it must list 4 numbers",
    "bbl = 1": "`bbl` has 0 entries",
    "bbl = {0, 0, 0, 0}": "`bbl` marks all 4 bands as bad",
    "bbl = {1, 1, nan, 1}": "`bbl`",
    "data gain values = {1, 1, 0, 1}": "`data gain values` has a 0",
    "data gain values = {1, 2, 3, 4}\nreflectance scale factor = 10": "both",
    "byte order = 2": "`byte order = 2`; it must be 0 or 1",
    "byte order = ": "does not say `byte order`",
    "interleave = ": "`interleave` is missing",
    "file type = ENVI Classification": "`file type = envi classification`; an image is expected",
    "file type = ENVI Spectral Library": "`file type = envi spectral library`; an image",
    "header offset = 999999999999": "declares 2 lines x 3 samples x 4 bands",
    "lines = 999999999999\nsamples = 999999999999": "declares 999999999999 lines",
    "lines = 1e3": "`lines = 1e3`; an integer",
    "lines = \u0662": "`lines = \u0662`",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_header_is_refused_by_its_key(tmp_path, line):
    folder = tmp_path / "in"
    folder.mkdir()
    write_envi(tmp_path / "secret.hdr")
    (folder / "link.img").symlink_to(tmp_path / "secret.img")
    write_envi(folder / "s.hdr", extra=f"{line}\n")
    with pytest.raises(FileError, match=HOSTILE[line]):
        read_cube(folder / "s.hdr")


TOO_LARGE = {
    "longer type": ("data type = 2\n", b""),
    "fewer lines": ("lines = 1\n", b""),
    "fewer bands": ("bands = 3\n", b""),
    "header inside": ("", b"0" * 128),
    "gaps between the lines": ("major frame offsets = {0, 4}\n", b"0" * 8),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_file_larger_than_its_header_declares_is_refused(tmp_path, name):
    extra, more = TOO_LARGE[name]
    write_envi(tmp_path / "s.hdr", extra=extra)
    image = tmp_path / "s.img"
    image.write_bytes(more + image.read_bytes())
    with pytest.raises(FileError, match=r"holds \d+ bytes, but its header.*correct `data type`"):
        read_cube(tmp_path / "s.hdr")


def test_named_data_file_beside_the_header_is_read(tmp_path):
    write_envi(tmp_path / "s.hdr", extra="data file = other.bin\n")
    (tmp_path / "s.img").rename(tmp_path / "other.bin")
    np.testing.assert_array_equal(read_cube(tmp_path / "s.hdr").values, CUBE)


def test_lists_of_other_bands_are_left_out(tmp_path):
    write_envi(tmp_path / "s.hdr", extra="wavelength = {1, 2}\nband names = {a}\n")
    content = read_cube(tmp_path / "s.hdr")
    assert content.imagery.wavelengths is content.imagery.band_names is None
    assert content.notes[1].startswith("The header has 2 entries of `wavelength` for 4 bands")


def test_ground_control_points_are_noted(tmp_path):
    points = [rasterio.control.GroundControlPoint(row, row, row, row) for row in range(3)]
    path = raster(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as file:
        file.gcps = (points, rasterio.CRS.from_epsg(32611))
    assert (
        "The image has ground control points, which are not copied to the results."
        in read_cube(path).notes
    )


def test_image_without_any_data_is_refused(tmp_path):
    write_envi(tmp_path / "s.hdr", values=0 * CUBE, extra="data ignore value = 0\n")
    with pytest.raises(FileError, match="has no data: all pixels"):
        read_cube(tmp_path / "s.hdr")


# --- GeoTIFF in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("in_blocks", [False, True])
def test_geotiff_comes_back_with_all_it_says(tmp_path, in_blocks):
    values = CUBE.astype(np.int16)
    values[0, 1] = -9999
    tags = [{"wavelength": str(w), "wavelength_units": "Nanometers"} for w in (450, 550, 650, 850)]
    path = raster(tmp_path / "s.tif", values, nodata=-9999, tags=tags)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5,) * 4, (1.0,) * 4
        file.descriptions = ("blue", "green", "red", "near")
    content = read_cube(path, in_blocks=in_blocks)
    wanted = 0.5 * CUBE + 1.0
    wanted[0, 1] = 0
    np.testing.assert_array_equal(content.values[:], wanted)
    about = content.imagery
    assert about.format == "geotiff"
    assert about.wavelengths == ("450", "550", "650", "850")
    assert (about.units, about.nodata) == ("Nanometers", -9999)
    assert about.band_names == ("blue", "green", "red", "near")
    assert rasterio.crs.CRS.from_wkt(about.place.crs) == rasterio.crs.CRS.from_epsg(32611)
    assert about.place.transform == (20.0, 0.0, 500000.0, 0.0, -20.0, 4100000.0)
    assert content.notes == ("1 pixels have the ignore value -9999 and count as empty.",)


@pytest.mark.parametrize(
    ("names", "wavelengths"),
    [
        (("450 nm", "550.5 nm", "650 nm", "850 nm"), ("450", "550.5", "650", "850")),
        (("450 nm", "550.5 nm", "650 nm", "slope"), None),
        (("1", "2", "3", "4"), None),
    ],
)
def test_names_of_bands_may_be_wavelengths(tmp_path, names, wavelengths):
    path = raster(tmp_path / "s.tif")
    with rasterio.open(path, "r+") as file:
        file.descriptions = names
    about = read_cube(path).imagery
    assert about.wavelengths == wavelengths
    assert about.band_names == names
    assert about.units == ("nm" if wavelengths else "")


def test_geotiff_with_alpha_leaves_out_what_is_transparent(tmp_path):
    values = 1 + CUBE.astype(np.uint8)
    values[..., 3] = 255
    values[1, 2, 3] = 0
    path = raster(tmp_path / "s.tif", values, photometric="RGB", alpha="yes")
    content = read_cube(path)
    wanted = values[..., :3].copy()
    wanted[1, 2] = 0
    np.testing.assert_array_equal(content.values, wanted)
    assert content.notes[0].startswith("Band 4 is declared as transparency (alpha)")


@pytest.mark.parametrize("nodata", [None, 255, np.nan])
def test_geotiff_with_a_mask_leaves_out_what_it_covers(tmp_path, nodata):
    values = (1 + CUBE).astype(np.uint8 if nodata == 255 else np.float32)
    wanted = values.copy()
    if nodata is not None:
        values[0, 1], wanted[0, 1] = nodata, 0
    path = raster(tmp_path / "s.tif", values, nodata=nodata, photometric="minisblack")
    cover = np.full(CUBE.shape[:2], 255, dtype=np.uint8)
    cover[1, 2], wanted[1, 2] = 0, 0
    with rasterio.open(path, "r+") as file:
        file.write_mask(cover)
    np.testing.assert_array_equal(read_cube(path).values, wanted)


def test_geotiff_in_cmyk_is_refused(tmp_path):
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = raster(tmp_path / "s.tif", values, photometric="CMYK")
    with pytest.raises(FileError, match="declared as CMYK"):
        read_cube(path)


def test_other_formats_of_gdal_are_not_read_by_the_name_of_a_tiff(tmp_path):
    source = raster(tmp_path / "s.tif")
    (tmp_path / "v.tif").write_text(
        "<VRTDataset rasterXSize='3' rasterYSize='2'><VRTRasterBand dataType='Float64' band='1'>"
        f"<SimpleSource><SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(FileError, match=r"v\.tif"):
        read_cube(tmp_path / "v.tif")


def test_damaged_geotiff_is_refused(tmp_path):
    path = raster(tmp_path / "s.tif", np.ones((40, 30, 4)))
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(FileError, match=r"s\.tif"):
        read_cube(path)


def test_missing_rasterio_is_one_sentence(tmp_path, monkeypatch):
    path = raster(tmp_path / "s.tif")
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(ImportError, match=r'pip install "orthoplus\[geo\]"'):
        read_cube(path)


# --- out ------------------------------------------------------------------------------------------


def written_place(tmp_path, format, source):
    """Write an image that lies somewhere; return where it lies, in the terms of a format."""
    if source == "envi":
        write_envi(tmp_path / "in.hdr", extra=PLACED)
        path = tmp_path / "in.hdr"
    else:
        path = raster(tmp_path / "in.tif")
    return place_for(read_cube(path).imagery.place, format, path)


@pytest.mark.parametrize("source", ["envi", "geotiff"])
@pytest.mark.parametrize("format", ["envi", "geotiff"])
def test_fractions_and_place_come_back(tmp_path, format, source, rng):
    place = written_place(tmp_path, format, source)
    fractions = rng.random((2, 3, 2)).astype(np.float32)
    fractions[0, 0] = -9999
    path = tmp_path / ("f.hdr" if format == "envi" else "f.tif")
    write = envi_write.write_envi if format == "envi" else write_geotiff
    write(path, fractions, ("water", "soil"), -9999.0, place)
    with rasterio.open(tmp_path / "f.img" if format == "envi" else path) as file:
        np.testing.assert_array_equal(file.read(), fractions.transpose(2, 0, 1))
        assert file.descriptions == ("water", "soil")
        assert file.nodatavals == (-9999.0, -9999.0)
        assert file.crs == rasterio.crs.CRS.from_epsg(32611)
        assert tuple(file.transform)[:6] == (20.0, 0.0, 500000.0, 0.0, -20.0, 4100000.0)
    if format == "envi":
        image = spectral.open_image(str(path))
        np.testing.assert_array_equal(np.asarray(image.load()), fractions)
        assert image.metadata["band names"] == ["water", "soil"]
        if source == "envi":
            assert "{" + ", ".join(image.metadata["map info"]) + "}" == MAP_INFO


@pytest.mark.parametrize("format", ["envi", "geotiff"])
def test_classes_come_back_with_names_and_colors(tmp_path, format):
    place = written_place(tmp_path, format, "geotiff")
    classes = np.array([[1, 2, 255], [2, 2, 1]], dtype=np.uint8)
    names = ("unclassified", "water & <ice>", "soil")
    path = tmp_path / ("c.hdr" if format == "envi" else "c.tif")
    write = write_class_envi if format == "envi" else write_class_geotiff
    write(path, classes, names, COLORS, place)
    with rasterio.open(tmp_path / "c.img" if format == "envi" else path) as file:
        np.testing.assert_array_equal(file.read(1), classes)
        assert file.nodata == 255
        assert file.crs == rasterio.crs.CRS.from_epsg(32611)
        assert [file.colormap(1)[value][:3] for value in range(3)] == COLORS
    if format == "envi":
        assert spectral.open_image(str(path)).metadata["class names"] == list(names)
    else:
        assert "<Category>water &amp; &lt;ice&gt;</Category>" in Path(f"{path}.aux.xml").read_text()
    assert not list(tmp_path.glob(".*"))


def test_spectral_library_comes_back(tmp_path):
    write_envi(tmp_path / "in.hdr", extra=WAVELENGTHS)
    about = read_cube(tmp_path / "in.hdr").imagery
    spectra = np.arange(8.0).reshape(2, 4)
    write_spectral_library(tmp_path / "spectra.hdr", spectra, ("water", "soil"), about)
    library = spectral.open_image(str(tmp_path / "spectra.hdr"))
    np.testing.assert_array_equal(library.spectra, spectra)
    assert library.names == ["water", "soil"]
    assert library.bands.centers == [0.45, 0.55, 0.65, 0.85]
    assert library.bands.band_unit == "Micrometers"


def test_place_of_nowhere_stays_nowhere(tmp_path):
    assert place_for(Place(), "geotiff", tmp_path) == Place()
