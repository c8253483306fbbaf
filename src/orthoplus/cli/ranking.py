"""``-k 2-12``: choose the number of clusters from a range, and show the progress."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from orthoplus.cli.display import COMPILING, SECONDS_BETWEEN_LINES
from orthoplus.cli.kernel_cache import must_compile
from orthoplus.cli.terminal import echo_stderr
from orthoplus.model_selection import RankSelection, select_rank


def choose_rank(A: Any, ranks: range, *, silent: bool, **options: Any) -> RankSelection:
    """Run `select_rank`, and print which k was chosen and why.

    The option ``resume`` is the file that stores completed fits.
    """
    title = f"Choosing k from {ranks[0]} to {ranks[-1]}"
    with following(title, silent=silent) as follow:
        found = select_rank(A, ranks, callback=follow, **options)
    if not silent:
        echo_stderr(sentence(found))
    return found


def sentence(found: RankSelection) -> str:
    """Return the recommendation with the choice of each criterion."""
    named = ", ".join(
        f"{name} {'no k' if k is None else f'k = {k}'}" for name, k in found.named.items()
    )
    verdict = found.reasons[0].removeprefix(f"k = {found.k}: ").rstrip(".")
    tried = f"{found.rows[0].k} to {found.rows[-1].k}"
    return f"Chose k = {found.k} from {tried}: {verdict} ({named}). The {found.split} were halved."


def describe_choice(found: RankSelection) -> dict[str, Any]:
    """Return the curves and the reasons for the record of a run."""
    return {
        "k": found.k,
        "split": found.split,
        "sentence": sentence(found),
        "reasons": list(found.reasons),
        "named": found.named,
        "curves": [row._asdict() for row in found.rows],
    }


@contextmanager
def following(title: str, *, silent: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that shows completed fits: a bar on a terminal, else plain lines."""
    console = Console(stderr=True)
    if silent:
        yield lambda progress: None
    elif console.is_terminal and not console.is_dumb_terminal:
        words = f"{title} ({COMPILING})" if must_compile() else title
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
            MofNCompleteColumn(), TextColumn("fits"), TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(words, total=None)

            def follow(progress: Any) -> None:
                bar.update(
                    task, completed=progress.n_done, total=progress.n_total, description=title
                )

            yield follow
    else:
        echo_stderr(title)
        if must_compile():
            echo_stderr(f"  {COMPILING}")
        yield _plain_lines()


def _plain_lines() -> Callable[[Any], None]:
    started = time.monotonic()
    printed = -float("inf")

    def follow(progress: Any) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_BETWEEN_LINES:
            printed = now
            echo_stderr(f"  {progress.n_done} of {progress.n_total} fits  {now - started:.1f} s")

    return follow
