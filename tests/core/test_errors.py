"""The classes of errors: what a user can mend is told apart from a bug."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.errors import FileError, OutOfTimeError

SOURCE = Path(op.__file__).parent
# Rooms whose raise lines are not about input that a command passes on.
OTHERS = ("kernels", "bench")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: op.project(np.full((2, 2), np.nan)), ValueError),
        (lambda: op.project([["a"]]), TypeError),
        (lambda: op.solve("nothing"), TypeError),
        (lambda: op.problems.ONMF(-np.eye(3), 2), ValueError),
        (lambda: op.minimize(lambda X: X.sum(), (3, 2), n_init=0), ValueError),
        (lambda: op.unmix(np.ones((2, 2, 3)), 5), ValueError),
        (lambda: op.load_state(__file__), ValueError),
        (lambda: op.datasets.load_scene("Samson", "nowhere"), ValueError),
    ],
)
def test_bad_input_is_an_input_error_and_of_the_usual_kind(call, kind):
    with pytest.raises(op.InputError) as caught:
        call()
    assert isinstance(caught.value, kind)


def test_wrong_type_is_a_type_error_and_an_input_error():
    assert issubclass(op.InputTypeError, op.InputError)
    assert issubclass(op.InputTypeError, TypeError)
    assert issubclass(FileError, op.InputError)
    assert not issubclass(OutOfTimeError, ValueError)


@pytest.mark.parametrize("kind", [op.InputError, op.InputTypeError, FileError])
def test_error_survives_a_process_border(kind):
    back = pickle.loads(pickle.dumps(kind("a sentence.")))
    assert (type(back), str(back)) == (kind, "a sentence.")


def test_package_makes_no_bare_value_or_type_error():
    bare = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in OTHERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("ValueError", "TypeError")
    ]
    assert bare == []
