"""
How many groups?
================

The fit improves with every further group, so the fit alone cannot say how many there are.
:func:`orthoplus.select_rank` fits a range of k and compares.
"""

# %%
# Five groups of rows, hidden in noise.

import io

import matplotlib.pyplot as plt
import numpy as np

import orthoplus as op

rng = np.random.default_rng(0)
groups = rng.integers(5, size=120)
X = rng.uniform(0.5, 1.5, (120, 1)) * rng.random((5, 20))[groups] + 0.2 * rng.random((120, 20))

# %%
# One call for all k from 2 to 8.

choice = op.select_rank(X, range(2, 9), random_state=0)
print(choice)

# %%
# ``plot`` gives a figure of its own, to be saved; here it is shown.

buffer = io.BytesIO()
choice.plot().savefig(buffer, dpi=160)
buffer.seek(0)
figure, axis = plt.subplots(figsize=(8, 5.2), layout="constrained")
axis.imshow(plt.imread(buffer))
axis.set_axis_off()
plt.show()

# %%
# The claim: the five planted groups are found. Next: :doc:`/choose-k` explains the three criteria,
# :doc:`/cluster` fits the k that was chosen.

assert choice.k == 5
