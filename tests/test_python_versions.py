"""The package is written in the grammar of the oldest Python that it is for, whichever Python runs the tests."""

import ast
import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
REQUIRED = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (CHECKOUT / "pyproject.toml").read_text())


def test_every_file_is_of_the_grammar_of_the_oldest_python():
    assert REQUIRED is not None
    oldest = int(REQUIRED[1]), int(REQUIRED[2])
    files = [*CHECKOUT.glob("edgetune/**/*.py"), *CHECKOUT.glob("tests/**/*.py"), *CHECKOUT.glob("examples/*.py")]
    assert len(files) > 1000
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=oldest)
