"""The hot loops in plain NumPy: the specification that `fused` is tested against."""

from orthoplus.kernels.reference import exchange, oblique, pairs, rows
from orthoplus.kernels.reference.exchange import *  # noqa: F403
from orthoplus.kernels.reference.oblique import *  # noqa: F403
from orthoplus.kernels.reference.pairs import *  # noqa: F403
from orthoplus.kernels.reference.rows import *  # noqa: F403

__all__ = sorted(exchange.__all__ + oblique.__all__ + pairs.__all__ + rows.__all__)
