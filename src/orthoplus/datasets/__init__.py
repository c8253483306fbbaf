"""Data to try the methods on."""

from orthoplus.datasets.planted import (
    PlantedProjection,
    planted_projection,
    planted_projection_from,
)

__all__ = ["PlantedProjection", "planted_projection", "planted_projection_from"]
