"""The workload as a noun: what the user named, and where its definition is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgetune.artifacts.ops import OpsTable


@dataclass(frozen=True, slots=True)
class OpsFile:
    """An operator table somebody gives for a network, in place of costing its graph.

    Args:
        name: The file, or ``standard input``.
        sha256: Hash of its bytes, which is what two of them are compared by.
        table: What it holds.
    """

    name: str
    sha256: str
    table: OpsTable = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Workload:
    """A network to run.

    Args:
        reference: As the user wrote it: ``zoo:resnet18``, ``model.onnx``, ``train.py``, ``kernel:matmul:4096``,
            ``llm:config.json``.
        name: Name in the ``workload`` column: the zoo name, or the file's stem.
        kind: ``zoo`` (defined here), ``onnx`` (a file), ``python`` (``make(batch_size) -> step()``), ``kernel`` (one
            operator, see ``kernels``), ``llm`` (a configuration, see ``llm``) or ``name``: only a name, under which a
            table of measurements or of operators knows the network.
        path: The file; ``None`` for the zoo, a kernel and a name.
        sha256: Hash of the file, of the zoo's definition at this version, or of the table that knows the name.
        ops: Its operator table, where one is given.
    """

    reference: str
    name: str
    kind: Literal["zoo", "onnx", "python", "kernel", "llm", "name"]
    path: Path | None
    sha256: str
    ops: OpsFile | None = None
