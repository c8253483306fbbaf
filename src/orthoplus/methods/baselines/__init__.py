"""The baselines, one per file; the registry gives each its name."""

from orthoplus.methods.baselines.convex_relaxation import ConvexRelaxation
from orthoplus.methods.baselines.em_onmf import EMONMF
from orthoplus.methods.baselines.hals_onmf import HALSONMF
from orthoplus.methods.baselines.kindap import KindAP
from orthoplus.methods.baselines.onpmf import ONPMF
from orthoplus.methods.baselines.opnmf import OPNMF
from orthoplus.methods.baselines.scikit_learn import KMeansBaseline, NMFBaseline
from orthoplus.methods.baselines.uonmf import UONMF
from orthoplus.methods.baselines.vca import VCA
from orthoplus.methods.baselines.yoo_choi import YooChoi

BASELINES = {
    "uonmf": UONMF,
    "yoo_choi": YooChoi,
    "opnmf": OPNMF,
    "onpmf": ONPMF,
    "em_onmf": EMONMF,
    "hals_onmf": HALSONMF,
    "k_means": KMeansBaseline,
    "nmf": NMFBaseline,
    "kindap": KindAP,
    "convex_relaxation": ConvexRelaxation,
    "vca": VCA,
}

# The entries of `orthoplus.problems.PROBLEMS` that a baseline is made for, "onmf" if not here.
TAKES = {"kindap": ("k_indicators",)}
# Baselines that need the entries of the data, not products alone; and those of one step.
NEED_ENTRIES = ("k_means", "nmf")
ONE_STEP = (*NEED_ENTRIES, "convex_relaxation", "vca")

__all__ = [
    "BASELINES",
    "EMONMF",
    "HALSONMF",
    "NEED_ENTRIES",
    "ONE_STEP",
    "ONPMF",
    "OPNMF",
    "TAKES",
    "UONMF",
    "VCA",
    "ConvexRelaxation",
    "KMeansBaseline",
    "KindAP",
    "NMFBaseline",
    "YooChoi",
]
