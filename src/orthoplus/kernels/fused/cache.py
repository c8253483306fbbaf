"""Choose the folder in which compiled kernels are cached; decided once, at import."""

import functools
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numba

from orthoplus.kernels import interrupted_later
from orthoplus.kernels.fused.safe_cache import SafeCache

# Total compilation time after which a message is logged.
_SILENT_SECONDS = 1.0


@dataclass(frozen=True)
class KernelCache:
    """The folder of the compiled kernels and its kind.

    Numba tries ``NUMBA_CACHE_DIR`` if set (``user``), ``__pycache__`` next to the source
    (``package``), and the cache folder of the user (``user``). If none of them is writable, Numba
    refuses to compile. In this case a private folder among the temporary files is used
    (``temporary``); if that fails, nothing is cached (``none``) and each process compiles for
    itself.
    """

    kind: Literal["package", "user", "temporary", "none"]
    folder: Path | None = None
    root: Path | None = None  # overrides Numba's own choice

    def njit(self, **options: Any) -> Callable[[Any], Any]:
        """Return the decorator `numba.njit` with these options and with this cache."""

        def decorate(function: Any) -> Any:
            with _cache_dir(self.root):
                compiled = numba.njit(cache=self.kind != "none", **options)(function)
            with suppress(AttributeError):  # not a documented part of Numba
                compiled._compile_for_args = _interrupted_later(compiled._compile_for_args)
                if self.kind != "none":
                    compiled._cache = SafeCache(compiled._cache)
            return compiled

        return decorate


def _interrupted_later(get_ready: Callable[..., Any]) -> Callable[..., Any]:
    """Delay Ctrl-C while the main thread compiles a loop or reads it from the cache.

    In both, a callback of LLVM swallows the interrupt, the loop is lost, and its call fails.
    """

    @functools.wraps(get_ready)
    def wrapped(*args: Any, **options: Any) -> Any:
        with interrupted_later():
            return get_ready(*args, **options)

    return wrapped


def find_cache() -> KernelCache:
    """Return the first cache folder that is writable."""
    if numba.config.DISABLE_JIT:  # for debugging, when nothing is compiled
        return KernelCache("none")
    folder = _numba_folder(None)
    if folder is not None:
        is_beside = folder == Path(__file__).parent / "__pycache__"
        return KernelCache("package" if is_beside else "user", folder)
    root = _temporary_root()
    folder = None if root is None else _numba_folder(root)
    return KernelCache("none") if folder is None else KernelCache("temporary", folder, root)


def _probe() -> None:
    """Do nothing: Numba chooses the cache by the folder of the source, here that of the kernels."""


def _numba_folder(root: Path | None) -> Path | None:
    try:
        with _cache_dir(root):
            return Path(numba.njit(cache=True)(_probe).stats.cache_path)
    except RuntimeError:  # "cannot cache function: no locator available"
        return None


@contextmanager
def _cache_dir(root: Path | None) -> Iterator[None]:
    # Numba reads this setting when a function is decorated; the user's value is restored.
    before = numba.config.CACHE_DIR
    if root is not None:
        numba.config.CACHE_DIR = str(root)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _temporary_root() -> Path | None:
    """Return a temporary folder that only this user can write to, or None.

    Numba executes the code it finds there, so a folder that another user owns or can write to is
    not used.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    try:
        root = Path(tempfile.gettempdir()) / f"orthoplus-kernels-{'user' if user is None else user}"
        root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return None
    is_private = user is None or (found.st_uid == user and not found.st_mode & 0o077)
    return root if is_private else None


def load_numba() -> None:
    """Load the modules that Numba would otherwise load at the first call of a kernel.

    This takes no additional time. It is done here because `orthoplus.kernels` delays Ctrl-C during
    the import: an interrupt while these modules load would make all later calls fail.
    """
    with suppress(ImportError, AttributeError):  # not a documented part of Numba
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


class CompileNote:
    """Log once per process that kernels are being compiled, if it takes more than a second.

    The message is a warning of the logger ``orthoplus``: by default one line on stderr.
    ``logging.getLogger("orthoplus").setLevel("ERROR")`` silences it. Compilations are nested; the
    time of the outermost one counts, and is checked whenever one ends.
    """

    def __init__(self, where: KernelCache) -> None:
        self.where = where
        self.depth, self.seconds, self.since = 0, 0.0, 0.0
        self.is_given = False

    def on_start(self, event: Any) -> None:
        """Record the start of a compilation."""
        if self.depth == 0:
            self.since = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Record the end of a compilation, and log the message if the time is exceeded."""
        self.depth -= 1
        seconds = self.seconds + time.perf_counter() - self.since
        if self.depth == 0:
            self.seconds = seconds
        if _is_ours(event) and seconds > _SILENT_SECONDS and not self.is_given:
            self.is_given = True
            logging.getLogger("orthoplus").warning("%s", self.text)

    @property
    def text(self) -> str:
        """Return the message."""
        kept = f"once; cached in {self.where.folder}"
        if self.where.folder is None:
            kept = "in every process: no folder for them can be written, set NUMBA_CACHE_DIR"
        return f"orthoplus: compiling loops for this machine, a few seconds ({kept})"


def _is_ours(event: Any) -> bool:
    """Return whether a function of this package is compiled."""
    # Functions that other libraries create with `exec` have no module.
    return (event.data["dispatcher"].__module__ or "").startswith("orthoplus.")


def follow_compilation(follower: CompileNote) -> None:
    """Register the follower as a listener for Numba's compilation events."""
    with suppress(ImportError, AttributeError):  # not a documented part of Numba
        from numba.core import event

        kind = type("Listener", (event.Listener,), {
            "on_start": staticmethod(follower.on_start),
            "on_end": staticmethod(follower.on_end),
        })  # fmt: skip
        event.register("numba:compile", kind())


CACHE = find_cache()
njit = CACHE.njit

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_REORDERED = {"reassoc", "contract", "nsz", "arcp"}


def reordering(**options: Any) -> Callable[[Any], Any]:
    """Return the decorator of a loop whose sums may be reordered, and that no loop calls."""
    return njit(nogil=True, fastmath=_REORDERED, **options)


def reordering_inlined(**options: Any) -> Callable[[Any], Any]:
    """Return the decorator of a loop whose sums may be reordered, and that other loops call.

    A call would run whichever copy of the loop was loaded first, and copies sum in different
    orders. Without calls, bits do not depend on what ran before, nor on the cache.
    """
    return reordering(forceinline=True, **options)


follow_compilation(CompileNote(CACHE))
