"""Record where figures come from: the machine, versions, commit and time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Return everything that a figure depends on, to store with it."""
    from orthoplus.cli.record import versions
    from orthoplus.kernels.threads import n_threads

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": {"linear algebra": 1, "orthoplus": n_threads()},
        "commit": _commit(),
        "versions": versions(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of the source, with a plus if files differ; None when installed."""
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    commit = _git(here.parent, "rev-parse", "--short=12", "HEAD")
    changes = _git(here.parent, "status", "--porcelain", "--untracked-files=no", "--", "..")
    return commit and f"{commit}{'+' if changes else ''}"


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
