"""Images of xarray, rasterio and Spectral Python are unmixed as their numbers are."""

from functools import partial

import numpy as np
import pytest

import orthoplus as op

xarray = pytest.importorskip("xarray")

SPECTRA = np.array([[1.0, 2.0, 3.0, 1.0], [4.0, 1.0, 0.5, 0.0], [0.1, 0.3, 0.2, 2.0]])
unmix = partial(op.unmix, method="auto")
WAVELENGTHS = [450.0, 550.0, 650.0, 850.0]
STORAGES = ["memory", "blocks", "dask"]


@pytest.fixture
def cube(rng):
    return rng.dirichlet([0.3, 0.3, 0.3], size=(7, 6)) @ SPECTRA


def labeled(cube, **options):
    coords = {"y": 10.0 - np.arange(7), "x": np.arange(6.0), "band": WAVELENGTHS, "spatial_ref": 0}
    return xarray.DataArray(cube, dims=("y", "x", "band"), coords=coords, **options)


def unmix_from(storage, da):
    """Unmix a DataArray in memory, in blocks of a limit, or in chunks of Dask."""
    da = da.chunk({"y": 3, "band": 2}) if storage == "dask" else da
    return unmix(da, 3, **({"memory_limit": 4096} if storage == "blocks" else {}))


@pytest.mark.parametrize("dims", [("y", "x", "band"), ("band", "y", "x"), ("x", "band", "y")])
def test_data_array_gives_data_arrays(cube, dims):
    found, plain = unmix(labeled(cube).transpose(*dims), 3), unmix(cube, 3)
    space = tuple(dim for dim in dims if dim != "band")
    assert found.abundances.dims == (*space, "material")
    assert found.labels.dims == found.brightness.dims == space
    assert found.endmembers.dims == ("material", "band")
    assert found.endmembers["band"].values.tolist() == WAVELENGTHS
    assert found.abundances["y"].values.tolist() == list(10.0 - np.arange(7))
    assert "spatial_ref" in found.labels.coords
    assert found.abundances["material"].values.tolist() == [0, 1, 2]
    ordered = found.abundances.transpose("y", "x", "material")
    np.testing.assert_allclose(ordered, plain.abundances, atol=1e-8)
    np.testing.assert_array_equal(found.labels.transpose("y", "x"), plain.labels)
    if space == ("y", "x"):
        np.testing.assert_array_equal(found.hard_abundances, plain.hard_abundances)
        assert found.hard_abundances.dims == found.abundances.dims
        again = found.fractions_of(labeled(cube).isel(y=slice(2)))
        assert again.dims == ("y", "x", "material")
        np.testing.assert_allclose(again, found.abundances.isel(y=slice(2)), atol=1e-8)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("nodata", [np.nan, -9999.0])
def test_pixels_of_a_data_array_without_data_have_no_material(cube, storage, nodata):
    cube[2, 3], cube[4, 1, 2] = nodata, nodata
    da = labeled(cube, attrs={} if np.isnan(nodata) else {"_FillValue": nodata})
    found = unmix_from(storage, da)
    assert np.argwhere(found.labels.values == -1).tolist() == [[2, 3], [4, 1]]
    assert not found.abundances.values[2, 3].any()
    good = found.labels.values >= 0
    np.testing.assert_allclose(found.abundances.values[good].sum(axis=1), 1.0)
    text = " ".join(found.result.notes)
    assert "count as empty" in text
    assert "1 pixels lack data in some bands" in text


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("nodata", [np.nan, -9999.0, 0.0])
def test_band_of_a_data_array_without_data_is_left_out(cube, storage, nodata):
    cube[..., 1] = nodata
    cube[2, 3] = nodata
    attrs = {} if np.isnan(nodata) else {"_FillValue": nodata}
    found = unmix_from(storage, labeled(cube, attrs=attrs))
    assert found.endmembers["band"].values.tolist() == [450.0, 650.0, 850.0]
    assert np.argwhere(found.labels.values == -1).tolist() == [[2, 3]]
    assert any("1 bands have no data in any pixel" in note for note in found.result.notes)
    plain = cube[..., [0, 2, 3]]
    plain[2, 3] = 0.0
    np.testing.assert_allclose(found.abundances, unmix(plain, 3).abundances, atol=1e-8)


