"""Checks that an ONNX graph computes in PyTorch what it computes in ONNX Runtime, before its training is timed.

Both run one minibatch in inference, in a child process, whose memory does not count as that of the training:

    {"workload": {...}, "batch_size": 1, "dimensions": {}, "seed": 0}    -> {"wrong": null}
"""

import importlib.util
import time
from collections.abc import Mapping
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.child import Child
from edgetune.workloads.onnx_file import with_batch
from edgetune.workloads.workload import RunOptions, Workload

_TOLERANCE = 1e-2
"""Allowed difference as a share of an output's largest magnitude: the sums of two libraries differ in their order."""
_TIMEOUT_S = 600.0


def check_torch(workload: Workload, batch_size: int, dimensions: Mapping[str, int], seed: int) -> None:
    """Check that PyTorch computes the outputs of a graph as ONNX Runtime does, if both are installed and run it.

    Args:
        workload: An ONNX file.
        batch_size, dimensions, seed: Of the minibatch, see ``fix_dimensions`` and ``random_inputs``.

    Raises:
        InputError: an output has another shape or other values.
    """
    if any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "torch")):
        return
    plain = with_batch(workload, dimensions, batch_size).plain()
    command = {"workload": plain, "batch_size": batch_size, "dimensions": dict(dimensions), "seed": seed}
    child = Child("edgetune.workloads.torch_check:compare")
    try:
        wrong = child.ask(command, deadline_s=time.monotonic() + _TIMEOUT_S)["wrong"]
    except TimeoutError:
        return
    finally:
        child.close()
    if wrong is not None:
        raise InputError(
            f"{workload.reference} cannot be trained: PyTorch here computes another {wrong} than ONNX Runtime",
            "train a Python file instead (make(batch_size) -> step)",
        )


def compare(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return which output differs, in the child process."""
    import torch

    from edgetune.workloads.onnx_file import fixed_model
    from edgetune.workloads.ort_session import open_session
    from edgetune.workloads.partition.check import difference_between
    from edgetune.workloads.torch_module import OnnxModule

    workload, size, dimensions = Workload.from_plain(command["workload"]), command["batch_size"], command["dimensions"]
    model = fixed_model(workload, size, dimensions, weights=True)
    module = OnnxModule(model).eval()
    try:
        session, feed = open_session(workload, size, RunOptions(dimensions=dimensions, seed=command["seed"]))
        expected, again = session.run(None, feed), session.run(None, feed)
    except Exception:  # ONNX Runtime does not run it, and says so where it is to
        return {"wrong": None}
    if difference_between(again, expected) != 0 or any(
        attribute.name == "training_mode" and attribute.i for node in model.graph.node for attribute in node.attribute
    ):
        return {"wrong": None}
    with torch.no_grad():
        made = module(*(torch.from_numpy(array) for array in feed.values()))
    for output, got, want in zip(
        session.get_outputs(), made if isinstance(made, tuple) else (made,), expected, strict=True
    ):
        if not difference_between([got.cpu().numpy().astype(want.dtype)], [want]) <= _TOLERANCE:
            return {"wrong": f"output {output.name!r}"}
    return {"wrong": None}
