"""The commands ``orthoplus cluster | unmix | project``, run in process on files."""

import contextlib
import csv
import io
import json
import sys
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp
from outcomes import Outcome
from storages import store

CLI_STORAGES = ("c", "f", "float32", "csr", "hdf5", "zarr", "csv")
K = 3


class CommandFailed(Exception):
    """A command that ended with another exit code than 0 or 1; the text is what it printed."""


def run_cluster(A, storage, seed, folder):
    """Cluster a file."""
    path = write_file(A, storage, folder)
    out = call("cluster", path, "-k", K, "--seed", seed, "--no-report")
    with np.load(out / "components.npz", allow_pickle=False) as file:
        arrays = {"components": file["components"]}
    labels, weights = read_labels(out, "cluster")
    return outcome_of(out, labels, {"weights": weights, **arrays})


def run_unmix(cube, storage, seed, folder):
    """Unmix a file, an image or, where the format has none, the matrix of its pixels."""
    words = []
    if storage in ("csr", "csv"):
        words = ["--shape", f"{cube.shape[0]}x{cube.shape[1]}"]
        cube = cube.reshape(-1, cube.shape[-1])
    path = write_file(cube, storage, folder)
    out = call("unmix", path, "-k", K, "--seed", seed, "--no-report", *words)
    with np.load(out / "maps.npz", allow_pickle=False) as file:
        return outcome_of(out, file["labels"], {"abundances": file["abundances"]})


def run_project(C, storage, seed, folder):
    """Project a file."""
    out = call("project", write_file(C, storage, folder))
    labels, weights = read_labels(out, "column")
    return outcome_of(out, labels, {"weights": weights})


def outcome_of(out, labels, arrays):
    """Return the outcome with what the file ``run.json`` says of it."""
    result = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]
    value = result["objective"] if "objective" in result else result["value"]
    numbers = {"bound": result.get("bound")}
    return Outcome(labels, value, result["iterations"], result["status"], arrays, numbers)


def write_file(A, storage, folder):
    """Write the matrix into a file of the kind that the storage stands for."""
    path = Path(folder) / "data"
    if storage == "csr":
        sp.save_npz(path.with_suffix(".npz"), sp.csr_array(A))
        return path.with_suffix(".npz")
    if storage == "hdf5":
        with h5py.File(path.with_suffix(".h5"), "w") as file:
            file["A"] = A
        return path.with_suffix(".h5")
    if storage == "zarr":
        store(A, storage, folder, "data")
        return path.with_suffix(".zarr")
    if storage == "csv":
        np.savetxt(path.with_suffix(".csv"), A, delimiter=",", fmt="%.17g")
        return path.with_suffix(".csv")
    np.save(path.with_suffix(".npy"), store(A, storage, folder))
    return path.with_suffix(".npy")


def call(command, path, *words):
    """Run the command; return the folder it wrote into."""
    from orthoplus.cli import main

    out = path.parent / "out"
    printed = io.StringIO()
    saved = sys.argv
    sys.argv = ["orthoplus", command, str(path), "-o", str(out), "--quiet", *map(str, words)]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
    except SystemExit as ending:
        if ending.code not in (None, 0, 1):
            raise CommandFailed(f"exit code {ending.code}: {printed.getvalue()}") from None
    finally:
        sys.argv = saved
    return out


def read_labels(out, column):
    """Return the labels and weights of the file ``labels.csv``."""
    rows = list(csv.DictReader((out / "labels.csv").read_text(encoding="utf-8").splitlines()))
    labels = np.array([int(row[column]) for row in rows])
    return labels, np.array([float(row["weight"]) for row in rows])
