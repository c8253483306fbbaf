"""Runs on a Dask cluster that loses its scheduler, or a worker with chunks nobody else has."""

import logging
import threading
import time
from contextlib import suppress
from functools import partial

import numpy as np

import orthoplus as op
from orthoplus.methods import SwapSearch
from orthoplus.problems import ONMF

N, R, K, N_CHUNKS = 400, 8, 3, 4
METHOD = SwapSearch(n_init=1, seed=0)
# What may come of it. Dask makes persisted chunks again, but not data that were scattered.
OUTCOMES = {
    "scheduler between passes": {"refused"},
    "scheduler in a pass": {"refused"},
    "persisted chunk": {"same"},
    "scattered chunk": {"refused"},
}
# The client gives up its scheduler after the first of these; a run that takes the second hangs. A
# cluster without a scheduler cannot be closed: nobody waits longer for it than the third.
RECONNECT_SECONDS, HANG_SECONDS, CLOSE_SECONDS = 0.5, 600, 0.2
# Clusters whose scheduler ends as soon as a block of the next pass is computed.
ENDING: list = []


def planted(rng):
    centers = rng.random((K, R)) ** 3
    return centers[rng.integers(K, size=N)] * (0.5 + rng.random((N, 1))) + 0.05 * rng.random((N, R))


def end_scheduler(block):
    """Return the block, but first end the scheduler that waits for it."""
    for cluster in ENDING:
        cluster.loop.add_callback(cluster.scheduler.close)
        while cluster.scheduler.status.name == "running":
            time.sleep(0.01)
    return block


def make_array(client, data, kind):
    import dask
    import dask.array as da

    height = N // N_CHUNKS
    if kind == "scattered chunk":
        blocks = map(dask.delayed, client.scatter(list(np.split(data, N_CHUNKS))))
        return da.concatenate([da.from_delayed(b, (height, R), data.dtype) for b in blocks])
    X = da.from_array(data, chunks=(height, R))
    if kind == "scheduler in a pass":
        return X.map_blocks(end_scheduler, dtype=data.dtype)
    return client.persist(X) if kind == "persisted chunk" else X


def lose(cluster, kind):
    if kind == "scheduler in a pass":
        ENDING.append(cluster)
    elif kind == "scheduler between passes":
        cluster.sync(cluster.scheduler.close)
    else:
        # Either worker may hold a copy of every chunk: both go, and a new one takes the work.
        workers = list(cluster.workers.values())
        cluster.scale(len(workers) + 1)
        cluster.wait_for_workers(len(workers) + 1)
        for worker in workers:
            cluster.sync(worker.close, nanny=False)


def run_and_lose(client, cluster, data, kind, found):
    """Set what came of it: labels of the array in memory, a sentence of ours, or a fault."""
    pending = [partial(lose, cluster, kind)]

    def strike(state):
        if pending:
            pending.pop()()

    try:
        with client.as_current():
            problem = ONMF(make_array(client, data, kind), K)
            result = op.solve(problem, method=METHOD, callback=strike, with_bound=False)
            labels = np.asarray(result.labels)
        whole = op.solve(ONMF(data, K), method=METHOD, with_bound=False)
        found["outcome"] = "same" if np.array_equal(labels, whole.labels) else "another answer"
    except op.InputError as error:
        found["outcome"] = "refused" if "Dask cluster lost" in str(error) else str(error)
    except Exception as error:
        found["outcome"] = f"{type(error).__name__}: {error}"


def attack_losses(tries: int, seed: int) -> dict:
    """Lose a scheduler or chunks in so many runs: the answer, or one sentence, and no hang."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.profile.enabled": False})  # it samples all the time
    logging.disable(logging.CRITICAL)  # Dask tells of every loss
    found: dict = {"tries": 0, "same": 0, "refused": 0, "faults": []}
    for number in range(tries):
        kind = list(OUTCOMES)[number % len(OUTCOMES)]
        data = planted(np.random.default_rng(seed + number))
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        )
        client = Client(cluster, set_as_default=False, timeout=HANG_SECONDS)
        client._timeout = RECONNECT_SECONDS  # it took the other to connect, on a busy machine
        ENDING.clear()
        one = {"outcome": "hang"}
        thread = threading.Thread(
            target=run_and_lose, args=(client, cluster, data, kind, one), daemon=True
        )
        thread.start()
        thread.join(HANG_SECONDS)
        found["tries"] += 1
        if one["outcome"] in OUTCOMES[kind]:
            found[one["outcome"]] += 1
        else:
            found["faults"].append({"kind": kind, "seed": seed + number, **one})
        for side in (client, cluster):
            with suppress(Exception):  # one of them has no scheduler to tell
                side.close(timeout=CLOSE_SECONDS)
    return found
