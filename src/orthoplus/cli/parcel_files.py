"""Write the files of ``orthoplus parcellate``: a BIDS derivative and the record of the run."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus import __version__
from orthoplus.adapters.brain_images import is_surface
from orthoplus.cli.writing import write_csv, write_json, write_text
from orthoplus.core.atomic import write_atomically
from orthoplus.io.brain_files import write_labels, write_map, write_volume

if TYPE_CHECKING:
    from orthoplus.adapters.brain import Parcellation
    from orthoplus.adapters.brain_images import ImageMatrix
    from orthoplus.cli.parcellate import Job

BIDS_VERSION = "1.10.0"
# Files outside the BIDS standard, which the validator should ignore.
_IGNORED = ("report.html", "run.json", "values.csv", "parcels.png", "*_weights.*")
_SIDES = {"left": "L", "right": "R"}


def make_parcel_record(
    job: "Job", model: "Parcellation", data: "ImageMatrix", total: float
) -> dict[str, Any]:
    """Return the record of a run, with everything needed to repeat it."""
    from orthoplus.cli import record as rec

    result, notes = model.estimator_.result_, list(job.notes)
    n_none = int(model.lut_["size"][0])
    unit = "vertices" if job.is_surface else "voxels"
    if n_none:
        notes.append(f"{n_none} {unit} are 0 in all images and count as background.")
    if model.n_negative_ and model.negative == "clip":
        share = model.n_negative_ / data.values.size
        notes.append(
            f"{model.n_negative_} negative values ({share:.2%}) were set to 0 (`--negative clip`)."
        )
    record = rec.make_record("parcellate", job.images, job.options) | {
        "data": _describe_images(job, data),
        "method": rec.describe_method(model.method),
        "seed": job.options["seed"],
        "result": rec.describe_result(result)
        | {"total": total, "cluster_sizes": model.lut_["size"][1:].tolist()},
        "notes": notes,
    }
    same = job.options | {"components": job.k}
    record |= rec.resume_entry("parcellate", job.images, same, result.status)
    if job.choice is not None:
        from orthoplus.cli.ranking import describe_choice

        record["ranks"] = describe_choice(job.choice)
        notes.extend(reason for reason in job.choice.reasons if reason.startswith("Caution"))
    return record | {"history": rec.history_of(result)}


def _describe_images(job: "Job", data: "ImageMatrix") -> dict[str, Any]:
    """Return file names, one checksum of all files in order, and the shape of the matrix."""
    digest = hashlib.sha256()
    for name in job.images:
        with open(name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    n_files = len(job.images)
    return {
        "file": Path(job.images[0]).name if n_files == 1 else f"{n_files} files",
        "files": list(job.images),
        "mask": job.options["mask"],
        "sha256": digest.hexdigest(),
        "unit": "vertices" if job.is_surface else "voxels",
        "shape": list(data.values.shape),
        "dtype": str(data.values.dtype),
    }


def write_derivative(job: "Job", model: "Parcellation", record: dict[str, Any]) -> dict[str, str]:
    """Write the derivative; return a description of each file."""
    space = job.options["space"]
    folder = job.folder / f"tpl-{space}" / "anat"
    folder.mkdir(parents=True, exist_ok=True)
    segmentation = f"seg-orthoplus{job.k}"
    _write_images(model, folder, space, segmentation)
    stem = f"tpl-{space}_{segmentation}"
    write_text(folder / f"{stem}_dseg.tsv", model.lut_.to_csv(sep="\t", index=False))
    # By BIDS inheritance, this sidecar also applies to the files of each hemisphere.
    write_json(folder / f"{stem}_dseg.json", _sidecar(record, job.k))
    _write_values(job, model)
    _write_dataset(job, record)
    ending, weights = ("label.gii", "shape.gii") if job.is_surface else ("nii.gz", "nii.gz")
    shown = f"tpl-{space}_hemi-*_{segmentation}" if job.is_surface else stem
    one = "vertex" if job.is_surface else "voxel"
    files = {
        f"tpl-{space}/anat/": "the derivative:",
        f"{shown}_dseg.{ending}": f"the parcel of each {one}, from 1; 0 is background",
        f"{stem}_dseg.tsv, .json": "names, colors and sizes of the parcels",
        f"{shown}_weights.{weights}": "how strongly each belongs to its parcel, mean 1",
        "values.csv": f"per image: the value of each of the {job.k} parcels",
        "dataset_description.json": "description of the BIDS derivative",
    }
    if not job.is_surface and job.options["report"]:
        from orthoplus.report.slices import draw_slices

        write_atomically(
            job.folder / "parcels.png",
            lambda file: draw_slices(file, model.labels_img_, model.lut_["color"]),
        )
        files["parcels.png"] = "slices"
    return files


def _write_images(model: "Parcellation", folder: Path, space: str, segmentation: str) -> None:
    """Write labels and weights; surfaces have one file per hemisphere."""
    if not is_surface(model.labels_img_):
        stem = f"tpl-{space}_{segmentation}"
        write_volume(folder / f"{stem}_dseg.nii.gz", model.labels_img_)
        write_volume(folder / f"{stem}_weights.nii.gz", model.weights_img_)
        return
    for side, labels in model.labels_img_.data.parts.items():
        stem = f"tpl-{space}_hemi-{_SIDES[side]}_{segmentation}"
        write_labels(folder / f"{stem}_dseg.label.gii", labels, model.lut_)
        write_map(folder / f"{stem}_weights.shape.gii", model.weights_img_.data.parts[side])


def _sidecar(record: dict[str, Any], k: int) -> dict[str, Any]:
    n, r = record["data"]["shape"]
    return {
        "Description": f"{k} parcels of {n} {record['data']['unit']} by orthogonal nonnegative "
        f"matrix factorization of {r} samples.",
        "SpatialReference": record["data"]["mask"] or "n/a",
        "Manual": False,
        "Sources": record["data"]["files"],
        "size": {"Description": f"number of {record['data']['unit']}"},
    }


def _write_values(job: "Job", model: "Parcellation") -> None:
    """Write the value of each parcel in each sample, for weights scaled to mean 1."""
    names = model.lut_["name"][1:].tolist()
    found = model.estimator_.result_
    sums = np.bincount(
        np.maximum(found.labels, 0), np.where(found.labels >= 0, found.weights, 0.0), job.k
    )
    means = sums / np.maximum(model.lut_["size"][1:].to_numpy(), 1)
    values = (means[:, None] * model.estimator_.components_).T
    labels: list[Any] = list(range(1, len(values) + 1))
    if len(values) == len(job.images):
        labels = [Path(name).name for name in job.images]
    rows = ([name, *(f"{x:.9g}" for x in row)] for name, row in zip(labels, values, strict=True))
    is_safe = job.options.get("safe_csv", False)
    write_csv(job.folder / "values.csv", ("image", *names), rows, is_safe=is_safe)


def _write_dataset(job: "Job", record: dict[str, Any]) -> None:
    write_json(
        job.folder / "dataset_description.json",
        {
            "Name": f"Parcellation of {record['data']['file']} in {job.k} parcels",
            "BIDSVersion": BIDS_VERSION,
            "DatasetType": "derivative",
            "GeneratedBy": [
                {
                    "Name": "orthoplus",
                    "Version": __version__,
                    "Description": record["command"],
                }
            ],
        },
    )
    write_text(
        job.folder / "README",
        f"{job.k} parcels by orthogonal nonnegative matrix factorization (orthoplus {__version__})."
        f"\n\nWritten by\n\n    {record['command']}\n",
    )
    write_text(job.folder / ".bidsignore", "\n".join(_IGNORED) + "\n")
