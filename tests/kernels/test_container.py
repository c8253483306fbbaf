"""A user without rights: nothing can be written, no home, one processor, little memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import orthoplus as op

NOBODY = 65534
# Runs a command with a root that cannot be written, in a space of mounts of its own.
READ_ONLY = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
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
from sklearn.datasets import load_digits
model = op.OrthogonalNMF(10, random_state=0).fit(load_digits().data)
assert model.result_.violation < 1e-12 and model.labels_.shape == (1797,)
# Not `ru_maxrss`, which begins with that of the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.skipif(
    sys.platform != "linux"
    or os.getuid() != 0
    or None in map(shutil.which, ("setpriv", "unshare")),
    reason="only the superuser can become a user without rights, by setpriv, on Linux",
)
def test_user_without_rights_can_fit(tmp_path):
    # May read everything, such as a Python below the home of another user; may write nothing.
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    words += ["--no-new-privs", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    source = str(Path(op.__file__).parents[1])
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o755)
    environment = {"PYTHONPATH": source, "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": "", "HOME": "/nowhere"}
    if subprocess.run([*READ_ONLY, "true"], capture_output=True, check=False).returncode == 0:
        words = [*READ_ONLY, *words]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this superuser may not become another user")
    # Python looks for a folder for temporary files in these; all of them are closed here.
    code = f"import tempfile; tempfile.tempdir = {str(folder)!r}\n{CODE}"
    done = subprocess.run(
        [*words, sys.executable, "-c", code],
        env=environment, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 512
