"""No module imports itself through others, not even for types or inside functions: what two files share is a leaf."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import edgetune

ROOT = Path(edgetune.__file__).parent


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(text: str, modules: frozenset[str]) -> set[str]:
    """Return the modules among ``modules`` that a text imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            found |= names or {str(node.module)}
    return found & modules


def require_no_cycle(texts: dict[str, str]) -> None:
    modules = frozenset(texts)
    graph = {name: imported(text, modules) - {name} for name, text in texts.items()}
    TopologicalSorter(graph).prepare()


def test_no_import_cycle():
    require_no_cycle({module_of(path): path.read_text() for path in ROOT.rglob("*.py")})


def test_a_cycle_of_types_is_found():
    with pytest.raises(CycleError, match=r"edgetune\.b"):
        require_no_cycle({"edgetune.a": "def f():\n    import edgetune.b", "edgetune.b": "from edgetune import a"})
