"""What holds for every module: imports without a cycle, the grammar of the oldest Python, errors across processes."""

import ast
import pickle
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import edgetune
from edgetune import errors

CHECKOUT = Path(__file__).parents[1]
REQUIRED = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (CHECKOUT / "pyproject.toml").read_text())
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


def test_every_file_is_of_the_grammar_of_the_oldest_python():
    assert REQUIRED is not None
    oldest = int(REQUIRED[1]), int(REQUIRED[2])
    files = [*CHECKOUT.glob("edgetune/**/*.py"), *CHECKOUT.glob("tests/**/*.py"), *CHECKOUT.glob("examples/*.py")]
    assert len(files) > 500
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=oldest)


def test_an_error_survives_the_way_from_a_child_process():
    error = pickle.loads(pickle.dumps(errors.DeviceError("no GPU", "use --device host")))
    assert isinstance(error, errors.DeviceError)
    assert (error.message, error.hint) == ("no GPU", "use --device host")
