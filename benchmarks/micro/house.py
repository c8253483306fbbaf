"""Print code statistics: lines per folder, sizes of functions and modules, and type checks.

A room is a folder of ``src/orthoplus``; the modules at its top are one room, ".". The lines of a
function are those of its body without the docstring; those of a module are all of its lines.
"""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2] / "src" / "orthoplus"
COUNTED = ("DataMatrix", "issparse", "LinearOperator", "getattr", "type: ignore", "Any")
STORAGES = {
    "DataMatrix",
    "MemoryMatrix",
    "BlockedMatrix",
    "Dense",
    "Sparse",
    "Operator",
    "DaskMatrix",
}
QUARTILES = (50, 75, 95, 100)
LONG_MODULES = (300, 450)


def body_lines(function) -> int:
    """Return the lines of a function without its head and its docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def names_in(node) -> set[str]:
    """Return the names that an expression is made of."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def count_calls(tree) -> Counter[str]:
    """Count type checks: by isinstance, by issparse, and by attributes."""
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called == "isinstance":
            kinds = names_in(node.args[1])
            counts["DataMatrix"] += not STORAGES.isdisjoint(kinds)
            counts["LinearOperator"] += "LinearOperator" in kinds
        elif called == "issparse":
            counts["issparse"] += 1
        elif called in ("getattr", "hasattr"):
            counts["getattr"] += 1
    return counts


def count_words(text: str) -> Counter[str]:
    """Count the comments that silence the type checker, and `Any` outside of imports."""
    counts: Counter[str] = Counter()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            counts["type: ignore"] += "type: ignore" in token.string
        elif token.type == tokenize.NAME and token.string == "Any":
            counts["Any"] += not re.match(r"\s*(from|import)\s", token.line)
    return counts


def quantiles(sizes) -> str:
    """Return the median and larger quantiles."""
    return " / ".join(f"{np.percentile(sizes, q):.0f}" for q in QUARTILES)


def main() -> None:
    """Print the tables."""
    functions, modules = [], {}
    lines, files, counts = Counter(), Counter(), defaultdict(Counter)
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        place = path.relative_to(SOURCE)
        room = place.parts[0] if len(place.parts) > 1 else "."
        n_lines = len(text.splitlines())
        modules[str(place)] = n_lines
        lines[room] += n_lines
        files[room] += 1
        counts[room] += count_calls(tree) + count_words(text)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        functions += [body_lines(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    print(f"{'room':12}{'modules':>9}{'lines':>9}" + "".join(f"{name:>16}" for name in COUNTED))
    total: Counter[str] = Counter()
    for room, n_lines in lines.most_common():
        row = "".join(f"{counts[room][name]:>16}" for name in COUNTED)
        print(f"{room:12}{files[room]:>9}{n_lines:>9}{row}")
        total += counts[room]
    row = "".join(f"{total[name]:>16}" for name in COUNTED)
    print(f"{'all':12}{sum(files.values()):>9}{sum(lines.values()):>9}{row}")
    print("DataMatrix, LinearOperator: in isinstance; getattr: with hasattr; Any: outside imports")
    print(f"{len(functions)} functions, body lines (median / p75 / p95 / max): ", end="")
    print(quantiles(functions))
    print(f"{len(modules)} modules, lines (median / p75 / p95 / max): ", end="")
    print(quantiles([*modules.values()]))
    for size in LONG_MODULES:
        long = [name for name, n_lines in modules.items() if n_lines > size]
        print(f"modules over {size} lines: {len(long)}" + "".join(f"\n    {name}" for name in long))


if __name__ == "__main__":
    main()
