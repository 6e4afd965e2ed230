"""Which libraries are installed, found without importing any of them."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import dataclass

from edgetune.devices.software import REMEDIES, JetsonRelease

CORE = ("typer", "rich", "pyyaml", "pydantic", "numpy", "scipy", "pyarrow", "onnx", "psutil")
EXTRAS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("ort", ("onnxruntime", "onnxruntime-gpu"), "run ONNX networks"),
    ("torch", ("torch",), "run training steps"),
    ("nvidia", ("nvidia-ml-py",), "read NVIDIA GPUs"),
    ("jetson", ("jetson-stats",), "read more of a Jetson (AGPL)"),
    ("cuda", ("tree-sitter-cuda",), "read CUDA kernels"),
    ("cuda", ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), "compile CUDA kernels"),
    ("cuda", ("cuda-bindings",), "compile and launch CUDA kernels"),
    ("plot", ("matplotlib",), "draw figures"),
)
"""Extras, the distributions of which one is enough, and what it is for."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library edgetune uses. ``version`` is ``None`` when it is missing; ``remedy`` then installs it."""

    name: str
    extra: str | None
    purpose: str
    version: str | None
    remedy: str | None


def version_of(distribution: str) -> str | None:
    """Return the installed version of a distribution, or ``None``."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def inventory(board: JetsonRelease | None) -> list[Library]:
    """Return every library of the core and of the extras, with the remedy for those that are missing."""
    found = []
    for name in CORE:
        version = version_of(name)
        found.append(Library(name, None, "core", version, None if version else "pip install edgetune"))
    for extra, names, purpose in EXTRAS:
        name = next((name for name in names if version_of(name)), names[0])
        version = version_of(name)
        found.append(Library(name, extra, purpose, version, None if version else _remedy(extra, name, board)))
    return found


def _remedy(extra: str, name: str, board: JetsonRelease | None) -> str:
    if board is not None and board.jetpack in REMEDIES and extra in ("ort", "torch"):
        remedy = REMEDIES[board.jetpack]
        return next((command for command in remedy.commands if name in command), remedy.note)
    if extra == "cuda" and board is not None and board.jetpack == 6:
        return "pip install 'edgetune[cuda12]'"  # its driver is one of CUDA 12
    return f"pip install 'edgetune[{extra}]'"


def conflicts(board: JetsonRelease | None) -> list[str]:
    """Return what does not go together, each as one sentence with its remedy."""
    found = []
    if version_of("onnxruntime") and version_of("onnxruntime-gpu"):
        found.append(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: "
            "pip uninstall both, then install one"
        )
    remedy = REMEDIES.get(board.jetpack) if board is not None and board.jetpack is not None else None
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if remedy is not None and remedy.python != here:
        found.append(f"this is Python {here}; NVIDIA's wheels for this JetPack are for {remedy.python}: {remedy.note}")
    return found
