"""Command classes with plainer help and error messages than Typer's."""

import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

# Messages of the validator, and our replacements.
_PLAIN = (
    (re.compile(r"Input should be a valid integer.*", re.DOTALL), "an integer is expected."),
    (re.compile(r"Input should be a valid number.*", re.DOTALL), "a number is expected."),
    (
        re.compile(r"Input should be greater than or equal to (\S+)", re.DOTALL),
        r"a number of at least \1 is expected.",
    ),
)


class Command(TyperCommand):
    """A command whose help shows no types of flags, and whose errors say what is expected."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters of the command; the help then omits the types of flags."""
        return without_flag_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments, and reword the errors of the parser by `_PLAIN`."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for pattern, words in _PLAIN:
                error.message = pattern.sub(words, error.message)
            raise


class Group(TyperGroup):
    """A group of commands whose help shows no types of flags."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters of the group; the help then omits the types of flags."""
        return without_flag_types(super().get_params(ctx))


def without_flag_types(params: Any) -> Any:
    """Hide the types of flags and text arguments in the help, and return the parameters."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
