"""Numba's cache of compiled loops, which must never stop a computation."""

import logging
import os
from contextlib import suppress
from typing import Any


class SafeCache:
    """The cache of one function: an entry that cannot be read is compiled again.

    Numba raises if a file of its cache is damaged, as a power failure or a full disk leaves it,
    and if the disk is full when it saves. Either would stop all runs until the user deletes the
    cache.
    """

    def __init__(self, own: Any) -> None:
        self._own = own

    def load_overload(self, *args: Any) -> Any:
        """Return the compiled function; None, if there is none or it cannot be read."""
        try:
            return self._own.load_overload(*args)
        except Exception as error:  # a damaged pickle raises many kinds of exceptions
            self._discard("read", error)
            return None

    def save_overload(self, *args: Any) -> None:
        """Save the compiled function, if that is possible."""
        try:
            self._own.save_overload(*args)
        except Exception as error:
            self._discard("saved", error)

    def _discard(self, what: str, error: Exception) -> None:
        """Remove the index: it may list functions whose files are missing or of another version."""
        logging.getLogger("orthoplus").debug("a compiled loop cannot be %s: %r", what, error)
        with suppress(OSError, AttributeError):  # not a documented part of Numba
            os.unlink(self._own._cache_file._index_path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
