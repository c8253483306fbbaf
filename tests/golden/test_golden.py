"""A share of the golden record: the meaning of the answers has not changed.

All of it, and the bits, are checked by ``python tests/golden/run.py``.
"""

from fnmatch import fnmatchcase

import pytest
from cases import CASES, ENTRIES, SEEDS, run_case

from run import judge as judge_case
from run import read_intended, read_record

# Left to the program: they take about a second each.
SLOW = (
    "baseline.opnmf",
    "baseline.seppg",
    "baseline.wen_yin",
    "minimize.differences",
    "solve.k_means",
    "solve.projective_kl",
)
PASSES = ("same bits", "same within tolerance", "reworded refusal")


def share_of_cases():
    """Return cases of all entries and storages: one or two of each entry, in turn."""
    chosen = []
    for i, (name, entry) in enumerate(ENTRIES.items()):
        if name not in SLOW:
            for j in {i, i + i // 2 + 4} if i % 2 else {i}:
                storage = entry.storages[j % len(entry.storages)]
                chosen.append(f"{name}/{storage}/{SEEDS[(i + j) % len(SEEDS)]}")
    return list(dict.fromkeys(chosen))


@pytest.fixture(scope="module")
def record():
    return read_record()[1]


def test_record_has_every_case(record):
    assert list(record) == list(CASES)


@pytest.mark.parametrize("case", share_of_cases())
def test_answer_is_that_of_the_record(case, record):
    verdict, changes = judge_case(case, record[case], run_case(case), with_bits=False)
    if any(fnmatchcase(case, pattern) for pattern in read_intended()):
        return
    assert verdict in PASSES, f"{verdict}:\n" + "\n".join(changes)
