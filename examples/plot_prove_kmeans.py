r"""
Is this k-means clustering optimal?
===================================

Ten starts of k-means usually give a good partition, but nothing says whether a better one exists.
:func:`orthoplus.certify` bounds the inertia of *every* partition from below, for labels from any
library. Here it proves scikit-learn's answer on the iris data optimal, and shows one that is not.
"""

# %%
# Two clusters of iris. The gap is the relative distance of the inertia to the bound.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

import orthoplus as op

X = load_iris().data
labels = KMeans(2, n_init=10, random_state=0).fit(X).labels_
problem = op.problems.KMeans(X, 2)
certificate = op.certify(problem, labels, tol=1e-6, time_limit=60)
print(certificate)
print(bool(certificate.verify()), "by a check of its own")

# %%
# Proofs are found with more effort for more clusters. The curve shows what is possible at least,
# while the time passes; a gap that is closed proves the labels optimal.

fig, axis = plt.subplots(figsize=(6.4, 3.6))
for k in (2, 3, 4):
    own = KMeans(k, n_init=10, random_state=0).fit(X).labels_
    found = op.certify(op.problems.KMeans(X, k), own, tol=1e-6, time_limit=20)
    steps = [step for step in found.history if step.value > step.bound > 0]
    gaps = [step.value / step.bound - 1 for step in steps]
    axis.step([step.seconds for step in steps], gaps, where="post", label=f"k = {k}")
axis.set(xscale="log", yscale="log", xlabel="seconds", ylabel="gap", title="What is proven")
axis.legend()
fig.tight_layout()

# %%
# A single start may end elsewhere. The certificate of such an answer cannot close, and the better
# partition that turns up on the way is reported.

starts = [KMeans(3, n_init=1, init="random", random_state=seed).fit(X) for seed in range(40)]
worst = max(starts, key=lambda model: model.inertia_)
judged = op.certify(op.problems.KMeans(X, 3), worst.labels_, time_limit=10)
print(judged)
print(judged.message)
print(np.bincount(judged.labels), "rows in the clusters of the better partition")

plt.show()

# %%
# The claims: the first labels are optimal, the last are not. Next: :doc:`/proofs`.

assert certificate.is_optimal
assert certificate.verify()
assert not judged.is_optimal
assert judged.improved
