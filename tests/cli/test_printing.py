"""Everything that is printed goes through one module, which shows what would steer a terminal."""

import ast
import warnings
from pathlib import Path

from hostile import UNICODE, assert_harmless

import edgetune
from edgetune.cli import screen

PACKAGE = Path(edgetune.__file__).parent
PRINTS = {"print", "sys.stdout.write", "sys.stderr.write", "typer.echo", "typer.secho", "click.echo", "os.system"}
LAST = {name.rpartition(".")[2] for name in PRINTS}
ALLOWED = {
    "cli/screen.py": "the one module",
    "devices/guardian/program.py": "the guardian, which is isolated from the cli, prints by one_line",
    "stages/interleave/worker.py": "into the log of a child process, which log_tail shows visibly",
}


def calls(path):
    """Return what a module prints by."""
    called = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {ast.unparse(each) for each in called if getattr(each, "attr", getattr(each, "id", "")) in LAST} & PRINTS


def test_no_other_module_prints():
    modules = [path for path in PACKAGE.rglob("*.py") if "testing" not in path.parts]
    assert len(modules) > 500
    printing = {str(path.relative_to(PACKAGE)) for path in modules if calls(path)}
    assert printing <= set(ALLOWED), printing - set(ALLOWED)


def test_warnings_of_libraries_are_one_visible_line():
    before = warnings.formatwarning
    try:
        screen.show_warnings()
        shown = warnings.formatwarning(UserWarning(UNICODE), UserWarning, f"/lib{UNICODE}.py", 3)
    finally:
        warnings.formatwarning = before
    assert shown.count("\n") == 1
    assert_harmless(shown)
    assert "\\u202e" in shown
