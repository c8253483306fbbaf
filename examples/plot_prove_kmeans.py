r"""
Is this k-means clustering optimal?
===================================

Ten starts of k-means usually give a good partition, but they do not show whether a better one
exists. :func:`orthoplus.certify` bounds the inertia of *every* partition from below, for labels
from any library. This example proves that a clustering of the iris data by scikit-learn is optimal,
and that another one is not.
"""

# %%
# Consider two clusters of the iris data. The gap is the relative distance of the inertia to the
# bound.

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
print(bool(certificate.verify()), "(verified independently)")

# %%
# Here, proofs take longer for more clusters. The curves show the gap over time; once it is at most
# 1e-6, the labels are proven optimal to this tolerance.

fig, axis = plt.subplots(figsize=(6.4, 3.6))
for k in (2, 3, 4):
    own = KMeans(k, n_init=10, random_state=0).fit(X).labels_
    found = op.certify(op.problems.KMeans(X, k), own, tol=1e-6, time_limit=20)
    steps = [step for step in found.history if step.value > step.bound > 0]
    gaps = [step.value / step.bound - 1 for step in steps]
    axis.step([step.seconds for step in steps], gaps, where="post", label=f"k = {k}")
axis.set(xscale="log", yscale="log", xlabel="seconds", ylabel="gap", title="Proven gap over time")
axis.legend(loc="best")
fig.tight_layout()

# %%
# A single start may end at a worse partition. Its gap cannot close, and the certificate reports the
# better partition that the proof found.

starts = [KMeans(3, n_init=1, init="random", random_state=seed).fit(X) for seed in range(40)]
worst = max(starts, key=lambda model: model.inertia_)
judged = op.certify(op.problems.KMeans(X, 3), worst.labels_, time_limit=10)
print(judged)
print(judged.message)
print(np.bincount(judged.labels), "rows in the clusters of the better partition")

plt.show()

# %%
# The assertions check that the first labels are optimal and the last ones are not. See
# :doc:`/proofs`.

assert certificate.is_optimal
assert certificate.verify()
assert not judged.is_optimal
assert judged.improved
