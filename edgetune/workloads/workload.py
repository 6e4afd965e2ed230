"""The workload as a noun: what the user named, and where its definition is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Workload:
    """A network to run.

    Args:
        reference: As the user wrote it: ``zoo:resnet18``, ``model.onnx``, ``train.py``.
        name: Name in the ``workload`` column: the zoo name, or the file's stem.
        kind: ``zoo`` (defined here), ``onnx`` (a file) or ``python`` (``make(batch_size) -> step()``).
        path: The file; ``None`` for the zoo.
        sha256: Hash of the file, or of the zoo's definition at this version.
    """

    reference: str
    name: str
    kind: Literal["zoo", "onnx", "python"]
    path: Path | None
    sha256: str
