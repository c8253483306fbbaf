"""Translate messages of the library for the command line: options are named as typed there."""

import re

from orthoplus.core.status import Status

# Parameters of the library, and the options that correspond to them.
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
        "base", "checkpoint", "fractions", "loss", "mask", "max_iter", "max_passes", "memory_limit",
        "method", "missing", "n_init", "negative", "resume", "split", "time_limit", "tol",
    )
}  # fmt: skip
_VALUES = {"kullback-leibler": "kl"}
_QUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")
_COMMAND_LINE_NOTE = re.compile(r" \(on the command line `[^`]*`\)")

# Status messages whose advice differs between the shell and Python.
_STATUS = {
    Status.CONVERGED: "Converged.",
    Status.FEASIBLE: "Feasible, but the tolerances were not met. Try another `--seed`, or omit "
    "`--tol`.",
    Status.MAX_ITER: "The iteration limit was reached before convergence. Raise `--max-iter`, or "
    "omit it.",
    Status.STALLED: "The violation stopped decreasing; the result was rounded and refined. Try "
    "another `--seed`, or omit `--method`.",
    Status.LINE_SEARCH_FAILED: "No step improves the objective at working precision; the result is "
    "usually as accurate as the arithmetic allows.",
    Status.TIME_LIMIT: "The time limit was reached; this is the best result so far. Raise "
    "`--time-limit` to continue longer.",
    Status.INTERRUPTED: "Interrupted; this is the best result so far.",
}


def status_words(status: Status) -> str:
    """Return how a run ended, and what to try next.

    Examples
    --------
    >>> print(status_words(Status.INTERRUPTED))
    Interrupted; this is the best result so far.
    """
    return _STATUS.get(status) or in_shell_terms(status.message)


def in_shell_terms(text: str) -> str:
    """Replace the library's parameters in a message by command-line options.

    Examples
    --------
    >>> print(in_shell_terms('`n_components=9` is too large; `loss="kullback-leibler"`, `X`'))
    `-k 9` is too large; `--loss kl`, `X`
    """
    return _QUOTED.sub(_translate, _COMMAND_LINE_NOTE.sub("", text))


def _translate(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    if name not in OPTIONS:
        return found[0]
    if value is None:
        return f"`{OPTIONS[name]}`"
    word = value.strip("\"'")
    return f"`{OPTIONS[name]} {_VALUES.get(word, word)}`"
