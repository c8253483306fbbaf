"""The baselines, one per file; the registry gives each its name."""

from orthoplus.methods.baselines.em_onmf import EMONMF
from orthoplus.methods.baselines.hals_onmf import HALSONMF
from orthoplus.methods.baselines.kindap import KindAP
from orthoplus.methods.baselines.onpmf import ONPMF
from orthoplus.methods.baselines.opnmf import OPNMF
from orthoplus.methods.baselines.scikit_learn import KMeansBaseline, NMFBaseline
from orthoplus.methods.baselines.uonmf import UONMF
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
}

# The entries of `orthoplus.problems.PROBLEMS` that a baseline is made for, "onmf" if not here.
TAKES = {"kindap": ("k_indicators",)}
# Baselines that do everything in one step of another library.
ONE_STEP = ("k_means", "nmf")

__all__ = [
    "BASELINES",
    "EMONMF",
    "HALSONMF",
    "ONE_STEP",
    "ONPMF",
    "OPNMF",
    "TAKES",
    "UONMF",
    "KMeansBaseline",
    "KindAP",
    "NMFBaseline",
    "YooChoi",
]
