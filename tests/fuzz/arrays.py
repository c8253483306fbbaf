"""Every call with data of every type, layout and scale: an answer that is right, or a sentence.

Run as a script it tries numbers of a range and prints a line of JSON for each, so that a crash of
the process is seen, too.
"""

import json
import os
import subprocess
import sys
import warnings
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

TYPES = ["f8"] * 6 + ["f4", "f4", "f2", "g", "i1", "u1", "i8", "?", "c16", "O", "U8", "M8[s]"]
SCALES = [1.0] * 8 + [1e-300, 1e-100, 1e-30, 1e-9, 1e9, 1e30, 1e100, 1e300, 5e-324]
LAYOUTS = (
    ["C"] * 4
    + ["F", "strided", "reversed", "transposed", "readonly", "masked", "matrix", "list", "frame"]
    + ["csr", "csc", "coo", "bsr", "lil", "dia", "dok", "duplicates", "unsorted"]
    + ["empty rows", "empty columns", "vector", "cube", "number"]
)
CONTENTS = ["random"] * 6 + [
    "signed",
    "zeros",
    "ones",
    "zero rows",
    "zero columns",
    "twins",
    "counts",
    "wide",
    "nan",
    "inf",
]
COUNTS = [
    1,
    2,
    2,
    2,
    3,
    3,
    np.int64(2),
    5,
    30,
    0,
    -1,
    2.0,
    2.5,
    "2",
    None,
    True,
    np.array(2),
    np.nan,
]


class Case(NamedTuple):
    """A call and its data: everything that a try depends on."""

    call: str
    shape: tuple[int, int]
    content: str
    layout: str
    kind: str
    scale: float
    count: object
    seed: int

    @property
    def words(self) -> str:
        """Return the data in words."""
        data = f"{self.content} {self.layout} {self.kind} {self.scale:g}"
        return f"{data} {self.shape} k={self.count!r}"

    def matrix(self):
        """Return a matrix, or something like one."""
        A = _content(np.random.default_rng(self.seed), self.shape, self.content)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            if self.kind[0] in "f?giu":
                A = (A * self.scale).astype(self.kind)
            elif self.kind == "M8[s]":
                A = np.nan_to_num(A).astype("i8").astype(self.kind)
            else:
                A = A.astype(self.kind)
            if self.call in SQUARE and A.dtype.kind in "fc":
                A = (A + A.T) / 2
            try:
                return _laid_out(A, self.layout)
            except (TypeError, ValueError):  # SciPy has no such sparse matrix
                return A


def case_of(number: int, seed: int) -> Case:
    """Return the case with this number; every call has its turn."""
    rng = np.random.default_rng([seed, number])
    call, n = list(calls())[number % len(calls())], int(rng.integers(2, 13))
    shape = (n, n) if call in SQUARE else (n, int(rng.integers(1, 7)))
    content, layout, kind = (str(rng.choice(names)) for names in (CONTENTS, LAYOUTS, TYPES))
    scale, count = (values[rng.integers(len(values))] for values in (SCALES, COUNTS))
    return Case(call, shape, content, layout, kind, scale, count, int(rng.integers(1 << 30)))


def _content(rng: np.random.Generator, shape: tuple[int, int], content: str):
    A = rng.random(shape)
    if content == "signed":
        A = rng.standard_normal(shape)
    elif content in ("zeros", "ones"):
        A = np.full(shape, float(content == "ones"))
    elif content == "zero rows":
        A[rng.random(shape[0]) < 0.5] = 0.0
    elif content == "zero columns":
        A[:, rng.random(shape[1]) < 0.5] = 0.0
    elif content == "twins":
        A = A[rng.integers(min(2, shape[0]), size=shape[0])]
    elif content == "counts":
        A = rng.integers(4, size=shape) + 0.0
    elif content == "wide":
        A = 10.0 ** rng.uniform(-300, 300, shape)
    elif content in ("nan", "inf"):
        A[rng.integers(shape[0]), rng.integers(shape[1])] = float(content)
    return A


def _laid_out(A, layout: str):
    import pandas as pd

    n, r = A.shape
    readonly = A.copy()
    readonly.flags.writeable = False
    dense = {
        "C": lambda: A,
        "F": lambda: np.asfortranarray(A),
        "strided": lambda: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": lambda: A[::-1, ::-1],
        "transposed": lambda: np.ascontiguousarray(A.T).T,
        "readonly": lambda: readonly,
        "masked": lambda: np.ma.masked_array(A, mask=np.eye(n, r) > 0),
        "matrix": lambda: np.asmatrix(A),
        "list": lambda: A.tolist(),
        "frame": lambda: pd.DataFrame(A),
        "empty rows": lambda: A[:0],
        "empty columns": lambda: A[:, :0],
        "vector": lambda: A[0],
        "cube": lambda: A[None],
        "number": lambda: A[0, 0],
    }
    if layout in dense:
        return dense[layout]()
    if layout == "duplicates":
        return sp.coo_array(
            (np.repeat(A.ravel(), 2), np.repeat(np.indices(A.shape).reshape(2, -1), 2, 1)), A.shape
        )
    if layout == "unsorted":
        rows = sp.csr_array(A)
        rows.indices = rows.indices[::-1].copy() if r == 1 else rows.indices
        rows.has_sorted_indices = False
        return rows
    return getattr(sp, f"{layout}_array")(A)


