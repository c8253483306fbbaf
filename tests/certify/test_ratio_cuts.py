"""The cuts of orthogonal NMF hold at every partition with its best weights."""

import numpy as np
import pytest

import orthoplus as op
from all_partitions import best_value
from orthoplus.certify import api
from orthoplus.certify.ratio_cuts import ratios_of
from orthoplus.certify.relaxation import Relaxation
from orthoplus.problems import ONMF

KINDS = ("plain", "sparse", "duplicates", "zero rows", "alike")


def draw(kind, n, rng):
    A = rng.random((n, 3))
    if kind == "sparse":
        A *= rng.random(A.shape) < 0.5
    elif kind == "duplicates":
        A = rng.random((3, 3))[rng.integers(0, 3, n)]
    elif kind == "zero rows":
        A *= rng.random((n, 1)) < 0.6
    elif kind == "alike":
        A = 1.0 + 0.2 * A
    return A


def best_point(M, labels, k):
    """X with the leading vectors of the groups; all weight on one row if a group is zero."""
    X = np.zeros((len(M), k))
    for j in range(k):
        rows = np.flatnonzero(labels == j)
        if not len(rows):
            continue
        block = M[np.ix_(rows, rows)]
        if block.max() > 0:
            X[rows, j] = np.abs(np.linalg.eigh(block)[1][:, -1])
        else:
            X[rows[0], j] = 1.0
    return X


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_hold_at_every_partition_with_its_best_weights(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(60):
        n, k = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        A = draw(kind, n, rng)
        M = A @ A.T
        R = ratios_of(M, 3)
        X = best_point(M, rng.integers(-1, k, n), k)
        Z = X @ X.T
        scaled = R * Z
        tol = 1e-7  # of eigenvectors to multiple eigenvalues: zero entries are about 1e-9
        own = Z.diagonal()
        assert (scaled <= own[:, None] + tol).all()
        left = scaled[:, :, None] + scaled[:, None, :]
        right = own[:, None, None] + R[:, :, None] * R[:, None, :] * Z
        assert (left <= right + tol).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bound_with_ratio_cuts_is_above_the_optimum(kind):
    rng = np.random.default_rng(10 + KINDS.index(kind))
    n_cuts = 0
    for trial in range(8):
        n, k = int(rng.integers(3, 8)), int(rng.integers(1, 4))
        A = draw(kind, n, rng) * 10.0 ** [0, -6, 6][trial % 3]
        M = A @ A.T
        best = best_value(M, min(k, n), False)
        relaxation = Relaxation(M, min(k, n), ratios=ratios_of(M, 3))
        for _ in range(6):
            relaxation.advance(25)
            assert relaxation.upper_bound() >= best - 1e-12 * np.abs(M).sum()
        n_cuts += len(relaxation.best_cuts.mu)
        H = M + relaxation.best_S - relaxation.best_cuts.matrix(n)
        found = np.linalg.eigvalsh(H)[n - min(k, n) :].sum()
        assert relaxation.upper_bound() == pytest.approx(found, rel=1e-9)
        assert relaxation.best_S.min() >= 0.0
    assert n_cuts > 0 or kind != "plain"


def test_cuts_tighten_the_relaxation_and_verify(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    # Mixtures of two profiles: the relaxation without cuts leaves a gap.
    share = np.sort(rng.random(60))[:, None]
    A = rng.uniform(0.5, 1.0, (60, 1)) * (share * [1.0, 0.2, 0.5] + (1 - share) * [0.2, 1.0, 0.6])
    A += 0.02 * rng.random(A.shape)
    problem = ONMF(A, 2)
    answer = op.solve(problem)
    monkeypatch.setattr(api, "_MOST_BRANCHED", 0)
    with_cuts = op.certify(problem, answer, time_limit=5)
    monkeypatch.setattr(api, "_MOST_RATIOS", 0)
    without = op.certify(problem, answer, time_limit=2)
    assert with_cuts.gap < 0.5 * without.gap
    assert len(with_cuts.proof[0].multipliers) > 0
    with_cuts.save(tmp_path / "proof.npz")
    check = op.Certificate.load(tmp_path / "proof.npz").verify(problem)
    assert check
    assert check.is_rigorous
    part = with_cuts.proof[0]
    tampered = part._replace(multipliers=2.0 * part.multipliers)
    object.__setattr__(with_cuts, "proof", (tampered,))
    assert not with_cuts.verify()
