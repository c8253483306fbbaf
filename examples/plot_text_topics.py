"""
Topics of documents and their words
===================================

This corpus contains docstrings of scikit-learn, with one document for each public class or
function. Orthogonal NMF of the sparse word counts with the Kullback-Leibler divergence assigns
every document to one topic and describes every topic by its words.
"""

# %%
# The documents come from eight modules. We compare the topics with the modules, whose names the
# clustering does not see. Names that a module only imports are left out.

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

import orthoplus as op

modules = ["cluster", "linear_model", "ensemble", "gaussian_process.kernels", "neighbors"]
modules += ["metrics.pairwise", "neural_network", "feature_extraction.text"]
documents, sources = [], []
for name in modules:
    module = importlib.import_module(f"sklearn.{name}")
    for entry in getattr(module, "__all__", dir(module)):
        found = getattr(module, entry)
        text = inspect.getdoc(found) or ""
        home = getattr(found, "__module__", None) or ""
        is_own = home.startswith("sklearn." + name.partition(".")[0])
        if is_own and callable(found) and entry[0] != "_" and len(text) > 600:
            documents.append(re.sub(r">>>.*|\W+|\d+|_", " ", text))
            sources.append(name)
sources = np.array(sources)

# %%
# The matrix stays sparse throughout. Minimizing the Kullback-Leibler divergence maximizes the
# likelihood of the counts.

vectorizer = CountVectorizer(
    stop_words="english", min_df=3, max_df=0.35, token_pattern=r"[a-z]{4,}"
)
A = vectorizer.fit_transform(documents).astype(float)
model = op.OrthogonalNMF(len(modules), loss="kullback-leibler", random_state=0).fit(A)
words = vectorizer.get_feature_names_out()
chance = np.unique(sources, return_counts=True)[1].max() / len(sources)
purity = op.metrics.purity(sources, model.labels_)
print(f"{A.shape[0]} documents, {A.shape[1]} words, {A.nnz / np.prod(A.shape):.1%} nonzero")
print(f"purity {purity:.2f}; a single cluster would have {chance:.2f}")

# %%
# Both losses can be combined with counts and with tf-idf. Which combination agrees best with the
# modules depends on the corpus, here on the installed version of scikit-learn; :doc:`/text` has
# figures for other corpora.

weighted = TfidfTransformer(sublinear_tf=True).fit_transform(A)
nmi = {}
for loss in ("kullback-leibler", "frobenius"):
    for name, matrix in (("counts", A), ("tf-idf", weighted)):
        other = op.OrthogonalNMF(len(modules), loss=loss, random_state=0).fit(matrix)
        nmi[loss, name] = op.metrics.nmi(sources, other.labels_)
        print(f"{loss:17s} {name}: NMI {nmi[loss, name]:.2f}")

# %%
# The figure shows the eight words with the largest weights and the module from which most of the
# documents come.

figure, axes = plt.subplots(2, 4, figsize=(11, 5.2), layout="constrained")
for j, axis in enumerate(axes.flat):
    top = model.components_[j].argsort()[::-1][:8]
    names, counts = np.unique(sources[model.labels_ == j], return_counts=True)
    main = names[counts.argmax()]
    axis.barh(words[top][::-1], model.components_[j][top][::-1], color=f"C{j}")
    axis.set(xticks=[], xlabel="weight")
    axis.set_title(f"{main}\n{counts.max()} of {counts.sum()} documents", fontsize="medium")
    axis.spines["bottom"].set_visible(False)
plt.show()

# %%
# The assertions check that the purity is at least 0.2 above that of a single cluster, and that each
# document belongs to exactly one topic. :doc:`/cluster` has the options, pipelines and weights;
# :doc:`/command-line` does the same from a file.

assert purity > chance + 0.2
assert ((model.transform(A) > 0).sum(axis=1) == 1).all()