def calls():
    """Return the calls by name; each takes a matrix and a number of clusters."""
    import orthoplus as op

    problems = op.problems

    def certified(A, k):
        return op.certify(problems.ONMF(A, k), np.arange(np.shape(A)[0]) % 2, time_limit=0.2)

    return {
        "project": lambda A, k: op.project(A),
        "ONMF": lambda A, k: op.solve(problems.ONMF(A, k)),
        "KLONMF": lambda A, k: op.solve(problems.KLONMF(A, k)),
        "KMeans": lambda A, k: op.solve(problems.KMeans(A, k)),
        "KIndicators": lambda A, k: op.solve(problems.KIndicators(A)),
        "Projection": lambda A, k: op.solve(problems.Projection(A)),
        "start": lambda A, k: op.solve(problems.Projection(np.eye(8, 3)), A, n_init=k),
        "TraceMin": lambda A, k: op.solve(problems.TraceMin(A, k)),
        "SymmetricONMF": lambda A, k: op.solve(problems.SymmetricONMF(A, k)),
        "QAP": lambda A, k: op.quadratic_assignment(A, A),
        "pca": lambda A, k: op.solve(problems.nonnegative_pca(A, k)),
        "laplacian": lambda A, k: op.solve(problems.laplacian_embedding(A, k)),
        "ratio_cut": lambda A, k: op.solve(problems.ratio_cut(A, k)),
        "minimize": lambda A, k: op.minimize(lambda X: float(X.sum()), A, n_init=k),
        "OrthogonalNMF": lambda A, k: op.OrthogonalNMF(k).fit(A),
        "masked": lambda A, k: op.OrthogonalNMF(k, missing="mask").fit(A),
        "signed": lambda A, k: op.OrthogonalNMF(k, allow_negative=True).fit(A),
        "features": lambda A, k: op.OrthogonalNMF(k, orthogonal="features").fit(A),
        "counts": lambda A, k: op.OrthogonalNMF(k, loss="kullback-leibler").fit(A),
        "blocks": lambda A, k: op.OrthogonalNMF(k, memory_limit=256).fit(A),
        "KIndicatorsClustering": lambda A, k: op.KIndicatorsClustering(k).fit(A),
        "NonnegativePCA": lambda A, k: op.NonnegativePCA(k).fit(A),
        "spectral": lambda A, k: op.NonnegativeSpectralClustering(k, affinity="rbf").fit(A),
        "graph": lambda A, k: op.NonnegativeSpectralClustering(k, affinity="precomputed").fit(A),
        "unmix": lambda A, k: op.unmix(A, k),
        "select_rank": lambda A, k: op.select_rank(A, [k, 3], n_splits=2),
        "halves of columns": lambda A, k: op.select_rank(A, [1, 2], n_splits=2, split="columns"),
        "groups of columns": lambda A, k: op.select_rank(
            POINT + np.eye(3, 12)[:, ::-1].T, [2], n_splits=2, split="columns", groups=A
        ),
        "seconds of proofs": lambda A, k: op.select_rank(POINT, [2], n_splits=2, with_proof=k),
        "cells": lambda A, k: op.singlecell.onmf(_made(_cells, A), k),
        "image": lambda A, k: op.unmix(_made(_image, A), k),
        "image in chunks": lambda A, k: op.unmix(_made(_image, A).chunk({"y": 2, "band": 2}), k),
        "volumes": lambda A, k: op.brain.Parcellation(k, mask=_mask(A)).fit(_made(_volumes, A)),
        "certify": certified,
        "labels": lambda A, k: op.metrics.purity(A, A),
        "proof of labels": lambda A, k: op.certify(problems.ONMF(POINT, 3), A, time_limit=0.05),
        "nmi": lambda A, k: op.metrics.nmi(A, np.arange(12)),
        "residual": lambda A, k: op.metrics.residual(A, A),
        "residual of X": lambda A, k: op.metrics.residual(POINT, A),
        "feasibility": lambda A, k: op.metrics.feasibility(A),
        "angles": lambda A, k: op.metrics.spectral_angle_distance(A, A),
        "abundances": lambda A, k: op.abundances(A, A),
        "consensus": lambda A, k: op.consensus(A, k),
        "copositive": lambda A, k: op.is_copositive(A),
        "optimality": lambda A, k: op.optimality.check(problems.ONMF(POINT, 3), A),
        "stationarity": lambda A, k: op.optimality.stationarity(A, A),
        "gradient": lambda A, k: op.check_gradient(problems.Projection(A), A),
        "weights of samples": lambda A, k: op.OrthogonalNMF(2).fit(POINT, sample_weight=A),
        "features' names": lambda A, k: _fitted(4).top_features(A),
        **{f"{kind}.{name}": _late_call(kind, name) for kind in FITS for name in LATE},
        **{f"geometry.{name}": _geometry_call(name) for name in op.geometry.__all__},
    }


