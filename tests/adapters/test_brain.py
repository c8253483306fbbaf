"""Parcellations of images: the parcels of the matrix, and the interface of nilearn."""

import json
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pytest

pytest.importorskip("nilearn")

import nibabel
from brains import AFFINE, N_PARCELS, SHAPE, as_image, labels_in, make_head, mask_image
from nilearn.maskers import NiftiLabelsMasker, NiftiMasker, SurfaceMasker
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage
from sklearn.base import clone

import orthoplus as op
from orthoplus.adapters import brain_images
from waiting import PATIENCE

BRAIN, TRUTH, A = make_head()


@pytest.fixture(scope="module")
def matrix_model():
    return op.OrthogonalNMF(N_PARCELS, random_state=0).fit(A)


@pytest.fixture(scope="module")
def fitted():
    return op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN)).fit(as_image(BRAIN, A))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("brain")
    as_image(BRAIN, A).to_filename(folder / "all.nii.gz")
    for number, column in enumerate(A.T):
        as_image(BRAIN, column).to_filename(folder / f"sub-{number:02d}.nii.gz")
    mask_image(BRAIN).to_filename(folder / "mask.nii")
    return folder


def in_many_forms(folder):
    files = sorted(folder.glob("sub-*.nii.gz"))
    return {
        "4D image": as_image(BRAIN, A),
        "4D file": folder / "all.nii.gz",
        "pattern": str(folder / "sub-*.nii.gz"),
        "list of files": files,
        "list of images": [as_image(BRAIN, column) for column in A.T],
    }


@pytest.mark.parametrize(
    "form", ["4D image", "4D file", "pattern", "list of files", "list of images"]
)
def test_parcels_are_those_of_the_matrix(form, folder, matrix_model):
    model = op.brain.Parcellation(N_PARCELS, mask=str(folder / "mask.nii"))
    model.fit(in_many_forms(folder)[form])
    np.testing.assert_array_equal(labels_in(model.labels_img_, BRAIN), matrix_model.labels_ + 1)
    assert not np.asarray(model.labels_img_.dataobj)[~BRAIN].any()
    assert op.metrics.nmi(TRUTH, matrix_model.labels_) == pytest.approx(1.0)
    np.testing.assert_allclose(model.estimator_.components_, matrix_model.components_)


def test_inverse_transform_is_the_projection(fitted, matrix_model):
    signals = fitted.transform(as_image(BRAIN, A))
    assert signals.shape == (A.shape[1], N_PARCELS)
    assert signals.dtype == np.float32
    back = np.asarray(fitted.inverse_transform(signals).dataobj)[BRAIN]
    X = matrix_model.orthonormal_
    np.testing.assert_allclose(back, X @ (X.T @ A), rtol=2e-5)
    first = fitted.inverse_transform(signals[0])
    np.testing.assert_allclose(np.asarray(first.dataobj)[BRAIN], back[:, 0], rtol=1e-6)


def test_signals_are_close_to_the_means_of_nilearn(fitted):
    image = as_image(BRAIN, A)
    means = NiftiLabelsMasker(fitted.labels_img_, lut=fitted.lut_, standardize=None)
    np.testing.assert_allclose(fitted.transform(image), means.fit_transform(image), rtol=0.02)


def test_look_up_table_has_names_colors_and_sizes(fitted):
    lut = fitted.lut_
    assert list(lut.columns) == ["index", "name", "color", "size"]
    assert lut["index"].tolist() == list(range(N_PARCELS + 1))
    assert lut["name"][0] == "Background"
    assert lut["color"].is_unique
    assert (
        lut["size"][1:].tolist() == np.bincount(labels_in(fitted.labels_img_, BRAIN))[1:].tolist()
    )


def test_weights_have_mean_one_in_every_parcel(fitted):
    weights = np.asarray(fitted.weights_img_.dataobj)[BRAIN]
    labels = labels_in(fitted.labels_img_, BRAIN)
    means = np.bincount(labels, weights)[1:] / np.bincount(labels)[1:]
    np.testing.assert_allclose(means, 1.0, rtol=1e-5)


