"""Write an ONNX model to disk so that a full disk or a killed process never leaves half a file under its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import InputError

if TYPE_CHECKING:
    import onnx

EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Protobuf refuses messages of 2 GiB; above this size the weights go into a second file."""


def save_model(model: onnx.ModelProto, path: Path) -> None:
    """Write a model, through a temporary file in the same folder; large weights beside it in ``<file>.data``.

    Raises:
        InputError: The file cannot be written; what was there before is untouched.
    """
    import onnx

    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    weights = path.with_name(f"{path.name}.data")
    external = model.ByteSize() > EXTERNAL_ABOVE_BYTES
    try:
        if external:
            weights.unlink(missing_ok=True)  # onnx appends to a file that exists
            onnx.save_model(model, temporary, save_as_external_data=True, location=weights.name)
        else:
            onnx.save_model(model, temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(
            f"cannot write {path}: {error.strerror or error}", "check the folder, its permissions and the free space"
        ) from error
