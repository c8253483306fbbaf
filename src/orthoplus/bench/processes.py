"""Measure in separate processes, because the peak memory of a process never decreases."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from unittest import mock

from orthoplus.bench.table import Figures

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def in_processes(n: int, measure: Callable[..., Figures], *arguments: Any) -> list[dict[str, Any]]:
    """Return the figures of ``measure(*arguments)`` in n new processes at once."""
    spawn = get_context("spawn")
    with mock.patch.dict(os.environ, _ONE_THREAD), ProcessPoolExecutor(n, spawn) as pool:
        futures = [pool.submit(measure, *arguments) for _ in range(n)]
        return [dict(future.result()) for future in futures]


def in_process(measure: Callable[..., Figures], *arguments: Any) -> dict[str, Any]:
    """Return the figures of ``measure(*arguments)`` in a separate process."""
    return in_processes(1, measure, *arguments)[0]
