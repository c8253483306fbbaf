"""Run the same fits sequentially and in parallel: threads, forks, loky, asyncio."""

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info

import orthoplus as op


def small_fit(seed: int) -> str:
    """Return a digest of the bits of one of several small fits, by its seed."""
    rng = np.random.default_rng(seed)
    kind = seed % 5
    if kind == 0:
        model = op.OrthogonalNMF(3, random_state=seed).fit(rng.random((60, 12)))
        parts = (model.labels_, model.components_)
    elif kind == 1:
        found = op.project(rng.standard_normal((200, 6)))
        parts = (found.labels, found.weights)
    elif kind == 2:
        M = rng.random((24, 24))
        found = op.solve(op.problems.TraceMin(-(M + M.T), 3), rng=seed)
        parts = (found.labels, found.weights)
    elif kind == 3:
        found = op.solve(op.problems.KMeans(rng.random((50, 4)), 3), rng=seed)
        parts = (found.labels, found.weights)
    else:
        model = op.OrthogonalNMF(3, loss="kullback-leibler", random_state=seed)
        model.fit(rng.integers(5, size=(50, 10)) + 0.0)
        parts = (model.labels_, model.components_)
    raw = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.sha256(raw).hexdigest()


def in_threads(seeds: list[int], n_threads: int) -> list[str]:
    """Return the digests of fits in several threads at once."""
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(small_fit, seeds))


def in_forks(seeds: list[int], n_processes: int) -> list[str]:
    """Return the digests of fits in children of this process, which has run fits itself."""
    found: list[str] = [""] * len(seeds)
    for first in range(0, len(seeds), n_processes):
        pipes = []
        for place in range(first, min(first + n_processes, len(seeds))):
            ours, theirs = os.pipe()
            if os.fork() == 0:
                code = 1
                try:
                    os.write(theirs, small_fit(seeds[place]).encode())
                    code = 0
                finally:
                    os._exit(code)
            os.close(theirs)
            pipes.append((place, ours))
        for place, ours in pipes:
            with os.fdopen(ours, "rb") as file:
                found[place] = file.read().decode()
            os.wait()
    return found


def in_loky(seeds: list[int], n_processes: int) -> list[str]:
    """Return the digests of fits in processes of joblib."""
    from joblib import Parallel, delayed

    return Parallel(n_processes)(delayed(small_fit)(seed) for seed in seeds)


def in_asyncio(seeds: list[int], n_at_once: int) -> list[str]:
    """Return the digests of fits that an event loop hands to threads."""

    async def run() -> list[str]:
        gate = asyncio.Semaphore(n_at_once)

        async def one(seed: int) -> str:
            async with gate:
                return await asyncio.to_thread(small_fit, seed)

        return await asyncio.gather(*map(one, seeds))

    return asyncio.run(run())


def blas_threads() -> list[int]:
    """Return the number of threads of each BLAS library."""
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


WAYS = {"threads": in_threads, "fork": in_forks, "loky": in_loky, "asyncio": in_asyncio}


def attack_parallel(way: str, tries: int, seed: int, n_at_once: int = 8) -> dict:
    """Return how many parallel fits are bit-identical to the same fit alone."""
    seeds = [seed + i for i in range(tries)]
    threads = blas_threads()
    alone = [small_fit(own) for own in seeds]
    order = np.random.default_rng(seed).permutation(tries)  # whatever ran before
    together = WAYS[way]([seeds[i] for i in order], n_at_once)
    differ = [seeds[i] for i, digest in zip(order, together, strict=True) if digest != alone[i]]
    again = [own for own, digest in zip(seeds, map(small_fit, seeds), strict=True)
             if digest != alone[own - seed]]  # fmt: skip
    if blas_threads() != threads:
        again.append({"BLAS threads": [threads, blas_threads()]})
    return {"tries": tries, "BLAS threads": threads, "faults": differ + again}
