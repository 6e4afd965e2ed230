"""The libraries that a result on real hardware depends on, found without importing any of them."""

from __future__ import annotations

import platform
from importlib import metadata


def software_versions() -> dict[str, str | None]:
    """Return the versions of Python, ONNX Runtime and PyTorch here; ``None`` for what is not installed."""
    return {
        "python": platform.python_version(),
        "onnxruntime": _version("onnxruntime") or _version("onnxruntime-gpu"),
        "torch": _version("torch"),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
