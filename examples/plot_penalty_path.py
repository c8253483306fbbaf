r"""
The penalty path, step by step
==============================

EP4Orth+ minimizes :math:`f(X) + \sigma (\|XV\|_F^2 - 1)` over nonnegative matrices with unit
columns for increasing :math:`\sigma`. This example shows the iterates: at first the columns
overlap, then more and more entries become zero, and at a *finite* :math:`\sigma` the columns no
longer overlap.
"""

# %%
# Sixty rows form four noisy groups, and a callback stores each iterate.

import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

rng = np.random.default_rng(1)
groups = np.sort(rng.integers(4, size=60))
profiles = rng.random((4, 30)) ** 2
A = rng.uniform(0.5, 1.5, (60, 1)) * profiles[groups] + 0.25 * rng.random((60, 30))

path = []
result = op.solve(
    op.problems.ONMF(A, 4),
    method=op.EP4Orth(penalty_growth=1.2),
    callback=lambda state: path.append(state),
)
print(result)

# %%
# The figure shows eight iterates and the solution. Blue entries are positive; at the end, each row
# has one.

moments = np.unique(np.linspace(0, len(path) - 1, 8).round().astype(int))
figure, axes = plt.subplots(1, len(moments) + 1, figsize=(11, 4.2), layout="constrained")
shade = {"aspect": "auto", "cmap": "Blues", "vmin": 0, "vmax": 0.35, "interpolation": "nearest"}
for axis, state in zip(axes, [path[m] for m in moments], strict=False):
    axis.imshow(state.X, **shade)
    shared = ((state.X > 0).sum(axis=1) > 1).sum()
    axis.set_title(rf"$\sigma$ = {state.sigma:.2g}", fontsize=10)
    axis.set_xlabel(f"violation\n{state.violation:.0e}\n{shared} rows\nshared", fontsize=9)
axes[-1].imshow(result.X, **shade)
axes[-1].set_title("solution", fontsize=10, fontweight="bold")
axes[-1].set_xlabel(f"violation\n{result.violation:.0e}\n0 rows\nshared", fontsize=9)
for axis in axes:
    axis.set(xticks=[], yticks=[])
plt.show()

# %%
# The assertions check that the violation decreases from order one to rounding errors, and that the
# groups are found. :doc:`/method` explains the mathematics.

violations = [state.violation for state in path]
assert violations[0] > 0.1
assert violations[-1] < 1e-8
assert result.violation < 1e-14
assert op.metrics.purity(groups, result.labels) == 1.0
