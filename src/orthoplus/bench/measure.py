"""Clocks and memory: processor seconds, because they bear a busy machine, and peak memory."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What a call returned, and the seconds it took of the processor and by the clock."""

    value: T
    cpu: float
    wall: float


def timed(call: Callable[[], T]) -> Timed[T]:
    """Call, and look at both clocks."""
    cpu, wall = time.process_time(), time.perf_counter()
    value = call()
    return Timed(value, time.process_time() - cpu, time.perf_counter() - wall)


def peak_bytes() -> int:
    """The most memory this process has ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
