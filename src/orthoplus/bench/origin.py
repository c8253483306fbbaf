"""Describe the origin of the tables on a page: one run, or several at different commits."""

from collections.abc import Sequence
from typing import Any

from orthoplus.bench.table import Outcome

# Entries that differ between any two runs on the same machine with the same code.
_VARYING_KEYS = ("started", "load")

Machine = dict[str, Any]


def commit_of(machine: Machine) -> str:
    """Return the commit as text, or an empty text if it is unknown."""
    return f"commit {machine['commit']}" if machine["commit"] else ""


def origin_of(outcome: Outcome) -> str:
    """Describe when, at which commit and under which load a table was measured."""
    machine = outcome.machine
    if machine is None:
        return ""
    load = "" if machine["load"] is None else f"load {machine['load']:g} at its start"
    limit = (
        "" if outcome.limit is None else f"at most {outcome.limit:g} CPU s per run of a baseline"
    )
    parts = [f"Measured {machine['started']}", commit_of(machine), load, limit]
    return f"{', '.join(filter(None, parts))}."


def groups_of(outcomes: Sequence[Outcome], here: Machine) -> list[tuple[Machine, list[str]]]:
    """Return each machine with its versions and commit, and the tables that were run with them.

    ``here`` provides the values that the outcome of a table does not have.
    """
    groups: list[tuple[Machine, list[str]]] = []
    for outcome in outcomes:
        machine = outcome.machine or here
        lasting = {key: value for key, value in machine.items() if key not in _VARYING_KEYS}
        for first, names in groups:
            if lasting.items() <= first.items():
                names.append(outcome.table.name)
                break
        else:
            groups.append((machine, [outcome.table.name]))
    return groups


def how_made(outcomes: Sequence[Outcome], command: str, here: Machine) -> str:
    """Describe the command and the commit, or how many there are.

    Only tables of the same code, machine and versions are said to be of one command.
    """
    groups = groups_of(outcomes, here)
    if len(groups) <= 1:
        machine = groups[0][0] if groups else here
        return ", ".join(
            filter(
                None, [f"created by `{command}`, started {machine['started']}", commit_of(machine)]
            )
        )
    commits = {machine["commit"] for machine, _ in groups} - {None}
    return (
        f"created in {len(groups)} parts that differ in code, versions or machine "
        f"({len(commits)} commits): each table says when and at which commit it was measured"
    )