@pytest.mark.parametrize("storage", STORAGES)
def test_data_array_without_any_data_is_refused(cube, storage):
    with pytest.raises(op.InputError, match="all pixels have the no-data value"):
        unmix_from(storage, labeled(np.full_like(cube, np.nan)))


@pytest.mark.parametrize("storage", STORAGES)
def test_packed_integers_of_a_data_array_are_unpacked(cube, storage):
    stored = np.round(1000 * cube).astype(np.int16) + np.int16(1000)
    stored[2, 3] = -1
    attrs = {"scale_factor": 1e-3, "add_offset": -1.0, "_FillValue": -1}
    found = unmix_from(storage, labeled(stored, attrs=attrs))
    plain = (stored - 1000.0) * 1e-3
    plain[2, 3] = 0.0
    np.testing.assert_allclose(found.abundances, unmix(plain, 3).abundances, atol=1e-8)
    np.testing.assert_allclose(found.endmembers, unmix(plain, 3).endmembers, rtol=1e-8)
    # Numbers that are no integers may have been unpacked already.
    with pytest.raises(op.InputError, match=r"scale_factor=0\.001 and add_offset=-1 .*unclear"):
        unmix_from(storage, labeled(plain, attrs=attrs))
    for wrong in (0.0, np.nan, "a", [1.0, 2.0]):
        with pytest.raises(op.InputError, match="scale_factor"):
            unmix_from(storage, labeled(stored, attrs={"scale_factor": wrong}))
    neutral = labeled(plain, attrs={"scale_factor": 1.0, "add_offset": 0.0})
    np.testing.assert_array_equal(unmix_from(storage, neutral).labels, found.labels)


@pytest.mark.parametrize("storage", STORAGES)
def test_integers_of_the_other_sign_are_refused(cube, storage):
    stored = np.round(60 * cube).astype(np.uint8)
    assert stored.max() > 127
    with pytest.raises(op.InputError, match="_Unsigned='true', but its values are of type int8"):
        unmix_from(storage, labeled(stored.view(np.int8), attrs={"_Unsigned": "true"}))
    with pytest.raises(op.InputError, match="_Unsigned='false', but its values are of type uint8"):
        unmix_from(storage, labeled(stored, attrs={"_Unsigned": "false"}))
    found = unmix_from(storage, labeled(stored, attrs={"_Unsigned": "true"}))
    np.testing.assert_allclose(found.abundances, unmix(stored, 3).abundances, atol=1e-8)


def test_list_of_pixels_is_a_data_array_of_two_dimensions(cube):
    da = xarray.DataArray(cube.reshape(-1, 4), dims=("pixel", "wavelength"))
    assert unmix(da, 3).abundances.dims == ("pixel", "material")


@pytest.mark.parametrize("storage", STORAGES)
def test_list_of_pixels_is_the_same_when_bands_come_first(cube, storage):
    da, plain = labeled(cube).stack(pixel=("y", "x")), unmix(cube, 3)
    assert da.dims == ("band", "pixel")
    da = da.chunk({"pixel": 10}) if storage == "dask" else da
    found = unmix(da, 3, **({"memory_limit": 4096} if storage == "blocks" else {}))
    np.testing.assert_array_equal(found.labels, plain.labels.ravel())
    np.testing.assert_allclose(found.endmembers, plain.endmembers, atol=1e-8)
    maps = found.abundances.unstack("pixel").transpose("y", "x", "material")
    np.testing.assert_allclose(maps.sel(y=da["y"][0], x=2.0), plain.abundances[0, 2], atol=1e-8)


