"""A checkpoint goes on only with what it was written for."""

import numpy as np
import pytest
import scipy.sparse as sp

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.problems import ONMF, Smooth
from orthoplus.run import fingerprint as fp

A = np.random.default_rng(0).random((60, 8))


def stop(state):
    return state.n_iter == 1


@pytest.fixture
def saved(tmp_path):
    file = tmp_path / "run.npz"
    op.solve(ONMF(A, 3), callback=stop, checkpoint=file, with_bound=False)
    return file


def changed(i=7, j=3, by=1e-12):
    B = A.copy()
    B[i, j] += by
    return B


OTHERS = {
    "other numbers": (lambda: ONMF(np.random.default_rng(1).random(A.shape), 3), "data"),
    "one bit": (lambda: ONMF(changed(by=1e-15), 3), "data"),
    "rows exchanged": (lambda: ONMF(A[::-1].copy(), 3), "data"),
    "columns exchanged": (lambda: ONMF(A[:, ::-1].copy(), 3), "data"),
    "float32": (lambda: ONMF(A.astype(np.float32), 3), "data"),
    "other options": (lambda: ONMF(A, 3, allow_negative=True), "data"),
    "other problem": (lambda: op.problems.TraceMin(-A @ A.T, 3), "problem and data"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_checkpoint_of_another_problem_is_refused(saved, name):
    make, part = OTHERS[name]
    with pytest.raises(op.InputError, match=rf"run\.npz belongs to another run.* in {part}\."):
        op.solve(make(), method=op.methods.SwapSearch(), resume=saved, with_bound=False)


def test_checkpoint_of_another_method_is_refused(saved):
    with pytest.raises(op.InputError, match="differs from this one in method"):
        op.solve(ONMF(A, 3), method=op.methods.SwapSearch(seed=5), resume=saved)
    with pytest.raises(TypeError, match="must be an object of type PenaltyState"):
        op.solve(ONMF(A, 3), method=op.EP4Orth(), resume=saved)


def test_checkpoint_of_another_version_is_refused(saved, monkeypatch):
    monkeypatch.setattr(op, "__version__", "9.9")
    with pytest.raises(op.InputError, match="differs from this one in version"):
        op.solve(ONMF(A, 3), resume=saved)


def test_file_of_a_former_format_says_so(tmp_path):
    header = np.frombuffer(b'{"format": "orthoplus-state-3", "tree": {}}', np.uint8)
    np.savez(tmp_path / "old.npz", __state__=header)
    with pytest.raises(op.InputError, match="state-3 of another version, this one writes"):
        op.load_state(tmp_path / "old.npz")


def test_limits_may_change_on_the_way(saved):
    whole = op.solve(ONMF(A, 3), with_bound=False)
    method = op.methods.SwapSearch(max_iter=999)
    resumed = op.solve(ONMF(A, 3), method=method, resume=saved, with_bound=False)
    assert resumed.weights.tobytes() == whole.weights.tobytes()


def test_saving_and_resuming_are_logged(tmp_path, caplog):
    caplog.set_level("DEBUG", logger="orthoplus")
    file = tmp_path / "run.npz"
    op.solve(ONMF(A, 3), callback=stop, checkpoint=file, with_bound=False)
    op.solve(ONMF(A, 3), resume=file, with_bound=False)
    assert caplog.messages == [f"saved iteration 1 to {file}", "resumed after iteration 1"]


def test_data_in_another_storage_go_on(saved):
    whole = op.solve(ONMF(A, 3), with_bound=False)
    for same in (np.asfortranarray(A), sp.csr_array(A), sp.csc_array(A)):
        resumed = op.solve(ONMF(same, 3), resume=saved, with_bound=False)
        assert resumed.labels.tolist() == whole.labels.tolist()


def test_estimators_and_gaps(tmp_path, saved):
    file = tmp_path / "fit.npz"
    model = op.OrthogonalNMF(3, random_state=1)
    model.fit_watched(A, checkpoint=file, callback=stop)
    op.OrthogonalNMF(3, random_state=1).fit_watched(A, resume=file)
    with pytest.raises(op.InputError, match="in data"):
        op.OrthogonalNMF(3, random_state=1).fit_watched(changed(), resume=file)
    gaps = np.where(A > 0.9, np.nan, A)
    with pytest.raises(
        op.InputError, match='`checkpoint` cannot be combined with `missing="mask"`'
    ):
        op.OrthogonalNMF(3, missing="mask").fit_watched(gaps, checkpoint=file)


def linear(C):
    return Smooth(lambda X: float((C * X).sum()), C.shape, jac=lambda X: C)


def test_functions_are_told_apart_by_a_value(tmp_path):
    C, file = A[:, :2] - 0.5, tmp_path / "run.npz"
    op.solve(linear(C), callback=stop, checkpoint=file)
    op.solve(linear(C * (1 + 1e-12)), resume=file)  # sums in another order may differ so
    with pytest.raises(op.InputError, match="in data"):
        op.solve(linear(C[::-1]), resume=file)
    odd = Smooth(lambda X: np.nan if X.min() > 0 else 1.0, (4, 2), jac=np.zeros_like)
    assert fp.fingerprint(odd, op.EP4Orth())["value"] is None
    broken = Smooth(lambda X: 1 // 0, (4, 2), jac=np.zeros_like)
    assert fp.fingerprint(broken, op.EP4Orth())["value"] is None


def test_bits_are_mixed_alike_in_every_storage():
    B = np.where(A > 0.6, A, 0.0)
    expected = fp.mixed_bits(as_data(B)).tolist()
    negative_zero = np.where(B == 0, -0.0, B)
    for same in (sp.csr_array(B), np.asfortranarray(B), negative_zero):
        assert fp.mixed_bits(as_data(same)).tolist() == expected
    for limit in (512, 5000, 10**6):
        assert fp.mixed_bits(as_data(B, memory_limit=limit)).tolist() == expected
    da = pytest.importorskip("dask.array")
    assert fp.mixed_bits(as_data(da.from_array(B, chunks=(7, 3)))).tolist() == expected


def test_every_single_change_is_seen():
    seen = {tuple(fp.mixed_bits(as_data(A)).tolist())}
    rng = np.random.default_rng(2)
    for _ in range(300):
        i, j = rng.integers(60), rng.integers(8)
        B = A.copy()
        B[i, j] = np.nextafter(B[i, j], rng.choice([0.0, 2.0])) if rng.random() < 0.5 else 0.0
        seen.add(tuple(fp.mixed_bits(as_data(B)).tolist()))
    swapped = A.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    seen.add(tuple(fp.mixed_bits(as_data(swapped)).tolist()))
    assert len(seen) > 260  # some of the changes are the same


def test_unwritable_checkpoint_is_found_before_the_run(tmp_path, monkeypatch):
    def never(state):
        pytest.fail("the run began")

    with pytest.raises(op.InputError, match=r"is a folder\. Pass the name of a file"):
        op.solve(ONMF(A, 3), checkpoint=tmp_path, callback=never)
    monkeypatch.setattr("os.access", lambda *args: False)
    with pytest.raises(op.InputError, match="permission denied for its folder"):
        op.solve(ONMF(A, 3), checkpoint=tmp_path / "a.npz", callback=never)