def test_matrix_beyond_the_limit_goes_to_a_file_in_few_volumes_at_a_time(
    folder, matrix_model, monkeypatch
):
    seen, read = [], brain_images.read_volumes

    def watched(image, n_bytes):
        for volumes in read(image, n_bytes):
            seen.append(volumes.shape[3])
            yield volumes

    monkeypatch.setattr(brain_images, "read_volumes", watched)
    # Two volumes are an eighth of it, and the matrix is larger.
    limit = 8 * 2 * 8 * int(np.prod(SHAPE))
    columns = np.tile(A, 20)
    assert columns.nbytes > limit
    model = op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN), memory_limit=limit)
    data = model.read(as_image(BRAIN, columns))
    assert isinstance(data.values, np.memmap)
    assert set(seen) == {2}
    np.testing.assert_array_equal(data.values, columns)
    model.set_params(memory_limit=9000)
    model.fit(folder / "all.nii.gz")
    np.testing.assert_array_equal(labels_in(model.labels_img_, BRAIN), matrix_model.labels_ + 1)


def test_temporary_file_leaves_no_trace(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    op.brain.Parcellation(2, mask=mask_image(BRAIN), memory_limit=9000).fit(folder / "all.nii.gz")
    assert not list(tmp_path.iterdir())


def test_voxels_of_zeros_are_background():
    columns = A.copy()
    columns[:5] = 0
    model = op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN)).fit(as_image(BRAIN, columns))
    labels = labels_in(model.labels_img_, BRAIN)
    assert not labels[:5].any()
    assert labels[5:].all()
    assert model.lut_["size"][0] == 5


def test_negative_values_need_a_choice():
    signed = A - A.mean(axis=1, keepdims=True)
    image, mask = as_image(BRAIN, signed), mask_image(BRAIN)
    with pytest.raises(op.InputError, match=r'negative values .* `negative="clip"`'):
        op.brain.Parcellation(N_PARCELS, mask=mask).fit(image)
    clipped = op.brain.Parcellation(N_PARCELS, mask=mask, negative="clip").fit(image)
    positive = op.OrthogonalNMF(N_PARCELS, random_state=0).fit(np.maximum(signed, 0))
    np.testing.assert_array_equal(labels_in(clipped.labels_img_, BRAIN), positive.labels_ + 1)
    assert clipped.n_negative_ == (signed < 0).sum()
    assert (clipped.transform(image) >= 0).all()
    kept = op.brain.Parcellation(N_PARCELS, mask=mask, negative="allow").fit(image)
    assert op.metrics.nmi(TRUTH, labels_in(kept.labels_img_, BRAIN)) == pytest.approx(1.0)
    assert (kept.estimator_.components_ < 0).any()
    with pytest.raises(op.InputError, match="negative"):
        op.brain.Parcellation(N_PARCELS, mask=mask, negative="no").fit(image)


def test_standardized_series_are_those_of_the_masker():
    image, mask = as_image(BRAIN, A), mask_image(BRAIN)
    options = {"standardize": "zscore_sample", "detrend": True}
    model = op.brain.Parcellation(N_PARCELS, mask=mask, negative="allow", **options).fit(image)
    rows = NiftiMasker(mask_img=mask, **options).fit_transform(image).T
    matrix = op.OrthogonalNMF(N_PARCELS, random_state=0, allow_negative=True).fit(rows)
    np.testing.assert_array_equal(labels_in(model.labels_img_, BRAIN), matrix.labels_ + 1)
    volumes = [as_image(BRAIN, column) for column in A.T]
    again = clone(model).fit(volumes)
    np.testing.assert_array_equal(again.labels_img_.dataobj, model.labels_img_.dataobj)


def test_confounds_are_removed_from_each_series():
    confounds = np.random.default_rng(1).standard_normal((A.shape[1], 2))
    image, mask = as_image(BRAIN, A), mask_image(BRAIN)
    model = op.brain.Parcellation(N_PARCELS, mask=mask, negative="allow")
    signals = model.fit_transform(image, confounds=[confounds])
    centered = confounds - confounds.mean(axis=0)
    np.testing.assert_allclose(centered.T @ (signals - signals.mean(axis=0)), 0, atol=1e-3)
    with pytest.raises(op.InputError, match="2 tables for 1 series"):
        model.fit(image, confounds=[confounds, confounds])


