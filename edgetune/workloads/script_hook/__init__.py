"""The environment in which a Python program reports its steps; see ``sitecustomize``, which only that program loads."""

import os
from collections.abc import Mapping
from pathlib import Path

STEP_PIPE, PACE_PIPE = "EDGETUNE_STEP_FD", "EDGETUNE_PACE_FD"
"""The variables with the descriptors of the pipes; ``markers`` describes the records of the first."""


def hook_environment(environment: Mapping[str, str], descriptor: int, pace: int | None = None) -> dict[str, str]:
    """Return an environment whose Python programs report their steps to a descriptor that the first inherits.

    Args:
        environment: The environment to extend.
        descriptor: The end of the pipe to write to.
        pace: The end to read from of a pipe with a byte for each step; the first program waits for it.
    """
    before = environment.get("PYTHONPATH", "")
    folder = str(Path(__file__).parent)
    path = f"{folder}{os.pathsep}{before}" if before else folder
    paced = {} if pace is None else {PACE_PIPE: str(pace)}
    return {**environment, "PYTHONPATH": path, STEP_PIPE: str(descriptor), **paced}
