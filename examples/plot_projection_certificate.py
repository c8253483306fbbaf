r"""
A projection with a proof
=========================

Finding the orthonormal nonnegative matrix closest to a given :math:`C` is a combinatorial problem.
:func:`orthoplus.project` computes a feasible point and an upper bound that holds for *every*
feasible point. If the two values meet, the point is the global optimum.
"""

# %%
# For two columns the bound can be drawn. Any ratio :math:`t = w_2/w_1` of positive weights gives
# both values: assigning each row to the column with the larger :math:`w_j P_{ij}`, where :math:`P =
# \max(C, 0)^2`, gives a feasible point, and evaluating the dual function gives a bound.

import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

C = np.random.default_rng(0).random((400, 2))
P = C**2
ratios = np.geomspace(0.02, 50, 400)


def below(t):
    labels = (t * P[:, 1] > P[:, 0]).astype(int)
    return sum(np.sqrt(P[labels == j, j].sum()) for j in range(2))


def above(t):
    return np.sqrt(np.maximum(P[:, 0], t * P[:, 1]).sum() * (1 + 1 / t))


feasible, bound = np.array([below(t) for t in ratios]), np.array([above(t) for t in ratios])
small = op.project(C)
print(small)

# %%
# With more columns there is one weight per column. The instances of the paper, 600 x 30, have a
# known solution. The following code measures how far the penalty method and the certified
# projection are from the optimum.

levels = (0.5, 0.9, 0.98, 1.0)
missing = {"penalty method": [], "certified": []}
n_certified = 0
for level in levels:
    for seed in range(4):
        instance = op.datasets.planted_projection(600, 30, level, np.random.default_rng(seed))
        certified = op.project(instance.C)
        problem = op.problems.Projection(instance.C)
        penalty = op.solve(problem, method=op.EP4Orth.for_projection(), search=False)
        missing["penalty method"].append((level, instance.value - np.vdot(instance.C, penalty.X)))
        missing["certified"].append((level, instance.value - certified.value))
        n_certified += certified.status is op.Status.CERTIFIED
print(f"{n_certified} of {4 * len(levels)} certified")

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), layout="constrained", width_ratios=[1.35, 1]
)
left.fill_between(ratios, feasible, bound, color="tab:blue", alpha=0.12)
left.plot(ratios, bound, color="tab:orange", label="upper bound")
left.plot(ratios, feasible, color="tab:blue", label="a feasible point")
touch = ratios[(bound - feasible).argmin()]
left.plot(touch, small.value, "o", color="0.2", markersize=9)
left.annotate(
    "global optimum",
    (touch, small.value),
    (touch, 0.78 * small.value),
    ha="center",
    arrowprops={"arrowstyle": "-"},
)
left.set(
    xscale="log",
    xlabel="$w_2 / w_1$",
    ylabel=r"$\langle C, X\rangle$",
    title="two columns: value and bound",
)
left.set_ylim(0.6 * small.value, 1.3 * small.value)
left.legend(frameon=False, loc="lower center")
looks = {"penalty method": ("s", "tab:orange"), "certified": ("o", "tab:blue")}
for shift, (name, (marker, color)) in enumerate(looks.items()):
    x = [levels.index(level) + 0.25 * shift - 0.12 for level, _ in missing[name]]
    y = [max(gap, 1e-15) for _, gap in missing[name]]
    right.plot(x, y, marker, color=color, label=name, alpha=0.7)
right.axhline(1e-12, color="0.6", linewidth=1, linestyle="--")
right.text(3.2, 2e-12, "rounding errors", color="0.4", ha="right")
right.set(
    yscale="log",
    xlabel=r"noise $\xi$",
    ylabel=r"optimum $-\ \langle C, X\rangle$",
    title="30 columns: distance to the optimum",
)
right.set_xticks(range(len(levels)), map(str, levels))
right.legend(frameon=False, loc="center left")
plt.show()

# %%
# The assertions check that all projections are certified and optimal. :doc:`/projection` explains
# how the weights are found, and what to expect for data without a planted solution.

assert small.gap < 1e-12
assert (bound >= small.value - 1e-9).all()
assert n_certified == 16
assert max(gap for _, gap in missing["certified"]) < 1e-10
assert max(gap for _, gap in missing["penalty method"]) > 1e-3
