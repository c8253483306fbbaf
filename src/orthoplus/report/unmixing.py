"""Build the page of an unmixed image."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orthoplus.report import figures
from orthoplus.report.experts import (
    again_section,
    experts_section,
    explained_of,
    foot_of,
    measure_of,
    percent,
)
from orthoplus.report.page import Fact, Page, Section, render

# Up to this many materials, the maps are large, with two per row.
_LARGE_MAPS = 4


def unmixing_page(
    record: dict[str, Any], found: Any, names: Sequence[str], axis: figures.Axis
) -> str:
    """Return the page as HTML; ``found`` is the result of `unmix`."""
    result = record["result"]
    (height, width, k), n_empty = found.abundances.shape, _count_empty(found)
    size = f"{height} x {width} pixels"
    page = Page(
        title=f"{Path(record['data']['file']).name}: {k} materials",
        subtitle=f"An image of {size} and {found.endmembers.shape[1]} bands, unmixed.",
        status=f"{k} materials, each with a spectrum and a map of its fractions."
        if result["success"]
        else found.result.status.message,
        is_success=result["success"],
        facts=(
            Fact(
                "Materials",
                str(k),
                size + f", {n_empty} empty" * (n_empty > 0),
            ),
            Fact(
                "Explained",
                percent(explained_of(record)),
                f"{measure_of(record).share}, by one material per pixel",
            ),
        ),
        sections=(
            *_pictures(record, found, names, axis),
            again_section(record),
            experts_section(record),
        ),
        notes=(*found.result.notes, *record["notes"]),
        foot=foot_of(record),
    )
    return render(page)


def _count_empty(found: Any) -> int:
    return int((found.labels < 0).sum())


def _pictures(
    record: dict[str, Any], found: Any, names: Sequence[str], axis: figures.Axis
) -> tuple[Section, ...]:
    """Return the sections with the maps and the spectra."""
    shares, n_empty = record["result"]["mean_fractions"], _count_empty(found)
    titles = [f"{name}: {share:.0%}" for name, share in zip(names, shares, strict=True)]
    maps, labels = figures.thinned(found.abundances), figures.thinned(found.labels)
    per_row = 2 if len(titles) <= _LARGE_MAPS else 3
    data = f"{n_empty} pixels have no data and are left blank." if n_empty else ""
    return (
        Section(
            "Materials",
            f"Each pixel has the color of the material with the largest fraction. {data}",
            figures=(("The hard map: one material per pixel.", figures.label_map(labels, names)),),
        ),
        Section(
            "Fractions",
            "The fraction of each material in each pixel. Fractions are nonnegative and sum to one "
            "in each pixel.",
            figures=(
                (
                    "The percentages are means over the pixels with data.",
                    figures.fraction_maps(maps, labels, titles, most=per_row),
                ),
            ),
        ),
        Section(
            "Spectra",
            figures=(
                (
                    "The spectrum of each material, in the colors of the map.",
                    figures.spectra(found.endmembers, names, axis),
                ),
            ),
        ),
    )
