"""The cases of the golden record, by name: ``entry/storage/seed``.

An entry is one call of a public name on data that are drawn from the seed. Only public names are
used, so that the record outlives the modules behind them. A case that is refused gives the type and
the sentence of its exception.
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from commands import CLI_STORAGES, run_cluster, run_project, run_unmix
from outcomes import Outcome, describe, describe_refusal
from storages import (
    STORAGES,
    limit_for,
    make_basis,
    make_flows,
    make_graph,
    make_groups,
    make_noisy,
    make_points,
    make_scores,
    make_signed,
    store,
)

import orthoplus as op
from orthoplus import methods, problems

SEEDS = (0, 1, 2)
K = 3
DENSE = ("c", "f", "float32")
# Zarr takes 9 s for the many passes of EP4Orth.
_EP4ORTH = tuple(storage for storage in STORAGES if storage != "zarr")


@dataclass(frozen=True)
class Entry:
    """A public call: ``run(A, seed)`` with A, made by ``make(rng)``, in one of the storages."""

    make: Callable[[np.random.Generator], Any]
    run: Callable[..., Outcome]
    storages: tuple[str, ...] = STORAGES
    takes_limit: bool = False


def from_result(result):
    """Return the outcome of a Result."""
    arrays = {"weights": result.weights}
    if result.Y is not None:
        arrays["Y"] = result.Y
    numbers = {"bound": result.bound, "rows": result.is_row_optimal}
    return Outcome(result.labels, result.value, result.n_iter, result.status.name, arrays, numbers)


def solved(build, A, seed, **options):
    """Solve the problem that ``build(A)`` gives."""
    return from_result(op.solve(build(A), rng=seed, **options))


def resumed(A, seed):
    """Stop after two iterations, and continue from the state."""
    problem = problems.ONMF(A, K)
    first = op.solve(problem, method=op.EP4Orth(max_iter=2), rng=seed)
    return from_result(op.solve(problem, method=op.EP4Orth(), rng=seed, resume=first.state))


def minimized(kind, X0, seed):
    """Minimize a trace or a quartic from the point X0."""
    M = make_graph(np.random.default_rng([seed, 1]), n=X0.shape[0], k=X0.shape[1])
    M = M / np.linalg.norm(M, 2)

    def trace(X):
        return -float((X * (M @ X)).sum())

    def quartic(X):
        return float(((M @ X) ** 4).sum()) + trace(X)

    jacobians = {"trace": lambda X: -2 * M @ X}
    jacobians["quartic"] = lambda X: 4 * M @ (M @ X) ** 3 - 2 * M @ X
    if kind == "differences":
        return from_result(op.minimize(trace, X0, rng=seed))
    fun = trace if kind == "trace" else quartic
    return from_result(op.minimize(fun, X0, jac=jacobians[kind], rng=seed))


def smooth(X0, seed):
    """Solve a `Smooth` problem, a linear function with a curved term, from X0."""
    C = make_scores(np.random.default_rng([seed, 1]), *X0.shape)
    problem = problems.Smooth(
        lambda X: float((np.sin(C * X)).sum()) - 2 * float((C * X).sum()),
        X0.shape,
        jac=lambda X: C * np.cos(C * X) - 2 * C,
    )
    return from_result(op.solve(problem, X0, rng=seed))


def two_block(X0, seed):
    """Solve a `TwoBlock` problem, K-indicators written as one, from X0."""
    U = make_basis(np.random.default_rng([seed, 1]), *X0.shape)

    def joint(X, Y):
        R = U @ Y - X
        return float((R * R).sum()), -2 * R, 2 * U.T @ R

    def polar(Y):
        left, _, right = np.linalg.svd(Y)
        return left @ right

    # The best Y for a known X: X0 itself is near to the answer of its own problem.
    Y0 = polar(U.T @ np.abs(U))
    problem = problems.TwoBlock(joint, X0.shape, Y0, project_y=polar)
    return from_result(op.solve(problem, X0, rng=seed))


def assigned(A, seed, **options):
    """Match two matrices of whole numbers."""
    B = make_flows(np.random.default_rng([seed, 1]))
    found = op.quadratic_assignment(A, B, options={"rng": seed, **options})
    numbers = {"bound": found.bound}
    return Outcome(found.col_ind, found.fun, found.nit, str(found.success), {}, numbers)


def unmixed(cube, seed, **options):
    """Unmix a cube."""
    found = op.unmix(cube, K, random_state=seed, **options)
    arrays = {
        "abundances": found.abundances,
        "brightness": found.brightness,
        "endmembers": found.endmembers,
    }
    numbers = {"bound": found.result.bound}
    result = found.result
    status = " ".join((result.status.name, *result.notes))
    return Outcome(found.labels, result.value, result.n_iter, status, arrays, numbers)


def ranked(A, seed):
    """Choose a rank."""
    found = op.select_rank(A, range(2, 5), n_splits=2, n_init=1, random_state=seed)
    numbers = {name: rank for name, rank in found.named.items() if rank is not None}
    heldout = [row.heldout for row in found.rows]
    unexplained = [row.unexplained for row in found.rows]
    arrays = {"heldout": np.array(heldout), "unexplained": np.array(unexplained)}
    value = found.rows[-1].stability
    return Outcome(found.labels, value, found.k, f"k = {found.k}", arrays, numbers)


def factorized(A, seed, fit=None, k=K, **options):
    """Fit `OrthogonalNMF`."""
    model = op.OrthogonalNMF(k, random_state=seed, with_bound=True, **options)
    model.fit(A, **(fit or {}))
    coefficients = model.transform(A)
    coefficients = coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients
    arrays = {
        "weights": model.result_.weights,
        "components": model.components_,
        "coefficients": coefficients,
    }
    numbers = {"bound": model.bound_, "score": model.score(A)}
    status = model.result_.status.name
    return Outcome(model.labels_, model.reconstruction_err_, model.n_iter_, status, arrays, numbers)


def weighted(A, seed, **options):
    """Fit `OrthogonalNMF` with sample weights."""
    weight = np.random.default_rng([seed, 1]).uniform(0.5, 2.0, A.shape[0])
    return factorized(A, seed, {"sample_weight": weight}, **options)


def indicated(A, seed, **options):
    """Fit `KIndicatorsClustering`."""
    model = op.KIndicatorsClustering(K, random_state=seed, **options).fit(A)
    indicators = np.asarray(model.indicators_)
    arrays = {"weights": indicators.max(axis=1), "rotation": np.abs(model.rotation_)}
    return Outcome(model.labels_, model.objective_, model.n_iter_, "", arrays)


def components(A, seed, **options):
    """Fit `NonnegativePCA`."""
    model = op.NonnegativePCA(K, random_state=seed, with_bound=True, **options).fit(A)
    arrays = {"components": model.components_, "transformed": model.transform(A)}
    variance = float(model.explained_variance_.sum())
    numbers = {"bound": model.bound_}
    return Outcome(model.feature_labels_, variance, model.n_iter_, "", arrays, numbers)


def spectral(A, seed, **options):
    """Fit `NonnegativeSpectralClustering`."""
    model = op.NonnegativeSpectralClustering(
        K, random_state=seed, with_bound=True, n_neighbors=8, **options
    ).fit(A)
    arrays = {"weights": model.embedding_.max(axis=1)}
    numbers = {"bound": model.bound_}
    return Outcome(model.labels_, model.objective_, model.n_iter_, "", arrays, numbers)


def with_gaps(rng):
    """Return groups with a twentieth of the entries missing."""
    A = make_groups(rng)
    A[rng.random(A.shape) < 0.05] = np.nan
    return A


def make_cube(rng):
    """Return an image of 10 x 9 pixels with slightly negative values and two pixels of zeros."""
    cube = (make_groups(rng) - 0.01).reshape(10, 9, -1)
    cube[0, :2] = 0.0
    return cube


def make_near(rng):
    """Return points in balls so near that their graph of neighbors is connected."""
    return make_points(rng, radius=1.0)


def make_random(rng, n=40):
    """Return a symmetric matrix of random numbers."""
    M = rng.standard_normal((n, n))
    return M + M.T


def make_start(rng, n=60, k=K):
    """Return a nonnegative point to start from."""
    return rng.random((n, k))


def features(A):
    """Return similarities of the rows of A and the rows: a discriminative problem."""
    W = make_graph(np.random.default_rng(A.shape[0]), n=A.shape[0])
    return problems.discriminative_spectral(W, 0.5, K, A=A)


# The problems of the registry, and those that are made by a function, on stored data.
PROBLEMS = {
    "projection": (make_scores, problems.Projection),
    "trace_min": (lambda rng: -make_graph(rng), lambda M: problems.TraceMin(M, K)),
    "onmf": (make_groups, lambda A: problems.ONMF(A, K)),
    "onmf_signed": (make_signed, lambda A: problems.ONMF(A, K, allow_negative=True)),
    "onmf_quartic": (make_groups, lambda A: problems.ONMF(A, K, quartic=True)),
    "kl_onmf": (make_groups, lambda A: problems.KLONMF(A, K)),
    "projective_kl": (make_groups, lambda A: problems.ProjectiveKL(A, K)),
    "symmetric_onmf": (make_graph, lambda W: problems.SymmetricONMF(W, K)),
    "k_indicators": (make_basis, problems.KIndicators),
    "k_means": (make_points, lambda A: problems.KMeans(A, K)),
    "nonnegative_pca": (
        lambda rng: make_groups(rng).T,
        lambda A: problems.nonnegative_pca(A, K),
    ),
    "laplacian_embedding": (make_graph, lambda W: problems.laplacian_embedding(W, K)),
    "ratio_cut": (make_graph, lambda W: problems.ratio_cut(W, K)),
    "discriminative_spectral": (make_groups, features),
}
METHODS = {
    "ep4orth": op.EP4Orth(),
    "newton": op.EP4Orth(inner=op.RegularizedNewton()),
    "swap_search": methods.SwapSearch(n_init=1),
    "support_search": methods.SupportSearch(effort=1e5),
    "polish": methods.Polish(),
}


def make_entries():
    """Return all entries by name."""
    entries = {
        f"solve.{name}": Entry(make, partial(solved, build))
        for name, (make, build) in PROBLEMS.items()
    }
    for name, method in METHODS.items():
        run = partial(solved, PROBLEMS["onmf"][1], method=method)
        storages = _EP4ORTH if name == "ep4orth" else DENSE[:1]
        entries[f"solve.onmf.{name}"] = Entry(make_groups, run, storages)
    for name, cls in op.baselines.BASELINES.items():
        of = "k_indicators" if name == "kindap" else "onmf"
        run = partial(solved, PROBLEMS[of][1], method=cls())
        # Thousands of evaluations of f: in tasks of Dask they would take minutes.
        storages = ("c", "csr") if name in op.baselines.ANY_SMOOTH else ("c", "csr", "dask")
        entries[f"baseline.{name}"] = Entry(PROBLEMS[of][0], run, storages)
    entries |= {
        "solve.onmf.resumed": Entry(make_groups, resumed, DENSE[:1]),
        "solve.onmf.noisy": Entry(make_noisy, partial(solved, lambda A: problems.ONMF(A, 4))),
        "solve.onmf.noisy.ep4orth": Entry(
            make_noisy, partial(solved, lambda A: problems.ONMF(A, 4), method=op.EP4Orth()), DENSE
        ),
        "solve.trace_min.noisy": Entry(
            make_random, partial(solved, lambda M: problems.TraceMin(M, 4)), (*DENSE, "csr")
        ),
        "solve.qap": Entry(
            make_flows,
            lambda A, seed: solved(
                lambda A: problems.QAP(A, make_flows(np.random.default_rng([seed, 1]))), A, seed
            ),
        ),
        "solve.smooth": Entry(make_start, smooth),
        "solve.two_block": Entry(make_start, two_block),
        "minimize.trace": Entry(make_start, partial(minimized, "trace")),
        "minimize.quartic": Entry(make_start, partial(minimized, "quartic")),
        "minimize.differences": Entry(
            partial(make_start, n=12, k=2), partial(minimized, "differences"), DENSE[:1]
        ),
    }
    return entries | _functions() | _estimators() | _commands()


def _functions():
    """Return the calls that are neither `solve` nor an estimator."""

    def projected(C, seed, **options):
        return from_result(op.project(C, **options))

    tall = partial(make_scores, n=4400)  # so many rows are projected in blocks
    return {
        "project": Entry(make_scores, projected, takes_limit=True),
        "project.tall": Entry(tall, projected, takes_limit=True),
        "project.noisy": Entry(
            lambda rng: rng.standard_normal((60, 6)), projected, (*DENSE, "memmap", "dask")
        ),
        "quadratic_assignment": Entry(make_flows, assigned),
        "quadratic_assignment.maximize": Entry(
            make_flows, partial(assigned, maximize=True), DENSE[:1]
        ),
        "unmix": Entry(make_cube, unmixed, takes_limit=True),
        "unmix.auto": Entry(make_cube, partial(unmixed, method="auto"), takes_limit=True),
        "select_rank": Entry(make_groups, ranked),
    }


def _estimators():
    """Return the four estimators with their options."""
    nmf = partial(Entry, takes_limit=True)
    transposed = partial(factorized, orthogonal="features")
    return {
        "nmf": nmf(make_groups, factorized),
        "nmf.noisy": nmf(make_noisy, partial(factorized, k=4)),
        "nmf.ep4orth": nmf(make_groups, partial(factorized, method="ep4orth"), _EP4ORTH),
        "nmf.unmixing": nmf(make_groups, partial(factorized, method="unmixing")),
        "nmf.signed": nmf(make_signed, partial(factorized, allow_negative=True)),
        "nmf.weighted": nmf(make_groups, weighted),
        "nmf.missing": nmf(with_gaps, partial(factorized, missing="mask")),
        "nmf.features": nmf(lambda rng: make_groups(rng).T.copy(), transposed),
        "k_indicators": nmf(make_groups, indicated),
        "k_indicators.laplacian": nmf(make_near, partial(indicated, embedding="laplacian")),
        "k_indicators.precomputed": nmf(make_basis, partial(indicated, embedding="precomputed")),
        "pca": Entry(lambda rng: make_groups(rng).T.copy(), components),
        "pca.uncentered": Entry(
            lambda rng: make_groups(rng).T.copy(), partial(components, center=False)
        ),
        "spectral": Entry(make_near, spectral),
        "spectral.precomputed": Entry(make_graph, partial(spectral, affinity="precomputed")),
    }


def _commands():
    """Return the commands, on files."""
    return {
        "cli.cluster": Entry(make_groups, run_cluster, CLI_STORAGES),
        "cli.unmix": Entry(make_cube, run_unmix, CLI_STORAGES),
        "cli.project": Entry(make_scores, run_project, CLI_STORAGES),
    }


ENTRIES = make_entries()
CASES = tuple(
    f"{name}/{storage}/{seed}"
    for name, entry in ENTRIES.items()
    for storage in entry.storages
    for seed in SEEDS
)


def run_case(case):
    """Return the described outcome of a case, or its refusal."""
    import dask

    name, storage, seed = case.split("/")
    entry = ENTRIES[name]
    A = entry.make(np.random.default_rng([int(seed), 0]))
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(scheduler="synchronous"),
        warnings.catch_warnings(record=True, action="always") as warned,
    ):
        try:
            outcome = _run(entry, A, storage, int(seed), folder)
        except Exception as error:
            return describe_refusal(error, folder)
        described = describe(outcome)
    has_warned = any(warning.category.__name__ == "ConvergenceWarning" for warning in warned)
    return described | ({"warned": True} if has_warned else {})


def _run(entry, A, storage, seed, folder):
    """Return the outcome of an entry on A in this storage."""
    if entry.run in (run_cluster, run_unmix, run_project):
        return entry.run(A, storage, seed, folder)
    limit = limit_for(A, storage) if entry.takes_limit else {}
    if A.ndim == 3 and storage in ("csr", "operator", "dask"):
        A = A.reshape(-1, A.shape[-1])
    return entry.run(store(A, storage, folder), seed, **limit)
