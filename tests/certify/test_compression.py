"""Compression: bounds that are valid, fall with every split, and can be checked."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from every_partition import random_labels
from test_certificates import k_means, onmf, pca, planted, signed_onmf, tiny_data

import orthoplus as op
from every_storage import STORAGES, in_blocks
from orthoplus.certify import api
from orthoplus.certify.closed_form import closed_form
from orthoplus.certify.compression import Compression, bounds_by_compression
from orthoplus.certify.between import Setting
from orthoplus.certify.factored import gram_sums
from orthoplus.certify.model import Model
from orthoplus.certify.relaxation import Relaxation
from orthoplus.certify.verify_compression import upper_compressed
from orthoplus.certify.verify_data import CheckedData
from orthoplus.data import as_data
from orthoplus.problems import ONMF, KMeans


def dense_multipliers(model, proof):
    """Return S, n x n, from the formulas."""
    base, micro, T = proof
    n, k = model.n, model.k
    A = model.factor.to_dense().astype(np.float64) * model.scale
    G = A @ base.centers
    S = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a, b = base.labels[i], base.labels[j]
            if a < 0 or b < 0:
                continue
            v, w = base.levels[a, b] * base.weights[i] - G[i, b], 0.0
            w = base.levels[b, a] * base.weights[j] - G[j, a]
            if model.has_row_sums:
                v, w = v + G[i, a], w + G[j, b]
            if a != b:
                S[i, j] = base.couplings[a, b] * max(v, 0.0) * max(w, 0.0)
            S[i, j] += T[micro[i], micro[j]] * base.weights[i] * base.weights[j]
    return S


def eigenvalue_bound(model, S):
    """Return the bound of S by all eigenvalues of M + S, and 0."""
    H, k = model.dense() + S, model.k
    if not model.has_row_sums:
        return np.maximum(np.linalg.eigvalsh(H)[-k:], 0.0).sum()
    n = len(H)
    P = np.eye(n) - 1 / n
    values = np.linalg.eigvalsh(P @ H @ P - (1 + np.linalg.norm(H)) / n)
    return H.sum() / n + np.maximum(values[n - k + 1 :], 0.0).sum()


@pytest.mark.parametrize("model", [onmf, signed_onmf, pca, k_means])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_bounds_by_compression_are_valid_fall_and_follow_from_s(model, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(3, 7))
        k = min(int(rng.integers(1, 4)), n)
        problem, optimum, size = model(tiny_data(n, int(rng.integers(1, 4)), rng), k)
        own = Model(problem)
        point = own.refine(random_labels(n, k, rng))
        best, rounding = optimum(), 1e-12 * size + 1e-300
        uppers = []
        for upper, proof in bounds_by_compression(own, point, None, perf_counter() + 0.1):
            assert own.to_bound(upper) <= best + rounding
            S = dense_multipliers(own, proof)
            assert S.min() >= -1e-13 * max(np.abs(S).max(), 1.0)
            checked = upper_compressed(CheckedData(problem, own.unit), proof)
            # S_0 of a random partition may be large: then rounding is as well.
            exact, margin = eigenvalue_bound(own, S), 10 * checked.margin + 1e-12
            assert exact - 1e-12 * (1.0 + np.abs(S).max()) <= upper <= exact + margin
            assert abs(checked.total - upper) <= margin
            uppers.append(upper)
        assert uppers == sorted(uppers, reverse=True)
