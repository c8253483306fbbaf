"""
Untangle a circuit
==================

Place thirty-six components of a circuit on a 6 x 6 board so that the wires between them are short.
This is a quadratic assignment problem: flows between components times distances between places. For
n = k, a nonnegative orthonormal matrix is a permutation matrix.
"""

# %%
# The circuit is a shuffled grid, so the best layout is known: every wire has length one.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import quadratic_assignment

import orthoplus as op

side = 6
places = np.stack(np.meshgrid(range(side), range(side)), -1).reshape(-1, 2)
distances = np.abs(places[:, None] - places).sum(axis=-1).astype(float)
rng = np.random.default_rng(5)
order = rng.permutation(side * side)
wires = (distances == 1)[np.ix_(order, order)].astype(float)

# %%
# Compare SciPy's ``faq`` with its default options, SciPy's exchanges, and our function. All take
# the same arguments and return the same kind of result.

shuffled = np.arange(side * side)
faq = quadratic_assignment(wires, distances, options={"rng": rng})
others = {
    "as delivered": np.sum(wires * distances[np.ix_(shuffled, shuffled)]),
    "SciPy faq": faq.fun,
    "SciPy 2opt": quadratic_assignment(wires, distances, method="2opt", options={"rng": rng}).fun,
}
ours = op.quadratic_assignment(wires, distances, options={"rng": 0})
shortest = wires.sum()
for name, length in {**others, "orthoplus": ours.fun}.items():
    print(f"{name:12s} {length / 2:5.0f}")
print(f"shortest     {shortest / 2:5.0f}")

# %%
# The figure shows the board before and after. The color of a component is that of its place in the
# grid or in a mirror image of the grid.
home = places[order].sum(axis=1)


def draw(axis, place_of, title):
    for a, b in np.argwhere(np.triu(wires)):
        axis.plot(*places[place_of[[a, b]]].T, color="tab:blue", alpha=0.5, linewidth=2)
    axis.scatter(*places[place_of].T, c=home, cmap="viridis", s=130, zorder=3)
    axis.set(xticks=[], yticks=[], aspect="equal")
    axis.set_title(title, pad=10)
    axis.spines[:].set_visible(False)


figure, axes = plt.subplots(1, 2, figsize=(9.5, 5.3), layout="constrained")
draw(axes[0], shuffled, f"as delivered: {others['as delivered'] / 2:.0f}")
draw(axes[1], ours.col_ind, f"orthoplus: {ours.fun / 2:.0f}, the optimum")
plt.show()

# %%
# The assertions check that every wire has length one. See :doc:`/assignment`.

assert ours.fun == shortest
assert ours.fun <= min(others.values())
