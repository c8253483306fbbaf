"""Where the compiled loops are kept between processes; decided once, when they are imported."""

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

# What compilation may take in all before a note says so.
_SILENT_SECONDS = 1.0


@dataclass(frozen=True)
class KernelCache:
    """The folder of the compiled loops, and what kind of folder it is.

    Numba looks for a folder itself: that of ``NUMBA_CACHE_DIR`` if set, ``__pycache__`` beside the
    source (``package``), the user's cache (``user``, as is the first). If none of them can be
    written, Numba refuses to compile. Then it is a folder of this user alone among the temporary
    files (``temporary``), or there is no cache (``none``) and each process compiles for itself.
    """

    kind: Literal["package", "user", "temporary", "none"]
    folder: Path | None = None
    root: Path | None = None  # given to Numba in place of its own choice

    def njit(self, **options: Any) -> Callable[[Any], Any]:
        """Return `numba.njit` with these options, and with this cache."""

        def decorate(function: Any) -> Any:
            with _cache_dir(self.root):
                return numba.njit(cache=self.kind != "none", **options)(function)

        return decorate


def find_cache() -> KernelCache:
    """Return the first cache that can be written."""
    if numba.config.DISABLE_JIT:  # for debugging: nothing is compiled
        return KernelCache("none")
    folder = _numba_folder(None)
    if folder is not None:
        is_beside = folder == Path(__file__).parent / "__pycache__"
        return KernelCache("package" if is_beside else "user", folder)
    root = _temporary_root()
    folder = None if root is None else _numba_folder(root)
    return KernelCache("none") if folder is None else KernelCache("temporary", folder, root)


def _probe() -> None:
    """Stand for the loops of this folder: Numba chooses a cache by the folder of the source."""


def _numba_folder(root: Path | None) -> Path | None:
    try:
        with _cache_dir(root):
            return Path(numba.njit(cache=True)(_probe).stats.cache_path)
    except RuntimeError:  # "cannot cache function: no locator available"
        return None


@contextmanager
def _cache_dir(root: Path | None) -> Iterator[None]:
    # Numba reads this setting when a function is decorated. Afterwards it is the user's again.
    before = numba.config.CACHE_DIR
    if root is not None:
        numba.config.CACHE_DIR = str(root)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _temporary_root() -> Path | None:
    """Return a temporary folder that only this user can write, or None.

    Numba runs what it finds there: a folder that somebody else has made, or may write, is not used.
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
    """Load what Numba would load at the first call of a loop, about as much as it has loaded.

    It takes no further time, and here Ctrl-C can wait for it, see `orthoplus.kernels`: if it comes
    in between, no later call succeeds.
    """
    with suppress(ImportError, AttributeError):  # not a documented part of Numba
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


class CompileNote:
    """Say once per process that loops are being compiled, if that takes longer than a second.

    The logger ``orthoplus`` warns, so that a single line goes to stderr unless logging was set up
    otherwise; ``logging.getLogger("orthoplus").setLevel("ERROR")`` silences it. Compilation nests:
    the time of the outermost one counts, and is looked at whenever one ends.
    """

    def __init__(self, where: KernelCache) -> None:
        self.where = where
        self.depth, self.seconds, self.since = 0, 0.0, 0.0
        self.is_given = False

    def on_start(self, event: Any) -> None:
        """Follow the begin of a compilation."""
        if self.depth == 0:
            self.since = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Follow the end of a compilation, and give the note if it is time."""
        self.depth -= 1
        seconds = self.seconds + time.perf_counter() - self.since
        if self.depth == 0:
            self.seconds = seconds
        # Functions that other libraries make by `exec` have no module.
        is_ours = (event.data["dispatcher"].__module__ or "").startswith("orthoplus.")
        if is_ours and seconds > _SILENT_SECONDS and not self.is_given:
            self.is_given = True
            logging.getLogger("orthoplus").warning("%s", self.text)

    @property
    def text(self) -> str:
        """The line."""
        kept = f"once; cached in {self.where.folder}"
        if self.where.folder is None:
            kept = "in every process: no folder for them can be written, set NUMBA_CACHE_DIR"
        return f"orthoplus: compiling loops for this machine, a few seconds ({kept})"


def follow_compilation(note: CompileNote) -> None:
    """Let Numba tell the note when it compiles."""
    with suppress(ImportError, AttributeError):  # not a documented part of Numba
        from numba.core import event

        class Listener(event.Listener):  # type: ignore[misc]
            on_start, on_end = note.on_start, note.on_end

        event.register("numba:compile", Listener())


CACHE = find_cache()
njit = CACHE.njit
follow_compilation(CompileNote(CACHE))
