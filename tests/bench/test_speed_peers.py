"""The table of large matrices beside k-means: groups are found, and the judge names the fastest."""

import pytest

from orthoplus.bench import speed_peers
from orthoplus.bench.table import Row, Rows


@pytest.mark.parametrize("method", [name for name in speed_peers.RUNS if name != speed_peers.FAISS])
def test_every_method_finds_planted_groups(method):
    figures = speed_peers.measure(method, (400, 20, 3), 2, 0)
    assert set(figures) == {"cpu", "wall", "share", "least"}
    assert 0.9 < figures["least"] <= figures["share"] < 1.0


def test_judge_names_the_fastest_and_the_best_of_the_others():
    figures = {"default": (2.0, 0.9), "k-means": (4.0, 0.8), "mini-batch k-means": (1.0, 0.7)}
    rows = Rows(
        Row("large", name, {"cpu": cpu, "share": share}) for name, (cpu, share) in figures.items()
    )
    (line,) = speed_peers.judge(rows)
    assert "2.00 of the CPU seconds of mini-batch k-means" in line
    assert "others, k-means, 0.8000" in line
