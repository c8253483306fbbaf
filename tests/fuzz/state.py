"""Kill processes at random times; their files must be intact and let the run continue."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import orthoplus as op
from orthoplus.methods import SwapSearch
from orthoplus.problems import ONMF

SHAPE, K, STARTS = (300, 15), 6, 40
RUN = """
import sys
import numpy as np
import orthoplus as op
from orthoplus.methods import SwapSearch
from orthoplus.problems import ONMF
from pathlib import Path
data, saved = sys.argv[1:3]
problem, method = ONMF(np.load(data), int(sys.argv[3])), SwapSearch(n_init=int(sys.argv[4]), seed=3)
op.solve(problem, method=method, with_bound=False, callback=lambda state: state.n_iter >= 1)
print("running", flush=True)
for line in sys.stdin:
    # One run per line in a child, so that a kill does not cost the imports.
    import os
    child = os.fork()
    if child == 0:
        op.solve(problem, method=method, checkpoint=saved, with_bound=False,
                 resume=saved if Path(saved).exists() else None)
        os._exit(0)
    print(child, flush=True)
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


def attack_kills(tries: int, seed: int) -> dict:
    """Kill a run with a checkpoint at random times, start it again from there, until it ends.

    Every file that is left must load; the runs that came to their end must have the bits of one
    that was never killed.
    """
    rng = np.random.default_rng(seed)
    A = rng.random(SHAPE) ** 3
    started = time.perf_counter()
    whole = op.solve(ONMF(A, K), method=SwapSearch(n_init=STARTS, seed=3), with_bound=False)
    length = time.perf_counter() - started
    found: dict = {"tries": 0, "ended": 0, "faults": []}
    with tempfile.TemporaryDirectory() as folder:
        data, saved = Path(folder, "A.npy"), Path(folder, "run.npz")
        np.save(data, A)
        words = [sys.executable, "-c", RUN, str(data), str(saved), str(K), str(STARTS)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout.readline() == "running\n"
            while found["tries"] < tries:
                process.stdin.write("go\n")
                process.stdin.flush()
                child = int(process.stdout.readline())
                time.sleep(length * rng.random() / 2)
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                code = int(process.stdout.readline())
                found["tries"] += code != 0
                _look(found, Path(folder), saved, code == 0, whole)
            process.stdin.close()
    return found


def _look(found: dict, folder: Path, saved: Path, has_ended: bool, whole) -> None:
    """Check what is on disk; after the end of a run, begin again."""
    strange = {path.name for path in folder.iterdir()} - {"A.npy", "run.npz"}
    # A kill between the naming and the renaming of a complete file leaves one until the next write.
    if len(strange) > (not has_ended):
        found["faults"].append(f"left behind: {sorted(strange)}")
    try:
        state = op.load_state(saved) if saved.exists() else None
    except ValueError as error:
        found["faults"].append(str(error))
        return
    if has_ended and state is not None:
        found["ended"] += 1
        A = np.load(folder / "A.npy")
        method = SwapSearch(n_init=STARTS, seed=3)
        last = op.solve(ONMF(A, K), method=method, resume=saved, with_bound=False)
        if last.weights.tobytes() != whole.weights.tobytes():
            found["faults"].append("another answer after kills")
        saved.unlink()
