"""Count the functions and modules of orthoplus that a call passes through.

Each call runs once to import and compile what it needs, and is then followed with `sys.setprofile`,
in all threads. A function counts once, however often it is called; compiled kernels and the frames
of comprehensions are not counted. ``deep`` is the largest number of frames of orthoplus at a time.
"""

import contextlib
import os
import sys
import tempfile
import threading
from pathlib import Path

import dask.array as da
import numpy as np

import orthoplus as op
from orthoplus.cli import main as run_command

HOME = os.path.dirname(op.__file__)
N, R, K = 90, 18, 3
# Blocks of 20 rows: one takes an eighth of the limit.
LIMIT = 8 * 20 * R * 8


class Walk:
    """The code objects that a call enters, in every thread.

    One object follows all calls: the threads of a pool outlive a call and keep their hook.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._begin()
        threading.setprofile(self)  # before the first thread of a pool begins

    def _begin(self) -> None:
        self.passed = {}
        self.threads = set()
        self.deepest = 0
        self.depths = threading.local()

    def __call__(self, frame, event, argument) -> None:
        if not self.is_on or event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(HOME):
            return
        depth = getattr(self.depths, "now", 0) + (1 if event == "call" else -1)
        self.depths.now = max(depth, 0)
        if event == "call" and not _is_part(code.co_name):
            self.deepest = max(self.deepest, depth)
            self.passed[code] = code.co_filename
            self.threads.add(threading.get_ident())

    def follow(self, call) -> None:
        """Run the call twice, and follow the second run."""
        call()
        self._begin()
        self.is_on = True
        sys.setprofile(self)
        try:
            call()
        finally:
            sys.setprofile(None)
            self.is_on = False


def _is_part(name: str) -> bool:
    """Return whether this is the body of a module or a comprehension, not a function."""
    return name.startswith("<") and name != "<lambda>"


def make_data():
    """Return rows near to K directions."""
    rng = np.random.default_rng(0)
    spectra = np.kron(np.eye(K), np.ones(R // K)) * rng.uniform(0.5, 1.5, (K, R))
    A = rng.uniform(0.5, 1.5, (N, 1)) * spectra[rng.permutation(np.arange(N) % K)]
    return A + 0.1 * rng.random((N, R))


def cluster_file(path: Path) -> None:
    """Run ``orthoplus cluster`` on a file, in this process."""
    saved = sys.argv
    sys.argv = ["orthoplus", "cluster", str(path), "-k", str(K), "-o", str(path.parent / "out")]
    printed = path.with_suffix(".txt")
    with open(printed, "w", encoding="utf-8") as file, contextlib.suppress(SystemExit):
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            run_command()
    sys.argv = saved


def make_calls(folder: Path):
    """Return the calls by name."""
    A = make_data()
    lazy = da.from_array(A, chunks=(25, R))
    np.save(folder / "A.npy", A)
    C = A[:, :: R // K]

    def nmf(X, **options):
        return op.OrthogonalNMF(K, random_state=0, **options).fit(X)

    def indicators(X, **options):
        return op.KIndicatorsClustering(K, random_state=0, **options).fit(X)

    return {
        "minimize(f, (n, k), jac)": lambda: op.minimize(
            lambda X: -float((C * X).sum()), (N, K), jac=lambda X: -C
        ),
        "solve(ONMF)": lambda: op.solve(op.problems.ONMF(A, K)),
        "OrthogonalNMF.fit, memory": lambda: nmf(A),
        "OrthogonalNMF.fit, blocks": lambda: nmf(A, memory_limit=LIMIT),
        "OrthogonalNMF.fit, Dask": lambda: nmf(lazy),
        "project(C)": lambda: op.project(C),
        "orthoplus cluster": lambda: cluster_file(folder / "A.npy"),
        "K-indicators, memory": lambda: indicators(A),
        "K-indicators, blocks": lambda: indicators(A, memory_limit=LIMIT),
        "K-indicators, Dask": lambda: indicators(lazy),
    }


def main() -> None:
    """Print the table; ``shared`` is with the same entry in memory."""
    heads = ("functions", "modules", "deep", "threads", "shared")
    print(f"{'entry':28}" + "".join(f"{head:>10}" for head in heads))
    in_memory, walk = {}, Walk()
    with tempfile.TemporaryDirectory() as folder:
        for name, call in make_calls(Path(folder)).items():
            walk.follow(call)
            entry, _, storage = name.partition(", ")
            if storage == "memory":
                in_memory[entry] = walk.passed.keys()
            shared = ""
            if storage not in ("", "memory") and entry in in_memory:
                shared = str(len(walk.passed.keys() & in_memory[entry]))
            counts = (
                len(walk.passed),
                len(set(walk.passed.values())),
                walk.deepest,
                len(walk.threads),
                shared,
            )
            print(f"{name:28}" + "".join(f"{count:>10}" for count in counts))


if __name__ == "__main__":
    main()
