"""Messages of the library in the terms of the shell: options as they are typed there."""

import re

from orthoplus.core.status import Status

# The names that the library has for what are options of commands.
OPTIONS = {
    "n_components": "-k",
    "n_endmembers": "-k",
    "n_parcels": "-k",
    "ranks": "-k",
    "smoothing_fwhm": "--smooth",
    "memory_limit": "--memory",
    "random_state": "--seed",
    "feasibility_tol": "--tol",
    "row_scale": "--scale-rows",
    "column_scale": "--scale-columns",
    "save_state": "--checkpoint",
} | {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "checkpoint", "fractions", "loss", "mask", "max_iter", "max_passes", "memory_limit",
        "method", "missing", "n_init", "negative", "resume", "split", "time_limit", "tol",
    )
}  # fmt: skip
_VALUES = {"kullback-leibler": "kl"}
_QUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")
_ASIDE = re.compile(r" \(on the command line `[^`]*`\)")

# What to try is another thing in a shell than in Python.
_STATUS = {
    Status.CONVERGED: "Converged: the run ended by itself.",
    Status.FEASIBLE: "Feasible, but the tolerances were not met. Try another `--seed`, or leave "
    "out `--tol`.",
    Status.MAX_ITER: "The iteration limit was reached before the run ended by itself. Raise "
    "`--max-iter`, or leave it out.",
    Status.STALLED: "The violation no longer falls. What there is was rounded and refined; try "
    "another `--seed`, or leave out `--method`.",
    Status.LINE_SEARCH_FAILED: "No step improves the objective to working precision. Usually it is "
    "as good as the arithmetic allows.",
    Status.TIME_LIMIT: "The time limit was reached; this is the best so far. Raise `--time-limit` "
    "to go on for longer.",
    Status.INTERRUPTED: "Interrupted from the keyboard; this is the best so far.",
}


def status_words(status: Status) -> str:
    """Return how a run ended, and what to type to go on.

    Examples
    --------
    >>> print(status_words(Status.INTERRUPTED))
    Interrupted from the keyboard; this is the best so far.
    """
    return _STATUS.get(status) or in_shell_terms(status.message)


def in_shell_terms(text: str) -> str:
    """Return a message with the options of the library as options of the commands.

    Examples
    --------
    >>> print(in_shell_terms('`n_components=9` is too large; `loss="kullback-leibler"`, `X`'))
    `-k 9` is too large; `--loss kl`, `X`
    """
    return _QUOTED.sub(_translate, _ASIDE.sub("", text))


def _translate(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    if name not in OPTIONS:
        return found[0]
    if value is None:
        return f"`{OPTIONS[name]}`"
    word = value.strip("\"'")
    return f"`{OPTIONS[name]} {_VALUES.get(word, word)}`"
