"""``orthoplus project``: find the nearest nonnegative orthonormal matrix, with a certificate."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from orthoplus.cli import options as opt
from orthoplus.cli import tables as tab
from orthoplus.cli.checking import explain_entries
from orthoplus.cli.display import waiting
from orthoplus.cli.ending import guarded
from orthoplus.cli.summary import Written, finish, print_lines, print_status
from orthoplus.cli.writing import check_inputs, output_folder, write_csv, write_json, write_npz
from orthoplus.core.result import Result
from orthoplus.io import Content


@guarded
def project(  # noqa: PLR0913
    data: Annotated[
        str,
        typer.Argument(
            metavar="C", help="Matrix with at least as many rows as columns; any signs."
        ),
    ],
    output: opt.Output = None,
    key: opt.Key = None,
    tol: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Relative gap at which the result counts as optimal."),
    ] = None,
    max_passes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Maximum number of passes over the matrix."),
    ] = None,
    time_limit: opt.TimeLimit = None,
    header: tab.Header = None,
    index: tab.Index = None,
    drop: tab.Drop = None,
    label_column: tab.LabelColumn = None,
    sep: tab.Separator = None,
    decimal: tab.Decimal = None,
    encoding: tab.Encoding = None,
    hidden: tab.Hidden = None,
    safe_csv: opt.SafeCsv = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> int:
    """Project a matrix onto {X >= 0, X'X = I}, and try to prove global optimality.

    [dim]orthoplus project scores.npy[/dim]
    """
    from orthoplus.cli import record as rec
    from orthoplus.run.api import project as project_matrix

    chosen = {"tol": tol, "max_passes": max_passes, "time_limit": time_limit}
    table = {
        "header": header, "index": index, "drop": drop, "label_column": label_column, "sep": sep,
        "decimal": decimal, "encoding": encoding, "hidden": hidden,
    }  # fmt: skip
    path, key = opt.parse_data(data, key)
    given = {"output": output, "key": key, **table, **chosen, "safe_csv": safe_csv}
    content = tab.read(path, key, table, silent=quiet or json)
    tab.say(content, silent=quiet or json)
    explain_entries(path, content, any_sign=True)
    C = content.values.toarray() if hasattr(content.values, "toarray") else content.values
    output = output or Path(f"{path.stem}-projected")
    check_inputs("project", output, [path], given)
    with output_folder(output) as folder:
        with waiting(f"Projecting {C.shape[0]} x {C.shape[1]}", silent=quiet or json):
            result = project_matrix(C, **{name: v for name, v in chosen.items() if v is not None})  # type: ignore[arg-type]

        def write() -> Written:
            record = rec.make_record("project", str(path), given) | {
                "data": rec.describe_data(path, key, content.values),
                "result": rec.describe_result(result),
            }
            return record, _write(folder, content, result, record)

        return finish(write, folder, result, quiet=quiet, json=json, show=_print)


def _write(
    folder: Path, content: Content, result: Result, record: dict[str, Any]
) -> dict[str, str]:
    n, k = content.values.shape
    names = content.row_names or tuple(map(str, range(n)))
    rows = zip(names, result.labels.tolist(), result.weights.tolist(), strict=True)
    is_safe = record["options"].get("safe_csv", False)
    write_csv(folder / "labels.csv", ("row", "column", "weight"), rows, is_safe=is_safe)
    used = np.flatnonzero(result.labels >= 0)
    pointers = np.concatenate([[0], np.cumsum(result.labels >= 0)])
    write_npz(
        folder / "X.npz", format=np.array("csr"), shape=np.array([n, k]), indptr=pointers,
        indices=result.labels[used], data=result.weights[used],
    )  # fmt: skip
    write_json(folder / "run.json", record)
    return {
        "labels.csv": "the column and the entry of each row, -1 for a row of zeros",
        "X.npz": "the matrix, for scipy.sparse.load_npz",
        "run.json": "options, versions, value, bound",
    }


def _print(record: dict[str, Any], result: Result) -> None:
    print_status(result.status)
    print_lines(
        {
            "value": f"{result.value:.12g}  <C, X>",
            "bound": f"{result.bound:.12g}  upper bound on <C, X> over the set",
            "gap": f"{result.gap:.2g}",
            "violation": f"{result.violation:.1e}  of X'X = I, X >= 0",
            "work": f"{result.n_iter} passes, {result.seconds:.3g} s",
        }
    )
