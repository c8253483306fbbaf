"""Table 5: hyperspectral unmixing, section 6.2.3."""

from dataclasses import replace
from functools import partial
from typing import IO, Any

import numpy as np

from orthoplus.bench import onmf_methods as onmf
from orthoplus.bench.onmf_methods import DEFAULT, METHODS, PENALTY
from orthoplus.bench.pictures import draw_abundances
from orthoplus.bench.printed import printed, printed_cases
from orthoplus.bench.table import (
    Column,
    Figures,
    Items,
    Picture,
    Row,
    Rows,
    Session,
    Table,
    one_row,
)
from orthoplus.core.types import FloatArray
from orthoplus.data import as_data
from orthoplus.datasets import SceneData, load_scene, mixed_scene
from orthoplus.geometry.stiefel import labels_of, violation
from orthoplus.methods import baselines
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.metrics import match_spectra, spectral_angle_distance

SYNTHETIC = "synthetic"
SETS, QUICK_SETS = ("Samson", "JasperRidge", "UrbanCrop", SYNTHETIC), ("Samson",)
# Targets of the default: spectral angle, correlation of the fractions.
WANTED, WANTED_CORRELATION = {"Samson": 0.075, "JasperRidge": 0.135}, 0.97
VERTICES, VERTICES_FCLS = "VCA", "VCA + FCLS"
# Pixels and bands of random images that compile all loops: the swaps see a sample of many pixels.
WARM_SHAPE, QUICK_WARM_SHAPE = (20_000, 12), (200, 12)
# A picture shows the ground truth, the default and the other methods closest to the truth: more
# columns than this are too narrow to compare.
TRUTH, SHOWN = "ground truth", 8


def run_unmix(A: Any, k: int, seed: int, limit: float) -> onmf.Answer:
    """Run ``unmix``."""
    from orthoplus.estimators import unmix

    found = unmix(A, k, random_state=seed)
    X = found.result.X
    return onmf.Answer(
        X,
        found.endmembers.T,
        violation(X),
        violation(X),
        found.result.n_iter,
        fractions=found.abundances,
    )


def run_vca(A: Any, k: int, seed: int, limit: float, model: str = "fcls") -> onmf.Answer:
    """Run VCA, and find the fractions of its spectra: fully constrained, or as `unmix` does."""
    from orthoplus.estimators import abundances

    E = baselines.VCA(seed=seed).find_spectra(as_data(A), k)
    F = abundances(A, E, fractions=model)
    X = onmf.round_any(F)
    return onmf.Answer(X, E.T, violation(X), violation(F), fractions=F)


def run_image_penalty(A: Any, k: int, seed: int, limit: float) -> onmf.Answer:
    """Run EP4Orth+ with the paper's parameters for images, and round its result to S+."""
    found = onmf.run_penalty(A, k, seed, limit, EP4Orth.for_unmixing)
    return replace(found, X=onmf.round_any(found.X))


IMAGE_METHODS: dict[str, onmf.Runner] = METHODS | {
    DEFAULT: run_unmix,
    PENALTY: run_image_penalty,
    VERTICES_FCLS: run_vca,
    VERTICES: partial(run_vca, model="auto"),
}


def _scene(name: str, session: Session) -> SceneData:
    """Return an image with its ground truth; the synthetic one depends on the session's seed."""
    if name != SYNTHETIC:
        return load_scene(name, session.folder)
    return mixed_scene((200, 200, 150), 5, session.rng(), mixing="smooth", brightness=0.2)


def tasks(session: Session) -> Items:
    """Yield a case for each image; all methods on the same pixels."""
    onmf.warm_up(session, IMAGE_METHODS, session.pick(WARM_SHAPE, QUICK_WARM_SHAPE))
    for name in session.pick(SETS, QUICK_SETS):
        scene = _scene(name, session)
        maps: dict[str, FloatArray] = {TRUTH: scene.abundances}
        for method in IMAGE_METHODS:
            yield one_row(name, method, _measure, session, name, scene, method, maps)
        yield Picture(
            f"unmixing-{name}",
            f"{name}: the fractions of each material. Ground truth, ours, and the other methods "
            "with the smallest errors of the fractions (first seed).",
            partial(_draw, maps=maps, scene=scene),
        )


def _draw(file: IO[bytes], maps: dict[str, FloatArray], scene: SceneData) -> None:
    draw_abundances(file, closest(maps), scene.names, scene.image_shape)


