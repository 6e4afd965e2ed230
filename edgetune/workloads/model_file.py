"""Write an ONNX model to disk so that a full disk or a killed process never leaves half a file under its name."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import InputError

if TYPE_CHECKING:
    import onnx

EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Protobuf refuses messages of 2 GiB; above this size the weights go into a second file."""


def save_model(model: onnx.ModelProto, path: Path) -> None:
    """Write a model, by way of a temporary folder beside it; large weights go into ``<file>.data``.

    Args:
        model: The model; when it is large, its weights move out of it.
        path: The file to write or replace.

    Raises:
        InputError: The file cannot be written; what was there before is untouched.
    """
    import onnx

    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            weights = f"{path.name}.data"
            if model.ByteSize() > EXTERNAL_ABOVE_BYTES:
                onnx.save_model(model, folder / path.name, save_as_external_data=True, location=weights)
                (folder / weights).replace(path.with_name(weights))
            else:
                onnx.save_model(model, folder / path.name)
            (folder / path.name).replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}", "check the folder, its permissions and the free space"
        ) from error
