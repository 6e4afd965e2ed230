"""Write an ONNX model to disk so that a full disk or a killed process never leaves half a file under its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.artifacts.file_names import require_utf8
from edgetune.artifacts.files import writing

if TYPE_CHECKING:
    import onnx

EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Protobuf refuses messages of 2 GiB; above this size the weights go into a second file."""


_HINT = "check the folder, its permissions and the free space"


def save_model(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model by way of a temporary folder and return where it is; large weights go into ``<file>.data``.

    Args:
        model: The model; when it is large, its weights move out of it.
        path: The file to write or replace.

    Raises:
        InputError: The file cannot be written; what was there before is untouched.
    """
    import onnx

    with writing(path, _HINT) as output, output.written_by_path() as partial:
        weights = f"{path.name}.data"
        if model.ByteSize() > EXTERNAL_ABOVE_BYTES:
            require_utf8(path)
            onnx.save_model(model, partial, save_as_external_data=True, location=weights)
            with writing(path.with_name(weights), _HINT) as data, data.written_by_path() as whole:
                (partial.parent / weights).replace(whole)
        else:
            onnx.save_model(model, partial)
    return output.path
