"""``orthoplus parcellate``: images in, a BIDS derivative with a report out."""

import json
import os
import re
import shlex
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("nilearn")

import nibabel
import pandas as pd

import orthoplus as op
from orthoplus.cli.app import app
from orthoplus.report.slices import draw_slices

sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))
from brains import AFFINE, N_PARCELS, as_image, labels_in, make_head, mask_image

BRAIN, TRUTH, A = make_head()
STEM = f"tpl-study/anat/tpl-study_seg-orthoplus{N_PARCELS}"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_images(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return what one run has printed, its folder and its images, for tests that only look."""
    here = tmp_path_factory.mktemp("written")
    images, before = write_images(here), Path.cwd()
    os.chdir(here)
    try:
        done = run("parcellate", *images, "--mask", "mask.nii.gz", "-k", N_PARCELS, "-o", "out")
    finally:
        os.chdir(before)
    assert done.exit_code == 0
    return done, here / "out", images


def write_images(folder):
    for number, column in enumerate(A.T):
        as_image(BRAIN, column).to_filename(folder / f"sub-{number:02d}.nii.gz")
    mask_image(BRAIN).to_filename(folder / "mask.nii.gz")
    return sorted(path.name for path in folder.glob("sub-*.nii.gz"))


def test_derivative_has_labels_weights_table_and_description(written):
    done, out, images = written
    model = op.OrthogonalNMF(N_PARCELS, random_state=0).fit(A)
    labels = nibabel.load(out / f"{STEM}_dseg.nii.gz")
    np.testing.assert_array_equal(labels_in(labels, BRAIN), model.labels_ + 1)
    np.testing.assert_array_equal(labels.affine, AFFINE)
    assert labels.header.get_xyzt_units()[0] == "mm"
    weights = np.asarray(nibabel.load(out / f"{STEM}_weights.nii.gz").dataobj)[BRAIN]
    assert weights.mean() == pytest.approx(1.0, rel=1e-5)
    table = pd.read_csv(out / f"{STEM}_dseg.tsv", sep="\t")
    assert list(table.columns) == ["index", "name", "color", "size"]
    assert table["size"].sum() == BRAIN.sum()
    sidecar = json.loads((out / f"{STEM}_dseg.json").read_text())
    assert sidecar["Manual"] is False
    assert sidecar["Sources"] == images
    described = json.loads((out / "dataset_description.json").read_text())
    assert described["DatasetType"] == "derivative"
    assert described["GeneratedBy"][0]["Name"] == "orthoplus"
    assert set((out / ".bidsignore").read_text().split()) >= {"run.json", "report.html"}
    assert f"(parcels 1 to {N_PARCELS})" in done.stdout


def test_values_are_those_of_transform(written):
    _, out, images = written
    values = pd.read_csv(out / "values.csv", index_col="image")
    assert list(values.index) == images
    model = op.brain.Parcellation(N_PARCELS, mask=mask_image(BRAIN))
    np.testing.assert_allclose(values, model.fit_transform(as_image(BRAIN, A)), rtol=1e-5)


def test_report_has_slices_and_the_parcels(written):
    out = written[1]
    page = (out / "report.html").read_text()
    assert f"{N_PARCELS} parcels" in page
    assert re.search(r"-?\d+, -?\d+, -?\d+</td>", page)
    assert not re.search(r"-0[,<]", page)
    for word in ("axial", "coronal", "sagittal", "center (x, y, z mm)", "values.csv"):
        assert word in page
    assert page.count("data:image/png") >= 12
    assert (out / "parcels.png").read_bytes().startswith(b"\x89PNG")
    assert not re.search(r'(?:src|href)="https?:', page)


def test_range_compares_halves_of_the_subjects(folder):
    done = run("parcellate", *folder, "--mask", "mask.nii.gz", "-k", "2-5", "-o", "out")
    assert done.exit_code == 0
    record = json.loads(Path("out/run.json").read_text())
    assert record["ranks"]["k"] == N_PARCELS
    assert record["ranks"]["split"] == "columns"
    assert record["ranks"]["curves"][2]["cosine"] > 0.99
    assert Path(f"out/{STEM}_dseg.nii.gz").is_file()
    page = Path("out/report.html").read_text()
    assert "How many parcels" in page
    assert "number of parcels" in page
    assert "cosine of weights" in page


def test_command_of_the_record_gives_the_same_labels(folder):
    given = ("--mask", "mask.nii.gz", "-k", 3, "--smooth", 4, "--no-report")
    run("parcellate", *folder, *given, "-o", "one", "-q")
    record = json.loads(Path("one/run.json").read_text())
    again = shlex.split(record["command"])[1:]
    assert run(*again, "-o", "two", "-q").exit_code == 0
    name = "tpl-study/anat/tpl-study_seg-orthoplus3_dseg.nii.gz"
    assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    assert record["data"]["files"] == folder


def test_4d_file_and_memory_limit(folder):
    as_image(BRAIN, A).to_filename("all.nii.gz")
    given = ("--mask", "mask.nii.gz", "-k", 4, "--memory", "9KB", "--no-report", "-q")
    done = run("parcellate", "all.nii.gz", *given)
    assert done.exit_code == 0
    labels = labels_in(nibabel.load(f"all-k4/{STEM}_dseg.nii.gz"), BRAIN)
    np.testing.assert_array_equal(labels, op.OrthogonalNMF(4, random_state=0).fit(A).labels_ + 1)


def test_clipped_values_are_noted(folder):
    as_image(BRAIN, A - 2.0).to_filename("signed.nii.gz")
    given = ("--mask", "mask.nii.gz", "-k", 3, "--negative", "clip", "--no-report")
    done = run("parcellate", "signed.nii.gz", *given)
    assert done.exit_code == 0
    assert f"{(A < 2.0).sum()} negative values" in done.stdout


def test_values_that_are_missing_are_noted(folder):
    columns = A.copy()
    columns[3, 4] = np.nan
    as_image(BRAIN, columns).to_filename("gaps.nii.gz")
    done = run("parcellate", "gaps.nii.gz", "--mask", "mask.nii.gz", "-k", 3, "--no-report")
    assert "1 values of an image are NaN or infinite inside the mask" in done.stdout


def test_surfaces_in_label_files_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gifti, names = nibabel.gifti, []
    for subject in range(6):
        for side, rows in (("L", A[:40]), ("R", A[40:80])):
            names.append(f"sub-{subject}_hemi-{side}.func.gii")
            array = gifti.GiftiDataArray(rows[:, subject], intent="NIFTI_INTENT_SHAPE")
            gifti.GiftiImage(darrays=[array]).to_filename(names[-1])
    done = run("parcellate", *names, "-k", N_PARCELS, "-o", "out")
    assert done.exit_code == 0
    assert "slices" not in done.output
    expected = op.OrthogonalNMF(N_PARCELS, random_state=0).fit(A[:80, :6]).labels_ + 1
    found = []
    for side in "LR":
        stem = f"out/tpl-study/anat/tpl-study_hemi-{side}_seg-orthoplus{N_PARCELS}"
        image = nibabel.load(f"{stem}_dseg.label.gii")
        found.append(image.darrays[0].data)
        table = image.labeltable.get_labels_as_dict()
        assert table[1] == "parcel 1"
        assert nibabel.load(f"{stem}_weights.shape.gii").darrays[0].data.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert "hemispheres" in Path("out/report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.nii.gz", "-k", 3], "`no.nii.gz` does not exist."),
        (["sub-00.nii.gz", "a_hemi-L.func.gii", "-k", 3], "Some files are volumes"),
        (["sub-00.nii.gz", "-k", "3-5", "--mask", "mask.nii.gz"], "requires at least 4"),
        (["sub-00.nii.gz", "-k", 999, "--mask", "mask.nii.gz"], "`-k 999` exceeds the"),
        (["sub-00.nii.gz", "-k", "x"], "`-k x` is not a number of parcels"),
        (["sub-00.nii.gz", "-k", 2, "--negative", "no"], "`--negative no` is unknown"),
        (["sub-00.nii.gz", "-k", 2, "--space", "a_b"], "only letters and digits"),
        (["signed.nii.gz", "-k", 2, "--mask", "mask.nii.gz"], "pass `--negative clip`"),
        (
            ["a_hemi-L.func.gii", "-k", 2, "--mask", "mask.nii.gz"],
            "`--mask` applies only to volumes",
        ),
        (["sub-00.nii.gz", "-k", 2, "--mask", "a_hemi-L.func.gii"], "is a surface, not a volume"),
        (["text.nii.gz", "-k", 2], "cannot be read as an image"),
        (["plain.func.gii", "-k", 2], "include `hemi-L` or `hemi-R`"),
    ],
)
def test_bad_input_is_one_sentence_with_code_2(folder, words, message):
    array = nibabel.gifti.GiftiDataArray(A[:40, 0], intent="NIFTI_INTENT_SHAPE")
    for name in ("a_hemi-L.func.gii", "plain.func.gii"):
        nibabel.gifti.GiftiImage(darrays=[array]).to_filename(name)
    as_image(BRAIN, A - 2.0).to_filename("signed.nii.gz")
    Path("text.nii.gz").write_text("not an image")
    done = run("parcellate", *words, "-o", "out")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("Error:") == 1
    assert not Path("out").exists()


def test_names_of_images_are_no_formulas_if_that_is_asked_for(folder):
    Path(folder[0]).rename("=1+1.nii.gz")
    images = ["=1+1.nii.gz", *folder[1:]]
    words = ["parcellate", *images, "-k", 2, "--mask", "mask.nii.gz", "-o", "out", "-q"]
    assert run(*words, "--no-report", "--safe-csv").exit_code == 0
    written = Path("out/values.csv").read_text().splitlines()
    assert written[1].split(",")[0] == "'=1+1.nii.gz"
    assert written[2].split(",")[0] == folder[1]


def test_slices_leave_out_the_empty_border_of_the_volume():
    labels = np.zeros((9, 11, 13), dtype=np.int16)
    labels[2:6, 3:8, 4:10] = 1 + np.arange(4)[:, None, None] // 2
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    whole = nibabel.Nifti1Image(labels, affine)
    files = BytesIO(), BytesIO()
    for file, image in zip(files, (whole, whole.slicer[2:6, 3:8, 4:10]), strict=True):
        draw_slices(file, image, ["#000000", "#cf3e3e", "#6d94f2"])
    assert files[0].getvalue() == files[1].getvalue()
