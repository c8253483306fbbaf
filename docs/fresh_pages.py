"""Run pages of the documentation in fresh environments with what each page says to install.

    python docs/fresh_pages.py [page.md ...]

By default these are the guides. The package is installed from this repository with pip, not in
editable mode. Pages with the same installation share an environment, so the loops are compiled for
the first of them. ``run_page.py`` prints the figures; a page that fails ends with its traceback,
and the others still run. The environments are deleted.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

DOCS = Path(__file__).parent
GUIDES = (
    "text.md",
    "cluster.md",
    "missing-data.md",
    "projection.md",
    "indicators.md",
    "choose-k.md",
    "spectral.md",
    "assignment.md",
    "single-cell.md",
    "parcellate.md",
    "unmix.md",
    "scaling.md",
    "own-function.md",
)
_INSTALL = re.compile(r"pip install ([^\n`#]+)")


def requirements(page: str) -> tuple[str, ...]:
    """Return what the page says to install; the package itself comes from this repository."""
    text = (DOCS / page).read_text(encoding="utf-8")
    words = {word for found in _INSTALL.findall(text) for word in found.replace('"', " ").split()}
    extras = {name for w in words if "[" in w for name in w[w.index("[") + 1 : -1].split(",")}
    ours = f"{DOCS.parent}[{','.join(sorted(extras))}]" if extras else f"{DOCS.parent}"
    return (ours, *sorted(word for word in words if not word.startswith("orthoplus")))


def run_fresh(wanted: tuple[str, ...], pages: list[str]) -> bool:
    """Run pages in a new environment with the wanted packages; return whether all ran."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "Scripts" if os.name == "nt" else "bin", "python"))
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True, env=clean)
        print("\nInstalled:", *(word.replace(str(DOCS.parent), "orthoplus") for word in wanted))
        sys.stdout.flush()
        command = [python, str(DOCS / "run_page.py")]
        codes = [subprocess.run([*command, p], env=clean, cwd=folder).returncode for p in pages]
    return not any(codes)


def main(pages: list[str]) -> int:
    """Run pages, those with the same requirements in one environment."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for page in pages:
        groups.setdefault(requirements(page), []).append(page)
    return int(not all([run_fresh(*group) for group in groups.items()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(GUIDES)))
