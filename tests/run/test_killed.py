"""What is killed in the middle costs time, not the answer."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import orthoplus as op
from orthoplus.methods import SwapSearch
from orthoplus.problems import ONMF
from waiting import killed_in_the_end, wait_until

METHOD = SwapSearch(n_init=40, seed=3)
RUN = """
import sys
import numpy as np
import orthoplus as op
from orthoplus.methods import SwapSearch
from orthoplus.problems import ONMF
problem = ONMF(np.load(sys.argv[1], mmap_mode="r"), 6)
print("running", flush=True)
op.solve(problem, method=SwapSearch(n_init=40, seed=3), checkpoint=sys.argv[2],
         callback=lambda state: state.n_iter > 5 and sys.stdin.read(), with_bound=False)
"""


def test_run_that_is_killed_goes_on_to_the_same_answer(tmp_path, rng):
    """The run waits for input that never comes, so that it does not end before it is killed."""
    A = rng.random((300, 15)) ** 3
    data, saved = tmp_path / "A.npy", tmp_path / "run.npz"
    np.save(data, A)
    command = [sys.executable, "-c", RUN, str(data), str(saved)]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        killed_in_the_end(process),
    ):
        assert process.stdout.readline() == "running\n"
        wait_until(lambda: saved.is_file() and op.load_state(saved).n_iter >= 5, process)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    state = op.load_state(saved)
    whole = op.solve(ONMF(A, 6), method=METHOD, with_bound=False)
    assert 5 <= state.n_iter < whole.n_iter
    resumed = op.solve(ONMF(A, 6), method=METHOD, resume=saved, with_bound=False)
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    np.testing.assert_array_equal(resumed.labels, whole.labels)
    assert resumed.n_iter == whole.n_iter


def test_checkpoints_are_as_rare_as_asked_for_and_the_last_is_kept(tmp_path, rng, monkeypatch):
    import orthoplus.run.monitor as supervise

    saves = []
    real = supervise.save_state

    def save(path, state, made_for):
        saves.append(state.n_iter)
        real(path, state, made_for)

    monkeypatch.setattr(supervise, "save_state", save)
    problem = ONMF(rng.random((60, 8)), 3)
    result = op.solve(problem, checkpoint=tmp_path / "a.npz")
    assert saves == list(range(1, result.n_iter + 1))
    saves.clear()
    op.solve(problem, checkpoint=tmp_path / "b.npz", checkpoint_every=1e6)
    assert saves == [1, result.n_iter]
    assert op.load_state(tmp_path / "b.npz").n_iter == result.n_iter


def test_negative_interval_is_refused(rng):
    with pytest.raises(ValueError, match=r"`checkpoint_every=-1` is out of range"):
        op.solve(ONMF(rng.random((6, 3)), 2), checkpoint_every=-1)
