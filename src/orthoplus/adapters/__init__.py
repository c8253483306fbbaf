"""Optional adapters to domain libraries, imported on first access."""

from importlib import import_module
from typing import Any

ADAPTERS = ("brain", "singlecell")


def __getattr__(name: str) -> Any:
    if name not in ADAPTERS:
        raise AttributeError(f"module 'orthoplus.adapters' has no attribute {name!r}")
    return import_module(f"orthoplus.adapters.{name}")
