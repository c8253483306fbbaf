"""Data to try the methods on."""

from orthoplus.datasets.planted import (
    PlantedProjection,
    planted_projection,
    planted_projection_from,
)
from orthoplus.datasets.planted_partition import PlantedPartition, planted_partition

__all__ = [
    "PlantedPartition",
    "PlantedProjection",
    "planted_partition",
    "planted_projection",
    "planted_projection_from",
]
