"""Build the page of a parcellation."""

from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus.adapters.brain_images import is_surface
from orthoplus.report import figures
from orthoplus.report.clusters import explained_section, ranks_section
from orthoplus.report.experts import (
    again_section,
    experts_section,
    explained_of,
    foot_of,
    measure_of,
    most_of,
    percent,
    remarks_of,
)
from orthoplus.report.page import Fact, Grid, GridCell, Page, Section, Step, render
from orthoplus.report.slices import slice_figure

if TYPE_CHECKING:
    from orthoplus.adapters.brain import Parcellation


def parcel_page(record: dict[str, Any], model: "Parcellation") -> str:
    """Return the page as HTML; ``model`` is a fitted `Parcellation`."""
    result, (n, r) = record["result"], record["data"]["shape"]
    k, unit = len(result["cluster_sizes"]), record["data"]["unit"]
    sections = [_map_section(model, unit), _table_section(record, model)]
    sections.append(explained_section(record, row=unit_word(unit), group="parcel"))
    if record.get("ranks"):
        sections.append(ranks_section(record["ranks"], "parcels"))
    sections += [_next_section(record, k), again_section(record), experts_section(record)]
    page = Page(
        title=f"{record['data']['file']}: {k} parcels",
        subtitle=f"{n} {unit}, {r} samples. Parcellated by orthogonal nonnegative factorization.",
        status=f"{k} parcels; each {unit_word(unit)} with data belongs to exactly one."
        if result["success"]
        else result["message"],
        is_success=result["success"],
        facts=_facts(record, k, unit),
        sections=tuple(sections),
        notes=(*remarks_of(record), *record["notes"]),
        foot=foot_of(record),
    )
    return render(page)


def unit_word(unit: str) -> str:
    """Return the singular of voxels or vertices.

    Examples
    --------
    >>> unit_word("voxels"), unit_word("vertices")
    ('voxel', 'vertex')
    """
    return {"voxels": "voxel", "vertices": "vertex"}[unit]


def _facts(record: dict[str, Any], k: int, unit: str) -> tuple[Fact, ...]:
    sizes, most = record["result"]["cluster_sizes"], most_of(record)
    found = [
        Fact("Parcels", str(k), f"{min(sizes)} to {max(sizes)} {unit}"),
        Fact("Samples", str(record["data"]["shape"][1]), "subjects or time points"),
        Fact("Explained", percent(explained_of(record)), measure_of(record).share),
    ]
    if most is not None:
        found.append(Fact("Upper bound", percent(most), "by a quick bound"))
    return tuple(found)


def _map_section(model: "Parcellation", unit: str) -> Section:
    if is_surface(model.labels_img_):
        text = "Any surface viewer opens the label files, with the names and colors below."
        return Section("Parcels", text)
    caption = (
        "The colors are those of the table below and of the look-up table. The left side of the "
        "brain is on the left."
    )
    drawn = ((caption, slice_figure(model.labels_img_, model.lut_["color"])),)
    text = f"Each {unit_word(unit)} with data is in one parcel."
    return Section("Parcels", text, figures=drawn)


def _table_section(record: dict[str, Any], model: "Parcellation") -> Section:
    """Return the section with the size and position of each parcel."""
    sizes = np.asarray(record["result"]["cluster_sizes"])
    total = max(int(sizes.sum()), 1)
    places = _centers(model.labels_img_, len(sizes))
    unit = record["data"]["unit"]
    rows = tuple(
        (
            GridCell(str(j + 1), color=model.lut_["color"][j + 1]),
            GridCell(str(size)),
            GridCell(f"{size / total:.1%}"),
            GridCell(places[j], is_text=True),
        )
        for j, size in enumerate(sizes.tolist())
    )
    where = "hemispheres" if is_surface(model.labels_img_) else "center (x, y, z mm)"
    bars = figures.size_bars(
        sizes, names=("parcel", unit), colors=model.lut_["color"][1:].tolist(), first=1
    )
    return Section(
        "Sizes",
        figures=((f"The number of {unit} of each parcel.", bars),),
        grid=Grid(("parcel", unit, "share", where), rows),
    )


def _centers(image: Any, k: int) -> list[str]:
    """Return the center of mass of each parcel in mm, or its vertices per hemisphere."""
    if is_surface(image):
        counts = {
            side: np.bincount(np.asarray(labels).ravel().astype(int), minlength=k + 1)[1:]
            for side, labels in image.data.parts.items()
        }
        return [", ".join(f"{side} {n[j]}" for side, n in counts.items() if n[j]) for j in range(k)]
    labels = np.asarray(image.dataobj).astype(int)
    inside = np.nonzero(labels)
    own = labels[inside]
    sizes = np.maximum(np.bincount(own, minlength=k + 1)[1:], 1)
    sums = [np.asarray(np.bincount(own, at, k + 1)[1:]) for at in inside]
    means = np.stack(sums, axis=1) / sizes[:, None]
    places = means @ np.asarray(image.affine)[:3, :3].T + np.asarray(image.affine)[:3, 3]
    return [f"{x:z.0f}, {y:z.0f}, {z:z.0f}" for x, y, z in places]  # never -0


def _next_section(record: dict[str, Any], k: int) -> Section:
    steps = []
    if not record.get("ranks"):
        low, high = max(2, k // 2), 2 * k
        text = "Compare other numbers of parcels on two halves of the subjects:"
        steps.append(Step(text, f"-k {low}-{high}"))
    steps.append(
        Step("Use the value of each parcel in each image for statistics; it is in", "values.csv")
    )
    return Section("What to do next", steps=tuple(steps))
