"""``orthoplus parcellate``: parcellate brain images; write a BIDS derivative and a report."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orthoplus.cli import options as opt
from orthoplus.cli.display import waiting, watching
from orthoplus.cli.ending import guarded
from orthoplus.cli.modeling import choose
from orthoplus.cli.summary import Written, finish, print_result
from orthoplus.cli.writing import check_inputs, output_folder, write_json
from orthoplus.core.errors import FileError, InputError
from orthoplus.data.stored import DEFAULT_LIMIT
from orthoplus.io.brain_files import hemisphere_of, is_surface_file
from orthoplus.io.guard import check_regular

if TYPE_CHECKING:
    from orthoplus.adapters.brain import Parcellation
    from orthoplus.adapters.brain_images import ImageMatrix
    from orthoplus.model_selection import RankSelection

NEGATIVE = {"error": "error", "clip": "clip", "allow": "allow"}
STANDARDIZE: dict[str, str | None] = {"none": None, "zscore": "zscore_sample", "psc": "psc"}


@guarded
def parcellate(  # noqa: PLR0913
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGES...",
            help="One 3D file per subject, or 4D files (.nii, .nii.gz); or surfaces (.func.gii) "
            "with hemi-L or hemi-R in the name.",
            show_default=False,
        ),
    ],
    components: Annotated[
        str,
        typer.Option(
            "-k",
            "--components",
            metavar="K",
            help="Number of parcels, or a range such as 5-30 from which k is chosen.",
        ),
    ],
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Brain mask. [dim]default: computed from the images[/dim]"
        ),
    ] = None,
    output: opt.Output = None,
    smooth: Annotated[
        float | None,
        typer.Option(metavar="MM", min=0.0, help="Smooth with a Gaussian of this FWHM."),
    ] = None,
    standardize: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=lambda: list(STANDARDIZE),
            help="Standardize over time or subjects: zscore, psc (percent change) or none.",
        ),
    ] = None,
    negative: Annotated[
        str,
        typer.Option(
            metavar="CHOICE",
            autocompletion=lambda: list(NEGATIVE),
            help="Negative values: error, clip (set to zero) or allow.",
        ),
    ] = "error",
    space: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the template space, used in file names."),
    ] = "study",
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Matrices above this size are kept in a file.",
            rich_help_panel=opt.RUN,
        ),
    ] = DEFAULT_LIMIT,
    method: opt.ClusterMethod = None,
    seed: opt.Seed = 0,
    n_init: opt.Starts = None,
    max_iter: opt.MaxIter = None,
    tol: opt.Tolerance = None,
    time_limit: opt.TimeLimit = None,
    checkpoint: opt.Checkpoint = None,
    resume: opt.Resume = None,
    safe_csv: opt.SafeCsv = False,
    report: opt.Report = True,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> int:
    """Parcellate brain images, and write labels, weights, a look-up table and a report.

    A parcel groups voxels that vary together over subjects or time; each voxel is in one parcel.

    [dim]orthoplus parcellate sub-*_gm.nii.gz --mask mask.nii.gz -k 20[/dim]

    [dim]orthoplus parcellate sub-*_hemi-L.func.gii -k 5-30[/dim]
    """
    given = opt.given_options(locals(), "images")
    ranks = opt.parse_ranks(components, "parcels")
    given["components"] = components.strip() if len(ranks) > 1 else ranks[0]
    choose(negative, "--negative", NEGATIVE)
    choose(standardize, "--standardize", STANDARDIZE)
    choose(method, "--method", dict.fromkeys(opt.CLUSTER_METHODS))
    if not re.fullmatch(r"[A-Za-z0-9]+", space):
        raise InputError(f"`--space {space}` is invalid: BIDS allows only letters and digits.")
    check_files(images, mask)
    stem = Path(images[0]).name.split(".")[0] if len(images) == 1 else "parcels"
    output = output or Path(f"{stem}-k{given['components']}")
    check_inputs("parcellate", output, map(Path, images), given)
    with output_folder(output) as folder:
        return run_parcellate(Job(images, ranks, folder, given), quiet=quiet, json=json)


@dataclass(frozen=True)
class Job:
    """The input of `run_parcellate`."""

    images: list[str]
    ranks: range
    folder: Path
    options: dict[str, Any]
    choice: Any = None
    notes: list[str] = field(default_factory=list)

    @property
    def k(self) -> int:
        """Return the number of parcels, chosen or given."""
        return self.ranks[-1] if self.choice is None else int(self.choice.k)

    @property
    def is_surface(self) -> bool:
        """Return whether the files are surfaces."""
        return is_surface_file(self.images[0])


@contextmanager
def taking_notes(notes: list[str]) -> Iterator[None]:
    """Collect the warnings of the block as notes, without repeats, instead of printing them."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(" ".join(str(one.message).split()) for one in found):
        if text not in notes:
            notes.append(text)