def _made(make, A):
    """Return an object of another library, which may itself refuse the data."""
    import orthoplus as op

    try:
        return make(A)
    except Exception as error:
        raise op.InputError("refused by another library") from error


def _cells(A):
    import anndata

    return anndata.AnnData(A)


def _image(A):
    import xarray

    return xarray.DataArray(np.asarray(A)[:, None], dims=("y", "x", "band"))


def _volumes(A):
    import nibabel

    return nibabel.Nifti1Image(np.asarray(A)[None, None], np.eye(4))


def _mask(A):
    import nibabel

    height = np.shape(A)[0] if np.ndim(A) else 1
    return nibabel.Nifti1Image(np.ones((1, 1, max(1, height)), np.uint8), np.eye(4))


# What is called on new data after a fit, and the models.
LATE = ("predict", "transform", "inverse_transform", "score", "row_fits")
FITS = ("usual", "signed", "blocks", "features", "counts")
POINT = np.eye(12, 3)


@lru_cache
def _fitted(width: int, kind: str = "usual"):
    """Return a model of a kind that is fitted to data with this many columns."""
    import orthoplus as op

    options = {
        "signed": {"allow_negative": True},
        "blocks": {"memory_limit": 256},
        "features": {"orthogonal": "features"},
        "counts": {"loss": "kullback-leibler"},
    }.get(kind, {})
    A = np.random.default_rng(width).integers(9, size=(12, width)) + 1.0
    k = 1 if kind == "features" else min(2, width)
    return op.OrthogonalNMF(k, random_state=0, **options).fit(A)


def _late_call(kind: str, name: str):
    """Return a call of a method of a fitted model, with data of the right width if possible."""

    def call(A, k):
        width = np.shape(A)[-1] if np.ndim(A) == 2 or hasattr(A, "tocsr") else 4
        return getattr(_fitted(min(max(1, width), 8), kind), name)(A)

    return call


def _geometry_call(name: str):
    """Return a call of a function whose arguments are all the data, but for sizes and seeds."""
    import orthoplus as op

    function = getattr(op.geometry, name)
    own = [x.name for x in signature(function).parameters.values() if x.default is x.empty]

    def call(A, k):
        other = {"k": k, "n": k, "rng": np.random.default_rng(0), "labels": np.asarray(A).ravel()}
        return function(*(other.get(parameter, A) for parameter in own))

    return call


SQUARE = ("TraceMin", "SymmetricONMF", "QAP", "laplacian", "ratio_cut", "graph")


def fault_of(case: Case) -> str:
    """Make the call; a fault is anything but an answer within S+ or an error of a user."""
    A = case.matrix()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for kind in (UserWarning, FutureWarning, DeprecationWarning):  # of other libraries
                warnings.simplefilter("ignore", kind)
            return judge(calls()[case.call](A, case.count))
    except (ValueError, TypeError, RuntimeWarning) as error:
        return "" if is_a_sentence(error) else trace_of(error)
    except Exception as error:
        return trace_of(error)


def try_one(number: int, seed: int) -> dict:
    """Return the outcome of the case with this number."""
    case = case_of(number, seed)
    return {"number": number, "call": case.call, "data": case.words, "fault": fault_of(case)}


def judge(found) -> str:
    """Return what is wrong with an answer, or nothing."""
    if not hasattr(found, "result_") and not hasattr(found, "violation"):
        return ""
    result = getattr(found, "result_", found)
    violation = getattr(result, "violation", 0.0)
    value = getattr(result, "value", 0.0)
    is_sound = violation is None or violation <= 1e-5
    return "" if is_sound and not np.isnan(value) else f"violation {violation}, value {value}"


def is_a_sentence(error: Exception) -> bool:
    """Return whether an error was raised for the user: by us, or by scikit-learn's checks."""
    import orthoplus as op

    if isinstance(error, op.InputError):
        return True
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    return "sklearn/utils" in place.tb_frame.f_code.co_filename


def trace_of(error: Exception) -> str:
    """Return the error and where in our code it came from."""
    place, where = error.__traceback__, "?"
    while place is not None:
        path = place.tb_frame.f_code.co_filename
        if "/orthoplus/" in path:
            where = f"{path.rpartition('/orthoplus/')[2]}:{place.tb_lineno}"
        place = place.tb_next
    return f"{type(error).__name__}: {str(error)[:120]} ({where})"


def attack_arrays(tries: int, seed: int) -> dict:
    """Return the outcomes of several calls, run in a process that may crash."""
    found: dict = {"tries": 0, "faults": []}
    while found["tries"] < tries:
        words = [sys.executable, __file__, str(found["tries"]), str(tries), str(seed)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found["tries"] += len(rows)
        found["faults"] += [row for row in rows if row["fault"]]
        if done.returncode:
            fault = {"number": found["tries"], "fault": f"exit {done.returncode}"}
            found["faults"].append(fault | {"data": done.stderr[-300:]})
            found["tries"] += 1
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        sys.stdout.write(json.dumps(try_one(number, int(sys.argv[3]))) + "\n")
        sys.stdout.flush()
