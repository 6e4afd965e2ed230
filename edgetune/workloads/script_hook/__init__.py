"""The environment in which a Python program reports its steps; see ``sitecustomize``, which only that program loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STEP_PIPE = "EDGETUNE_STEP_FD"
"""The variable with the descriptor of the pipe; ``markers`` describes its records."""


def hook_environment(environment: Mapping[str, str], descriptor: int) -> dict[str, str]:
    """Return an environment whose Python programs report their steps to a descriptor that the first inherits."""
    before = environment.get("PYTHONPATH", "")
    folder = str(Path(__file__).parent)
    path = f"{folder}{os.pathsep}{before}" if before else folder
    return {**environment, "PYTHONPATH": path, STEP_PIPE: str(descriptor)}