def test_data_array_of_other_dimensions_is_refused(cube):
    da = labeled(cube).rename(band="time")
    with pytest.raises(op.InputError, match=r"one named `band` or `wavelength`"):
        unmix(da, 3)
    with pytest.raises(op.InputTypeError, match="a DataArray is expected"):
        unmix(labeled(cube).to_dataset(name="reflectance"), 3)
    found = unmix(labeled(cube), 3)
    with pytest.raises(op.InputError, match=r"cube\.rename\(material=\.\.\.\)"):
        found.fractions_of(found.endmembers)
    spectra = found.endmembers.rename(material="sample").drop_vars("sample")
    assert found.fractions_of(spectra).dims == ("sample", "material")


def test_spectra_of_other_bands_are_refused(cube):
    da = labeled(cube)
    found = unmix(da, 3)
    E = found.endmembers
    want = op.abundances(da, E.values)
    for same in (E.transpose("band", "material"), E.drop_vars("band"), E.astype(np.float32)):
        np.testing.assert_allclose(op.abundances(da, same), want, atol=1e-5)
    np.testing.assert_allclose(op.abundances(cube, E.transpose("band", "material")), want)
    for other in (E.isel(band=slice(None, None, -1)), E.assign_coords(band=list("abcd"))):
        for image in (da, da.chunk({"y": 3})):
            with pytest.raises(op.InputError, match="`endmembers` has other coordinates of `band`"):
                op.abundances(image, other)
    with pytest.raises(op.InputError, match="a dimension `band` or `wavelength`"):
        op.abundances(da, E.rename(band="time"))


@pytest.mark.parametrize("limit", [None, 4096])
def test_open_raster_is_unmixed(cube, limit, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    cube[2, 3] = -1
    path = tmp_path / "s.tif"
    with rasterio.open(
        path, "w", driver="GTiff", height=7, width=6, count=4, dtype="float64", nodata=-1,
        crs="EPSG:32611", transform=rasterio.Affine(20, 0, 0, 0, -20, 0),
    ) as file:  # fmt: skip
        file.write(cube.transpose(2, 0, 1))
    with rasterio.open(path) as file:
        found = unmix(file, 3, memory_limit=limit)
    cube[2, 3] = 0
    np.testing.assert_allclose(found.abundances, unmix(cube, 3).abundances, atol=1e-7)
    assert found.labels[2, 3] == -1


@pytest.mark.parametrize("form", ["open", "blocks", "loaded"])
def test_image_of_spectral_python_is_unmixed(cube, form, tmp_path):
    spectral = pytest.importorskip("spectral")
    stored = np.round(1000 * cube).astype(np.int16)
    stored[2, 3] = -9999
    metadata = {"data ignore value": -9999, "reflectance scale factor": 1000, "bbl": [1, 1, 0, 1]}
    path = str(tmp_path / "s.hdr")
    spectral.envi.save_image(path, stored, metadata=metadata, dtype=np.int16)
    image = spectral.open_image(path)
    given = image.load() if form == "loaded" else image
    found = unmix(given, 3, memory_limit=4096 if form == "blocks" else None)
    plain = np.round(1000 * cube)[..., [0, 1, 3]] / 1000
    plain[2, 3] = 0
    wanted = unmix(plain.astype(found.endmembers.dtype), 3)
    np.testing.assert_allclose(found.abundances, wanted.abundances, atol=1e-4)
    assert found.labels[2, 3] == -1
    assert found.endmembers.shape == (3, 3)
    for name, wrong in (
        ("bbl", ["good"] * 4),
        ("bbl", [1, 1]),
        ("data ignore value", "none"),
        ("data ignore value", ["1", "2"]),
    ):
        image = spectral.open_image(path)
        image.metadata[name] = wrong
        with pytest.raises(op.InputError, match=f"'{name}' in its metadata.* not a list of num"):
            unmix(image, 3)
