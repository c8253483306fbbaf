"""Provide synthetic instances with known answers and loaders for the paper's real data sets."""

from orthoplus.datasets.download import FetchError, fetch
from orthoplus.datasets.hard import HARD_KINDS, HardClusters, hard_clusters
from orthoplus.datasets.mixed_scene import mixed_scene
from orthoplus.datasets.planted import (
    PlantedProjection,
    planted_projection,
    planted_projection_from,
)
from orthoplus.datasets.planted_onmf import PlantedONMF, planted_onmf
from orthoplus.datasets.planted_partition import PlantedPartition, planted_partition
from orthoplus.datasets.real import (
    LabelledData,
    MissingDataError,
    SceneData,
    Source,
    find_folder,
    load_arrays,
    load_labelled,
    load_scene,
    sources,
)

__all__ = [
    "HARD_KINDS",
    "FetchError",
    "HardClusters",
    "LabelledData",
    "MissingDataError",
    "PlantedONMF",
    "PlantedPartition",
    "PlantedProjection",
    "SceneData",
    "Source",
    "fetch",
    "find_folder",
    "hard_clusters",
    "load_arrays",
    "load_labelled",
    "load_scene",
    "mixed_scene",
    "planted_onmf",
    "planted_partition",
    "planted_projection",
    "planted_projection_from",
    "sources",
]
