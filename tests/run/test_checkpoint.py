"""States on disk and in memory: what is resumed is what would have been."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import orthoplus as op
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.problems import Smooth, TwoBlock

SHAPE = (8, 3)
METHODS = {
    "first-order": op.EP4Orth(),
    "second-order": op.EP4Orth(second_order=op.RegularizedNewton(), switch_violation=np.inf),
    "switching": op.EP4Orth(second_order=op.RegularizedNewton(), switch_violation=0.3),
    "palm": op.EP4Orth(inner=op.PALM(max_iter=20), penalty_growth=3.0),
    "proximal": op.EP4Orth(inner=op.ProximalAlternating(max_iter=5), penalty_growth=3.0),
}
every_method = pytest.mark.parametrize("name", METHODS)


def problem_for(name):
    rng = np.random.default_rng(0)
    C, M = rng.standard_normal(SHAPE), rng.standard_normal((SHAPE[0], SHAPE[0]))
    if name not in ("palm", "proximal"):
        return Smooth(
            lambda X: float(np.sin(C * X).sum() + (X * (M @ X)).sum()),
            SHAPE,
            jac=lambda X: C * np.cos(C * X) + (M + M.T) @ X,
        )

    def joint(X, Y):
        R = X @ Y.T - np.abs(M)
        return float((R * R).sum()), 2 * R @ Y, 2 * R.T @ X

    return TwoBlock(
        joint,
        SHAPE,
        np.ones((SHAPE[0], SHAPE[1])),
        minimize_y=lambda X: np.linalg.lstsq(X, np.abs(M), rcond=None)[0].T,
    )


def start():
    return random_oblique_plus(*SHAPE, np.random.default_rng(1))


@cache
def whole_run(name, **options):
    return op.solve(problem_for(name), start(), method=METHODS[name], **options)


def stop_at(count):
    return lambda state: state.n_iter == count


def rows(history):
    """History without the clock."""
    return [row._replace(seconds=0.0) for row in history]


def assert_same_bits(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_bits(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    else:
        assert one == other or (one != one and other != other)


def assert_continues(whole, part, resumed):
    """``part`` was stopped, ``resumed`` went on: together they are ``whole``."""
    assert resumed.X.tobytes() == whole.X.tobytes()
    assert resumed.value == whole.value
    assert resumed.status is whole.status
    assert resumed.n_iter == whole.n_iter
    assert rows(part.history) + rows(resumed.history) == rows(whole.history)


@every_method
def test_saved_state_comes_back_bit_for_bit(tmp_path, name):
    state = op.solve(problem_for(name), start(), method=METHODS[name], callback=stop_at(4)).state
    op.save_state(tmp_path / "run.npz", state)
    loaded = op.load_state(tmp_path / "run.npz")
    assert_same_bits(dict(state._asdict()), dict(loaded._asdict()))


def test_special_numbers_survive(tmp_path):
    state = op.solve(problem_for("first-order"), start(), callback=stop_at(1)).state
    odd = state._replace(sigma=np.inf, value=np.nan, tol=5e-324, eps=-0.0)
    op.save_state(tmp_path / "odd.npz", odd)
    back = op.load_state(tmp_path / "odd.npz")
    assert (back.sigma, back.tol) == (np.inf, 5e-324)
    assert np.isnan(back.value)
    assert np.signbit(back.eps)


@every_method
def test_resumed_in_memory_equals_uninterrupted(name):
    problem, method = problem_for(name), METHODS[name]
    # The search after the last iteration is that of a run which is resumed from a file, below.
    whole = whole_run(name, search=False)
    for count in (1, 3):
        part = op.solve(problem, start(), method=method, callback=stop_at(count), search=False)
        resumed = op.solve(problem_for(name), method=method, resume=part.state, search=False)
        assert part.status is op.Status.CALLBACK
        assert part.n_iter == count
        assert_continues(whole, part, resumed)


@every_method
def test_resumed_from_file_equals_uninterrupted(tmp_path, name):
    problem, method, file = problem_for(name), METHODS[name], tmp_path / "run.npz"
    part = op.solve(problem, start(), method=method, callback=stop_at(3), checkpoint=file)
    assert_continues(whole_run(name), part, op.solve(problem, method=method, resume=str(file)))


def test_resumed_in_a_fresh_process_equals_uninterrupted(tmp_path):
    names = ["switching", "palm"]
    for name in names:
        problem, file = problem_for(name), tmp_path / f"{name}.npz"
        op.solve(problem, start(), method=METHODS[name], callback=stop_at(3), checkpoint=file)
    code = (
        "import test_checkpoint as t, orthoplus as op, sys\n"
        "for name in sys.argv[1:]:\n"
        "    file = f'{name}.npz'\n"
        "    result = op.solve(t.problem_for(name), method=t.METHODS[name], resume=file)\n"
        "    print(result.X.tobytes().hex(), result.value.hex(), result.n_iter)\n"
    )
    here = str(Path(__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        whole = whole_run(name)
        assert line.split() == [whole.X.tobytes().hex(), whole.value.hex(), str(whole.n_iter)], name


def test_resumed_run_keeps_the_feasible_start_as_its_safeguard():
    # The first run starts at the optimum; the second one knows of it from the state alone.
    problem = op.problems.Projection(np.random.default_rng(3).standard_normal((6, 2)))
    best = min(
        (op.solve(problem, X0, method=op.EP4Orth()) for X0 in map(random_start, range(8))),
        key=lambda result: result.value,
    )
    method = op.EP4Orth(penalty_unit=1e-3, max_iter=3, safeguard=False)
    whole = op.solve(problem, best.X, method=method)
    part = op.solve(problem, best.X, method=method, callback=stop_at(1))
    resumed = op.solve(problem, method=method, resume=part.state)
    assert whole.value <= best.value + 1e-12
    assert_continues(whole, part, resumed)


def random_start(seed):
    return random_oblique_plus(6, 2, np.random.default_rng(seed))


def test_finished_state_is_finished_when_resumed():
    whole = op.solve(problem_for("first-order"), start())
    again = op.solve(problem_for("first-order"), resume=whole.state)
    assert again.X.tobytes() == whole.X.tobytes()
    assert again.history == ()
    assert again.n_iter == whole.n_iter


def test_iteration_limit_can_be_raised_on_resuming():
    problem = problem_for("first-order")
    whole = op.solve(problem, start())
    part = op.solve(problem, start(), method=op.EP4Orth(max_iter=2))
    assert part.status is op.Status.MAX_ITER
    assert_continues(whole, part, op.solve(problem, method=op.EP4Orth(), resume=part.state))


def test_checkpoint_holds_the_last_state(tmp_path):
    file = tmp_path / "run.npz"
    seen = []

    def callback(state):
        seen.append(op.load_state(file).n_iter == state.n_iter)

    result = op.solve(problem_for("first-order"), start(), checkpoint=file, callback=callback)
    assert all(seen)
    assert len(seen) == result.n_iter
    assert_same_bits(dict(op.load_state(file)._asdict()), dict(result.state._asdict()))


def test_float32_state_survives(tmp_path):
    problem = op.problems.Projection(np.random.default_rng(0).standard_normal(SHAPE))
    X0 = start().astype(np.float32)
    method = op.EP4Orth()
    whole = op.solve(problem, X0, method=method)
    file = tmp_path / "run.npz"
    part = op.solve(problem, X0, method=method, callback=stop_at(2), checkpoint=file)
    resumed = op.solve(problem, method=method, resume=file)
    assert resumed.X.dtype == np.float32
    assert_continues(whole, part, resumed)


# Files that are no states


@pytest.fixture
def saved(tmp_path):
    state = op.solve(problem_for("first-order"), start(), callback=stop_at(2)).state
    file = tmp_path / "run.npz"
    op.save_state(file, state)
    return file, state


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        op.load_state(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        op.solve(problem_for("first-order"), resume=tmp_path / "nothing.npz")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_file(saved, share):
    file, _ = saved
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"run\.npz` is not a saved state or is damaged"):
        op.load_state(file)


@pytest.mark.parametrize("field", ["X", "X_feas"])
def test_damaged_numbers_are_noticed(saved, field):
    file, state = saved
    data = bytearray(file.read_bytes())
    spot = data.index(getattr(state, field).tobytes())
    data[spot] ^= 1  # the last bit of one entry
    file.write_bytes(data)
    with pytest.raises(ValueError, match="not a saved state or is damaged"):
        op.load_state(file)


HUGE_NUMBER = (
    b'{"format": "orthoplus-state-4", "type": "SwapState",'
    b' "tree": {"value": {"__float__": "0x1p99999"}}, "made_for": null}'
)


@pytest.mark.parametrize(
    "contents",
    [
        {"a": np.zeros(3)},
        {"__state__": np.frombuffer(b"{}", dtype=np.uint8)},
        {"__state__": np.frombuffer(b'{"format": "other", "tree": {}}', dtype=np.uint8)},
        {"__state__": np.frombuffer(b'{"format": "orthoplus-state-3", "tree": {}}', np.uint8)},
        {"__state__": np.frombuffer(b"[1, 2", dtype=np.uint8)},
        {"__state__": np.frombuffer(b"[" * 100_000, dtype=np.uint8)},
        {"__state__": np.frombuffer(HUGE_NUMBER, dtype=np.uint8)},
    ],
    ids=["arrays", "empty", "another format", "no fields", "no json", "deep", "overflow"],
)
def test_foreign_archive(tmp_path, contents):
    np.savez(tmp_path / "foreign.npz", **contents)
    with pytest.raises(ValueError, match=r"foreign\.npz` is not a saved state or is damaged"):
        op.load_state(tmp_path / "foreign.npz")


@pytest.mark.parametrize("text", [b"", b"not an archive", b"\x93NUMPY\x01\x00v\x00"])
def test_file_of_another_kind(tmp_path, text):
    (tmp_path / "text.npz").write_bytes(text)
    with pytest.raises(ValueError, match="not a saved state or is damaged"):
        op.load_state(tmp_path / "text.npz")


def test_archive_that_grows_and_pipe_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", __state__=np.zeros(10**6, np.uint8))
    with pytest.raises(op.InputError, match="it declares 1000128 bytes of arrays, but has"):
        op.load_state(tmp_path / "bomb.npz")
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(op.InputError, match=r"pipe\.npz.*not a regular file"):
        op.load_state(tmp_path / "pipe.npz")
    with pytest.raises(op.InputError, match="is a device or a pipe"):
        op.solve(problem_for("first-order"), checkpoint=tmp_path / "pipe.npz")


def test_plain_array_file_is_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="not a saved state or is damaged"):
        op.load_state(tmp_path / "array.npy")


def test_pickle_is_never_opened(tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a saved state or is damaged"):
        op.load_state(tmp_path / "evil.npy")


def test_file_is_never_half_written(saved, monkeypatch):
    file, state = saved
    before = file.read_bytes()

    def interrupted(target, **arrays):
        target.write(b"half of a file")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(OSError, match="disk full"):
        op.save_state(file, state._replace(n_iter=99))
    assert file.read_bytes() == before
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]  # nothing is left over
    assert op.load_state(file).n_iter == state.n_iter


def test_state_of_another_problem_is_refused(saved):
    file, state = saved
    other = op.problems.Projection(np.eye(5, 2))
    with pytest.raises(ValueError, match=r"`resume` is a state of shape \(8, 3\)"):
        op.solve(other, method=op.EP4Orth(), resume=file)
    with pytest.raises(ValueError, match="belongs to another problem"):
        op.solve(other, method=op.EP4Orth(), resume=state)


@pytest.mark.parametrize("resume", [3, {"X": np.eye(3)}, np.eye(3)])
def test_resume_from_something_else_is_refused(resume):
    with pytest.raises(TypeError, match="`resume` must be an object of type PenaltyState"):
        op.solve(problem_for("first-order"), resume=resume)


def test_checkpoint_never_replaces_a_file_of_another_kind(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, X=np.eye(3))
    before = path.read_bytes()
    with pytest.raises(op.InputError, match=r"is not a checkpoint and would be overwritten"):
        op.solve(op.problems.Projection(np.eye(4, 2)), checkpoint=path)
    assert path.read_bytes() == before
