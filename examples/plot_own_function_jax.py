"""
Your own loss, with JAX
=======================

A few broken sensors can ruin a least-squares clustering. Write a loss that forgives outliers, the
Huber loss, in two lines of JAX; its derivatives are made for you, and everything else stays as it
is.
"""

# %%
# Ninety rows in three groups, a quarter of all entries spoilt.

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

rng = np.random.default_rng(0)
truth = np.repeat([0, 1, 2], 30)
profiles = rng.random((3, 24)) ** 3
A = rng.uniform(0.6, 1.4, (90, 1)) * profiles[truth] + 0.02 * rng.random((90, 24))
spoilt = rng.random(A.shape) < 0.25
A = np.where(spoilt, 8.0 * rng.random(A.shape), A)

# %%
# The model: :math:`\min \sum_{ij} h_\delta([A - XX^\top B]_{ij})` over :math:`X \in
# \mathcal{S}_+`, with :math:`B = \min(A, c)` the data cut off at what a sound sensor can show.
# Least squares gets the same chance: once with the data as they are, once cut off.

delta, cap = 0.05, 1.0
B = np.minimum(A, cap)


def huber_fit(X):
    R = A - X @ (X.T @ B)
    return (delta**2 * (jnp.sqrt(1 + (R / delta) ** 2) - 1)).sum()


robust = op.autodiff.from_jax(huber_fit, (90, 3))
print("gradient right:", op.check_gradient(robust).is_right)
answers = {
    "least squares": op.solve(op.problems.ONMF(A, 3)),
    "cut off": op.solve(op.problems.ONMF(B, 3)),
    "Huber loss": op.solve(robust, n_init=3),
}
purity = {name: op.metrics.purity(truth, result.labels) for name, result in answers.items()}
print({name: round(value, 2) for name, value in purity.items()})

# %%
# The data and the three clusterings. Rows are in their true order: a good clustering is three
# blocks.

figure, axes = plt.subplots(
    1, 4, figsize=(10, 4.6), layout="constrained", width_ratios=[2, 1, 1, 1]
)
axes[0].imshow(A, aspect="auto", cmap="viridis", vmax=1.5, interpolation="nearest")
axes[0].set(title="data, a quarter spoilt", xticks=[], yticks=[], ylabel="rows, by true group")
for axis, (name, result) in zip(axes[1:], answers.items(), strict=True):
    axis.imshow(result.X, aspect="auto", cmap="Blues", vmax=0.35, interpolation="nearest")
    axis.set(title=f"{name}\npurity {purity[name]:.2f}", xticks=[], yticks=[])
    for edge in (29.5, 59.5):
        axis.axhline(edge, color="0.6", linewidth=0.8)
plt.show()

# %%
# The claim: the Huber loss finds the groups in spoilt data, cutting off finds most, least squares
# is lost; all three answers are exactly feasible. Next: :doc:`/own-function` has PyTorch, NumPy
# gradients, the gradient check and callbacks.

assert purity["Huber loss"] > 0.9
assert purity["Huber loss"] > purity["cut off"] + 0.02
assert purity["cut off"] > purity["least squares"] + 0.2
assert all(result.violation < 1e-12 for result in answers.values())
