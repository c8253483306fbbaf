"""Upper bounds on <M, XX'> from a proof by compression, for its verification.

The proof is S = S_0 + DTD', where S_0 is between groups as in a closed form, and D holds the
weights of the rows in the columns of their micro groups. The check is that no entry of S is
negative: T_pq may be negative as far as the smallest entries of S_0, relative to the weights, in
the micro groups p and q allow.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.certify.verify_bounds import checked_couplings, core_between, gram_upper, slack_rows
from orthoplus.certify.verify_data import BrokenProofError, CheckedData, Upper
from orthoplus.core.types import FloatArray, IntArray


class _Sums:
    """Hold the Gram matrix of some rows and the smallest entries of V relative to the weights."""

    def __init__(self, gram: FloatArray, least: FloatArray) -> None:
        self.gram, self.least = gram, least

    def __add__(self, other: "_Sums") -> "_Sums":
        return _Sums(self.gram + other.gram, np.minimum(self.least, other.least))


def upper_compressed(data: CheckedData, proof: Any) -> Upper:
    """Bound by the Gram matrix of [A, V, D], which has all nonzero eigenvalues of M + S."""
    labels, weights, levels, couplings, centers, _ = proof.base
    micro, T = proof.micro, proof.multipliers
    groups = _groups_of(labels, weights, micro, len(T))
    couplings = checked_couplings(couplings)
    if data.A is None or centers is None:
        raise BrokenProofError("Compression needs a matrix of data.")
    if T.shape != (len(groups), len(groups)) or not (T == T.T).all():
        raise BrokenProofError("T is not symmetric.")
    k, has_sums = data.k, data.form.has_row_sums

    def inner(A: FloatArray, own: IntArray, x: FloatArray, part: IntArray) -> _Sums:
        V = slack_rows(A @ centers, own, x, levels, has_sums)
        inside, least = np.flatnonzero(part >= 0), np.full((len(T), k), np.inf)
        np.minimum.at(least, part[inside], V[inside] / x[inside, None])
        wide = np.zeros((len(own), k, k))
        wide[inside, own[inside]] = V[inside]
        B = np.hstack([A, wide.reshape(len(own), k * k)])
        D = csr_array((x[inside], (inside, part[inside])), shape=(len(own), len(T)))
        ends = np.ones((len(own), 1))
        below = np.asarray(D.T @ np.hstack([B, ends]))
        squares = np.diag(np.asarray((D * D).sum(axis=0)).ravel())
        sums = B.sum(axis=0)[:, None]
        corner = np.array([[float(len(own))]])
        gram = np.block(
            [
                [B.T @ B, below[:, :-1].T, sums],
                [below[:, :-1], squares, below[:, -1:]],
                [sums.T, below[:, -1:].T, corner],
            ]
        )
        return _Sums(gram, least)

    found = data.rows(inner, labels, weights, micro)
    if not np.isfinite(found.gram).all():
        raise BrokenProofError("The proof contains numbers that are not finite.")
    least = np.where(np.isfinite(found.least), found.least, 0.0)[:, groups]
    # Entry (i, m) of S is c v_i v_m + T_pq w_i w_m.
    if not (T + couplings[np.ix_(groups, groups)] * least * least.T >= 0).all():
        raise BrokenProofError("S of the proof has a negative entry.")
    core = core_between(data.r, couplings)
    K = np.zeros((len(core) + len(T), len(core) + len(T)))
    K[: len(core), : len(core)], K[len(core) :, len(core) :] = core, T
    return gram_upper(found.gram, K, data, has_sums)


def _groups_of(labels: IntArray, weights: FloatArray, micro: IntArray, m: int) -> IntArray:
    """Return the group that contains each micro group."""
    if not (weights >= 0).all() or len(micro) != len(labels):
        raise BrokenProofError("The weights of the proof are negative or rows are missing.")
    inside = micro >= 0
    if (labels[inside] < 0).any() or (micro >= m).any() or not (weights[inside] > 0).all():
        raise BrokenProofError("A row of a micro group does not belong to any group.")
    groups = np.zeros(m, dtype=np.int64)
    groups[micro[inside]] = labels[inside]
    if (groups[micro[inside]] != labels[inside]).any():
        raise BrokenProofError("A micro group has rows of several groups.")
    return groups
