"""Errors that are about the input, not about the library."""


class InputError(ValueError):
    """The input cannot be used; the message says why and what to do.

    Examples
    --------
    >>> import orthoplus as op
    >>> try:
    ...     op.project([[1.0], [2.0]], memory_limit="much")
    ... except op.InputError as error:
    ...     print(isinstance(error, ValueError))
    True
    """


class InputTypeError(InputError, TypeError):
    """The input is of a type that cannot be used."""