@pytest.mark.parametrize("options", [
    {}, {"detrend": True}, {"standardize": "zscore_sample"},
], ids=lambda options: "-".join(options) or "plain")  # fmt: skip
@pytest.mark.parametrize("form", ["4D image", "4D file", "list of files"])
def test_values_that_are_not_finite_are_said(options, form, tmp_path):
    values = A.copy()
    values[3, 2], values[7, 0] = np.nan, np.inf
    image = as_image(BRAIN, values)
    image.to_filename(tmp_path / "all.nii.gz")
    columns = [tmp_path / f"{i}.nii.gz" for i in range(A.shape[1])]
    for column, name in zip(values.T, columns, strict=True):
        as_image(BRAIN, column).to_filename(name)
    imgs = {"4D image": image, "4D file": tmp_path / "all.nii.gz", "list of files": columns}[form]
    model = op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN), negative="allow", **options)
    with pytest.warns(UserWarning, match="values of an image are NaN or infinite") as found:
        model.read(imgs)
    assert sum(int(str(warning.message).split()[0]) for warning in found) == 2
    confounds = np.random.default_rng(1).standard_normal((A.shape[1], 2))
    with pytest.warns(UserWarning, match="values of an image are NaN or infinite"):
        model.read(imgs, confounds=[confounds])


@pytest.mark.parametrize("dtype", ["complex64", [("R", "u1"), ("G", "u1"), ("B", "u1")]])
def test_values_that_are_not_real_numbers_are_refused(dtype):
    image = nibabel.Nifti1Image(np.zeros((*SHAPE, 4), dtype=dtype), AFFINE)
    with pytest.raises(op.InputError, match="not real numbers"):
        op.brain.Parcellation(2, mask=mask_image(BRAIN)).fit(image)
    mesh = {
        side: InMemoryMesh(np.zeros((4, 3)), np.array([[0, 1, 2]])) for side in ("left", "right")
    }
    data = {side: np.ones((4, 3), dtype=complex) for side in mesh}
    with pytest.raises(op.InputError, match="complex128, not real numbers"):
        op.brain.Parcellation(2).fit(SurfaceImage(mesh=mesh, data=data))


def test_several_4d_images_give_a_list_of_signals():
    images = [as_image(BRAIN, A[:, :6]), as_image(BRAIN, A[:, 6:])]
    model = op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN)).fit(images)
    signals = model.transform(images)
    assert [len(part) for part in signals] == [6, A.shape[1] - 6]
    assert model.read(images).groups.tolist() == [0] * 6 + [1] * (A.shape[1] - 6)
    assert [image.shape[3] for image in model.inverse_transform(signals)] == [6, A.shape[1] - 6]


def test_masker_keeps_its_own_options():
    masker = NiftiMasker(mask_img=mask_image(BRAIN), smoothing_fwhm=4.0, standardize=None)
    model = op.brain.Parcellation(N_PARCELS, mask=masker).fit(as_image(BRAIN, A))
    assert model.masker_ is not masker
    assert model.masker_.smoothing_fwhm == 4.0
    rows = masker.fit_transform(as_image(BRAIN, A)).T
    np.testing.assert_allclose(model.read(as_image(BRAIN, A)).values, rows, rtol=1e-6)
    learned = NiftiMasker(standardize=None).fit(as_image(BRAIN, A))
    found = op.brain.Parcellation(2, mask=learned).fit(as_image(BRAIN, A))
    np.testing.assert_array_equal(found.mask_img_.dataobj, learned.mask_img_.dataobj)


@pytest.mark.parametrize(
    ("imgs", "words"),
    [
        (np.ones((4, 3)), r"an array of shape \(4, 3\), not an image.*OrthogonalNMF"),
        (3, "not an image: pass a file name"),
        ([np.ones(3)], "not an image"),
        ([], "empty"),
        ("nowhere.nii.gz", "does not exist"),
        ("no-*-where.nii", "matches no file"),
        ("a.func.gii", "load_surface"),
        (nibabel.Nifti1Image(np.ones((2, 2, 2, 2, 2)), np.eye(4)), "3D images, or 4D"),
    ],
)
def test_what_is_not_an_image_is_said_in_a_sentence(imgs, words):
    with pytest.raises(op.InputError, match=words):
        op.brain.Parcellation(2).fit(imgs)


def test_mask_that_is_none_is_said_in_a_sentence():
    with pytest.raises(op.InputError, match=r"`mask` is .*; pass a binary image"):
        op.brain.Parcellation(2, mask=BRAIN).fit(as_image(BRAIN, A))


