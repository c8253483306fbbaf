"""A user without rights: nothing can be written, no home, one processor, little memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import orthoplus as op

NOBODY = 65534
# Kept small: without a cache every loop it calls is compiled.
CODE = """
import os, sys, tempfile
assert os.getuid() == 65534
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy as np
import orthoplus as op
from orthoplus import kernels
from orthoplus.kernels.fused.cache import CACHE
from orthoplus.kernels.threads import n_threads
assert CACHE.kind == "none", CACHE
assert n_threads() == 1
assert kernels.row_energy(np.ones((3, 2))) == 6.0
try:
    op.solve(op.problems.Projection(np.eye(4, 2)), checkpoint="/nobody.npz")
except op.InputError as error:
    assert "permission denied" in str(error), error
else:
    sys.exit("written")
# Not `ru_maxrss`, which begins with that of the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0 or shutil.which("setpriv") is None,
    reason="only the superuser can become a user without rights, by setpriv",
)
def test_user_without_rights_can_compute(tmp_path):
    words = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--no-new-privs",
    ]
    source = str(Path(op.__file__).parents[1])
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o755)
    environment = {"PYTHONPATH": source, "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": "", "HOME": "/nowhere"}
    # Python looks for a folder for temporary files in these; all of them are closed here.
    code = f"import tempfile; tempfile.tempdir = {str(folder)!r}\n{CODE}"
    probe = subprocess.run(
        [*words, sys.executable, "-c", "import orthoplus"],
        env=environment, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    if probe.returncode:
        pytest.skip(f"a user without rights cannot read the package: {probe.stderr[-200:]}")
    done = subprocess.run(
        [*words, sys.executable, "-c", code],
        env=environment, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 512
