"""The pages: in a real browser, with hostile names, and as files that need no network."""

import ast
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orthoplus.cli.app import app
from orthoplus.report import figures
from orthoplus.report.page import Fact, Page, Section, render
from orthoplus.report.pictures import draw_maps, draw_spectra
from orthoplus.report.svg import canvas
from waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
needs_browser = pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine")
HOSTILE = [
    "<script>console.error('run')</script>",
    '"><img src=x onerror="console.error(1)">',
    "</svg></style><script>console.error(2)</script>",
    r"$\frac{",
    "{{ 7 * 7 }}",
    "' onmouseover='console.error(3)",
]
FILE = "<b>&'hostile'<img src=x>.csv"


class Tags(HTMLParser):
    """Counts elements, and keeps the text and the attributes."""

    def __init__(self, page):
        super().__init__()
        self.count, self.words, self.attributes, self.ids = {}, [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def browse(path, tmp_path, *options):
    """The page as the browser has built it, and what it wrote to its console."""
    done = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}", *options, "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of a table with hostile names, of images and of a cube."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 10)
    A = np.kron(np.eye(2), np.ones(3))[truth] * (0.5 + rng.random((20, 1)))
    header = ",".join('"' + name.replace('"', '""') + '"' for name in ["corner", *HOSTILE])
    rows = [f"r{i}," + ",".join(map(str, row)) for i, row in enumerate(A.tolist())]
    (folder / FILE).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    (folder / "truth.txt").write_text("\n".join(HOSTILE[j] for j in truth) + "\n")
    np.save(folder / "images.npy", A)
    np.save(folder / "cube.npy", A.reshape(4, 5, 6))
    calls = {
        "table": ["cluster", str(folder / FILE), "--labels", str(folder / "truth.txt")],
        "images": ["cluster", str(folder / "images.npy"), "--image", "2x3"],
        "cube": ["unmix", str(folder / "cube.npy")],
    }
    for name, words in calls.items():
        done = CliRunner().invoke(app, [*words, "-k", "2", "-q", "-o", str(folder / name)])
        assert done.exit_code == 0, done.output
    return folder


FIGURES = {"table": 3, "images": 4, "cube": 3}


@pytest.mark.parametrize("name", FIGURES)
def test_page_needs_no_network_and_has_no_script(pages, name):
    page = (pages / name / "report.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert tags.count["svg"] == tags.count["figure"] == tags.count["figcaption"]
    assert "script" not in tags.count
    assert not [a for a in tags.attributes if a.startswith("on")]
    assert len(tags.ids) == len(set(tags.ids))
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    links = re.findall(r"(?:href|src)=\"([^\"]*)\"", page)
    assert all(link.startswith(("#", "data:")) for link in links)
    for word in ("viewport", "prefers-color-scheme: dark", "@media print"):
        assert word in page


def test_hostile_names_stay_text(pages):
    page = (pages / "table" / "report.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert {"img", "script", "b"}.isdisjoint(tags.count)
    flat = " ".join(tags.text.split())
    assert all(" ".join(name.split()) in flat for name in HOSTILE)
    assert f"{FILE}: 2 clusters" in flat
    assert tags.count["h1"] == tags.count["main"] == 1


@needs_browser
@pytest.mark.parametrize("name", FIGURES)
def test_page_renders_in_a_browser(pages, tmp_path, name):
    dom, console = browse(pages / name / "report.html", tmp_path)
    tags = Tags(dom)
    assert console == []
    assert tags.count["figure"] == FIGURES[name]
    assert tags.count["svg"] == FIGURES[name]
    assert tags.count["path"] > 10
    assert {"script", "b"}.isdisjoint(tags.count)
    assert not [a for a in tags.attributes if a.startswith("on")]
    if name == "table":
        assert "console.error('run')" in tags.text


@needs_browser
def test_console_would_be_seen(tmp_path):
    path = tmp_path / "noisy.html"
    path.write_text("<script>console.error('heard')</script>")
    assert any("heard" in line for line in browse(path, tmp_path)[1])


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_drawn_in_light_and_dark(pages, tmp_path, scheme):
    from PIL import Image

    path, setting = tmp_path / "shot.png", {"dark": 0, "light": 1}[scheme]
    browse(
        pages / "table" / "report.html", tmp_path, f"--screenshot={path}",
        f"--blink-settings=preferredColorScheme={setting}", "--window-size=800,600",
    )  # fmt: skip
    if not path.is_file():
        pytest.skip("this Chromium takes no screenshot beside --dump-dom")
    corner = np.asarray(Image.open(path).convert("L"))[0, 0]
    assert (corner > 200) == (scheme == "light")


def test_figure_text_and_colors_belong_to_the_page():
    with canvas("one", 2.0, 2.0) as drawn:
        drawn.figure.subplots().set_title("<b> & $x_")
    assert "&lt;b&gt; &amp; $x_" in drawn.svg
    assert "var(--ink)" in drawn.svg
    assert 'id="one-' in drawn.svg
    assert "#010203" not in drawn.svg


def test_every_part_of_a_page_is_escaped():
    bad = "<i>&"
    page = Page(
        bad,
        bad,
        bad,
        False,
        (Fact(bad, bad, bad),),
        (Section(bad, bad, code=bad, table=((bad, bad),)),),
        (bad,),
        bad,
    )
    tags = Tags(render(page))
    assert "i" not in tags.count
    assert tags.text.count(bad) == 14


def test_units_and_names_of_images_are_text(tmp_path):
    axis = figures.Axis(("1", "nan", "inf"), r"$\frac <b>" * 50, "reflectance")
    names, spectra = (r"$\bad{", "<script>"), np.ones((2, 3))
    page = figures.spectra(spectra, names, axis) + figures.label_map(np.eye(3, dtype=int), names)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    with open(tmp_path / "a.png", "wb") as file:
        draw_spectra(file, spectra, names, axis)
        draw_maps(file, np.ones((3, 3, 2)), np.eye(3, dtype=int) - 1, names)


def test_legends_say_where_they_are():
    """Otherwise Matplotlib warns on a busy machine that it took long to find the best place."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    calls = [
        call
        for source in sources
        for call in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "legend"
    ]
    assert len(calls) > 5
    assert [ast.unparse(call) for call in calls if "loc=" not in ast.unparse(call)] == []
