"""Baselines, one per file, and the registry of their names."""

from orthoplus.methods.baselines.approximately_orthogonal import ApproximatelyOrthogonalNMF
from orthoplus.methods.baselines.convex_relaxation import ConvexRelaxation
from orthoplus.methods.baselines.em_onmf import EMONMF
from orthoplus.methods.baselines.gopa import GOPA
from orthoplus.methods.baselines.hals_onmf import HALSONMF
from orthoplus.methods.baselines.kindap import KindAP
from orthoplus.methods.baselines.onpmf import ONPMF
from orthoplus.methods.baselines.opnmf import OPNMF
from orthoplus.methods.baselines.scikit_learn import (
    KMeansBaseline,
    LSAKMeans,
    NMFBaseline,
    SphericalKMeans,
)
from orthoplus.methods.baselines.seppg import SEPPG
from orthoplus.methods.baselines.sncp import SNCP
from orthoplus.methods.baselines.support_set import SupportSet
from orthoplus.methods.baselines.uonmf import UONMF
from orthoplus.methods.baselines.vca import VCA
from orthoplus.methods.baselines.wen_yin import WenYin
from orthoplus.methods.baselines.yoo_choi import YooChoi

BASELINES = {
    "uonmf": UONMF,
    "yoo_choi": YooChoi,
    "opnmf": OPNMF,
    "onpmf": ONPMF,
    "em_onmf": EMONMF,
    "hals_onmf": HALSONMF,
    "approximately_orthogonal": ApproximatelyOrthogonalNMF,
    "sncp": SNCP,
    "gopa": GOPA,
    "k_means": KMeansBaseline,
    "spherical_k_means": SphericalKMeans,
    "lsa_k_means": LSAKMeans,
    "nmf": NMFBaseline,
    "kindap": KindAP,
    "convex_relaxation": ConvexRelaxation,
    "vca": VCA,
    "wen_yin": WenYin,
    "seppg": SEPPG,
    "support_set": SupportSet,
}

# The entries of `orthoplus.problems.PROBLEMS` that a baseline supports; "onmf" if not listed.
TAKES = {"kindap": ("k_indicators",)}
# Baselines for any smooth f. They support every problem, and `solve` handles a second block.
ANY_SMOOTH = ("wen_yin", "seppg", "support_set")
# Baselines that need the entries of the data, not only products; and those with a single step.
NEED_ENTRIES = ("k_means", "spherical_k_means", "lsa_k_means", "nmf")
ONE_STEP = (*NEED_ENTRIES, "convex_relaxation", "vca")

__all__ = [
    "ANY_SMOOTH",
    "BASELINES",
    "EMONMF",
    "GOPA",
    "HALSONMF",
    "NEED_ENTRIES",
    "ONE_STEP",
    "ONPMF",
    "OPNMF",
    "SEPPG",
    "SNCP",
    "TAKES",
    "UONMF",
    "VCA",
    "ApproximatelyOrthogonalNMF",
    "ConvexRelaxation",
    "KMeansBaseline",
    "KindAP",
    "LSAKMeans",
    "NMFBaseline",
    "SphericalKMeans",
    "SupportSet",
    "WenYin",
    "YooChoi",
]
