"""The network that a measurement is of, named so that the next command runs the same one without being told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetune.profiling.options import ProfileOptions
from edgetune.workloads.workload import Workload


def origin_of(workload: Workload, options: ProfileOptions) -> dict[str, Any]:
    """Return the name, reference, absolute path and hash of a network, and the options that say how it was run.

    What a network does not have is left out: one of the zoo has no path, and one known only by its name no hash. Of a
    file's graph ``batch`` says which axes are the batch. Options are named where they are not the default: dimensions,
    batch axes, precision and the file of inputs.
    """
    from edgetune.workloads.batch import axes_words
    from edgetune.workloads.onnx_file import network_batch

    named, axes = workload.kind == "name", workload.batch_axes
    own = workload.has_graph and workload.kind == "onnx"
    found: dict[str, Any] = {
        "name": workload.name,
        "reference": None if named else workload.reference,
        "path": None if workload.path is None else str(workload.path.resolve()),
        "sha256": None if named and workload.ops is None else workload.sha256,
        "batch": network_batch(workload, options.dimensions).plain() if own else None,
        "batch_axis": None if axes is None else axes_words(axes),
        "dimensions": dict(options.dimensions) or None,
        "precision": None if options.precision == "fp32" else options.precision,
        "inputs": None if options.inputs is None else str(Path(options.inputs).resolve()),
    }
    return {key: value for key, value in found.items() if value is not None}
