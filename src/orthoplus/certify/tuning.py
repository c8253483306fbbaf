"""When the relaxation tries another penalty parameter, and which."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

# Iterations of a trial at least, and as a part of all so far; the next one is due after so many
# times as many as there were.
_LEAST_TRIAL, _TRIAL_PART, _PAUSE = 10, 0.1, 1.5
# What the penalty parameter is multiplied with at first, and at least.
_FIRST_FACTOR, _LEAST_FACTOR = 10.0, 1.5
# Iterations between two looks at the residuals; the least change that is made, and the most.
_BALANCE_EVERY, _LEAST_CHANGE, _MOST_CHANGE = 20, 1.2, 2.0


class Move(Enum):
    """What is to be done after an iteration."""

    NONE = 0
    SAVE = 1
    TRY = 2
    RETURN = 3


class Tuning:
    """Compare two penalty parameters from the same state, by the bounds that they lead to.

    A trial saves the state, goes on for some iterations, then returns to the saved state and runs
    as many with the other parameter. The better of the two stays. After a success the next trial
    goes further in the same direction; after a failure it waits, and goes the other way by less.

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
        """What the penalty parameter is multiplied with in the current trial."""
        return math.exp(self._log_factor)

    @property
    def is_idle(self) -> bool:
        """Whether no trial is under way."""
        return self._phase is Move.SAVE

    @property
    def is_trying(self) -> bool:
        """Whether the other parameter is in use; ``kept`` is the bound to improve upon."""
        return self._phase is Move.RETURN

    def next(self, n_iter: int, bound: Callable[[], float]) -> Move:
        """Return what to do after this many iterations; ``bound`` computes the current bound."""
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
    """An iteration with a penalty parameter that tries others now and then.

    A class derived from it counts its iterations in ``n_iter``.
    """

    def __init__(self) -> None:
        self.n_iter = 0
        self._tuning = Tuning()
        self._saved: list[Any] = []

    @abstractmethod
    def _save(self) -> Any:
        """Return a state to return to."""

    @abstractmethod
    def _restore(self, number: int, factor: float = 1.0) -> None:
        """Return to a saved state, with the penalty parameter times this factor."""

    @abstractmethod
    def estimate(self) -> float:
        """Return about what the bound would be, for a small part of its cost."""

    def _tune(self) -> None:
        """Try other penalty parameters now and then, and keep the one with the better bound."""
        wanted = self._tuning.next(self.n_iter, self.estimate)
        if wanted is Move.SAVE:
            self._saved = [self._save()]
        elif wanted is Move.TRY:
            self._saved.append(self._save())
            self._restore(0, self._tuning.factor)
        elif wanted is Move.RETURN:
            self._restore(1)

    def _at_better(self, work: Callable[[], None]) -> None:
        """Call ``work``, in the midst of a trial at the state before it if that seems better."""
        if not (self._tuning.is_trying and self._tuning.kept < self.estimate()):
            work()
            return
        self._saved.append(self._save())
        self._restore(1)
        work()
        self._restore(2)
        self._saved.pop()


class Balance:
    """Choose the penalty parameter by the residuals, relative to the sizes of what they change.

    A large parameter lets the distance of F and P fall faster, a small one the change of P. The
    ratio of both, a geometric mean over some iterations, is to be about 1. This needs no trials,
    which compare bounds: while cuts are added, bounds of a few iterations say little.

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
        """Return what to multiply the penalty parameter with.

        ``sums`` are the squares of F - P, of the change of P, of P and of D, in this order.
        """
        tiny = sys.float_info.min
        primal, change, size, dual = (max(float(part), tiny) for part in sums)
        self._total += math.log(primal / size) - math.log(change / dual)
        self._count += 1
        if self._count < _BALANCE_EVERY:
            return 1.0
        ratio = math.exp(self._total / (2 * self._count))
        self._total, self._count = 0.0, 0
        factor = min(max(math.sqrt(ratio), 1 / _MOST_CHANGE), _MOST_CHANGE)
        return factor if max(factor, 1 / factor) >= _LEAST_CHANGE else 1.0
