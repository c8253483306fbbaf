"""``orthoplus cluster``: cluster the rows of a matrix by orthogonal NMF."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from orthoplus.cli import options as opt
from orthoplus.cli import tables as tab
from orthoplus.cli.checking import (
    check_masked,
    check_ranks,
    check_resume,
    check_split,
    check_write_back,
    explain_entries,
    is_masked,
)
from orthoplus.cli.ending import guarded, resumable
from orthoplus.cli.modeling import ModelOptions, weigh_words
from orthoplus.cli.summary import Written, finish
from orthoplus.cli.writing import check_inputs, output_folder, write_json, write_text
from orthoplus.core.errors import InputError
from orthoplus.core.types import IntArray
from orthoplus.io import Content, FileError, align, read_labels, split_key
from orthoplus.io.content import text_array
from orthoplus.io.dialect import is_number

if TYPE_CHECKING:
    from orthoplus.cli.proving import Proof
    from orthoplus.estimators import OrthogonalNMF
    from orthoplus.problems import KLONMF, ONMF


@dataclass(frozen=True)
class Truth:
    """The true classes: the class number of each row, and the names of the classes."""

    codes: IntArray
    names: tuple[str, ...]


@guarded
def cluster(  # noqa: PLR0913
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Matrix with one sample per row: .csv .xlsx .parquet .npz .npy .mat .mtx .h5 "
            ".h5ad, ...; FILE:KEY selects an array.",
        ),
    ],
    components: opt.Clusters,
    output: opt.Output = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="True classes to compare with: a file with one per line, or FILE:COLUMN.",
        ),
    ] = None,
    key: opt.Key = None,
    transpose: Annotated[
        bool, typer.Option("--transpose", help="Cluster the columns instead of the rows.")
    ] = False,
    image: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Draw the components as images of this size."),
    ] = None,
    header: tab.Header = None,
    index: tab.Index = None,
    drop: tab.Drop = None,
    label_column: tab.LabelColumn = None,
    sep: tab.Separator = None,
    decimal: tab.Decimal = None,
    encoding: tab.Encoding = None,
    row_names: tab.RowNames = None,
    column_names: tab.ColumnNames = None,
    missing: tab.Missing = "error",
    na: tab.MissingWords = None,
    hidden: tab.Hidden = None,
    loss: opt.Loss = None,
    weighting: opt.Weighting = None,
    scale_rows: opt.ScaleRows = None,
    scale_columns: opt.ScaleColumns = None,
    split: opt.Split = None,
    method: opt.ClusterMethod = None,
    seed: opt.Seed = 0,
    n_init: opt.Starts = None,
    max_iter: opt.MaxIter = None,
    tol: opt.Tolerance = None,
    time_limit: opt.TimeLimit = None,
    checkpoint: opt.Checkpoint = None,
    resume: opt.Resume = None,
    prove: opt.Prove = None,
    report: opt.Report = True,
    write_back: opt.WriteBack = False,
    safe_csv: opt.SafeCsv = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> int:
    """Cluster the rows of a nonnegative matrix, and write labels, components and a report.

    Each row belongs to one cluster with a weight; a component is the profile of a cluster.

    [dim]orthoplus cluster corpus.mtx -k 20 --loss kl[/dim]

    [dim]orthoplus cluster cells.h5ad:X -k 8 --labels cells.h5ad:obs/kind[/dim]

    [dim]orthoplus cluster data.csv -k 2-12[/dim]
    """
    given = opt.given_options(locals(), "data")
    ModelOptions.of(given)  # fail before a large file is read
    ranks = opt.parse_ranks(components)
    given["components"] = components.strip() if len(ranks) > 1 else ranks[0]
    check_split(ranks, given)
    path, given["key"] = opt.parse_data(data, key)  # the record must show it
    content = tab.read(path, given["key"], given, silent=quiet or json)
    if write_back:
        check_write_back(path, given, content)
    if transpose:
        content = content.transposed()
    check_ranks(ranks, content.values.shape[0], given, path)
    truth = find_truth(content, labels)
    size = opt.parse_size(image, "--image")
    if size is not None and size[0] * size[1] != content.values.shape[1]:
        raise InputError(
            f"`--image {image}` has {size[0] * size[1]} pixels, but the data have "
            f"{content.values.shape[1]} features."
        )
    output = output or Path(f"{path.stem}-k{given['components']}")
    check_inputs("cluster", output, [path], given)
    with output_folder(output) as folder:
        job = Job(path, given["key"], content, ranks, truth, size, folder, given)
        with resumable("cluster", str(path), given):
            return run_cluster(job, quiet=quiet, json=json)[0]


@dataclass(frozen=True)
class Job:
    """The input of `run_cluster`: the data as read, and the options as given."""

    path: Path
    key: str | None
    content: Content
    ranks: range
    truth: Truth | None
    image: tuple[int, int] | None
    folder: Path
    options: dict[str, Any]
    choice: Any = None  # the result of `select_rank`, if k is chosen from a range

    @property
    def k(self) -> int:
        """Return the number of clusters, chosen or given."""
        return self.ranks[-1] if self.choice is None else int(self.choice.k)


def run_cluster(job: Job, *, quiet: bool, json: bool) -> tuple[int, Any]:
    """Fit the model, write and print the results; return the exit code and the estimator."""
    from orthoplus.cli.fitting import RunOptions, fit
    from orthoplus.estimators import OrthogonalNMF

    n, r = job.content.values.shape
    chosen = ModelOptions.of(job.options)
    job.options["method"] = job.options["method"] or opt.default_method(OrthogonalNMF)
    job = replace(job, content=prepare(job, chosen))
    values, silent = job.content.values, quiet or json
    check_resume(job.ranks, job.options)
    has_gaps = is_masked(job)
    tab.say(job.content, silent=silent)
    options = RunOptions.of(job.options)
    if len(job.ranks) > 1:
        job = replace(job, choice=_choose_rank(job, chosen, silent=silent))
        # The checkpoint held the fits for choosing k; the run with this k is a new one.
        options = replace(options, resume=None)
    # If values are missing, the problem is used for its size only.
    problem = chosen.problem(tab.filled(values) if has_gaps else values, job.k)
    title = f"{job.path.name}: {n} x {r} in {job.k} clusters"
    model = fit(
        problem,
        values,
        options,
        title,
        silent=silent,
        **chosen.for_estimator,
        missing="mask" if has_gaps else "error",
    )
    proof = _prove(job, model, problem, silent=silent)
    write = partial(_write, job, model, problem, proof)
    return finish(write, job.folder, model.result_, quiet=quiet, json=json), model


def _choose_rank(job: Job, chosen: ModelOptions, *, silent: bool) -> Any:
    from orthoplus.cli.ranking import choose_rank

    if is_masked(job):
        raise InputError(
            f"`-k {job.options['components']}` cannot be combined with `--missing mask`: choosing "
            f"k requires complete data. Impute the missing values, or pass a single k."
        )
    A = chosen.problem(job.content.values, job.ranks[-1]).A
    options = {"loss": chosen.loss, "random_state": job.options["seed"]}
    split, file = job.options.get("split") or "rows", rank_file(job.options)
    return choose_rank(A, job.ranks, silent=silent, split=split, resume=file, **options)


def rank_file(options: dict[str, Any]) -> Path | None:
    """Return the file that keeps the fits for choosing k: the checkpoint, until k is chosen."""
    saved, resumed = options["checkpoint"], options["resume"]
    if resumed is None and saved is not None:
        saved.unlink(missing_ok=True)  # left by an earlier run
    return resumed or saved


def _prove(
    job: Job, model: "OrthogonalNMF", problem: "ONMF | KLONMF", *, silent: bool
) -> "Proof | None":
    """Return a certificate if one was requested; adopt a better clustering that it finds."""
    if job.options["prove"] is None:
        return None
    from orthoplus.cli.proving import improve, prove

    proof = prove(model, job.content.values, problem.total, job.options["prove"], silent=silent)
    return improve(model, job.content.values, problem, proof)


def prepare(job: Job, chosen: ModelOptions) -> Content:
    """Return the data, weighted if requested; raise `FileError` that names an invalid entry."""
    from orthoplus.data import as_nonnegative_data

    content = job.content
    if is_masked(job):
        check_masked(job, chosen)
    try:
        as_nonnegative_data(tab.filled(content.values) if is_masked(job) else content.values)
    except InputError:
        explain_entries(job.path, content)
        raise
    notes = (*content.notes, *chosen.notes(content.values))
    values = weigh_words(content.values, chosen.weighting)
    return replace(content, values=values, notes=notes)


def find_truth(content: Content, labels: str | None) -> Truth | None:
    """Return the true classes of the rows from a file, or from a column of the table."""
    if labels is not None:
        return read_truth(labels, content)
    return None if content.labels is None else _as_truth(text_array(content.labels))


def read_truth(name: str, content: Content) -> Truth:
    """Read the classes of the rows from a file with one per row; the first may be a header.

    If the file names or numbers the rows, its labels are sorted in the order of the data.
    """
    path, key = split_key(name)
    found, n = read_labels(path, key, content.row_names), content.values.shape[0]
    values, names = found.values, found.row_names
    has_word = len(values) > 0 and not is_number(str(values[0]))
    if len(values) == n + 1 and has_word and values[0] not in values[1:]:
        values, names = values[1:], names and names[1:]
    order = align(content.row_names, names, path)
    values = values if order is None else values[order]
    if len(values) != n:
        raise FileError(f"`{path}` has {len(values)} labels, but the data have {n} rows.")
    return _as_truth(values)


def _as_truth(values: Any) -> Truth:
    words, codes = np.unique(np.asarray(values), return_inverse=True)
    return Truth(codes, tuple(_word(word) for word in words))


def _word(value: Any) -> str:
    """Return a label as text; integers have no decimal point."""
    is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _record(
    job: Job, model: "OrthogonalNMF", total: float, proof: "Proof | None"
) -> dict[str, Any]:
    from orthoplus import metrics
    from orthoplus.cli import record as rec

    labels, result = model.labels_, model.result_
    sizes = np.bincount(labels[labels >= 0], minlength=job.k)
    notes = list(job.content.notes)
    notes.extend(_empty_words(job, labels))
    record = rec.make_record("cluster", str(job.path), job.options) | {
        "data": rec.describe_data(job.path, job.key, job.content.values)
        | {"reading": job.content.summary},
        "method": rec.describe_method(model.method),
        "model": asdict(ModelOptions.of(job.options)),
        "seed": job.options["seed"],
        "result": rec.describe_result(result) | {"total": total, "cluster_sizes": sizes.tolist()},
        "notes": notes,
    }
    same = job.options | {"components": job.k, "split": None}
    record |= rec.resume_entry("cluster", str(job.path), same, result.status)
    if job.truth is not None:
        record["metrics"] = {
            name: getattr(metrics, name)(job.truth.codes, labels)
            for name in ("purity", "nmi", "entropy")
        }
    if proof is not None:
        from orthoplus.cli.proving import describe_proof

        record["proof"] = describe_proof(proof.certificate)
        if proof.found is not None:
            notes.append(proof.found)
    if job.choice is not None:
        from orthoplus.cli.ranking import describe_choice

        record["ranks"] = describe_choice(job.choice)
        notes.extend(reason for reason in job.choice.reasons if reason.startswith("Caution"))
    return record | {"history": rec.history_of(result)}


def _empty_words(job: Job, labels: IntArray) -> list[str]:
    """Return remarks on the rows without a cluster: rows of zeros, and rows without any value."""
    is_blank = np.zeros(len(labels), dtype=bool)
    if is_masked(job):
        is_blank = np.isnan(job.content.values).all(axis=1)
    counts = {"of zeros": (labels < 0) & ~is_blank, "without values": (labels < 0) & is_blank}
    found = {words: int(rows.sum()) for words, rows in counts.items()}
    return [
        f"{f'1 row {words} belongs' if n == 1 else f'{n} rows {words} belong'} to no cluster, "
        f"label -1."
        for words, n in found.items()
        if n
    ]


def _write(
    job: Job, model: "OrthogonalNMF", problem: "ONMF | KLONMF", proof: "Proof | None"
) -> Written:
    """Write the labels first, because they matter most, and the report last."""
    from orthoplus.cli.cluster_files import add_to_anndata, names_of_rows, write_clusters

    record, labels = _record(job, model, problem.total, proof), model.labels_
    r = job.content.values.shape[1]
    features = job.content.column_names or tuple(f"feature {j}" for j in range(r))
    fits = model.row_fits(job.content.values)
    files = write_clusters(job, model, fits, features)
    write_json(job.folder / "run.json", record)
    files["run.json"] = "options, versions, objective, bound, history"
    if proof is not None:
        proof.certificate.save(job.folder / "proof.npz")
        files["proof.npz"] = "certificate of the bound, for `orthoplus.Certificate.load`"
    if job.options.get("write_back"):
        files |= add_to_anndata(job, model, fits, record)
    if job.options["report"]:
        from orthoplus.report.clusters import ClusterFacts, cluster_page

        # Rows of zeros are left out of the map, unless there are no other rows.
        used = np.flatnonzero((labels >= 0) | (labels.max() < 0))
        names = names_of_rows(job)
        weights = np.where(labels >= 0, model.result_.weights, 0.0)
        facts = ClusterFacts(
            record=record,
            A=problem.A.entries()[used],
            labels=np.maximum(labels[used], 0),
            weights=weights[used],
            components=model.scaled_components_,
            fits=fits.rows(used),
            features=features,
            truth=None if job.truth is None else (job.truth.codes[used], job.truth.names),
            image=job.image,
            rows=tuple(names[i] for i in used),
        )
        write_text(job.folder / "report.html", cluster_page(facts))
        files["report.html"] = "all results on one page, with pictures"
    return record, files
