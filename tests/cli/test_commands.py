"""The commands in process: what they write, print and end with."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from rich.live import Live
from typer.testing import CliRunner

import orthoplus as op
from orthoplus.certify import api as certify_api
from orthoplus.cli import demo
from orthoplus.cli.app import app
from orthoplus.cli.display import Goal, LivePanel, PlainLines, Progress, panel, watching
from orthoplus.cli.kernel_cache import cached_files, must_compile
from orthoplus.cli.options import parse_size
from orthoplus.cli.writing import Leftovers, output_folder, to_json, write_csv
from orthoplus.estimators import factorize
from orthoplus.kernels.fused.cache import KernelCache
from orthoplus.run.checkpoint import save_state
from waiting import PATIENCE, killed_in_the_end, read_terminal

ROOT = Path(__file__).resolve().parents[2]


FILES = ["components.csv", "components.npz", "labels.csv", "report.html", "run.json"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def read_rows(name):
    return list(csv.DictReader(Path(name).read_text(encoding="utf-8").splitlines()))


@pytest.fixture
def grouped(rng, tmp_path, monkeypatch):
    """A CSV with names of 30 rows in 3 groups, and the groups."""
    monkeypatch.chdir(tmp_path)
    truth = np.repeat([0, 1, 2], 10)
    A = (0.5 + rng.random((30, 1))) * np.kron(np.eye(3), np.ones(4))[truth] + 0.05 * rng.random(
        (30, 12)
    )
    with open("data.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *(f"word{j}" for j in range(12))])
        writer.writerows([f"doc{i}", *row] for i, row in enumerate(A.tolist()))
    Path("truth.txt").write_text("\n".join("abc"[j] for j in truth) + "\n")
    return A, truth


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in the file system")
@pytest.mark.parametrize("kind", ["pipe", "zeros"])
def test_record_of_an_earlier_run_that_never_ends_is_not_read(tmp_path, kind):
    path = tmp_path / "run.json"
    os.mkfifo(path) if kind == "pipe" else os.symlink("/dev/zero", path)
    assert Leftovers(tmp_path).listed == set()


def test_files_of_an_earlier_run_do_not_remain_next_to_other_labels(grouped):
    Path("out").mkdir()
    Path("out/maps.npz").write_text("of the user")
    run("cluster", "data.csv", "-k", 3, "-o", "out", "--prove", 1, "-q")
    kept = [name for name in os.listdir("out") if name != "run.json"]
    assert sorted(json.loads(Path("out/run.json").read_text())["files"] + ["maps.npz"]) == sorted(
        kept
    )
    done = run("cluster", "data.csv", "-k", 2, "-o", "out", "--no-report")
    assert "Removed files of an earlier run in this folder: proof.npz, report.html." in done.stdout
    wanted = ["components.csv", "components.npz", "labels.csv", "maps.npz", "run.json"]
    assert sorted(os.listdir("out")) == wanted
    assert run("cluster", "data.csv", "-k", 2, "-o", "out", "-q").exit_code == 0
    assert json.loads(Path("out/run.json").read_text())["notes"] == []


def test_cluster_writes_labels_components_record_and_report(grouped):
    A, truth = grouped
    done = run("cluster", "data.csv", "-k", 3, "-o", "out", "--labels", "truth.txt")
    assert done.exit_code == 0
    assert "Converged" in done.stdout
    assert sorted(os.listdir("out")) == FILES
    rows = read_rows("out/labels.csv")
    assert [row["row"] for row in rows] == [f"doc{i}" for i in range(30)]
    labels = np.array([int(row["cluster"]) for row in rows])
    weights = np.array([float(row["weight"]) for row in rows])
    assert len(set(zip(truth.tolist(), labels.tolist(), strict=True))) == 3
    with np.load("out/components.npz", allow_pickle=False) as file:
        components, features = file["components"], file["features"]
    assert features[3] == "word3"
    record = json.loads(Path("out/run.json").read_text())
    fitted = weights[:, None] * components[labels]
    assert record["result"]["objective"] == pytest.approx(((A - fitted) ** 2).sum())
    bound = (A**2).sum() - (np.linalg.svd(A, compute_uv=False)[:3] ** 2).sum()
    assert record["result"]["bound"] == pytest.approx(bound)
    assert "(clusters 0 to 2)" in done.stdout  # the metrics do not lend their names to clusters
    assert record["metrics"] == {"purity": 1.0, "nmi": pytest.approx(1.0), "entropy": 0.0}
    assert record["options"]["seed"] == record["seed"] == 0
    assert record["result"]["status"] == "CONVERGED"
    assert record["versions"]["orthoplus"] == op.__version__
    assert len(record["history"]) == record["result"]["iterations"]
    assert record["method"]["name"] == "SwapSearch"
    assert "word3" in Path("out/report.html").read_text()


def test_tables_are_for_the_next_tool(grouped):
    A, _ = grouped
    done = run("cluster", "data.csv", "-k", 3, "-o", "out", "--scale-rows", "l2")
    rows = read_rows("out/labels.csv")
    assert list(rows[0]) == ["row", "cluster", "weight", "cosine", "second_best", "margin"]
    found = {name: np.array([float(row[name]) for row in rows]) for name in list(rows[0])[1:]}
    labels, second = found["cluster"].astype(int), found["second_best"].astype(int)
    for j in range(3):
        assert found["weight"][labels == j].mean() == pytest.approx(1.0)
    table = read_rows("out/components.csv")
    assert list(table[0]) == ["cluster", *(f"word{j}" for j in range(12))]
    assert [row.pop("cluster") for row in table] == ["0", "1", "2"]
    H = np.array([[float(cell) for cell in row.values()] for row in table])
    with np.load("out/components.npz") as file:
        np.testing.assert_allclose(file["components"], H, rtol=1e-8)
    # A component is the row of weight 1, in the units of the data although rows were scaled.
    assert ((A - found["weight"][:, None] * H[labels]) ** 2).sum() < 0.05 * (A**2).sum()
    cosines = (A / np.linalg.norm(A, axis=1)[:, None]) @ (H / np.linalg.norm(H, axis=1)[:, None]).T
    order = np.argsort(cosines, axis=1)
    np.testing.assert_array_equal(order[:, 2], labels)
    np.testing.assert_array_equal(order[:, 1], second)
    np.testing.assert_allclose(found["cosine"], cosines.max(axis=1), rtol=1e-6)
    margins = np.sort(cosines, axis=1)
    np.testing.assert_allclose(found["margin"], margins[:, 2] - margins[:, 1], rtol=1e-6)
    sizes = " ".join(map(str, np.bincount(labels)))
    assert f"sizes        {sizes}  (clusters 0 to 2)" in done.stdout
    for name in ("labels.csv", "components.csv, .npz", "run.json", "report.html"):
        assert done.stdout.count(f"  {name} ") == 1


def test_names_with_line_ends_are_quoted(tmp_path):
    names = ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b", "a"]
    write_csv(tmp_path / "t.csv", ["name", "x"], ([name, 1] for name in names))
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["name", *names]
    text = (tmp_path / "t.csv").read_bytes()
    assert b'"a\rb",1\n' in text
    assert text.count(b"\r\n") == 1  # the one in a name


def test_prove_says_how_far_the_best_clustering_may_be(grouped):
    A, _ = grouped
    done = run("cluster", "data.csv", "-k", 3, "-o", "out", "--prove", PATIENCE)
    assert done.exit_code == 0
    assert "proven optimal" in done.stdout
    assert ", upper bound " in done.stderr
    proof = json.loads(Path("out/run.json").read_text())["proof"]
    assert proof["is_optimal"]
    assert proof["gap"] <= 1e-8
    assert proof["history"][0]["kind"] == "spectral"
    assert op.Certificate.load("out/proof.npz").verify(op.problems.ONMF(A, 3))
    page = Path("out/report.html").read_text()
    assert "It is proven that no clustering explains more" in page
    assert "quick bound" not in page


def test_a_better_partition_that_the_proof_finds_is_what_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The bound of a tree that is cut off could not be verified.
    monkeypatch.setattr(certify_api, "_MOST_BRANCHED", 0)
    A = np.random.default_rng(3).random((60, 8))
    np.save("data.npy", A)
    options = ("-k", 5, "--method", "ep4orth", "--max-iter", 1, "--seed", 3)
    run("cluster", "data.npy", *options, "-o", "before")
    before = json.loads(Path("before/run.json").read_text())["result"]["objective"]
    done = run("cluster", "data.npy", *options, "-o", "out", "--prove", PATIENCE)
    assert "The proof found a better partition: explained" in done.stdout
    assert "It was written." in done.stdout
    record = json.loads(Path("out/run.json").read_text())
    value = record["result"]["objective"]
    assert value == pytest.approx(record["proof"]["value"])
    assert value < before * (1 - 1e-6)
    labels, weights = np.loadtxt(
        "out/labels.csv", delimiter=",", skiprows=1, usecols=(1, 2), unpack=True
    )
    components = np.load("out/components.npz")["components"]
    fitted = weights[:, None] * components[labels.astype(int)]
    assert ((A - fitted) ** 2).sum() == pytest.approx(value)
    certificate = op.Certificate.load("out/proof.npz")
    assert not certificate.improved
    assert certificate.value == pytest.approx(value)
    assert certificate.verify(op.problems.ONMF(A, 5))
    assert "better partition" in Path("out/report.html").read_text()


def test_without_a_proof_the_bound_is_called_quick(grouped):
    done = run("cluster", "data.csv", "-k", 3, "-o", "out")
    assert "quick bound" in done.stdout
    assert "--prove 30" in done.stdout
    assert "quick bound" in Path("out/report.html").read_text()


def test_command_of_the_record_gives_the_same_files(grouped):
    run("cluster", "data.csv", "-k", 3, "--n-init", 2, "--seed", 5)
    record = json.loads(Path("data-k3/run.json").read_text())
    first = Path("data-k3/labels.csv").read_bytes()
    Path("data-k3/labels.csv").unlink()
    words = shlex.split(record["command"])
    assert words[0] == "orthoplus"
    assert run(*words[1:]).exit_code == 0
    assert Path("data-k3/labels.csv").read_bytes() == first


@pytest.mark.parametrize("kind", ["dense", "sparse", "transposed"])
def test_cluster_reads_every_kind_of_matrix_alike(grouped, kind):
    A, truth = grouped
    words = []
    if kind == "sparse":
        sp.save_npz("a.npz", sp.csr_array(A))
    else:
        np.savez("a.npz", A=A.T if kind == "transposed" else A, other=np.ones((3, 3)))
        words = ["--transpose"] if kind == "transposed" else []
    done = run("cluster", "a.npz", "-k", 3, "--json", "--no-report", *words)
    record = json.loads(done.stdout)
    assert record["data"]["sparse"] == (kind == "sparse")
    labels = [int(row["cluster"]) for row in read_rows("a-k3/labels.csv")]
    assert len(set(zip(truth.tolist(), labels, strict=True))) == 3
    assert not Path("a-k3/report.html").exists()


def test_missing_entries_of_an_array_are_masked_if_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).random((12, 4))
    values[3, 1] = np.nan
    np.save("a.npy", values)
    done = run("cluster", "a.npy", "-k", 2, "--no-report")
    assert done.exit_code == 2
    assert "Or pass --missing mask" in " ".join(done.output.split())
    assert run("cluster", "a.npy", "-k", 2, "--missing", "mask", "--no-report").exit_code == 0
    sp.save_npz("a.npz", sp.csr_array(values))
    assert run("cluster", "a.npz", "-k", 2, "--missing", "mask", "--no-report").exit_code == 2


def test_row_without_values_is_not_called_a_row_of_zeros(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("name,u,v\na,1,0\nb,2,0\nc,0,0\nd,0,3\nSource: x,,\n")
    done = run("cluster", "a.csv", "-k", 2, "--missing", "mask", "--no-report")
    assert "1 row of zeros belongs to no cluster, label -1." in done.stdout
    assert "1 row without values belongs to no cluster, label -1." in done.stdout
    assert [row["cluster"] for row in read_rows("a-k2/labels.csv")].count("-1") == 2


def test_zero_row_belongs_to_no_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A = np.kron(np.eye(2), np.ones((4, 3)))
    A[1] = 0.0
    np.save("z.npy", A)
    done = run("cluster", "z.npy", "-k", 2)
    row = read_rows("z-k2/labels.csv")[1]
    assert row["cluster"] == "-1"
    assert float(row["weight"]) == 0.0
    assert (row["cosine"], row["second_best"], row["margin"]) == ("", "-1", "")
    assert "1 row of zeros belongs to no cluster" in done.stdout


@pytest.mark.parametrize(
    ("A", "k"),
    [(np.zeros((5, 4)), 2), (np.eye(4), 4), (np.ones((1, 1)), 1), (np.eye(9, 3) + 0.1, 1)],
    ids=["zeros", "as many as rows", "one number", "one cluster"],
)
def test_degenerate_data_are_written_with_a_report(tmp_path, monkeypatch, A, k):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    assert run("cluster", "a.npy", "-k", k, "-o", "out", "-q").exit_code == 0
    assert Path("out/report.html").stat().st_size > 10_000


def test_quiet_prints_nothing_and_json_only_json(grouped):
    quiet = run("cluster", "data.csv", "-k", 3, "--quiet", "--no-report")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    printed = run("cluster", "data.csv", "-k", 3, "--json", "--no-report")
    assert json.loads(printed.stdout)["result"]["success"]
    assert printed.stderr == ""


def test_plain_lines_when_there_is_no_terminal(grouped):
    done = run("cluster", "data.csv", "-k", 3, "--no-report")
    read, title, *_ = done.stderr.splitlines()
    assert read.startswith("Read 30 rows, 12 columns; row names from the first column")
    assert title == "data.csv: 30 x 12 in 3 clusters"
    assert re.search(r"iteration +\d+  objective 0\.\d+  \d", done.stderr)
    assert "\x1b" not in done.stderr + done.stdout


def test_run_that_does_not_converge_is_written_with_code_1(grouped):
    done = run("cluster", "data.csv", "-k", 3, "--max-iter", 1)
    assert done.exit_code == 1
    assert "Best result so far written to data-k3" in done.stdout
    assert "Raise `--max-iter`, or omit it." in done.stdout
    record = json.loads(Path("data-k3/run.json").read_text())
    assert record["result"]["status"] == "MAX_ITER"


@pytest.mark.parametrize("method", ["auto", "ep4orth"])
def test_resumed_run_equals_uninterrupted_bit_for_bit(grouped, monkeypatch, method):
    whole = ("cluster", "data.csv", "-k", 3, "--method", method, "--no-report", "-q")
    run(*whole, "-o", "whole")
    real = factorize.run_starts

    def interrupted(*args, callback, **options):
        return real(*args, callback=lambda state: state.n_iter == 4, **options)

    with monkeypatch.context() as patch:
        patch.setattr(factorize, "run_starts", interrupted)
        assert run(*whole, "-o", "part", "--checkpoint", "state.npz").exit_code == 1
    assert run(*whole, "-o", "rest", "--resume", "state.npz").exit_code == 0
    names = ("labels.csv", "components.npz")
    assert Path("whole/labels.csv").read_bytes() == Path("rest/labels.csv").read_bytes()
    with np.load(f"whole/{names[1]}") as one, np.load(f"rest/{names[1]}") as other:
        assert one["components"].tobytes() == other["components"].tobytes()
    records = [json.loads(Path(f"{d}/run.json").read_text()) for d in ("whole", "part", "rest")]
    values = [[row["value"] for row in record["history"]] for record in records]
    assert values[0] == values[1] + values[2]


def test_interrupt_in_the_run_writes_what_there_is(grouped, monkeypatch):
    real = factorize.run_starts

    def interrupted(*args, callback, **options):
        def stop(state):
            if state.n_iter == 3:
                raise KeyboardInterrupt

        return real(*args, callback=stop, **options)

    monkeypatch.setattr(factorize, "run_starts", interrupted)
    done = run("cluster", "data.csv", "-k", 3)
    assert done.exit_code == 130
    assert "Interrupted" in done.stdout
    assert "Best result so far written" in done.stdout
    assert json.loads(Path("data-k3/run.json").read_text())["result"]["iterations"] == 3


def test_interrupt_before_the_run_says_that_nothing_was_written(grouped, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(factorize, "run_starts", interrupted)
    done = run("cluster", "data.csv", "-k", 3)
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of its own")
def test_ctrl_c_on_a_terminal_ends_the_panel_and_leaves_whole_files(tmp_path):
    np.save(tmp_path / "big.npy", np.random.default_rng(0).random((800, 80)))
    words = [sys.executable, "-m", "orthoplus", "cluster", "big.npy", "-k", "20", "-o", "out"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1",
        "TERM": "xterm", "COLUMNS": "90",
    }  # fmt: skip
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [*words, "--checkpoint", "state.npz", "--max-iter", "100000", "--n-init", "10000"],
        cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    with killed_in_the_end(child):
        saved = tmp_path / "state.npz"
        shown = read_terminal(ours, lambda text: saved.exists() and "elapsed" in text)
        child.send_signal(signal.SIGINT)
        shown += read_terminal(ours)
        assert child.wait(timeout=PATIENCE) == 130, shown
    assert "Traceback" not in shown, shown
    for part in ("Reading big.npy", "800 x 80 in 20 clusters", "Ctrl-C stops and writes", "╭"):
        assert part in shown
    assert "Best result so far written to out" in shown
    assert "To continue from the checkpoint:" in shown
    assert sorted(os.listdir(tmp_path / "out")) == FILES


def bad_calls():
    """(name, words, what the sentence says); each a file or an option that cannot work."""
    return [
        ("absent", ["cluster", "no.csv", "-k", 3], "`no.csv` does not exist"),
        ("text", ["cluster", "text.csv", "-k", 1], r"line 3, column 2 \(`b`\): `oops` is not a"),
        ("pickle", ["cluster", "pickle.npy", "-k", 1], "pickled Python objects"),
        ("truncated", ["cluster", "short.npy", "-k", 1], "truncated or damaged"),
        ("type", ["cluster", "a.docx", "-k", 1], "unsupported file type `.docx`"),
        ("zip", ["cluster", "bomb.npz", "-k", 1], "declares"),
        ("index", ["cluster", "index.npz", "-k", 1], "column index 9"),
        ("mat", ["unmix", "bad.mat", "-k", 1], "not a MATLAB file"),
        ("hdr", ["unmix", "bad.hdr", "-k", 1], "does not say `lines`"),
        ("nan", ["cluster", "nan.npy", "-k", 1], r"NaN or infinite, the first at row 2, column 1"),
        ("negative", ["cluster", "neg.npy", "-k", 1], r"row 1, column 2 \(-2\)"),
        ("k", ["cluster", "data.csv", "-k", 31], "exceeds the 30 rows"),
        ("k0", ["cluster", "data.csv", "-k", 0], "`-k 0`: at least 1 cluster"),
        ("labels", ["cluster", "data.csv", "-k", 2, "--labels", "few.txt"], "2 labels.*30 rows"),
        ("more", ["cluster", "data.csv", "-k", 2, "--labels", "more.txt"], "31 labels.*30 rows"),
        ("keys", ["cluster", "index.npz:X", "--key", "A", "-k", 1], "name different arrays"),
        ("image", ["cluster", "data.csv", "-k", 2, "--image", "9x9"], "81 pixels.*12 features"),
        ("size", ["cluster", "data.csv", "-k", 2, "--image", "big"], "HEIGHTxWIDTH"),
        ("method", ["cluster", "data.csv", "-k", 2, "--method", "magic"], "`--method magic` is"),
        ("unmixing", ["cluster", "data.csv", "-k", 2, "--method", "unmixing"], "one of auto, ep4"),
        ("seed", ["cluster", "data.csv", "-k", 2, "--seed", "x"], "--seed.*an integer"),
        ("no time", ["cluster", "data.csv", "-k", 2, "--time-limit", 0], "at least 0.001"),
        ("no state", ["cluster", "data.csv", "-k", 2, "--resume", "data.csv"], "not a checkpoint"),
        ("materials", ["unmix", "cube.npy", "-k", "two"], "`-k two` is not a number of materials"),
        ("unmix method", ["unmix", "cube.npy", "-k", 2, "--method", "x"], "`--method x`"),
        ("resume", ["cluster", "data.csv", "-k", 2, "--resume", "no.npz"], "file does not exist"),
        ("state", ["cluster", "data.csv", "-k", 2, "--resume", "bomb.npz"], "not a saved state"),
        ("starts", ["cluster", "data.csv", "-k", 2, "--method", "ep4orth", "--n-init", 2,
                    "--checkpoint", "s.npz"],
         "holds one run"),
        ("folder", ["cluster", "data.csv", "-k", 2, "-o", "few.txt"], "a folder is expected"),
        ("shape", ["unmix", "nan.npy", "-k", 1, "--shape", "5x5"], "25 pixels.*--bands-first"),
        ("wide", ["project", "wide.npy"], "more columns than rows"),
        ("empty", ["cluster", "empty.csv", "-k", 1], "`empty.csv` is empty"),
        ("empty npz", ["cluster", "empty.npz", "-k", 1], "not an .npz archive"),
        ("empty mat", ["unmix", "empty.mat", "-k", 1], "not a MATLAB file|damaged"),
        ("rows", ["cluster", "rows.npy", "-k", 1], "an empty matrix"),
        ("header", ["cluster", "header.csv", "-k", 1], "a header but no rows"),
        ("ragged", ["cluster", "ragged.csv", "-k", 1], "line 3 has 3 cells, but line 1 has 2"),
        ("folder in", ["cluster", ".", "-k", 1], "is a folder"),
        ("vector", ["cluster", "vector.npy", "-k", 1], "5 numbers.*|has no matrix"),
        ("words", ["cluster", "words.npy", "-k", 1], "has no matrix of numbers"),
        ("key", ["cluster", "bomb.npz:Z", "-k", 1], "has no array `Z`"),
        ("nan labels", ["cluster", "data.csv", "-k", 2, "--labels", "no.txt"], "does not exist"),
        ("tol", ["cluster", "data.csv", "-k", 2, "--tol", -1], "tol"),
        ("tol of auto", ["cluster", "data.csv", "-k", 2, "--tol", 0.1], "add `--method ep4orth`"),
        ("tol of kl", ["cluster", "data.csv", "-k", 2, "--loss", "kl", "--tol", 1], "requires"),
        ("seconds", ["cluster", "data.csv", "-k", 2, "--time-limit", "nan"], "time-limit"),
        ("complex", ["cluster", "complex.npy", "-k", 1], "holds complex numbers"),
        ("years", ["cluster", "years.csv", "-k", 1], "Pass --header or --no-header"),
        ("days", ["cluster", "days.csv", "-k", 1], "--drop day"),
        ("quote", ["cluster", "quote.csv", "-k", 1], "after line 2: unexpected end of data"),
        ("other state", ["cluster", "data.csv", "-k", 2, "--resume", "state.npz"], "resume"),
        ("pixels", ["unmix", "cube.npy", "-k", 9], "exceeds the number of pixels"),
        ("model", ["unmix", "cube.npy", "-k", 2, "--fractions", "x"], "--fractions x.*fcls, nnls"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def slow_files(tmp_path_factory):
    """The files that take long to make."""
    folder = tmp_path_factory.mktemp("slow")
    np.savez_compressed(folder / "bomb.npz", X=np.zeros((2000, 1000)))
    state = op.solve(op.problems.Projection(np.eye(4, 2))).state
    save_state(folder / "state.npz", state)
    return sorted(folder.iterdir())


@pytest.fixture
def bad_files(grouped, slow_files, monkeypatch):
    for path in slow_files:
        shutil.copy(path, path.name)
    Path("text.csv").write_text("a,b\n1,2\n3,oops\n")
    np.save("pickle.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save("short.npy", np.ones((9, 9)))
    Path("short.npy").write_bytes(Path("short.npy").read_bytes()[:-5])
    Path("a.docx").write_bytes(b"PK")
    monkeypatch.setenv("ORTHOPLUS_MAX_BYTES", "1000000")
    np.savez("index.npz", data=[1.0], indices=[9], indptr=[0, 1], shape=[1, 3])
    Path("bad.mat").write_bytes(b"MATLAB 5.0 but no more")
    Path("bad.hdr").write_text("ENVI\nsamples = 3\n")
    np.save("nan.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))
    np.save("neg.npy", np.array([[1.0, -2.0], [0.0, 1.0]]))
    np.save("wide.npy", np.ones((2, 5)))
    Path("few.txt").write_text("a\nb\n")
    Path("more.txt").write_text("7\n" + "1\n2\n" * 15)  # a number is not a header
    for name in ("empty.csv", "empty.npz", "empty.mat"):
        Path(name).touch()
    np.save("rows.npy", np.ones((0, 3)))
    Path("header.csv").write_text("a,b\n")
    Path("ragged.csv").write_text("1,2\n3,4\n5,6,7\n")
    np.save("vector.npy", np.ones(5))
    np.save("complex.npy", np.ones((2, 2), dtype=complex))
    Path("years.csv").write_text("2019,2020,2021\n.1,.5,.2\n.4,.1,.3\n.2,.9,.1\n")
    Path("days.csv").write_text("day,a\n" + "".join(f"{i},{i % 3}\n" for i in range(9)))
    Path("quote.csv").write_text('a,b\n1,2\n3,"4\n')
    np.save("words.npy", np.array([["a", "b"]]))
    np.save("cube.npy", np.ones((2, 3, 4)))


@pytest.mark.parametrize(
    ("words", "message"), [b[1:] for b in bad_calls()], ids=[b[0] for b in bad_calls()]
)
def test_bad_input_is_one_sentence_with_code_2(bad_files, words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert re.search(message, " ".join(done.stderr.replace("│", " ").split()))
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [path for path in Path().iterdir() if path.is_dir()] == []  # nothing is left behind


def test_mistake_of_ours_is_no_bad_input(grouped, monkeypatch):
    def slip(*args, **options):
        _one, _two = args[:1]

    monkeypatch.setattr(factorize, "run_starts", slip)
    monkeypatch.delenv("ORTHOPLUS_DEBUG", raising=False)
    done = run("cluster", "data.csv", "-k", 3)
    assert done.exit_code == 70
    assert "Internal error: ValueError: not enough values to unpack" in done.stderr
    assert "orthoplus/estimators/factorize.py, line" in done.stderr
    assert "a bug in orthoplus, not a problem with your input" in done.stderr
    assert not Path("data-k3").exists()
    monkeypatch.setenv("ORTHOPLUS_DEBUG", "1")
    with pytest.raises(ValueError, match="not enough values"):
        run("cluster", "data.csv", "-k", 3)


def test_full_disk_is_a_sentence(grouped, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device", "labels.csv")

    monkeypatch.setattr("orthoplus.cli.cluster_files.write_csv", full)
    done = run("cluster", "data.csv", "-k", 3, "-q")
    assert (done.exit_code, done.stderr) == (2, "Error: `labels.csv`: No space left on device.\n")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("n_signals", [1, 2])
def test_ctrl_c_while_writing_finishes_the_files_once(grouped, monkeypatch, n_signals):
    from orthoplus.cli import cluster_files

    real = cluster_files.write_csv

    def interrupted(path, *args, **options):
        real(path, *args, **options)
        for _ in range(n_signals if path.name == "labels.csv" else 0):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(cluster_files, "write_csv", interrupted)
    done = run("cluster", "data.csv", "-k", 3)
    assert done.exit_code == 130
    assert "finishing the files" in done.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    written = sorted(os.listdir("data-k3"))
    if n_signals == 1:
        assert written == FILES
    else:
        assert written == ["labels.csv"]
        assert "others are missing" in done.stderr


HOSTILE_NAME = '[red]x\x1b[2J\u202e\n,"=1+1<b>.csv'


def test_hostile_names_stay_text_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [["", "a", HOSTILE_NAME], *([f"{HOSTILE_NAME}{i}", i * i, 1] for i in range(6))]
    with open(HOSTILE_NAME, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    done = run("cluster", HOSTILE_NAME, "-k", 2, "-o", f"out{HOSTILE_NAME}")
    assert done.exit_code == 0
    for printed in (done.stdout, done.stderr):
        assert "[red]x\\x1b[2J\\u202e\\n" in printed
        assert not set("\x1b\u202e") & set(printed)
    with open(f"out{HOSTILE_NAME}/labels.csv", encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)][1:] == [row[0] for row in rows[1:]]
    page = Path(f"out{HOSTILE_NAME}", "report.html").read_text(encoding="utf-8")
    assert "<b>" not in page
    absent = run("cluster", f"no{HOSTILE_NAME}", "-k", 2)
    assert absent.exit_code == 2
    assert "\x1b" not in absent.stderr
    assert len(absent.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_file_name_that_is_no_text_is_borne(grouped):
    name = os.fsdecode(b"caf\xe9.csv")
    os.rename("data.csv", name)
    done = run("cluster", name, "-k", 3, "-o", "out")
    assert done.exit_code == 0
    assert "caf\\udce9.csv" in done.stderr
    assert json.loads(Path("out/run.json").read_text())["data"]["file"] == name


def test_unmix_writes_spectra_and_maps(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spectra = np.array([[1.0, 2.0, 3.0, 1.0], [4.0, 1.0, 0.5, 0.0]])
    materials = rng.permutation(np.arange(42) % 2).reshape(6, 7)
    cube = (0.5 + rng.random((6, 7, 1))) * spectra[materials]
    np.save("cube.npy", cube)
    assert run("unmix", "cube.npy", "-k", 2).exit_code == 0
    assert sorted(os.listdir("cube-k2")) == [
        "maps.npz", "maps.png", "report.html", "run.json", "spectra.csv", "spectra.png",
    ]  # fmt: skip
    rows = list(csv.reader(Path("cube-k2/spectra.csv").read_text().splitlines()))
    assert rows[0] == ["band", "material 1", "material 2"]
    found = np.array([row[1:] for row in rows[1:]], dtype=float).T
    assert op.metrics.spectral_angle_distance(found, spectra) == pytest.approx(0.0, abs=1e-6)
    with np.load("cube-k2/maps.npz") as maps:
        np.testing.assert_allclose(maps["hard_abundances"] @ found, cube, atol=1e-6)
        np.testing.assert_allclose(maps["abundances"].sum(axis=-1), 1.0)
        labels = maps["labels"]
        np.testing.assert_array_equal(maps["abundances"].argmax(axis=-1), labels)
    assert json.loads(Path("cube-k2/run.json").read_text())["result"]["fractions"] == "nnls"
    # The same image as MATLAB keeps it: bands first, pixels down the columns.
    np.save("flat.npy", cube.transpose(2, 1, 0).reshape(4, -1))
    words = ("--shape", "6x7", "--bands-first", "--column-major", "--no-report", "-q")
    assert run("unmix", "flat.npy", "-k", 2, *words).exit_code == 0
    with np.load("flat-k2/maps.npz") as maps:
        np.testing.assert_array_equal(
            maps["labels"] == maps["labels"][0, 0], labels == labels[0, 0]
        )
    for words in (("cube.npy",), ("cube.npy", "--shape", "6x7"), ("flat.npy", "--bands-first")):
        done = run("unmix", *words, "-k", 2, "--column-major")
        assert done.exit_code == 2
        assert "`--column-major` applies only to a matrix" in done.stderr


def test_project_writes_the_certified_matrix(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    C = rng.standard_normal((20, 3))
    np.save("C.npy", C)
    done = run("project", "C.npy")
    assert done.exit_code == 0
    assert "Globally optimal" in done.stdout
    X = sp.load_npz("C-projected/X.npz").toarray()
    np.testing.assert_array_equal(X, op.project(C).X)
    record = json.loads(Path("C-projected/run.json").read_text())
    assert record["result"]["objective"] == pytest.approx((C * X).sum())


def test_project_without_a_proof_ends_with_code_1(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("C.npy", rng.random((200, 20)))
    done = run("project", "C.npy", "--tol", 0, "--max-passes", 1)
    assert done.exit_code == 1
    assert "a gap is left" in done.stdout


def test_info_says_versions_threads_kernels_and_cache():
    found = json.loads(run("info", "--json").stdout)
    assert found["versions"]["orthoplus"] == op.__version__
    assert "fused" in found["kernels"]["version"]
    assert {"versions", "machine", "threads", "kernels", "data"} == found.keys()
    assert f"orthoplus     {op.__version__}" in run("info").stdout


def test_demo_draws_and_its_suggestions_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "PROOF_SECONDS", 1.0)
    done = run("demo")
    assert done.exit_code == 0
    assert Path("orthoplus-demo/digits.png").read_bytes().startswith(b"\x89PNG")
    assert Path("orthoplus-demo/digits.png").stat().st_size < 200_000
    commands = re.findall(r"^  orthoplus (.*)$", done.stdout, flags=re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert run(*shlex.split(command)).exit_code == 0


def test_version_and_module():
    assert run("--version").stdout == f"orthoplus {op.__version__}\n"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", "orthoplus", "--version"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"orthoplus {op.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("orthoplus ", "cluster"),
        ("orthoplus bench sp", "speed-large"),
        ("orthoplus cluster a.csv --method ", "ep4orth"),
        ("orthoplus data fetch Ya", "Yale"),
    ],
)
def test_shell_completion_offers_names(typed, offered):
    words = typed.split(" ")
    variables = {
        "_ORTHOPLUS_COMPLETE": "complete_bash", "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    done = CliRunner().invoke(app, [], prog_name="orthoplus", env=variables)
    assert offered in done.stdout.split()
    assert "--install-completion" in run("--help").stdout


def test_live_panel_shows_the_numbers(monkeypatch):
    out = io.StringIO()
    seen = Progress(22, 8.2e5, 9.0e-2, 0.156, 10.0, 0.4)
    Console(file=out, width=80).print(panel(Goal("data", 1e-8, 300), seen, 2))
    for text in ("data, start 2", "22", "8.20e+05", "9.00e-02", "0.156000", "10.0 s"):
        assert text in out.getvalue()


def test_clock_of_the_panel_goes_on_before_the_first_iteration():
    live = Live(console=Console(file=io.StringIO()), auto_refresh=False)
    shown = LivePanel(Goal("data", 1e-8, 300), live)
    shown.started -= 12.0  # as if it had begun then
    out = io.StringIO()
    Console(file=out, width=80).print(live.get_renderable())
    assert re.search(r"\b12\.\d s", out.getvalue())


def test_display_follows_a_run_and_never_goes_back(capsys):
    problem = op.problems.Projection(np.random.default_rng(0).standard_normal((30, 3)))
    lines = PlainLines(Goal("x", 1e-8, 300))
    shares = []
    follow = lambda state: shares.append(lines.follow(state).share)  # noqa: E731
    op.solve(problem, method=op.EP4Orth.for_projection(), callback=follow)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with watching(Goal("y", 1e-8, 300), silent=True) as display:
        assert display(None) is None


@pytest.mark.parametrize("is_cold", [True, False])
def test_display_says_that_a_first_run_compiles(is_cold, monkeypatch, capsys):
    monkeypatch.setattr("orthoplus.cli.display.must_compile", lambda: is_cold)
    PlainLines(Goal("x", 1e-8, 300))
    assert ("compiling" in capsys.readouterr().err) is is_cold
    out = io.StringIO()
    Console(file=out, width=80).print(panel(Goal("data", 1e-8, 300), None, 1))
    assert ("compiling" in out.getvalue()) is is_cold


def test_loops_of_a_former_version_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr("orthoplus.kernels.fused.cache.CACHE", KernelCache("user", tmp_path))
    (tmp_path / "old.nbi").touch()
    (tmp_path / "new.nbi").touch()
    os.utime(tmp_path / "old.nbi", (0, 0))
    assert [path.name for path in cached_files()] == ["new.nbi"]


def test_plain_kernels_are_never_compiled(monkeypatch):
    monkeypatch.setattr("orthoplus.kernels.fused.cache.CACHE", KernelCache("none"))
    monkeypatch.setenv("ORTHOPLUS_KERNELS", "fused")
    assert must_compile()
    monkeypatch.setenv("ORTHOPLUS_KERNELS", "reference")
    assert not must_compile()


@pytest.mark.parametrize("kind", ["package", "user", "temporary", "none"])
def test_info_says_which_cache_there_is(kind, tmp_path, monkeypatch):
    cache = KernelCache(kind, None if kind == "none" else tmp_path)
    monkeypatch.setattr("orthoplus.kernels.fused.cache.CACHE", cache)
    found = json.loads(run("info", "--json").stdout)["kernels"]
    assert found["cache"].startswith(kind)
    assert found["cache folder"].startswith("none" if kind == "none" else str(tmp_path))


def test_record_is_strict_json():
    record = {"a": np.float64("nan"), "b": [np.int64(3), np.inf], "c": Path("x"), "d": np.ones(2)}
    assert json.loads(to_json(record)) == {"a": None, "b": [3, None], "c": "x", "d": [1.0, 1.0]}


def test_sizes_and_folders_are_checked(tmp_path):
    assert parse_size(None, "--image") is None
    for text in ("0x3", "3", "axb", "3x4x5"):
        with pytest.raises(ValueError, match="HEIGHTxWIDTH"):
            parse_size(text, "--image")
    with output_folder(tmp_path / "a" / "b") as folder:
        assert folder.is_dir()
    assert folder.is_dir()
