"""``orthoplus demo``: cluster scikit-learn's handwritten digits and suggest what to try next."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import numpy as np
import typer

from orthoplus.cli import options as opt
from orthoplus.cli.cluster import Job, Truth, run_cluster
from orthoplus.cli.ending import guarded
from orthoplus.cli.terminal import console, printable
from orthoplus.cli.writing import output_folder, write_npz
from orthoplus.core.atomic import write_atomically
from orthoplus.io import read_matrix

N_GROUPS = 10
IMAGE = (8, 8)
PROOF_SECONDS = 15.0


@guarded
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results.")
    ] = Path("orthoplus-demo"),
    quiet: opt.Quiet = False,
) -> int:
    """Cluster 1797 handwritten digits, draw a picture, and suggest what to try next."""
    with output_folder(output) as folder:
        return _run(folder, quiet)


def _run(folder: Path, quiet: bool) -> int:
    from sklearn.datasets import load_digits

    from orthoplus.report.pictures import draw_digits

    images, digits = load_digits(return_X_y=True)
    data = folder / "digits.npz"
    write_npz(data, X=images, labels=digits)
    truth = Truth(digits, tuple(map(str, range(N_GROUPS))))
    options = {
        "components": N_GROUPS, "output": folder, "labels": f"{data}:labels", "image": "8x8",
        "method": None, "seed": 0, "n_init": None, "max_iter": None, "tol": None,
        "time_limit": None, "prove": PROOF_SECONDS, "checkpoint": None, "resume": None,
        "report": True,
    }  # fmt: skip
    ranks = range(N_GROUPS, N_GROUPS + 1)
    job = Job(data, None, read_matrix(data), ranks, truth, IMAGE, folder, options)
    code, model = run_cluster(job, quiet=quiet, json=False)
    labels, parts = model.labels_, model.components_
    order = np.argsort(-model.result_.weights, kind="stable")  # heaviest rows first
    picture = folder / "digits.png"
    write_atomically(
        picture, lambda file: draw_digits(file, images[order], digits[order], labels[order], parts)
    )
    if not quiet:
        _suggest(data, picture)
    return code


def _suggest(data: Path, picture: Path) -> None:
    console().print(
        f"The picture is {printable(str(picture))}. The report.html next to it shows all results."
    )
    console().print("Try next:", style="bold")
    commands = {
        f"orthoplus cluster {quote(str(data))} -k 12 --image 8x8": "find 12 clusters",
        "orthoplus cluster --help": "cluster your own CSV, NumPy, MATLAB, HDF5 or .mtx file",
        "orthoplus info": "show versions, threads and the cache of compiled kernels",
    }
    for command, why in commands.items():
        console().print(f"  {printable(command)}")
        console().print(f"      {why}", style="dim")
