"""Wrong calls of every command: the option as typed, what to type instead, and no Python."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from orthoplus.cli.app import app

# A call, and what its message has to name.
CALLS = {
    "cluster": "DATA",
    "cluster x.npy": "--components",
    "cluster x.npy -k": "-k",
    "cluster x.npy -k three": "`-k three`.*such as 8",
    "cluster x.npy -k 0": "`-k 0`.*at least 1",
    "cluster x.npy -k -3": "`-k -3`.*such as 8",
    "cluster x.npy -k 2.5": "`-k 2.5`.*such as 8",
    "cluster x.npy -k 99": "`-k 99`.*at most 12",
    "cluster x.npy -k 5-2": "`-k 2-5`",
    "cluster x.npy -k 2-8": "`-k 2-8`.*End the range at 6",
    "cluster x.npy -k 2 --loss huber": "`--loss huber`.*frobenius, kl",
    "cluster x.npy -k 2 --loss kl --prove 3": "`--prove` requires `--loss frobenius`",
    "cluster x.npy -k 2 --loss kl --tol 1": "`--tol` requires",
    "cluster x.npy -k 2 --loss kl --method ep4orth": "`--method ep4orth` requires",
    "cluster x.npy -k 2 --tol 1e-3": "`--method ep4orth`",
    "cluster x.npy -k 2 --tol -1 --method ep4orth": "--tol.*at least 0",
    "cluster x.npy -k 2 --tol abc": "--tol.*number is expected",
    "cluster x.npy -k 2 --method unmixing": "auto, ep4orth",
    "cluster x.npy -k 2 --time-limit 0": "--time-limit.*at least 0.001",
    "cluster x.npy -k 2 --time-limit x": "--time-limit.*number is expected",
    "cluster x.npy -k 2 --prove 0": "--prove.*at least 0.1",
    "cluster x.npy -k 2 --max-iter 0": "--max-iter.*at least 1",
    "cluster x.npy -k 2 --n-init 0": "--n-init.*at least 1",
    "cluster x.npy -k 2 --n-init 3 --checkpoint c.npz --method ep4orth": "Omit `--n-init`",
    "cluster x.npy -k 2 --seed -1": "--seed.*at least 0",
    "cluster x.npy -k 2 --seed x": "--seed.*an integer",
    "cluster x.npy -k 2 --resume gone.npz": "`--resume gone.npz`",
    "cluster x.npy -k 2 --resume x.npy": "`--resume x.npy` is not a checkpoint",
    "cluster x.npy -k 2 --checkpoint nowhere/c.npz": "`--checkpoint nowhere/c.npz`",
    "cluster x.npy -k 2 --checkpoint x.npy": "`--checkpoint x.npy` is not a checkpoint",
    "cluster x.npy -k 2-3 --checkpoint t.csv": "`--checkpoint t.csv` is not a checkpoint",
    "unmix cube.npy -k 2 --checkpoint cube.npy": "`--checkpoint cube.npy` is not a checkpoint",
    "cluster x.npy -k 2 --split rows": "`-k 2-12`",
    "cluster x.npy -k 2-3 --split diagonal": "rows, columns",
    "cluster x.npy -k 2-3 --split columns --loss kl": "`--split columns` requires",
    "cluster x.npy -k 2 --weighting bm25": "none, tfidf",
    "cluster x.npy -k 2 --scale-rows l7": "none, l1, l2",
    "cluster x.npy -k 2 --scale-columns l2": "none, std, max",
    "cluster x.npy -k 2 --image 5": "`--image 5`.*28x28",
    "cluster x.npy -k 2 --image 5x5": "25 pixels.*5 features",
    "cluster x.npy -k 2 --labels two.txt": "2 labels.*12 rows",
    "cluster x.npy -k 2 --labels t.csv": "t.csv:COLUMN",
    "cluster x.npy -k 2 --labels gone.txt": "`gone.txt` does not exist",
    "cluster x.npy -k 2 --key A": "`x`",
    "cluster x.npy -k 2 --header": "--header",
    "cluster x.npy -k 2 --row-names two.txt": "`--row-names two.txt` has 2 names.*12 rows",
    "cluster t.csv -k 2 --row-names two.txt": "`--index`",
    "cluster t.csv -k 2 --column-names two.txt": "`--header`",
    "cluster t.csv -k 2 --sep abc": "`--sep abc`.*tab",
    "cluster t.csv -k 2 --sep , --decimal ,": "cannot be combined",
    "cluster t.csv -k 2 --decimal x": "`--decimal x`",
    "cluster t.csv -k 2 --encoding klingon": "`--encoding klingon`.*utf-8",
    "cluster t.csv -k 2 --missing maybe": "error or mask",
    "cluster t.csv -k 2 --index z": "`--index z`.*a, b, c",
    "cluster t.csv -k 2 --drop z": "`--drop z`.*a, b, c",
    "cluster t.csv -k 2 --drop a --drop b --drop c": "no numeric columns left",
    "cluster t.csv -k 2 --label-column z": "`--label-column z`.*a, b, c",
    "cluster gap.csv -k 2": "--missing mask",
    "cluster gap.csv -k 2 --missing mask --prove 2": "`--prove` cannot be combined",
    "cluster gap.csv -k 2 --missing mask --loss kl": "`--loss kl` cannot be combined",
    "cluster gap.csv -k 2 --missing mask --weighting tfidf": "`--weighting tfidf` cannot be",
    "cluster gap.csv -k 1-1 --missing mask --split rows": "`--split rows`",
    "cluster minus.csv -k 2": "line 3, column 2.*--na=-999 --missing mask",
    "cluster neg.npy -k 2": "row 1, column 1",
    "cluster vector.npy -k 2": "no matrix of numbers",
    "cluster gone.npy -k 2": "`gone.npy` does not exist",
    "cluster . -k 2": "folder",
    "cluster x.npy -k 2 -o t.csv": "`--output t.csv` is a file",
    "cluster x.npy -k 2 --nonsense": "--nonsense",
    "cluster x.npy -k 2 --write-back": "`--write-back` requires an .h5ad",
    "cluster x.npy more.npy -k 2": "more.npy",
    "unmix": "CUBE",
    "unmix cube.npy -k x": "`-k x`.*such as 4",
    "unmix cube.npy -k 2-4": "`-k 2-4`.*such as 4",
    "unmix cube.npy -k 2 --shape 3": "`--shape 3`",
    "unmix cube.npy -k 2 --fractions foo": "`--fractions foo`.*fcls",
    "unmix cube.npy -k 2 --method foo": "`--method foo`",
    "unmix cube.npy -k 2 --tol 0.1 --method auto": "`--method ep4orth`",
    "unmix cube.npy -k 2 --time-limit 0": "--time-limit.*at least 0.001",
    "project": "C",
    "project wide.npy": "more columns than rows",
    "project x.npy --tol -1": "`--tol -1.0`.*at least 0",
    "project x.npy --max-passes 0": "--max-passes.*at least 1",
    "project x.npy --time-limit 0": "--time-limit.*at least 0.001",
    "project vector.npy": "no matrix of numbers",
    "project nan.npy": "`nan.npy`.*row 1, column 1",
    "project years.csv": "--header or --no-header",
    "bench": "TABLE",
    "bench nope": "`nope`.*table1 to table6",
    "bench projection --data nowhere": "`--data nowhere`",
    "bench projection --resume": "`--resume` requires `--output DIR`",
    "bench projection --limit x": "--limit.*number is expected",
    "data path nope": "Unknown data set `nope`",
    "data fetch nope": "Unknown data set `nope`",
    "data nope": "nope",
    "info --nope": "--nope",
    "demo -o t.csv": "`--output t.csv` is a file",
    "nope": "nope",
}  # fmt: skip
# What only Python has: names with underscores and values in quotes, calls, types, objects.
PYTHON = re.compile(
    r"`\w+=[^`]*`|`[a-z]+_\w*`|`\w+\(|method object|<(bool|str|int|float|path)>|Traceback|"
    r"Internal error|\bNone\b|\bTrue\b(?! classes)|\bFalse\b|Input should|np\.|ndarray"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with small files of several kinds."""
    path, rng = tmp_path_factory.mktemp("calls"), np.random.default_rng(0)
    arrays = {
        "x": rng.random((12, 5)), "neg": -rng.random((12, 5)), "cube": rng.random((4, 4, 6)),
        "vector": rng.random(5), "nan": np.full((4, 3), np.nan), "wide": rng.random((3, 6)),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    lines = (",".join(f"{x:.2f}" for x in row) for row in rng.random((12, 3)))
    (path / "t.csv").write_text("\n".join(["a,b,c", *lines, ""]))
    (path / "gap.csv").write_text("a,b\n1,NA\n3,4\n5,6\n2,7\n")
    (path / "minus.csv").write_text("a,b\n1,2\n3,-999\n5,6\n2,7\n")
    (path / "years.csv").write_text("2019,2020,2021\n.5,.2,.3\n.1,.9,.4\n.3,.1,.7\n")
    (path / "two.txt").write_text("u\nv\n")
    return path


@pytest.mark.parametrize("call", CALLS)
def test_wrong_call_is_one_sentence_in_the_terms_of_the_shell(folder, monkeypatch, call):
    monkeypatch.chdir(folder)
    before = sorted(Path().rglob("*"))
    done = CliRunner().invoke(app, shlex.split(call), env={"COLUMNS": "200"})
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())
    assert done.exit_code == 2, text
    assert re.search(CALLS[call], text), text
    assert not PYTHON.search(text), text
    assert sorted(Path().rglob("*")) == before  # nothing is left behind


def help_pages():
    group = typer.main.get_command(app)
    names = [[name] for name in group.commands]
    return [
        [],
        *names,
        *([name, sub] for name in ("data",) for sub in group.commands[name].commands),
    ]


@pytest.mark.parametrize("words", help_pages(), ids=" ".join)
def test_help_names_no_type_of_python(words):
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert not PYTHON.search(done.output)
