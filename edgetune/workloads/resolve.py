"""The table of the kinds of workloads, and the resolution of a reference to a workload."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

from edgetune.errors import InputError
from edgetune.plugins import Registry
from edgetune.workloads.workload import Axes, Workload, WorkloadKind

KINDS: Registry[WorkloadKind] = Registry(
    "kind of workload",
    {
        "python": "edgetune.workloads.python_file:KIND",
        "zoo": "edgetune.workloads.zoo:KIND",
        "onnx": "edgetune.workloads.onnx_file:KIND",
        "program": "edgetune.workloads.torch_program:KIND",
        "engine": "edgetune.workloads.tensorrt_engine:KIND",
        "kernel": "edgetune.workloads.kernels:KIND",
        "llm": "edgetune.workloads.llm:KIND",
        "endpoint": "edgetune.workloads.endpoint:KIND",
        "command": "edgetune.workloads.command:KIND",
    },
    group="edgetune.workloads",
    contract=WorkloadKind,
)
"""Every kind of workload; the first that recognises a reference loads it."""


def recognised(reference: str) -> WorkloadKind | None:
    """Return the kind whose prefix, or else whose ending a reference has; ``None`` for any other."""
    ending = Path(reference).suffix
    prefixed = (kind for kind in KINDS.values() if reference.startswith(kind.prefixes)) if ":" in reference else ()
    ended = (kind for kind in KINDS.values() if reference.startswith(kind.prefixes) or ending in kind.endings)
    return next(chain(prefixed, ended), None)


def resolve(reference: str, batch_axes: Axes | None = None) -> Workload:
    """Return the workload named by ``reference``.

    Args:
        reference: ``zoo:resnet18``, a path to an ONNX file (any suffix), a path to a ``.py``, ``.pt2`` or ``.engine``
            file, a peak kernel: ``kernel:matmul:4096``, ``kernel:relu:8192:fp16`` (see ``kernels``), the configuration
            of a language model: ``llm:config.json`` (see ``llm``), a server (see ``endpoint``), or a reference of a
            kind that an installed package adds.
        batch_axes: See ``Workload``.

    Raises:
        InputError: the zoo network or kernel is unknown; the file is missing, unreadable, empty, a folder or of another
            kind; batch axes are given for a workload without a graph.
    """
    found = (recognised(reference) or KINDS["onnx"]).load(reference)
    if batch_axes is None:
        return found
    if not found.is_graph:
        raise InputError(f"--batch-axis: {reference} is no ONNX network", "leave --batch-axis out")
    return replace(found, batch_axes=batch_axes)


def names_path(reference: str) -> bool:
    """Return whether ``reference`` is a path: one that begins with ``zoo:`` is not, ``./zoo:`` is."""
    kind = recognised(reference)
    return kind is None or not reference.startswith(kind.prefixes)
