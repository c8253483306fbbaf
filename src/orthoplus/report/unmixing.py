"""The page of an unmixed image."""

from pathlib import Path
from typing import Any

from orthoplus.report import figures
from orthoplus.report.clusters import again_section, convergence_section, foot_of, quality_facts
from orthoplus.report.page import Page, Section, render

_MAPS_A_ROW = 4


def unmixing_page(record: dict[str, Any], found: Any, bands: tuple[str, ...] | None) -> str:
    """The page as HTML; ``found`` is what `unmix` returned."""
    result = record["result"]
    h, w, k = found.abundances.shape
    names = [f"material {j}" for j in range(k)]
    titles = [
        f"{name}: {size} pixels" for name, size in zip(names, result["cluster_sizes"], strict=True)
    ]
    maps = figures.image_grid(
        "maps", [found.abundances[..., j] for j in range(k)], titles, most=_MAPS_A_ROW
    )
    spectra = figures.spectra(found.endmembers, bands, names)
    sections = (
        Section(
            "Maps",
            "Each pixel belongs to one material, and its brightness there is relative to the "
            "material's spectrum: 1 on average.",
            figures=(("One map a material; black is none of it.", maps),),
        ),
        Section("Spectra", figures=(("The spectrum of each material.", spectra),)),
        convergence_section(record),
        again_section(record),
    )
    page = Page(
        title=f"{Path(record['data']['file']).name}: {k} materials",
        subtitle=f"An image of {h} x {w} pixels and {found.endmembers.shape[1]} bands, unmixed.",
        status=result["message"],
        is_success=result["success"],
        facts=quality_facts(record),
        sections=sections,
        notes=tuple(record["notes"]),
        foot=foot_of(record),
    )
    return render(page)
