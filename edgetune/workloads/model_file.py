"""Checks the file that a reference to a workload names."""

import os
from pathlib import Path

from edgetune.artifacts.file_names import as_found, storable
from edgetune.choices import closest
from edgetune.errors import InputError
from edgetune.workloads.foreign_files import refuse_foreign


def require_file(reference: str) -> Path:
    """Return the path of the readable file that ``reference`` names.

    Raises:
        InputError: the file is missing, unreadable, empty or a folder.
    """
    path = Path(as_found(reference))
    try:
        if path.is_dir():
            refuse_foreign(path, reference, by_name=True)
            raise InputError(f"{reference} is a folder, not a model", _folder_hint(path))
        if not path.exists():
            raise InputError(f"there is no file {reference}", _missing_hint(reference))
        if path.stat().st_size == 0:
            raise InputError(f"{reference} is empty", "export the model again")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {reference!r}: {reason}", "check the path and its permissions") from None
    return path


def model_name(path: Path) -> str:
    """Return the name of a model: of its file, or of its folder where every model has a file of that name.

    These are ``model.onnx`` of Triton's ``name/1/model.onnx``, 1 being a version, and Hugging Face's ``config.json``.
    """
    folder = Path(os.path.abspath(path)).parent
    if path.stem == "model" and folder.name.isdecimal():
        return storable(folder.parent.name or path.stem)
    return storable(folder.name if path.stem == "config" and folder.name else path.stem)


def _folder_hint(path: Path) -> str:
    """Return the hint that names a file of a folder."""
    if (path / "manifest.json").is_file():
        return (
            f"a prepared network is run by edgetune schedule run; measure its layers: edgetune schedule profile {path}"
        )
    files = sorted(path.glob("*.onnx"))
    return f"name the ONNX file in it: {files[0]}" if files else "name an ONNX file"


def _missing_hint(reference: str) -> str:
    from edgetune.workloads import zoo

    if near := closest(reference, zoo.NETWORKS, likeness=0.8):
        return f"for the network of the zoo write {zoo.PREFIX}{near}"
    return "name an ONNX file, a Python file, a network of the zoo, e.g. zoo:resnet18, or kernel:matmul:4096"
