"""The demo runs, draws its picture, and suggests commands that exist."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "examples" / "demo.py"


def test_demo_reports_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    runpy.run_path(str(DEMO), run_name="__main__")
    printed = capsys.readouterr().out
    assert "CONVERGED" in printed
    assert (tmp_path / "orthoplus-demo.png").stat().st_size < 200_000
    targets = re.findall(r"^  make (\w+)", printed, flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(targets) == 2
    assert all(f"\n{target}:" in makefile for target in targets)
