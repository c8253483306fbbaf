r"""
The penalty path, step by step
==============================

EP4Orth+ minimizes :math:`f(X) + \sigma (\|XV\|_F^2 - 1)` over nonnegative matrices with unit
columns, for a growing :math:`\sigma`. Here are the iterates themselves: at first the columns
overlap, then entries become zero one after the other, and at a *finite* :math:`\sigma` the columns
are orthogonal exactly.
"""

# %%
# Sixty rows in four noisy groups; a callback keeps each iterate.

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
# Eight moments of the path, and the answer. Blue is a positive entry; each row ends with one.

moments = np.unique(np.linspace(0, len(path) - 1, 8).round().astype(int))
figure, axes = plt.subplots(1, len(moments) + 1, figsize=(11, 4.2), layout="constrained")
shade = {"aspect": "auto", "cmap": "Blues", "vmin": 0, "vmax": 0.35, "interpolation": "nearest"}
for axis, state in zip(axes, [path[m] for m in moments], strict=False):
    axis.imshow(state.X, **shade)
    shared = ((state.X > 0).sum(axis=1) > 1).sum()
    axis.set_title(rf"$\sigma$ = {state.sigma:.2g}", fontsize=10)
    axis.set_xlabel(f"violation\n{state.violation:.0e}\n{shared} rows\nshared", fontsize=9)
axes[-1].imshow(result.X, **shade)
axes[-1].set_title("the answer", fontsize=10, fontweight="bold")
axes[-1].set_xlabel("violation\n0\n0 rows\nshared", fontsize=9)
for axis in axes:
    axis.set(xticks=[], yticks=[])
plt.show()

# %%
# The claim: the violation falls from of order one to rounding error, and the groups are the right
# ones. Next: the mathematics is in :doc:`/method`.

violations = [state.violation for state in path]
assert violations[0] > 0.1
assert violations[-1] < 1e-8
assert result.violation < 1e-14
assert op.metrics.purity(groups, result.labels) == 1.0