def test_more_parcels_than_voxels_are_refused():
    with pytest.raises(op.InputError, match=r"`n_parcels=\d+` is larger than the \d+ voxels"):
        op.brain.Parcellation(9999, mask=mask_image(BRAIN)).fit(as_image(BRAIN, A))


def test_parcels_keep_their_mask_when_other_images_are_read(fitted):
    image = as_image(BRAIN, A)
    model = clone(fitted).fit(image)
    before = model.transform(image)
    model.set_params(mask=mask_image(np.roll(BRAIN, 1, axis=0))).read(image)
    np.testing.assert_array_equal(model.transform(image), before)
    maps = model.inverse_transform(before)
    np.testing.assert_array_equal(maps.get_fdata().any(axis=3), BRAIN)
    as_list = model.inverse_transform(before[0].tolist())
    np.testing.assert_allclose(as_list.get_fdata(), maps.get_fdata()[..., 0], rtol=1e-6)


def test_matrix_of_another_estimator_is_refused(fitted):
    data = clone(fitted).read(as_image(BRAIN, A))
    with pytest.raises(op.InputError, match="read by another `Parcellation`"):
        clone(fitted).fit(data)
    model = clone(fitted)
    model.read(as_image(BRAIN, A))
    assert model.fit(data).labels_img_.shape == SHAPE  # another estimator with the same mask
    model = clone(fitted).set_params(mask=mask_image(np.roll(BRAIN, 1, axis=0)))
    model.read(as_image(BRAIN, A))
    with pytest.raises(op.InputError, match="read by another `Parcellation`, or with another mask"):
        model.fit(data)
    with pytest.raises(op.InputError, match="or with another mask"):
        model.reproducibility(data, [2])


@pytest.mark.parametrize(
    "call",
    [
        lambda: op.brain.Parcellation(2).fit(as_image(BRAIN, A)),
        lambda: op.brain.load_surface(left="a.func.gii"),
    ],
    ids=["fit", "load_surface"],
)
def test_missing_package_is_said_with_the_command_that_installs_it(call, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "nilearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nilearn", None)
    with pytest.raises(ImportError, match=r'pip install "orthoplus\[brain\]"'):
        call()


def test_clone_repr_and_pickle(fitted):
    assert repr(op.brain.Parcellation(7)) == "Parcellation(n_parcels=7)"
    twin = clone(fitted)
    assert twin.n_parcels == N_PARCELS
    assert not hasattr(twin, "labels_img_")
    again = pickle.loads(pickle.dumps(fitted))
    image = as_image(BRAIN, A)
    np.testing.assert_array_equal(again.transform(image), fitted.transform(image))


def test_reproducibility_halves_the_subjects():
    found = op.brain.Parcellation(2, mask=mask_image(BRAIN)).reproducibility(
        as_image(BRAIN, A), range(2, 7), n_splits=2
    )
    assert found.k == N_PARCELS
    assert found.split == "columns"
    best = next(row for row in found.rows if row.k == N_PARCELS)
    assert best.stability > 0.95
    assert best.cosine > 0.99
    assert best.cosine > max(row.cosine for row in found.rows if row.k > N_PARCELS)
    assert "cosine" in str(found)


def test_reproducibility_keeps_the_time_points_of_a_subject_together():
    images = [as_image(BRAIN, A[:, i : i + 2]) for i in range(0, 12, 2)]
    model = op.brain.Parcellation(2, mask=mask_image(BRAIN))
    data = model.read(images)
    found = model.reproducibility(data, [3, 4], n_splits=2)
    groups = np.repeat(np.arange(6), 2)
    same = op.select_rank(data.values, [3, 4], split="columns", groups=groups, n_splits=2)
    assert found.rows == same.rows


def make_mesh():
    coordinates = np.random.default_rng(0).standard_normal((40, 3))
    faces = np.random.default_rng(1).integers(40, size=(30, 3))
    return PolyMesh(left=InMemoryMesh(coordinates, faces), right=InMemoryMesh(coordinates, faces))


