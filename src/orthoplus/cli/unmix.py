"""``orthoplus unmix``: find the materials of a hyperspectral image, their spectra and maps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from orthoplus.cli import options as opt
from orthoplus.cli.display import waiting, watching
from orthoplus.cli.ending import guarded
from orthoplus.cli.summary import Written, finish, print_lines, print_notes, print_status
from orthoplus.cli.unmix_files import FORMATS, Target, choose_target, parse_names
from orthoplus.cli.writing import check_inputs, output_folder
from orthoplus.core.checks import check_finite
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray
from orthoplus.data.stored import parse_memory
from orthoplus.io import read_cube

FRACTIONS = ("auto", "fcls", "nnls")


@dataclass(frozen=True)
class Scene:
    """An image, its origin, and what is to be written.

    ``cube`` is an array, or is read in blocks; ``stored`` is the file that holds the numbers.
    """

    path: Path
    key: str | None
    cube: Any
    target: Target
    notes: tuple[str, ...]
    stored: Path


@guarded
def unmix(  # noqa: PLR0913
    data: Annotated[
        str,
        typer.Argument(
            metavar="CUBE", help="Image (height, width, bands): .hdr .img (ENVI) .tif .mat .npy ..."
        ),
    ],
    components: opt.Materials,
    output: opt.Output = None,
    key: opt.Key = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Size of the image, for a matrix (pixels, bands)."),
    ] = None,
    bands_first: Annotated[
        bool, typer.Option("--bands-first", help="The first axis of the array holds the bands.")
    ] = False,
    column_major: Annotated[
        bool,
        typer.Option(
            "--column-major", help="With --shape: pixels are in column-major (MATLAB) order."
        ),
    ] = False,
    fractions: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            autocompletion=lambda: list(FRACTIONS),
            help="fcls for even brightness, nnls if the brightness varies, or auto.",
        ),
    ] = "auto",
    names: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            rich_help_panel=opt.OUTPUT,
            help="Names of the materials, in order. [dim]default: material 1, ...[/dim]",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            rich_help_panel=opt.OUTPUT,
            autocompletion=lambda: list(FORMATS),
            help="envi, geotiff or npz. [dim]default: format of the image[/dim]",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=opt.RUN,
            help="Read an ENVI or GeoTIFF image in blocks within this limit, such as 2GB.",
        ),
    ] = None,
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
    """Unmix a hyperspectral image, and write spectra, maps of its materials and a report.

    The map of a material shows its fraction in each pixel, from 0 to 1.

    [dim]orthoplus unmix scene.hdr -k 4[/dim]
    """
    given = opt.given_options(locals(), "data")
    k = given["components"] = opt.parse_count(components)
    if fractions not in FRACTIONS:
        raise InputError(
            f"`--fractions {fractions}` is unknown; choose one of {', '.join(FRACTIONS)}."
        )
    if memory_limit is not None:
        parse_memory(memory_limit)
    materials = parse_names(names, k)
    path, given["key"] = opt.parse_data(data, key)  # the record must show it
    with waiting(f"Reading {path.name}", silent=quiet or json):
        content = read_cube(path, given["key"], in_blocks=memory_limit is not None)
    if content.imagery is not None and (bands_first or column_major or shape is not None):
        raise InputError(
            f"`{path}` defines the order of its pixels; omit `--shape`, `--bands-first` and "
            f"`--column-major`."
        )
    size = opt.parse_size(shape, "--shape")
    cube, notes = as_image(content.values, size, bands_first, column_major), content.notes
    about = content.imagery
    if about is None:
        check_finite(cube, str(path))
    if k > cube.shape[0] * cube.shape[1]:
        raise InputError(f"`-k {k}` exceeds the number of pixels of `{path}`.")
    if len(content.values.shape) == 2 and shape is None:
        said = "The file is a list of pixels, drawn as one column; pass --shape HxW for an image."
        notes = (*notes, said)
    target = choose_target(path, about, content.column_names, format, materials)
    stored = path if about is None else about.path
    scene = Scene(path, given["key"], cube, target, notes, stored)
    output = output or Path(f"{path.stem}-k{k}")
    check_inputs("unmix", output, [path, stored], given)
    with output_folder(output) as folder:
        return run_unmix(scene, folder, given, quiet=quiet, json=json)


def as_image(
    values: FloatArray, size: tuple[int, int] | None, bands_first: bool, column_major: bool
) -> FloatArray:
    """Reshape the array to (height, width, bands); a matrix without a size gives one column."""
    if column_major and (size is None or len(values.shape) != 2):
        raise InputError(
            "`--column-major` applies only to a matrix (pixels, bands) with `--shape`; omit it."
        )
    if bands_first:
        values = np.moveaxis(values, 0, -1)
    if len(values.shape) == 2:
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
            f"`--shape {size[0]}x{size[1]}` does not match the shape of the image, {values.shape}."
        )
    return values


def run_unmix(
    scene: Scene, folder: Path, options: dict[str, Any], *, quiet: bool, json: bool
) -> int:
    """Unmix the image, write and print the results; return the exit code."""
    from orthoplus.cli.fitting import RunOptions, choose, goal_of
    from orthoplus.cli.unmix_files import write_files
    from orthoplus.estimators import unmix as unmix_cube
    from orthoplus.estimators.unmixing import read_pixels
    from orthoplus.problems import ONMF

    k, limit = options["components"], options["memory_limit"]
    options["method"] = options["method"] or opt.default_method(unmix_cube)
    run = RunOptions.of(options)
    h, w, n_bands = scene.cube.shape
    problem = ONMF(read_pixels(scene.cube, limit)[0], k)
    method = choose(problem, run)
    title = f"{scene.path.name}: {h} x {w} pixels, {n_bands} bands, {k} materials"
    with watching(goal_of(problem, method, title), silent=quiet or json) as display:
        found = unmix_cube(
            scene.cube, k, fractions=options["fractions"], method=method, n_init=run.n_init,
            random_state=run.seed, memory_limit=limit, with_bound=True, **run.watch(display),
        )  # fmt: skip

    def write() -> Written:
        record = _record(scene, options, found, method, problem.total)
        return record, write_files(folder, scene.target, found, record)

    def show(record: dict[str, Any], result: Any) -> None:
        print_materials(record, result, scene.target.names)

    return finish(write, folder, found.result, quiet=quiet, json=json, show=show)


def print_materials(record: dict[str, Any], result: Any, names: tuple[str, ...]) -> None:
    """Print the mean fractions of the materials, and how much of the image they explain."""
    told, total = record["result"], record["result"]["total"] or 1.0
    height, width, _ = record["data"]["shape"]
    n_empty = height * width - sum(told["cluster_sizes"])
    shares = [
        f"{share:.1%} {name}" for share, name in zip(told["mean_fractions"], names, strict=True)
    ]
    lines = {
        "materials": (*shares,),
        "pixels": f"{height} x {width}" + (f", {n_empty} of them without data" * (n_empty > 0)),
        "explained": f"{1 - result.value / total:.2%} of the sum of squares by one material per "
        "pixel",
        "work": f"{result.n_iter} outer iterations, {result.seconds:.2f} s",
    }
    print_status(result.status)
    print_lines(lines)
    print_notes((*result.notes, *record["notes"]))


def _record(
    scene: Scene, options: dict[str, Any], found: Any, method: Any, total: float
) -> dict[str, Any]:
    from orthoplus.cli import record as rec

    result = found.result
    sizes = np.bincount(found.labels.ravel() + 1, minlength=options["components"] + 1)[1:]
    return rec.make_record("unmix", str(scene.path), options) | {
        "data": rec.describe_data(scene.path, scene.key, scene.cube, scene.stored),
        "method": rec.describe_method(method),
        "seed": options["seed"],
        "result": rec.describe_result(result)
        | {
            "total": total,
            "cluster_sizes": sizes.tolist(),
            "fractions": found.model,
            "materials": scene.target.names,
            "mean_fractions": (found.abundances.sum(axis=(0, 1)) / max(sizes.sum(), 1)).tolist(),
        },
        "notes": list(scene.notes),
        **rec.resume_entry("unmix", str(scene.path), options, result.status),
        "history": rec.history_of(result),
    }
