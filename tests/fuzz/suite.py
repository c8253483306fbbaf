"""The whole test suite again and again, two runs at once, each the load of the other.

Each run has a checkout of its own, cloned from the last commit, so that nothing but the machine is
shared; both use the packages that are installed here. The hash seeds and the BLAS kernels differ
from run to run: a test that holds with the kernels of one processor only is a failure, too.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
AT_ONCE = 2
# OpenBLAS has kernels for several generations of x86-64 processors, with different roundings; a
# later processor can run those for which it has the instructions.
BLAS_KERNELS = {
    "SkylakeX": "avx512bw",
    "Haswell": "avx2",
    "Sandybridge": "avx",
    "Nehalem": "sse4_2",
}
# What pytest prints of each failure, of which the first characters are kept.
REASONS = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$.*?(?=^=+ )", re.MULTILINE | re.DOTALL)
REASON_LENGTH = 20_000
SUMMARY = re.compile(r"^=+ (.*) in [\d.]+s.*=+$", re.MULTILINE)


def attack_suite(tries: int, seed: int) -> dict:
    """Run the suite so many times; a fault is a run with a failure, an error or no summary."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        clones = [_clone(Path(folder, str(i))) for i in range(min(AT_ONCE, tries))]
        shares = [range(i, tries, len(clones)) for i in range(len(clones))]

        def run_share(i: int) -> list[dict]:
            return [_run(clones[i], number, seed) for number in shares[i]]

        rows = [row for share in pool.map(run_share, range(len(clones))) for row in share]
    return {
        "tries": tries,
        "minutes": [row["minutes"] for row in rows],
        "load": max(row["load"] for row in rows),
        "faults": [row for row in rows if not row["held"]],
    }


def blas_kernels() -> list[str]:
    """Return the names of the OpenBLAS kernels that this processor can run."""
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [name for name, instructions in BLAS_KERNELS.items() if instructions in words]


def _clone(folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


def _run(clone: Path, number: int, seed: int) -> dict:
    """Run the suite in a clone, print a line of JSON, and return it."""
    own = {
        "PYTHONPATH": str(clone / "src"),
        "PYTHONHASHSEED": str(seed + number),
        "ORTHOPLUS_DATA": os.environ.get("ORTHOPLUS_DATA", str(ROOT.parent / "shared" / "data")),
    }
    kernels = ["", *blas_kernels()]
    if kernel := kernels[(seed + number) % len(kernels)]:
        own["OPENBLAS_CORETYPE"] = kernel
    words = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal"]
    started = time.monotonic()
    done = subprocess.run(
        words, cwd=clone, env=os.environ | own, capture_output=True, text=True, check=False
    )
    row = {
        "run": number + 1,
        "blas": kernel or "chosen by the library",
        **outcome(done.stdout, done.returncode),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "load": round(os.getloadavg()[2], 1),
    }
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    return row


def outcome(shown: str, code: int) -> dict:
    """Return what pytest says at its end, the failures it lists, and their reasons."""
    summaries = SUMMARY.findall(shown)
    failed = [line for line in shown.splitlines() if line.startswith(("FAILED", "ERROR"))]
    held = code == 0 and bool(summaries) and not failed
    reasons = [] if held else REASONS.findall(shown) or [shown[-2000:]]
    failed += [reason[:REASON_LENGTH] for reason in reasons]
    return {"held": held, "summary": (summaries or [""])[-1], "failed": failed}
