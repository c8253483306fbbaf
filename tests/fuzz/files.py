"""Spoiled files against every reader, with the time, the memory and the content of each looked at.

Files are read in a process of its own, many in one, so that a crash is seen, and the peak of its
memory is reset before each.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# One array may take this much. What is made of it on the way, and Python, come on top.
LIMIT = 1 << 26
BOMBS = 0.1
MOST_MEMORY, MOST_SECONDS = 2 * LIMIT + (100 << 20), 5.0


def attack_files(tries: int, seed: int, share_on_trial: float = 0.04) -> dict:
    """Read many corrupted files; return their number and the failures."""
    found: dict = {"tries": 0, "refused": 0, "read": 0, "seconds": 0.0, "megabytes": 0.0}
    found |= {"trials_megabytes": 0.0, "faults": []}
    with tempfile.TemporaryDirectory() as folder:
        start = 0
        while start < tries:
            words = [sys.executable, __file__, folder, str(start), str(tries), str(seed)]
            environment = os.environ | {"ORTHOPLUS_MAX_BYTES": str(LIMIT)}
            environment["PYTHONPATH"] = os.pathsep.join(sys.path)
            done = subprocess.run(
                [*words, str(share_on_trial)], env=environment, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            for row in rows:
                _count(found, row)
            start += len(rows)
            if done.returncode:  # the file after the last one ended the process
                fault = {"name": "?", "number": start, "fault": f"exit {done.returncode}"}
                found["faults"].append(fault | {"error": done.stderr[-300:]})
                found["tries"] += 1
                start += 1
    return found


def _count(found: dict, row: dict) -> None:
    found["tries"] += 1
    found["refused" if row["is_refused"] else "read"] += 1
    for name in ("seconds", "megabytes", "trials_megabytes"):
        found[name] = max(found[name], row[name])
    if row["fault"]:
        found["faults"].append(row)


def _read_all(folder: Path, numbers: range, seed: int, share_on_trial: float) -> None:
    """Spoil and read the files of these numbers, and print a line of JSON for each."""
    from mutations import HOSTILE, ON_TRIAL, ORIGINALS, WRITERS, mutated, write_secret

    originals = folder / "originals"
    originals.mkdir(exist_ok=True)
    secret = write_secret(folder)
    for name, write in WRITERS.items():
        write(originals / name)
    names = {True: [], False: []}
    for name in (*WRITERS, *HOSTILE):
        names[name.endswith(ON_TRIAL)].append(name)
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        own = names[bool(rng.random() < share_on_trial)]
        name = own[rng.integers(len(own))]
        path = folder / name
        # A bomb is much work to make: few of them.
        if name in HOSTILE and (not name.startswith("bomb") or rng.random() < BOMBS):
            HOSTILE[name](path, rng, secret)
        else:
            original = name if name in WRITERS else ORIGINALS[name]
            path.write_bytes(mutated((originals / original).read_bytes(), rng))
        if name == "scene.hdr":
            (folder / "scene.img").write_bytes((originals / "scene.img").read_bytes())
        row = {"name": name, "number": number} | _read_one(path)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        path.unlink()


def _read_one(path: Path) -> dict:
    """Read a file and tell how it went; a fault is named."""
    from mutations import is_foreign

    from orthoplus.io import FileError, read_cube, read_labels, read_matrix

    own = {".hdr": read_cube, ".txt": read_labels, ".nii": read_brain, ".gii": read_brain}
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    read = own.get(suffix, read_matrix)
    content, fault, error = None, "", ""
    before, seconds = _peak(reset=True), _processor_seconds()
    try:
        content = read(path)
    except FileError as refusal:
        error = str(refusal)
        fault = "" if path.name.partition(".")[0] in error else "refusal without the file's name"
        fault = fault or ("a refusal of several lines" if "\n" in error else "")
    except BaseException as problem:
        fault, error = f"traceback {type(problem).__name__}", str(problem)[:300]
    seconds = _processor_seconds() - seconds
    grown = _peak() - before
    children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if content is not None and is_foreign(content):
        fault = "foreign bytes"
    elif seconds > MOST_SECONDS:
        fault = fault or "time"
    elif grown > MOST_MEMORY:
        fault = fault or "memory"
    return {
        "fault": fault,
        "error": error,
        "is_refused": content is None,
        "seconds": round(seconds, 3),
        "megabytes": round(grown / 2**20, 1),
        "trials_megabytes": round(children / 2**20, 1),
    }


def read_brain(path: Path):
    """Read an image of a brain as a parcellation reads it."""
    from orthoplus.adapters.brain_images import load_surface, read_volumes
    from orthoplus.io import Content

    if path.suffix == ".gii":
        return Content(load_surface(left=path).data.parts["left"])
    *_, last = read_volumes(path, LIMIT)
    return Content(np.asarray(last.dataobj))


def _processor_seconds() -> float:
    """Return the time of this process and of those it has waited for."""
    return sum(os.times()[:4])


def _peak(*, reset: bool = False) -> int:
    """Return the peak memory of this process since the last reset, on Linux; else 0."""
    if not os.path.exists("/proc/self/clear_refs"):
        return 0
    if reset:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    _read_all(
        Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])), int(sys.argv[4]),
        float(sys.argv[5]),
    )  # fmt: skip
