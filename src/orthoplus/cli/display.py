"""Show the progress of a run: a live panel on a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import Progress as ProgressLine
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orthoplus.cli.kernel_cache import must_compile
from orthoplus.cli.terminal import echo_stderr, printable
from orthoplus.core.outer_method import OuterState

# Minimum time between plain lines, so that logs stay short.
SECONDS_BETWEEN_LINES = 1.0
_PANEL_WIDTH = 76
COMPILING = "compiling kernels: once, about ten seconds"


@dataclass(frozen=True)
class Goal:
    """The title and tolerance of a run, and the total that the objective is divided by."""

    title: str
    feasibility_tol: float
    max_iter: int
    total: float = 1.0
    progress: Callable[[OuterState], float] | None = None  # fraction done at a state, if available


@dataclass(frozen=True)
class Progress:
    """The numbers of one state that are shown."""

    n_iter: int
    sigma: float
    violation: float
    objective: float
    seconds: float
    share: float


Display = Callable[[OuterState], None]  # called with every state; never stops a run


class Follower:
    """Convert states to `Progress`; the fraction done never decreases."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.started = time.perf_counter()
        self.first_violation: float | None = None
        self.last_iter = 0
        self.run = 1
        self.share = 0.0

    def follow(self, state: OuterState) -> Progress:
        """Return the progress at this state; a smaller ``n_iter`` begins a new start."""
        if state.n_iter <= self.last_iter:  # a new start counts its iterations from 0
            self.run, self.share, self.first_violation = self.run + 1, 0.0, None
        self.last_iter = state.n_iter
        self.share = max(self.share, self._share(state))
        return Progress(
            n_iter=state.n_iter,
            sigma=getattr(state, "sigma", math.nan),
            violation=state.violation,
            objective=state.value / self.goal.total,
            seconds=time.perf_counter() - self.started,
            share=self.share,
        )

    def _share(self, state: OuterState) -> float:
        """Return the fraction done: of log(violation) toward the tolerance, or of iterations."""
        if self.goal.progress is not None:
            return self.goal.progress(state)
        share = state.n_iter / self.goal.max_iter
        # The violation of a penalty method falls by about a constant factor per iteration, so its
        # logarithm measures the progress toward the tolerance.
        if self.first_violation is None:
            self.first_violation = max(state.violation, 1e-300)
        first, tol = self.first_violation, max(self.goal.feasibility_tol, 1e-15)
        if first > tol:
            fallen = math.log(first / max(state.violation, tol)) / math.log(first / tol)
            share = max(share, fallen)
        return min(share, 1.0)


class PlainLines(Follower):
    """Print one line at a time, for logs and pipes."""

    def __init__(self, goal: Goal) -> None:
        super().__init__(goal)
        self.printed = -math.inf
        echo_stderr(goal.title)
        if must_compile():
            echo_stderr(f"  {COMPILING}")

    def __call__(self, state: OuterState) -> None:
        """Print a line, at most one every `SECONDS_BETWEEN_LINES` seconds."""
        seen = self.follow(state)
        if seen.seconds - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = seen.seconds
            echo_stderr(line(seen))


class LivePanel(Follower):
    """Redraw a panel in place; its clock also runs between states."""

    def __init__(self, goal: Goal, live: Live) -> None:
        super().__init__(goal)
        self.seen: Progress | None = None
        live.update(self)

    def __call__(self, state: OuterState) -> None:
        """Keep the progress at this state for the next redrawing of the panel."""
        self.seen = self.follow(state)

    def __rich__(self) -> Panel:
        return panel(self.goal, self.seen, self.run, time.perf_counter() - self.started)


@contextmanager
def watching(goal: Goal, *, silent: bool) -> Iterator[Display]:
    """Yield a display: none if silent, a live panel on a terminal, else plain lines."""
    if silent:
        yield lambda state: None
    elif is_live():
        with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
            yield LivePanel(goal, live)
    else:
        yield PlainLines(goal)


def is_live() -> bool:
    """Return whether standard error is a terminal on which lines can be redrawn."""
    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def waiting(words: str, *, silent: bool) -> Iterator[Callable[[str], None]]:
    """Show a line with a clock on a terminal while the block runs, then remove it.

    Yield a function that changes the text.
    """
    if silent or not is_live():
        yield lambda words: None
        return
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(style="cyan"), TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )  # fmt: skip
    with ProgressLine(*columns, console=console, transient=True) as line_of:
        task = line_of.add_task(printable(words), total=None)
        yield lambda words: line_of.update(task, description=printable(words))


def line(seen: Progress) -> str:
    """Return a state as one line; the penalty is shown only for penalty methods."""
    penalty = f"  sigma {_sigma(seen)}  violation {seen.violation:9.3e}"
    return (
        f"  iteration {seen.n_iter:4d}{'' if math.isnan(seen.sigma) else penalty}"
        f"  objective {seen.objective:.6f}  {seen.seconds:.1f} s"
    )


def panel(goal: Goal, seen: Progress | None, run: int, seconds: float | None = None) -> Panel:
    """Return a state as a panel with a title, the numbers and a progress bar.

    ``seconds`` is the elapsed time; by default that of the state.
    """
    grid = Table.grid(padding=(0, 1))
    for width in (9, 12, 14, 14, 13):
        grid.add_column(justify="right", no_wrap=True, min_width=width)
    names = ("iteration", "sigma", "violation", "objective", "elapsed")
    grid.add_row(*(Text(name, style="dim") for name in names))
    numbers, share, note = ["-"] * len(names), 0.0, ""
    if seen is not None:
        share = seen.share
        numbers = [
            f"{seen.n_iter}", _sigma(seen), f"{seen.violation:.2e}",
            f"{seen.objective:.6f}", f"{seen.seconds:.1f} s",
        ]  # fmt: skip
    elif must_compile():
        note = COMPILING
    if seconds is not None:
        numbers[-1] = f"{seconds:.1f} s"
    grid.add_row(*(Text(number, style="bold") for number in numbers))
    bar = ProgressBar(total=1.0, completed=share, complete_style="cyan")
    title = Text(printable(goal.title if run == 1 else f"{goal.title}, start {run}"))
    foot = Text("objective: unexplained share; Ctrl-C stops and writes the results", style="dim")
    return Panel(
        Group(grid, Text(note, style="yellow"), bar),
        title=title, title_align="left", subtitle=foot,
        subtitle_align="left", border_style="cyan", padding=(0, 1), width=_PANEL_WIDTH,
    )  # fmt: skip


def _sigma(seen: Progress) -> str:
    """Return the penalty parameter as text, or "-" for a method without one."""
    return "-" if math.isnan(seen.sigma) else f"{seen.sigma:.2e}"


def percent(share: float) -> str:
    """Format a share for a narrow column: no decimals above 1000%, capped at 100000%.

    Examples
    --------
    >>> percent(0.12345), percent(0.00001), percent(123.0), percent(1e12)
    ('12.35%', '0.001%', '12300%', 'over 100000%')
    """
    if share > 1000:
        return "over 100000%"
    if share >= 10:
        return f"{share:.0%}"
    return f"{share:.2%}" if share >= 1e-3 else f"{share:.3%}"