def test_surfaces_in_and_out(tmp_path):
    rows = A[:80]
    image = SurfaceImage(make_mesh(), {"left": rows[:40], "right": rows[40:]})
    model = op.brain.Parcellation(N_PARCELS).fit(image)
    matrix = op.OrthogonalNMF(N_PARCELS, random_state=0).fit(rows)
    labels = np.concatenate([model.labels_img_.data.parts[name] for name in ("left", "right")])
    np.testing.assert_array_equal(labels.ravel(), matrix.labels_ + 1)
    signals = model.transform(image)
    assert signals.shape == (rows.shape[1], N_PARCELS)
    assert model.inverse_transform(signals).shape == (80, rows.shape[1])
    masked = op.brain.Parcellation(2, mask=SurfaceMasker(standardize=None)).fit(image)
    assert isinstance(masked.masker_, SurfaceMasker)


def write_gifti(path, columns):
    maps = [
        nibabel.gifti.GiftiDataArray(column, intent="NIFTI_INTENT_SHAPE", datatype="float32")
        for column in columns.T
    ]
    nibabel.gifti.GiftiImage(darrays=maps).to_filename(path)


def test_gifti_files_are_the_columns_of_a_surface(tmp_path):
    for number in range(6):
        write_gifti(tmp_path / f"sub-{number}_hemi-L.func.gii", A[:40, [number]])
    write_gifti(tmp_path / "right.func.gii", A[40:80, :6])
    image = op.brain.load_surface(
        left=tmp_path / "sub-*_hemi-L.func.gii", right=tmp_path / "right.func.gii"
    )
    np.testing.assert_array_equal(image.data.parts["left"], A[:40, :6])
    np.testing.assert_array_equal(image.data.parts["right"], A[40:80, :6])
    alone = op.brain.load_surface(right=str(tmp_path / "right.func.gii"))
    model = op.brain.Parcellation(2).fit(alone)
    assert model.labels_img_.data.parts["right"].min() >= 1
    with pytest.raises(op.InputError, match="left hemisphere has 1 maps, but the right one has 6"):
        op.brain.load_surface(
            left=tmp_path / "sub-0_hemi-L.func.gii", right=tmp_path / "right.func.gii"
        )
    with pytest.raises(op.InputError, match="both None"):
        op.brain.load_surface()
    write_gifti(tmp_path / "small.func.gii", A[:30, [0]])
    with pytest.raises(op.InputError, match="resample them to one mesh"):
        op.brain.load_surface(left=[tmp_path / "small.func.gii", tmp_path / "right.func.gii"])


def test_affine_of_the_labels_is_that_of_the_mask(fitted):
    np.testing.assert_array_equal(fitted.labels_img_.affine, AFFINE)
    assert fitted.labels_img_.get_data_dtype().kind == "i"


# --- the checks of nilearn ----------------------------------------------------------------------

UNMET = {
    "check_set_output": "transforms a surface after a fit to volumes",
    "check_tags": "asks for the tags of scikit-learn 1.5",
    "check_doc_link": "asks for an address on the site of nilearn",
    "check_img_estimator_standardization": "standardizes a single image, which nilearn skips",
    "check_img_estimator_dtypes_inverse_transform": "asks for whole numbers, but weights are not",
}
# In a process of its own: its modules have marks that a strict session does not know.
CHECKS = """
import json, warnings
import pytest
import orthoplus as op
from nilearn._utils import estimator_checks as nilearn
from sklearn.utils.estimator_checks import check_estimator

warnings.simplefilter("ignore")
failed = []
estimator = op.brain.Parcellation(5, mask_strategy="epi", mask_args={"opening": 0})
checks = nilearn.nilearn_check_estimator([estimator])
for estimator, check, name in checks:
    try:
        check(estimator)
    except (Exception, pytest.fail.Exception):
        failed.append(name)
estimator = op.brain.Parcellation(5)
expected = nilearn.return_expected_failed_checks(estimator)  # those that need arrays
done = check_estimator(estimator, expected_failed_checks=expected, on_fail=None)
done = [(one["check_name"], one["status"]) for one in done]
print(json.dumps({"failed": failed, "n_nilearn": len(checks), "scikit_learn": done}))
"""


def test_checks_of_nilearn_and_scikit_learn():
    pytest.importorskip("numpydoc")
    pytest.importorskip("polars")
    done = subprocess.run(
        [sys.executable, "-c", CHECKS], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["failed"]) == UNMET.keys()
    assert found["n_nilearn"] >= 20
    statuses = [status for _, status in found["scikit_learn"]]
    assert "failed" not in statuses, found["scikit_learn"]
    assert statuses.count("passed") >= 15
