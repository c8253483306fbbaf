"""
How many clusters?
==================

The fit improves with every additional cluster, so it does not determine their number.
:func:`orthoplus.select_rank` fits a range of k and compares the results.
"""

# %%
# The data consist of five groups of rows with noise.

import io

import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

rng = np.random.default_rng(0)
groups = rng.integers(5, size=120)
X = rng.uniform(0.5, 1.5, (120, 1)) * rng.random((5, 20))[groups] + 0.2 * rng.random((120, 20))

# %%
# One call compares all k from 2 to 8.

choice = op.select_rank(X, range(2, 9), random_state=0)
print(choice)

# %%
# ``plot`` returns a separate figure, which can be saved; here it is displayed.

buffer = io.BytesIO()
choice.plot().savefig(buffer, dpi=160)
buffer.seek(0)
figure, axis = plt.subplots(figsize=(8, 5.2), layout="constrained")
axis.imshow(plt.imread(buffer))
axis.set_axis_off()
plt.show()

# %%
# The assertion checks that the five planted groups are found. :doc:`/choose-k` explains the three
# criteria, and :doc:`/cluster` fits the chosen k.

assert choice.k == 5
