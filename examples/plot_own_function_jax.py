"""
Your own loss function with JAX
===============================

A few broken sensors can ruin a least-squares clustering. A smooth Huber loss is robust against
outliers and takes two lines of JAX; its derivatives are computed automatically, and everything else
is unchanged.
"""

# %%
# Ninety rows form three groups, and a quarter of all entries are corrupted.

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

rng = np.random.default_rng(0)
truth = np.repeat([0, 1, 2], 30)
profiles = rng.random((3, 24)) ** 3
A = rng.uniform(0.6, 1.4, (90, 1)) * profiles[truth] + 0.02 * rng.random((90, 24))
corrupted = rng.random(A.shape) < 0.25
A = np.where(corrupted, 8.0 * rng.random(A.shape), A)

# %%
# The model is :math:`\min \sum_{ij} h_\delta([A - XX^\top B]_{ij})` over :math:`X \in
# \mathcal{S}_+`, where :math:`B = \min(A, c)` are the data truncated at the largest value of an
# intact sensor. For comparison, least squares is applied to the original and to the truncated data.

delta, cap = 0.05, 1.0
B = np.minimum(A, cap)


def huber_fit(X):
    R = A - X @ (X.T @ B)
    return (delta**2 * (jnp.sqrt(1 + (R / delta) ** 2) - 1)).sum()


robust = op.autodiff.from_jax(huber_fit, (90, 3))
print("gradient correct:", op.check_gradient(robust).is_right)
answers = {
    "least squares": op.solve(op.problems.ONMF(A, 3)),
    "truncated": op.solve(op.problems.ONMF(B, 3)),
    "Huber loss": op.solve(robust, n_init=3),
}
purity = {name: op.metrics.purity(truth, result.labels) for name, result in answers.items()}
print({name: round(value, 2) for name, value in purity.items()})

# %%
# The figure shows the data and the three clusterings. The rows are in their true order, so a good
# clustering has three blocks.

figure, axes = plt.subplots(
    1, 4, figsize=(10, 4.6), layout="constrained", width_ratios=[2, 1, 1, 1]
)
axes[0].imshow(A, aspect="auto", cmap="viridis", vmax=1.5, interpolation="nearest")
axes[0].set(title="data, a quarter corrupted", xticks=[], yticks=[], ylabel="rows by true group")
for axis, (name, result) in zip(axes[1:], answers.items(), strict=True):
    axis.imshow(result.X, aspect="auto", cmap="Blues", vmax=0.35, interpolation="nearest")
    axis.set(title=f"{name}\npurity {purity[name]:.2f}", xticks=[], yticks=[])
    for edge in (29.5, 59.5):
        axis.axhline(edge, color="0.6", linewidth=0.8)
plt.show()

# %%
# The assertions check that the Huber loss finds the groups in corrupted data, that it is better
# than truncation and truncation better than least squares, and that all solutions are feasible.
# :doc:`/own-function` covers PyTorch, NumPy gradients, the gradient check and callbacks.

assert purity["Huber loss"] > 0.9
assert purity["Huber loss"] > purity["truncated"] + 0.02
assert purity["truncated"] > purity["least squares"] + 0.2
assert all(result.violation < 1e-12 for result in answers.values())
