"""Every hint in the package, read from its source, and the commands that it can come from."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import edgetune

ROOT = Path(edgetune.__file__).parent
_ERRORS = ("EdgetuneError", "InputError", "InfeasibleError", "DeviceError", "PartialError", "NotRestoredError")


@dataclass(frozen=True, slots=True)
class Hint:
    """A text that is printed as a hint, or a part of one.

    Args:
        module: Where it is written.
        line: Of the file.
        text: With ``{}`` for what is put in.
    """

    module: str
    line: int
    text: str


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module of the package."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("edgetune", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(part for part in parts if part != "__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def hints() -> tuple[Hint, ...]:
    """Return what errors are given as a hint, and texts that are assigned to or returned as one."""
    return tuple(
        Hint(module, expression.lineno, text)
        for module, tree in trees().items()
        for node in ast.walk(tree)
        for expression in _hinting(node)
        for text in _texts(expression)
    )


def _hinting(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a node that are hints."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in _ERRORS or name.endswith("Error"):
            yield from node.args[1:2]
        yield from (keyword.value for keyword in node.keywords if keyword.arg in ("hint", "advice"))
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any("hint" in ast.unparse(target).lower() for target in targets):
            yield node.value
    if isinstance(node, ast.FunctionDef) and "hint" in node.name:
        yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None)


def _texts(expression: ast.expr) -> Iterator[str]:
    """Yield the texts in an expression, those of a format string as one."""
    if isinstance(expression, ast.JoinedStr):
        yield "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in expression.values)
    elif isinstance(expression, ast.Constant):
        if isinstance(expression.value, str):
            yield expression.value
    else:
        for child in ast.iter_child_nodes(expression):
            if isinstance(child, ast.expr):
                yield from _texts(child)


@cache
def imports(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports, within functions too, or runs as a child process.

    What is imported for types alone does not count.
    """
    found: set[str] = set()
    for node in _run(trees()[module]):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])  # a row of a registry says where a plug-in is
    return frozenset(found & trees().keys())


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are executed some time."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _run(child)


def reached(module: str) -> frozenset[str]:
    """Return a module and all that it imports, by way of others too."""
    found, left = set(), [module]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += imports(each)
    return frozenset(found)
