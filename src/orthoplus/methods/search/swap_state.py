"""The state of the default search for orthogonal NMF."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import Vector
from orthoplus.geometry.stiefel import assemble
from orthoplus.methods.search.alternation import DirectionPoint
from orthoplus.methods.search.sketch import Sketch


class SwapState(NamedTuple):
    """Hold the best feasible point, and the current search with its sketch and centers.

    The point consists of one label and one weight per row, in the form of the data, and the k x r
    directions that determine the labels. Vectors that are not in memory are not saved with the
    state; they are None then, and `SwapSearch` recomputes them.
    """

    labels: Vector
    weights: Vector
    directions: FloatArray
    value: float
    n_iter: int
    sketch: FloatArray
    basis: FloatArray
    order: IntArray
    fine_sketch: FloatArray
    fine_basis: FloatArray
    centers: FloatArray
    sum: float
    best_sum: float
    settled: FloatArray
    settled_squares: FloatArray
    settled_counts: IntArray
    most_explained: float
    crossing_rows: FloatArray
    crossing_lift: FloatArray
    pool: FloatArray
    pool_sums: FloatArray
    n_rounds: int
    n_started: int
    n_trials: int
    n_failures: int
    is_over: bool
    violation: float = 0.0
    Y: FloatArray | None = None

    @classmethod
    def first(
        cls, point: dict[str, Any], sketch: Sketch, centers: FloatArray, total: float
    ) -> "SwapState":
        """Return the state before the first swap, at the fields ``point`` of a point."""
        return cls(
            **point,
            n_iter=0,
            sketch=sketch.rows,
            basis=sketch.basis,
            order=sketch.order,
            fine_sketch=np.zeros((0, 0)),
            fine_basis=np.zeros((0, 0)),
            centers=centers,
            sum=total,
            best_sum=-np.inf,
            settled=point["directions"],
            settled_squares=np.zeros(0),
            settled_counts=np.zeros(0, dtype=np.int64),
            most_explained=-np.inf,
            crossing_rows=np.zeros((0, 0)),
            crossing_lift=np.zeros((0, 0)),
            pool=np.zeros((0, 0, 0)),
            pool_sums=np.zeros(0),
            n_rounds=0,
            n_started=1,
            n_trials=0,
            n_failures=0,
            is_over=False,
        )

    @property
    def settled_point(self) -> DirectionPoint:
        """Result of the previous round of this search on A."""
        return DirectionPoint(self.settled, self.settled_squares, self.settled_counts)

    @property
    def X(self) -> FloatArray:
        """Best point as a dense matrix; computed on each access."""
        if not isinstance(self.labels, np.ndarray):
            raise InputError(
                "The rows of this state are not in memory, so X cannot be formed. Use "
                "`result.labels` and `result.weights`, which are in the form of the data."
            )
        return assemble(self.labels, self.weights, len(self.directions))
