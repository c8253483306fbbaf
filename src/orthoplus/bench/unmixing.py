"""Table 5: hyperspectral unmixing, section 6.2.3."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from orthoplus.bench.onmf_methods import (
    DEFAULT,
    METHODS,
    PENALTY,
    Answer,
    Runner,
    Runs,
    round_any,
    run_method,
    run_penalty,
)
from orthoplus.bench.paper_figures import UNMIXING
from orthoplus.bench.pictures import draw_abundances
from orthoplus.bench.table import Column, Picture, Row, Session, Table, Task, cases_of, figure_of
from orthoplus.core.types import FloatArray
from orthoplus.datasets import SceneData, load_scene
from orthoplus.geometry.stiefel import violation
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.metrics import match_spectra, spectral_angle_distance

SETS = ("Samson", "JasperRidge", "UrbanCrop")
QUICK_SETS = ("Samson",)
# What the default is expected to reach.
WANTED = {"Samson": 0.075, "JasperRidge": 0.135}


def run_unmix(A: Any, k: int, seed: int, limit: float) -> Answer:
    """What ``unmix`` does."""
    from orthoplus.estimators import unmix

    found = unmix(A, k, random_state=seed)
    X = found.result.X
    return Answer(X, found.endmembers.T, violation(X), violation(X))


def run_image_penalty(A: Any, k: int, seed: int, limit: float) -> Answer:
    """EP4Orth+ with the paper's parameters for images, which stop far from S+: rounded."""
    found = run_penalty(A, k, seed, limit, EP4Orth.for_unmixing)
    return replace(found, X=round_any(found.X))


IMAGE_METHODS: dict[str, Runner] = METHODS | {
    DEFAULT: run_unmix,
    PENALTY: run_image_penalty,
}


def tasks(session: Session) -> Iterator[Task | Picture]:
    """A case for each image; all methods on the same pixels."""
    for name in QUICK_SETS if session.quick else SETS:
        scene = load_scene(name, session.folder)
        maps: dict[str, FloatArray] = {"ground truth": scene.abundances}
        for method in IMAGE_METHODS:
            yield Task(name, (method,), partial(_rows, session, scene, method, maps))
        yield Picture(
            f"unmixing-{name}",
            f"{name}: the map of each material, ground truth and every method (first seed).",
            partial(draw_abundances, maps=maps, names=scene.names, size=scene.image_shape),
        )


def _rows(
    session: Session, scene: SceneData, method: str, maps: dict[str, FloatArray]
) -> list[Row]:
    """The row of one method on one image; its maps are kept for the picture."""
    runs = run_method(session, scene.name, method, scene.A, len(scene.names), IMAGE_METHODS)
    maps[method] = _matched(scene, runs.first)
    return [_row(scene, method, runs)]


def angle(scene: SceneData, found: Answer) -> float:
    """The spectral angle distance, matched; NaN where a spectrum is zero."""
    if not found.Y.any(axis=0).all():
        return float("nan")
    return spectral_angle_distance(found.Y.T, scene.endmembers)


def _matched(scene: SceneData, found: Answer) -> FloatArray:
    """The columns of X in the order of the materials."""
    if not found.Y.any(axis=0).all():
        return np.maximum(found.X, 0.0)
    return np.maximum(found.X[:, match_spectra(found.Y.T, scene.endmembers)], 0.0)


def _row(scene: SceneData, method: str, runs: Runs) -> Row:
    printed = UNMIXING.get(scene.name, {}).get(method)
    return Row(
        case=scene.name,
        method=method,
        figures={
            "angle": runs.mean(lambda found: angle(scene, found)),
            "least": min(angle(scene, found) for found in runs.answers),
            "violation": runs.mean(lambda found: found.violation),
            "cpu": runs.mean(lambda found: found.cpu),
            "wall": runs.mean(lambda found: found.wall),
        },
        paper=dict(zip(("angle", "cpu"), printed, strict=True)) if printed else {},
        note=runs.note,
    )


def judge(rows: Sequence[Row]) -> list[str]:
    """The default against what is expected of it."""
    lines = []
    for case in cases_of(rows):
        found = figure_of(rows, case, DEFAULT, "angle")
        wanted = WANTED.get(case)
        line = f"{case}: the default's spectral angle distance is {found:.3f}"
        if wanted is not None and found is not None:
            line += f", {'within' if found <= wanted else 'above'} {wanted:g}"
        lines.append(f"{line}.")
    if "UrbanCrop" in cases_of(rows):
        lines.append(
            "UrbanCrop is a corner of Urban with five materials: the paper's figures for the whole "
            "image with four ("
            + ", ".join(f"{name} {angle:g}" for name, (angle, _) in UNMIXING["Urban"].items())
            + ") are not comparable."
        )
    return lines


TABLE = Table(
    name="unmixing",
    title="Hyperspectral unmixing (table 5)",
    about="EP4Orth+ with the paper's parameters for images; the default is `unmix`.",
    columns=(
        Column("angle", "SAD", ".3f", "least", "spectral angle distance, radians; mean of seeds"),
        Column("least", "least", ".3f", "", "of the best seed"),
        Column("violation", "violation", ".0e", "", "||X'X - I|| + ||min(X, 0)|| of the answer"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{', '.join(QUICK_SETS)} only, three seeds, a second or two a run",
)  # fmt: skip
