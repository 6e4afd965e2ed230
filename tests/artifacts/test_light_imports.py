"""What every command imports must not drag in what only some need."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("numpy", "pyarrow", "pydantic", "yaml", "torch", "onnx", "onnxruntime", "scipy")


@pytest.mark.parametrize(
    "module",
    [
        "artifacts.io",
        "artifacts.kinds",
        "devices.discover",
        "devices.modes",
        "devices.mode_files",
        "devices.recorded",
    ],
)
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, edgetune.{module}; print([name for name in {_HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
