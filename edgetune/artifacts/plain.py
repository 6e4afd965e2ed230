"""Converts values to those of JSON and YAML: no tuples, NumPy scalars, paths, non-finite numbers or invalid Unicode."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any

from edgetune.artifacts.file_names import storable


def plain(value: Any) -> Any:
    """Return ``value`` built of dict, list, str, int, float, bool and None only.

    A number that is not finite becomes ``None``: it is not a measurement.

    Raises:
        TypeError: for a value that has no such form, e.g. an open file.
    """
    if isinstance(value, Enum) or hasattr(value, "tolist"):  # NumPy values, without importing NumPy
        return plain(value.value if isinstance(value, Enum) else value.tolist())
    if value is None or isinstance(value, (bool, str, int, float)):
        return _plain_scalar(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if not isinstance(value, (PurePath, date)):
        raise TypeError(f"cannot be stored in an artifact: {type(value).__name__} {value!r}")
    return storable(str(value))


def _plain_scalar(value: Any) -> Any:
    """Return the built-in scalar of a subclass, e.g. ``float`` of ``numpy.float64``."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return storable(str(value)) if isinstance(value, str) else int(value)
