"""Choice of the penalty parameter of a relaxation: when to try another one, and which."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

# Least iterations of a trial, and as a part of all iterations so far. The next trial is due after
# this multiple of the current number of iterations.
_LEAST_TRIAL, _TRIAL_PART, _PAUSE = 10, 0.1, 1.5
# First and smallest factor by which a trial multiplies the penalty parameter.
_FIRST_FACTOR, _LEAST_FACTOR = 10.0, 1.5
# Iterations between two checks of the residuals, and the smallest and largest change.
_BALANCE_EVERY, _LEAST_CHANGE, _MOST_CHANGE = 20, 1.2, 2.0


class Move(Enum):
    """Action to take after an iteration."""

    NONE = 0
    SAVE = 1
    TRY = 2
    RETURN = 3


class Tuning:
    """Compare two penalty parameters from the same state by the bounds they lead to.

    A trial saves the state, continues for some iterations, then returns to the saved state and runs
    as many iterations with the other parameter. The better state is kept. After a success, the next
    trial starts at once with the same factor; after a failure, it waits and uses a smaller factor
    in the opposite direction.

    Examples
    --------
    >>> tuning = Tuning()
    >>> moves = [tuning.next(number, lambda: 1.0) for number in range(1, 21)]
    >>> [(number + 1, move.name) for number, move in enumerate(moves) if move is not Move.NONE]
    [(1, 'SAVE'), (11, 'TRY')]
    >>> tuning.next(21, lambda: 2.0)
    <Move.RETURN: 3>
    """

    def __init__(self) -> None:
        self._log_factor = math.log(_FIRST_FACTOR)
        self._due, self._length = 1, _LEAST_TRIAL
        self._phase = Move.SAVE
        self.kept = math.inf

    @property
    def factor(self) -> float:
        """Factor by which the current trial multiplies the penalty parameter."""
        return math.exp(self._log_factor)

    @property
    def is_idle(self) -> bool:
        """Whether no trial is under way."""
        return self._phase is Move.SAVE

    @property
    def is_trying(self) -> bool:
        """Whether the other parameter is in use; ``kept`` is the bound to beat."""
        return self._phase is Move.RETURN

    def next(self, n_iter: int, bound: Callable[[], float]) -> Move:
        """Return the action after this many iterations; ``bound`` computes the current bound."""
        if n_iter < self._due:
            return Move.NONE
        phase = self._phase
        if phase is Move.SAVE:
            self._length = max(_LEAST_TRIAL, int(_TRIAL_PART * n_iter))
            self._phase, self._due = Move.TRY, n_iter + self._length
            return Move.SAVE
        if phase is Move.TRY:
            self.kept = bound()
            self._phase, self._due = Move.RETURN, n_iter + self._length
            return Move.TRY
        return self._finish(n_iter, is_better=bound() < self.kept)

    def _finish(self, n_iter: int, *, is_better: bool) -> Move:
        self._phase = Move.SAVE
        if is_better:
            self._due = n_iter + 1
            return Move.NONE
        least = math.log(_LEAST_FACTOR)
        self._log_factor = -math.copysign(max(least, abs(self._log_factor) / 2), self._log_factor)
        self._due = int(_PAUSE * n_iter)
        return Move.RETURN


class Tuned(ABC):
    """Base class of an iteration that regularly tries other penalty parameters.

    Derived classes count their iterations in ``n_iter``.
    """

    def __init__(self) -> None:
        self.n_iter = 0
        self._tuning = Tuning()
        self._saved: list[Any] = []

    @abstractmethod
    def _save(self) -> Any:
        """Return a snapshot of the state."""

    @abstractmethod
    def _restore(self, number: int, factor: float = 1.0) -> None:
        """Restore a saved state, with the penalty parameter multiplied by this factor."""

    @abstractmethod
    def estimate(self) -> float:
        """Estimate the bound at a small part of its cost."""

    def _tune(self) -> None:
        """Try another penalty parameter from time to time and keep the better one."""
        wanted = self._tuning.next(self.n_iter, self.estimate)
        if wanted is Move.SAVE:
            self._saved = [self._save()]
        elif wanted is Move.TRY:
            self._saved.append(self._save())
            self._restore(0, self._tuning.factor)
        elif wanted is Move.RETURN:
            self._restore(1)

    def _at_better(self, work: Callable[[], None]) -> None:
        """Call ``work``; during a trial, call it at the saved state if that seems better."""
        if not (self._tuning.is_trying and self._tuning.kept < self.estimate()):
            work()
            return
        self._saved.append(self._save())
        self._restore(1)
        work()
        self._restore(2)
        self._saved.pop()


class Balance:
    """Choose the penalty parameter by balancing the relative residuals.

    A large parameter reduces the distance between F and P faster, a small one the change of P.
    Their ratio, averaged geometrically over some iterations, should be about 1. Trials would
    compare bounds, which say little after a few iterations while cuts are added.

    Examples
    --------
    >>> balance = Balance()
    >>> factors = [balance.next((1.0, 0.01, 1.0, 1.0)) for _ in range(20)]
    >>> factors[0], factors[-1]
    (1.0, 2.0)
    """

    def __init__(self) -> None:
        self._total, self._count = 0.0, 0

    def next(self, sums: Iterable[float]) -> float:
        """Return the factor by which to multiply the penalty parameter.

        ``sums`` holds the squared norms of F - P, of the change of P, of P and of D, in this order.
        """
        tiny = sys.float_info.min
        primal, change, size, dual = (max(float(part), tiny) for part in sums)
        self._total += math.log(primal / size) - math.log(change / dual)
        self._count += 1
        if self._count < _BALANCE_EVERY:
            return 1.0
        # The sums are squared norms, hence the factor 2.
        ratio = math.exp(self._total / (2 * self._count))
        self._total, self._count = 0.0, 0
        factor = min(max(math.sqrt(ratio), 1 / _MOST_CHANGE), _MOST_CHANGE)
        return factor if max(factor, 1 / factor) >= _LEAST_CHANGE else 1.0
