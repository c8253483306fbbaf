"""``orthoplus cluster``: the loss, tf-idf, and the scaling of rows and columns."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.io as sio
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import orthoplus as op
from orthoplus.cli.app import app
from orthoplus.cli.modeling import weigh_words


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def labels_of(folder):
    lines = Path(folder, "labels.csv").read_text(encoding="utf-8").splitlines()[1:]
    return np.array([int(line.split(",")[1]) for line in lines])


def assert_same_up_to_scale(found, expected):
    """Assert that rows are positive multiples of those expected; files have weights of mean 1."""
    one, other = (H / np.linalg.norm(H, axis=1, keepdims=True) for H in (found, expected))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.fixture
def corpus(rng, tmp_path, monkeypatch):
    """Write sparse counts of three topics, and return them with the topics."""
    monkeypatch.chdir(tmp_path)
    topics = np.arange(60) % 3
    words = rng.dirichlet(np.full(40, 0.1), 3)
    A = sp.csr_array(rng.poisson(20 * rng.uniform(0.5, 4, (60, 1)) * words[topics]).astype(float))
    sio.mmwrite("corpus.mtx", A)
    return A, topics


def test_names_from_files_are_used_in_tables_and_report(corpus):
    Path("docs.txt").write_text("".join(f"doc {i}\n" for i in range(60)))
    # As in the features.tsv of 10x: identifier, name, type; here with a header.
    Path("words.tsv").write_text("id\tname\n" + "".join(f"w{j}\tword {j}\n" for j in range(40)))
    words = ("--row-names", "docs.txt", "--column-names", "words.tsv", "--loss", "kl")
    assert run("cluster", "corpus.mtx", "-k", 3, *words, "-o", "out").exit_code == 0
    assert Path("out/labels.csv").read_text().splitlines()[60].startswith("doc 59,")
    assert Path("out/components.csv").read_text().startswith("cluster,w0,w1,")
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "doc\xa0" in page
    assert re.search(r">w\d+ <span", page)


def test_margins_of_the_page_are_those_of_the_table(corpus):
    A, _ = corpus
    rows = [100 * A[[i]] / A[[i]].sum() for i in (0, 1)]
    mixtures = [t * rows[0] + (1 - t) * rows[1] for t in np.linspace(0.1, 0.9, 17)]
    mixed = sp.vstack([A, *mixtures]).tocsr()  # some of them lie between two topics
    sio.mmwrite("mixed.mtx", mixed)
    assert run("cluster", "mixed.mtx", "-k", 3, "--loss", "kl", "-o", "out").exit_code == 0
    lines = [line.split(",") for line in Path("out/labels.csv").read_text().splitlines()[1:]]
    model = op.OrthogonalNMF(3, loss="kullback-leibler", random_state=0).fit(mixed)
    fits = model.row_fits(mixed)
    np.testing.assert_allclose([float(line[5]) for line in lines], fits.margins)
    least_sure = int(fits.doubtful()[0])
    assert least_sure >= 60
    page = Path("out/report.html").read_text(encoding="utf-8")
    row = page.split("<tbody>")[1].split(f"row\xa0{least_sure}<")[1].split("</tr>")[0]
    assert f">{fits.margins[least_sure]:.3f}<" in row


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--row-names", "short.txt"), "`--row-names short.txt` has 3 names, but the data have 60"),
        (("--column-names", "docs.txt"), "are these the names of the rows?"),
        (("--row-names", "gone.txt"), "`gone.txt` does not exist"),
    ],
)
def test_names_that_do_not_fit_are_refused(corpus, words, message):
    Path("short.txt").write_text("a\nb\nc\n")
    Path("docs.txt").write_text("".join(f"doc {i}\n" for i in range(60)))
    done = run("cluster", "corpus.mtx", "-k", 3, *words)
    assert (done.exit_code, message in done.output) == (2, True), done.output


@pytest.mark.parametrize("name", ["kl", "kullback-leibler"])
def test_kl_writes_the_labels_of_the_estimator_and_says_what_it_explains(corpus, name):
    A, topics = corpus
    done = run("cluster", "corpus.mtx", "-k", 3, "--loss", name, "-o", "out")
    assert done.exit_code == 0
    model = op.OrthogonalNMF(3, loss="kullback-leibler", random_state=0).fit(A)
    np.testing.assert_array_equal(labels_of("out"), model.labels_)
    assert adjusted_rand_score(topics, labels_of("out")) == 1.0
    record = json.loads(Path("out/run.json").read_text())
    share = 1 - record["result"]["objective"] / record["result"]["total"]
    assert share == pytest.approx(model.score(A), rel=1e-9)
    assert f"{share:.2%} of the divergence from the independence model" in done.output
    assert "sum of squares" not in done.output
    assert "quick bound" not in done.output
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "Kullback-Leibler divergence" in page
    assert "sum of squares" not in page
    again = run(*record["command"].split()[1:], "-o", "again")
    assert again.exit_code == 0
    np.testing.assert_array_equal(labels_of("again"), labels_of("out"))


@pytest.mark.parametrize("loss", ["kl", "frobenius"])
def test_tfidf_is_that_of_scikit_learn_and_is_labelled(corpus, loss):
    A, _ = corpus
    words = ("--loss", loss, "--weighting", "tfidf", "-o", "out")
    done = run("cluster", "corpus.mtx", "-k", 3, *words)
    assert done.exit_code == 0
    weighted = TfidfTransformer().fit_transform(A)
    name = "kullback-leibler" if loss == "kl" else loss
    model = op.OrthogonalNMF(3, loss=name, random_state=0).fit(weighted)
    np.testing.assert_array_equal(labels_of("out"), model.labels_)
    with np.load("out/components.npz") as file:
        assert_same_up_to_scale(file["components"], model.components_)
    assert "the components are in these units" in " ".join(done.output.split())
    assert "weighted by tf-idf" in Path("out/report.html").read_text(encoding="utf-8")


def test_counts_are_recognized_and_kl_is_named(corpus):
    done = run("cluster", "corpus.mtx", "-k", 3, "-o", "out")
    assert "`--loss kl`" in " ".join(done.output.split())
    assert "--loss kl" in Path("out/report.html").read_text(encoding="utf-8")


def test_weighting_keeps_the_form_of_the_data(corpus):
    A, _ = corpus
    assert sp.issparse(weigh_words(A, "tfidf"))
    dense = weigh_words(A.toarray(), "tfidf")
    np.testing.assert_allclose(dense, weigh_words(A, "tfidf").toarray())
    assert weigh_words(A, None) is A


def test_scaled_columns_find_the_wines_and_the_note_names_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A, kinds = load_wine(return_X_y=True)
    np.savez("wine.npz", X=A, labels=kinds)
    words = ("cluster", "wine.npz:X", "-k", 3, "--labels", "wine.npz:labels")
    plain = run(*words, "-o", "plain")
    assert "`--scale-columns std`" in " ".join(plain.output.split())
    scaled = run(*words, "-o", "scaled", "--scale-columns", "max", "--scale-rows", "l2")
    assert scaled.exit_code == 0
    assert "--scale-columns" not in scaled.output
    purity = [json.loads(Path(f, "run.json").read_text())["metrics"] for f in ("plain", "scaled")]
    assert purity[0]["purity"] < 0.7 < 0.85 < purity[1]["purity"]
    record = json.loads(Path("scaled/run.json").read_text())
    model = op.OrthogonalNMF(3, column_scale="max", row_scale="l2", random_state=0).fit(A)
    share = 1 - record["result"]["objective"] / record["result"]["total"]
    assert share == pytest.approx(model.score(A), rel=1e-9)
    with np.load("scaled/components.npz") as file:  # in the units of the data
        assert_same_up_to_scale(file["components"], model.components_)
    page = Path("scaled/report.html").read_text(encoding="utf-8")
    assert "features divided by their largest value, rows scaled to unit norm" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--loss", "poisson"), "`--loss poisson` is unknown; choose one of frobenius, kl"),
        (("--weighting", "idf"), "`--weighting idf` is unknown; choose one of none, tfidf"),
        (("--scale-rows", "max"), "`--scale-rows max` is unknown; choose one of none, l1, l2"),
        (("--scale-columns", "1"), "`--scale-columns 1` is unknown"),
        (("--loss", "kl", "--prove", "3"), "`--prove` requires `--loss frobenius`"),
        (("--loss", "kl", "--method", "ep4orth"), "`--method ep4orth` requires `--loss frobenius`"),
    ],
)
def test_bad_model_is_one_sentence_with_code_2(corpus, words, message):
    done = run("cluster", "corpus.mtx", "-k", 3, *words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
