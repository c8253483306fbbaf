"""Check the golden record, or write it: ``python tests/golden/run.py [--write] [--only PATTERN]``.

The record holds what every public call gave before a change of the code. The run is forced to a
single thread (``SINGLE_THREAD`` below; the program starts itself again with these variables), since
the number of threads changes the last bits. Intended changes are named in ``intended.toml``.
"""

import argparse
import json
import os
import sys
import time
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD, INTENDED = HERE / "record.json", HERE / "intended.toml"
SINGLE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
VERDICTS = (
    "same bits",
    "same within tolerance",
    "intended",
    "reworded refusal",
    "newly accepted",
    "newly refused",
    "changed",
    "not in the record",
)
FAILURES = ("newly accepted", "newly refused", "changed", "not in the record")


def read_record():
    """Return the environment of the record, and what it holds for each case."""
    lines = json.loads(RECORD.read_text(encoding="utf-8"))
    return lines["environment"], lines["cases"]


def write_record(environment, cases):
    """Write the record, one case per line."""
    compact = json.JSONEncoder(separators=(",", ":"))
    rows = [f"{json.dumps(name)}: {compact.encode(case)}" for name, case in cases.items()]
    head = f'{{"environment": {json.dumps(environment)},\n"cases": {{\n'
    RECORD.write_text(head + ",\n".join(rows) + "\n}}\n", encoding="utf-8")


def read_intended():
    """Return the patterns of cases that are meant to change, with the reasons."""
    changes = tomllib.loads(INTENDED.read_text(encoding="utf-8")).get("change", [])
    return {change["cases"]: change["reason"] for change in changes}


def judge(case, recorded, found, *, with_bits):
    """Return the verdict on a case, and what changed."""
    from outcomes import compare

    if recorded is None:
        return "not in the record", []
    if ("refused" in recorded) != ("refused" in found):
        side = found if "refused" in found else recorded
        verdict = "newly refused" if side is found else "newly accepted"
        return verdict, [f"{side['refused']}: {side['sentence']}"]
    if "refused" in found:
        if found["refused"] != recorded["refused"]:
            return "changed", [f"refused: {recorded['refused']} -> {found['refused']}"]
        is_same = found["sentence"] == recorded["sentence"]
        return ("same bits", []) if is_same else ("reworded refusal", [found["sentence"]])
    if with_bits and found["bits"] == recorded["bits"]:
        return "same bits", []
    changes = compare(recorded, found, is_single="/float32/" in case)
    lines = [f"{name}: {both}" for name, both in changes.items()]
    if with_bits and found["n_iter"] != recorded["n_iter"]:
        lines.append(f"n_iter: {recorded['n_iter']} -> {found['n_iter']}")
    return ("changed" if changes else "same within tolerance"), lines


def check(cases, *, is_strict):
    """Run the cases, print the verdicts, and return the number of failures."""
    from cases import run_case
    from outcomes import describe_environment

    environment, record = read_record()
    with_bits = environment == describe_environment()
    intended, counts, lines = read_intended(), Counter(), []
    for case in cases:
        verdict, changes = judge(case, record.get(case), run_case(case), with_bits=with_bits)
        if verdict in (*FAILURES, "reworded refusal"):
            reason = next((why for pat, why in intended.items() if fnmatchcase(case, pat)), None)
            verdict, changes = ("intended", [reason]) if reason else (verdict, changes)
        counts[verdict] += 1
        if changes or verdict in FAILURES or (is_strict and verdict == "same within tolerance"):
            lines.append(f"{verdict}: {case}\n" + "".join(f"    {x}\n" for x in changes))
    print("".join(lines), end="")
    print("environment of the record" if with_bits else "another environment: bits are not judged")
    print(f"{'cases':>24}  {len(cases)}")
    for verdict in VERDICTS:
        print(f"{verdict:>24}  {counts[verdict]}")
    failures = (*FAILURES, "same within tolerance") if is_strict else FAILURES
    return sum(counts[verdict] for verdict in failures)


def write(cases):
    """Run the cases and put them into the record; those of other patterns stay as they are."""
    from cases import CASES, run_case
    from outcomes import describe_environment

    record = read_record()[1] if RECORD.exists() else {}
    for case in cases:
        known, found = record.get(case, {}), run_case(case)
        if "unstable" in known and "bits" in found:
            found = {name: x for name, x in found.items() if name in known}
            found["unstable"] = known["unstable"]
        record[case] = found
    write_record(describe_environment(), {case: record[case] for case in CASES if case in record})


def mark_unstable(cases):
    """Run the cases in this environment; name the fields whose meaning changes as unstable."""
    from cases import run_case
    from outcomes import compare, soften

    environment, record = read_record()
    n_marked = 0
    for case in cases:
        if "refused" in record[case]:
            continue
        found, is_single = run_case(case), "/float32/" in case
        n_marked += bool(compare(record[case], found, is_single=is_single))
        while changes := compare(record[case], found, is_single=is_single):
            record[case] = soften(record[case], list(changes))
            print(case, *(f"    {name}: {both}" for name, both in changes.items()), sep="\n")
    write_record(environment, record)
    print(f"{n_marked} cases are marked as unstable")


def main():
    """Read the options and run."""
    if any(os.environ.get(name) != "1" for name in SINGLE_THREAD):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SINGLE_THREAD})
    from cases import CASES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record the cases again")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="such as 'nmf*/dask/*'")
    parser.add_argument("--strict", action="store_true", help="fail unless the bits are the same")
    parser.add_argument(
        "--mark-unstable",
        action="store_true",
        help="leave out of the record what changes in this environment",
    )
    asked = parser.parse_args()
    start = time.perf_counter()
    chosen = [case for case in CASES if fnmatchcase(case, asked.only)]
    failures = 0
    if asked.write:
        write(chosen)
    elif asked.mark_unstable:
        mark_unstable(chosen)
    else:
        failures = check(chosen, is_strict=asked.strict)
    print(f"{len(chosen)} cases in {time.perf_counter() - start:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
