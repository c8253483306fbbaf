"""Commands whose help and errors are in plain words."""

import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

# Words of the validator, and ours.
_PLAIN = (
    (re.compile(r"Input should be a valid integer.*", re.DOTALL), "a whole number is needed."),
    (re.compile(r"Input should be a valid number.*", re.DOTALL), "a number is needed."),
    (
        re.compile(r"Input should be greater than or equal to (\S+)", re.DOTALL),
        r"a number of at least \1 is needed.",
    ),
)


class Command(TyperCommand):
    """A command without types beside its flags, and with errors that say what is needed."""

    def get_params(self, ctx: Any) -> Any:
        return without_flag_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for pattern, words in _PLAIN:
                error.message = pattern.sub(words, error.message)
            raise


class Group(TyperGroup):
    """The same for what stands before a command."""

    def get_params(self, ctx: Any) -> Any:
        return without_flag_types(super().get_params(ctx))


def without_flag_types(params: Any) -> Any:
    """Return the parameters; the help names no type of a flag, nor that an argument is text."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