def check_files(images: list[str], mask: str | None) -> None:
    """Raise an error if files do not exist or are not all of one kind."""
    for name in (*images, *([] if mask is None else [mask])):
        check_regular(Path(name))
    kinds = {is_surface_file(name) for name in images}
    if len(kinds) > 1:
        raise FileError("Some files are volumes and some are surfaces; pass only one kind.")
    if kinds == {True} and mask is not None:
        raise InputError(
            "`--mask` applies only to volumes; for surfaces, vertices that are 0 in all files are "
            "background."
        )


def load_images(images: list[str]) -> Any:
    """Return the names of volumes, or the surface image of both hemispheres."""
    if not is_surface_file(images[0]):
        return images if len(images) > 1 else images[0]
    from orthoplus.adapters.brain import load_surface

    sides: dict[str, list[str]] = {}
    for name in images:
        sides.setdefault(hemisphere_of(name), []).append(name)
    return load_surface(**sides)


def run_parcellate(job: Job, *, quiet: bool, json: bool) -> int:
    """Read the images, choose k if needed, fit, write and print; return the exit code."""
    from orthoplus.adapters.brain import Parcellation
    from orthoplus.cli.fitting import RunOptions, goal_of
    from orthoplus.cli.fitting import choose as choose_method
    from orthoplus.data import as_data
    from orthoplus.estimators import OrthogonalNMF
    from orthoplus.estimators.factorize import Model

    given, silent = job.options, quiet or json
    given["method"] = given["method"] or opt.default_method(OrthogonalNMF)
    run = RunOptions.of(given)
    model = Parcellation(
        mask=given["mask"], negative=given["negative"], n_init=run.n_init, random_state=run.seed,
        smoothing_fwhm=given["smooth"], standardize=STANDARDIZE[given["standardize"] or "none"],
        with_bound=True, memory_limit=given["memory"],
    )  # fmt: skip
    with waiting(f"Reading {len(job.images)} files", silent=silent), taking_notes(job.notes):
        data = model.read(load_images(job.images))
    n, r = data.values.shape
    check_size(job, n, r)
    if len(job.ranks) > 1:
        job = replace(job, choice=_choose_rank(job, model, data, silent=silent))
    # The estimator builds the same problem; here it gives the method and the total of the display.
    A = as_data(data.values, memory_limit=data.memory_limit, check=False)
    problem = Model(job.k, allow_negative=given["negative"] == "allow").problem(A)
    method = choose_method(problem, run)
    model.set_params(n_parcels=job.k, method=method)
    title = f"{n} {unit_of(job)} x {r} samples in {job.k} parcels"
    goal = goal_of(problem, method, title)
    with watching(goal, silent=silent) as display, taking_notes(job.notes):
        model.fit_watched(data, **run.watch(display))
    write = partial(_write, job, model, data, problem.total)
    show = partial(print_result, name="parcels", first=1)
    result = model.estimator_.result_
    return finish(write, job.folder, result, quiet=quiet, json=json, show=show)


def unit_of(job: Job) -> str:
    """Return what a row of the matrix stands for: voxels or vertices."""
    return "vertices" if job.is_surface else "voxels"


def check_size(job: Job, n: int, r: int) -> None:
    """Raise `InputError` if there are too few voxels, or too few samples to split."""
    if job.ranks[-1] > n:
        raise InputError(
            f"`-k {job.options['components']}` exceeds the {n} {unit_of(job)} of the mask."
        )
    if len(job.ranks) > 1 and r < 4:
        raise InputError(
            f"`-k {job.options['components']}` chooses k by comparing two halves of the images, "
            f"which requires at least 4; there are {r}. Pass a single number of parcels."
        )


def _choose_rank(
    job: Job, model: "Parcellation", data: "ImageMatrix", *, silent: bool
) -> "RankSelection":
    from orthoplus.cli.ranking import choose_rank

    return choose_rank(
        data.values,
        job.ranks,
        silent=silent,
        split="columns",
        groups=data.groups,
        random_state=job.options["seed"],
        allow_negative=model.negative == "allow",
    )


def _write(job: Job, model: "Parcellation", data: "ImageMatrix", total: float) -> Written:
    from orthoplus.cli.parcel_files import make_parcel_record, write_derivative

    record = make_parcel_record(job, model, data, total)
    files = write_derivative(job, model, record)
    write_json(job.folder / "run.json", record)
    files["run.json"] = "options, versions, objective, bound, history"
    if job.options["report"]:
        from orthoplus.cli.writing import write_text
        from orthoplus.report.parcels import parcel_page

        write_text(job.folder / "report.html", parcel_page(record, model))
        drawn = "" if job.is_surface else ", with slices"
        files["report.html"] = f"all results on one page{drawn}"
    return record, files
