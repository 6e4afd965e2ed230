"""The process that runs networks under a memory limit imports what it needs, and nothing that only takes memory."""

import re
import subprocess
import sys
from pathlib import Path

from edgetune.stages.schedule import worker
from edgetune.stages.schedule.policies import POLICIES

HEAVY = (
    "importlib.metadata", "email", "csv", "zipfile", "pydantic", "yaml", "typer", "rich", "scipy", "pyarrow", "onnx",
    "psutil", "torch", "ortools", "edgetune.artifacts.header", "edgetune.stages.schedule.optimum",
    "edgetune.stages.schedule.simulation",
)  # fmt: skip


def test_a_ready_worker_has_imported_nothing_heavy():
    """All that its file imports, at its head and while it runs, and every policy."""
    imported = re.findall(r"from (edgetune\S+) import|import (onnxruntime)", Path(worker.__file__).read_text())
    modules = [name or other for name, other in imported if name != "edgetune.workloads.python_file"]
    assert {"onnxruntime", "edgetune.stages.schedule.live", "edgetune.stages.schedule.loop"} <= set(modules)
    program = (
        f"import sys, importlib\nfor name in {modules}: importlib.import_module(name)\n"
        f"from edgetune.stages.schedule.policies import POLICIES\nfor name in {list(POLICIES)}: POLICIES[name]\n"
        f"before = set(sys.modules)\nimport numpy, onnxruntime\n"
        f"print(*(set({list(HEAVY)}) & before))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == []
