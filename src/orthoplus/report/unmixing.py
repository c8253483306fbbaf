"""The page of an unmixed image."""

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

_MAPS_PER_ROW = 3


def unmixing_page(record: dict[str, Any], found: Any, bands: tuple[str, ...] | None) -> str:
    """The page as HTML; ``found`` is what `unmix` returned."""
    result = record["result"]
    h, w, k = found.abundances.shape
    names = [f"material {j}" for j in range(k)]
    means = found.abundances.mean(axis=(0, 1))
    titles = [f"{name}: {mean:.0%}" for name, mean in zip(names, means, strict=True)]
    maps = figures.fraction_maps(found.abundances, found.labels, titles, most=_MAPS_PER_ROW)
    spectra = figures.spectra(found.endmembers, bands, names)
    sections = (
        Section(
            "Maps",
            "The fraction of each material in each pixel: no fraction is negative, and those of a "
            "pixel sum to one. The first map has the material with the largest fraction, in the "
            "colors of the spectra below.",
            figures=(("The percentages are means over the image.", maps),),
        ),
        Section("Spectra", figures=(("The spectrum of each material.", spectra),)),
        again_section(record),
        experts_section(record),
    )
    page = Page(
        title=f"{Path(record['data']['file']).name}: {k} materials",
        subtitle=f"An image of {h} x {w} pixels and {found.endmembers.shape[1]} bands, unmixed. "
        "The figures are those of the factorization with one material per pixel.",
        status=f"{k} materials, each with a spectrum and a map of its fractions."
        if result["success"]
        else found.result.status.message,
        is_success=result["success"],
        facts=(
            Fact("Materials", str(k), f"{h} x {w} pixels"),
            Fact("Explained", percent(explained_of(record)), measure_of(record).share),
        ),
        sections=sections,
        notes=(*found.result.notes, *record["notes"]),
        foot=foot_of(record),
    )
    return render(page)
