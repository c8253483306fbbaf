"""``orthoplus unmix``: the materials of a hyperspectral image, their spectra and their maps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from orthoplus.cli import options as opt
from orthoplus.cli.display import waiting, watching
from orthoplus.cli.ending import guarded
from orthoplus.cli.summary import Written, finish
from orthoplus.cli.writing import output_folder, write_csv, write_json, write_npz, write_text
from orthoplus.core.atomic import write_atomically
from orthoplus.core.checks import check_finite
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray
from orthoplus.io import read_cube, split_key

FRACTIONS = ("auto", "fcls", "nnls")


@dataclass(frozen=True)
class Scene:
    """An image and where it came from."""

    path: Path
    key: str | None
    cube: FloatArray
    bands: tuple[str, ...] | None
    notes: tuple[str, ...]


@guarded
def unmix(  # noqa: PLR0913
    data: Annotated[
        str,
        typer.Argument(metavar="CUBE", help="Height x width x bands: .hdr (ENVI) .mat .npy ..."),
    ],
    components: opt.Materials,
    output: opt.Output = None,
    key: opt.Key = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="The size of the image, for a matrix (pixels, bands)."),
    ] = None,
    bands_first: Annotated[
        bool, typer.Option("--bands-first", help="The bands are the first axis.")
    ] = False,
    column_major: Annotated[
        bool,
        typer.Option("--column-major", help="With --shape: pixels run down columns, as in MATLAB."),
    ] = False,
    fractions: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            autocompletion=lambda: list(FRACTIONS),
            help="fcls: fractions for even brightness; nnls: if light and shade vary; auto.",
        ),
    ] = "auto",
    method: opt.UnmixMethod = None,
    seed: opt.Seed = 0,
    n_init: opt.Starts = None,
    max_iter: opt.MaxIter = None,
    tol: opt.Tolerance = None,
    time_limit: opt.TimeLimit = None,
    checkpoint: opt.Checkpoint = None,
    resume: opt.Resume = None,
    report: opt.Report = True,
    safe_csv: opt.SafeCsv = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> int:
    """Unmix a hyperspectral image: spectra of its materials, a map of each, a report.

    The map of a material has its fraction in each pixel, from 0 to 1.

    [dim]orthoplus unmix scene.hdr -k 4[/dim]
    """
    given = {
        name: value for name, value in locals().items() if name not in ("data", "quiet", "json")
    }
    k = given["components"] = opt.parse_count(components)
    if fractions not in FRACTIONS:
        raise InputError(f"`--fractions {fractions}`: write one of {', '.join(FRACTIONS)}.")
    path, inline_key = split_key(data)
    given["key"] = key or inline_key  # so that the record repeats it
    with waiting(f"Reading {path.name}", silent=quiet or json):
        content = read_cube(path, given["key"])
    cube = as_image(content.values, opt.parse_size(shape, "--shape"), bands_first, column_major)
    check_finite(cube, str(path))
    if k > cube.shape[0] * cube.shape[1]:
        raise InputError(f"`-k {k}` exceeds the number of pixels of `{path}`.")
    notes = content.notes
    if content.values.ndim == 2 and shape is None:
        notes = (
            *notes,
            "The file has a list of pixels, drawn as one column: --shape HxW says more.",
        )
    scene = Scene(path, given["key"], cube, content.column_names, notes)
    with output_folder(output or Path(f"{path.stem}-k{k}")) as folder:
        return run_unmix(scene, folder, given, quiet=quiet, json=json)


def as_image(
    values: FloatArray, size: tuple[int, int] | None, bands_first: bool, column_major: bool
) -> FloatArray:
    """The array as (height, width, bands); a matrix without a size is an image of one column."""
    if bands_first:
        values = np.moveaxis(values, 0, -1)
    if values.ndim == 2:
        n = values.shape[0]
        height, width = size or (n, 1)
        if height * width != n:
            raise InputError(
                f"`--shape {height}x{width}` has {height * width} pixels, but the matrix has {n} "
                f"rows. If its rows are bands, add `--bands-first`."
            )
        if column_major:
            return values.reshape(width, height, -1).transpose(1, 0, 2)
        return values.reshape(height, width, -1)
    if size is not None and values.shape[:2] != size:
        raise InputError(
            f"`--shape {size[0]}x{size[1]}` is not the size of the image, {values.shape}."
        )
    return values


def run_unmix(
    scene: Scene, folder: Path, options: dict[str, Any], *, quiet: bool, json: bool
) -> int:
    """Unmix, write, print; return the exit code."""
    from orthoplus.cli.fitting import RunOptions, choose, goal_of
    from orthoplus.estimators import unmix as unmix_cube
    from orthoplus.problems import ONMF

    k = options["components"]
    options["method"] = options["method"] or opt.default_method(unmix_cube)
    run = RunOptions.of(options)
    h, w, n_bands = scene.cube.shape
    problem = ONMF(np.maximum(scene.cube, 0.0).reshape(-1, n_bands), k)
    method = choose(problem, run)
    title = f"{scene.path.name}: {h} x {w} pixels, {n_bands} bands, {k} materials"
    with watching(goal_of(problem, method, title), silent=quiet or json) as display:
        found = unmix_cube(
            scene.cube, k, fractions=options["fractions"], method=method, n_init=run.n_init,
            random_state=run.seed, with_bound=True, **run.watch(display),
        )  # fmt: skip

    def write() -> Written:
        record = _record(scene, options, found, method, problem.total)
        return record, _write(scene, folder, found, record)

    return finish(write, folder, found.result, quiet=quiet, json=json)


def _record(
    scene: Scene, options: dict[str, Any], found: Any, method: Any, total: float
) -> dict[str, Any]:
    from orthoplus.cli import record as rec

    result = found.result
    sizes = np.bincount(found.labels.ravel() + 1, minlength=options["components"] + 1)[1:]
    return rec.make_record("unmix", str(scene.path), options) | {
        "data": rec.describe_data(scene.path, scene.key, scene.cube),
        "method": rec.describe_method(method),
        "seed": options["seed"],
        "result": rec.describe_result(result)
        | {"total": total, "cluster_sizes": sizes.tolist(), "fractions": found.model},
        "notes": list(scene.notes),
        **rec.resume_entry("unmix", str(scene.path), options, result.status),
        "history": rec.history_of(result),
    }


def _write(scene: Scene, folder: Path, found: Any, record: dict[str, Any]) -> dict[str, str]:
    from orthoplus.report.pictures import draw_maps, draw_spectra

    k, n_bands = found.endmembers.shape
    bands = scene.bands or tuple(str(b + 1) for b in range(n_bands))
    names = tuple(f"material {j}" for j in range(k))
    rows = (
        [band, *spectrum] for band, spectrum in zip(bands, found.endmembers.T.tolist(), strict=True)
    )
    is_safe = record["options"].get("safe_csv", False)
    write_csv(folder / "spectra.csv", ("band", *names), rows, is_safe=is_safe)
    write_npz(
        folder / "maps.npz",
        abundances=found.abundances,
        hard_abundances=found.hard_abundances,
        labels=found.labels,
        brightness=found.brightness,
    )
    write_json(folder / "run.json", record)
    write_atomically(
        folder / "spectra.png", lambda file: draw_spectra(file, found.endmembers, scene.bands)
    )
    write_atomically(
        folder / "maps.png", lambda file: draw_maps(file, found.abundances, found.labels)
    )
    files = {
        "spectra.csv, .png": f"the {k} spectra, a column each",
        "maps.npz, .png": "the fraction of each material in each pixel, and the largest",
        "run.json": "options, versions, objective, bound, history",
    }
    if record["options"]["report"]:
        from orthoplus.report.unmixing import unmixing_page

        write_text(folder / "report.html", unmixing_page(record, found, scene.bands))
        files["report.html"] = "all of it on one page"
    return files
