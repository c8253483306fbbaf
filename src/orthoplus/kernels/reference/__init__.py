"""Kernels in plain NumPy: the specification that `fused` is tested against."""

from orthoplus.kernels.reference import (
    centers,
    counts,
    delta,
    divergence,
    exchange,
    fractions,
    groups,
    indicators,
    k_means,
    oblique,
    pairs,
    relaxation,
    row_moves,
    rows,
)
from orthoplus.kernels.reference.centers import *  # noqa: F403
from orthoplus.kernels.reference.counts import *  # noqa: F403
from orthoplus.kernels.reference.delta import *  # noqa: F403
from orthoplus.kernels.reference.divergence import *  # noqa: F403
from orthoplus.kernels.reference.exchange import *  # noqa: F403
from orthoplus.kernels.reference.fractions import *  # noqa: F403
from orthoplus.kernels.reference.groups import *  # noqa: F403
from orthoplus.kernels.reference.indicators import *  # noqa: F403
from orthoplus.kernels.reference.k_means import *  # noqa: F403
from orthoplus.kernels.reference.oblique import *  # noqa: F403
from orthoplus.kernels.reference.pairs import *  # noqa: F403
from orthoplus.kernels.reference.relaxation import *  # noqa: F403
from orthoplus.kernels.reference.row_moves import *  # noqa: F403
from orthoplus.kernels.reference.rows import *  # noqa: F403

_MODULES = (
    centers,
    counts,
    delta,
    divergence,
    exchange,
    fractions,
    groups,
    indicators,
    k_means,
    oblique,
    pairs,
    relaxation,
    row_moves,
    rows,
)
__all__ = sorted(name for module in _MODULES for name in module.__all__)
