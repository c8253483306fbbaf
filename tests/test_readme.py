"""The README's code runs as pasted, and its links lead somewhere."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_readme_has_code():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("code", BLOCKS, ids=["digits", "jax"])
def test_block_runs_as_pasted(code):
    if "jax" in code:
        pytest.importorskip("jax")
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["result"].success
    assert names["result"].violation < 1e-12
    if "truth" in names:  # the hidden groups are found
        assert len(set(zip(names["truth"], names["result"].labels, strict=True))) == 3


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_local_links_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert targets
    assert [t for t in targets if "://" not in t and not (ROOT / t).exists()] == []
