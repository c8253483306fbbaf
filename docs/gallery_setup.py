"""The gallery: order, what waits, and one look; the examples themselves need none of this."""

import logging
from typing import Any

import matplotlib as mpl

# The gallery in the order of the user guide.
ORDER = [
    "plot_digits_parts.py",
    "plot_text_topics.py",
    "plot_select_rank.py",
    "plot_cells.py",
    "plot_unmixing.py",
    "plot_parcellation.py",
    "plot_prove_kmeans.py",
    "plot_projection_certificate.py",
    "plot_penalty_path.py",
    "plot_indicators_kmeans.py",
    "plot_spectral_shapes.py",
    "plot_nonnegative_pca.py",
    "plot_qap.py",
    "plot_own_function_jax.py",
]
# An example whose function is not in the package yet is left out of the gallery.
WAITING = {"plot_select_rank": "select_rank"}

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.dpi": 110,
    "font.size": 10.5,
    "savefig.facecolor": "white",
}


def set_style(gallery_conf: dict[str, Any], fname: str) -> None:
    """Called before each example."""
    mpl.rcParams.update(STYLE)
    # That loops are being compiled is news of this machine, not output of the example.
    logging.getLogger("orthoplus").setLevel(logging.ERROR)