def closest(maps: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the ground truth, the default, and the other maps in order of their errors."""
    first = [name for name in (TRUTH, DEFAULT) if name in maps]
    others = [name for name in maps if name not in first]
    others.sort(key=lambda name: float(((maps[name] - maps[TRUTH]) ** 2).sum()))
    return {name: maps[name] for name in [*first, *others][:SHOWN]}


def _measure(
    session: Session, case: str, scene: SceneData, method: str, maps: dict[str, FloatArray]
) -> Figures:
    """Measure one method on one image, and store its maps for the picture."""
    runs = onmf.run_method(session, case, method, scene.A, len(scene.names), IMAGE_METHODS)
    scores = []
    for found in runs.answers:
        if not _is_whole(found):
            scores.append((np.nan, np.nan, np.nan))
            continue
        order = match_spectra(found.Y.T, scene.endmembers)
        F = _fractions(scene.A, found)[:, order]
        maps.setdefault(method, F)
        angle = spectral_angle_distance(found.Y.T, scene.endmembers)
        scores.append((angle, *_agreement(F, scene.abundances)))
    angles, errors, correlations = zip(*scores, strict=True)
    return runs.figures("violation") | {
        "angle": float(np.mean(angles)),
        "least": min(angles),
        "rmse": float(np.mean(errors)),
        "correlation": float(np.mean(correlations)),
    }


def _agreement(F: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Return the root mean square error of fractions, and their correlation with the truth."""
    error = float(np.sqrt(((F - truth) ** 2).mean()))
    return error, float(np.corrcoef(F.ravel(), truth.ravel())[0, 1])


def _fractions(A: Any, found: onmf.Answer) -> FloatArray:
    """Return the fractions of a method: its own, or those computed from its spectra."""
    from orthoplus.estimators import abundances

    return abundances(A, _spectra(found)) if found.fractions is None else found.fractions


def _spectra(found: onmf.Answer) -> FloatArray:
    """Scale the spectra to the image, so that the mean factor over their pixels is 1."""
    labels = labels_of(np.maximum(found.X, 0.0))
    own = found.X.max(axis=1, where=labels[:, None] == np.arange(found.X.shape[1]), initial=0.0)
    sums = np.bincount(labels + 1, own, minlength=found.X.shape[1] + 1)[1:]
    counts = np.bincount(labels + 1, minlength=found.X.shape[1] + 1)[1:]
    scale = np.where(sums > 0.0, sums / np.maximum(counts, 1), 1.0)
    return np.asarray(scale[:, None] * found.Y.T)


def _is_whole(found: onmf.Answer) -> bool:
    """Return whether all spectra are nonzero."""
    return bool(found.Y.any(axis=0).all())


def judge(rows: Rows) -> list[str]:
    """Compare the default with its targets."""
    lines, cases = [], rows.by_case()
    for case, methods in cases.items():
        found, wanted = methods[DEFAULT].number("angle", np.nan), WANTED.get(case)
        line = f"{case}: the default's spectral angle distance is {found:.3f}"
        if wanted is not None:
            line += f", {'within' if found <= wanted else 'above'} {wanted:g}"
        lines.append(f"{line}.")
    lines += _judge_fractions(cases)
    if "UrbanCrop" in cases:
        whole = ", ".join(
            f"{method} {printed('unmixing', 'Urban', method)['angle']:g}"
            for method in printed_cases("unmixing")["Urban"]
        )
        lines.append(
            "UrbanCrop is a corner of Urban with five materials: the paper's figures for the whole "
            f"image with four ({whole}) are not comparable."
        )
    return lines


def _judge_fractions(cases: dict[str, dict[str, Row]]) -> list[str]:
    """Compare the fractions with those of VCA + FCLS, and with the truth of the synthetic image."""
    better = [
        case
        for case, methods in cases.items()
        if methods[DEFAULT].number("rmse", np.inf) < methods[VERTICES_FCLS].number("rmse", np.inf)
    ]
    lines = [
        f"The default's fractions have a smaller error than those of {VERTICES_FCLS} on "
        f"{len(better)} of {len(cases)} images."
    ]
    if SYNTHETIC in cases:
        found = cases[SYNTHETIC][DEFAULT].number("correlation")
        side = "at least" if found >= WANTED_CORRELATION else "below"
        lines.append(
            f"On the synthetic image the correlation of the default's fractions with the truth is "
            f"{found:.4f}, {side} {WANTED_CORRELATION:g}."
        )
    return lines


TABLE = Table(
    about="EP4Orth+ with the paper's parameters for images; the default is `unmix`. For all "
    "methods except VCA + FCLS and the default, fractions are computed from the spectra by "
    "`abundances`.",
    columns=(
        Column("angle", "SAD", ".3f", "least", "spectral angle distance, radians; mean of seeds"),
        Column("least", "least", ".3f", "", "of the best seed"),
        Column("rmse", "RMSE", ".3f", "least", "root mean square error of the fractions"),
        Column("correlation", "corr.", ".3f", "most", "of the fractions with the truth"),
        Column("violation", "violation", ".0e", "", "||X'X - I|| + ||min(X, 0)|| of the answer"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{', '.join(QUICK_SETS)} only, three seeds, a second or two per run",
)
