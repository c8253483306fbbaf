"""Your own penalty: the logarithm of ||XV||_F^2, which is zero on S+."""

from dataclasses import dataclass

import numpy as np

import orthoplus as op
from orthoplus.penalty import Penalty


@dataclass(frozen=True)
class LogPenalty(Penalty):
    """sigma log(s) with s = ||XV||_F^2, which is 1 on S+ and larger elsewhere on OB+."""

    def profile(self, s):
        return float(np.log(s)), 1.0 / s, -1.0 / s**2


if __name__ == "__main__":
    C = np.random.default_rng(0).random((30, 3))
    result = op.solve(op.problems.Projection(C), method=op.EP4Orth(penalty=LogPenalty(1.0)))
    print(result.status.name, round(result.value / op.solve(op.problems.Projection(C)).value, 3))
