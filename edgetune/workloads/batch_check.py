"""Checks that a network at another batch size computes the same as the exported one.

The cost must grow with the batch, and the outputs of a batch must equal those of the exported network for each part of
the batch. An operator that combines samples fails one of the two checks. The networks run in a child process:

    {"workload": {...}, "exported": 1, "dimensions": {}, "inputs": null, "seed": 0}    -> {"ok": true, "same": true}
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgetune.artifacts.profile import Task
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.processes.messages import serve
from edgetune.workloads.batch import Batch, describe_axes
from edgetune.workloads.onnx_file import fixed_model, network_batch
from edgetune.workloads.shapes import known_shapes
from edgetune.workloads.workload import RunOptions, Workload

_TIMES = 2
"""Size of the tested batch in exported batches."""
_LEAST_GROWTH, _MOST_GROWTH = 0.75, 1.02
"""Limits of the growth of the cost divided by the growth of the batch; work on constants does not grow."""
_TIMEOUT_S = 600.0


def check_batch(
    workload: Workload,
    sizes: Sequence[int],
    task: Task,
    *,
    dimensions: Mapping[str, int],
    inputs: str | None,
    seed: int,
) -> None:
    """Check that a network can run at batch sizes other than the exported one.

    Args:
        workload: An ONNX file or a network of the zoo.
        sizes: Batch sizes to check.
        task: ``infer`` or ``train``.
        dimensions: Sizes of open dimensions.
        inputs: ``.npz`` file of inputs; random ones without it.
        seed: Seed of the random inputs.

    Raises:
        InputError: the network cannot run at one of the sizes; the message names an operator or an output.
    """
    batch = network_batch(workload, dimensions)
    others = [size for size in sizes if size != batch.exported]
    if batch.exported is None or not others:
        return
    for size in others:
        fixed_model(workload, size, dimensions, weights=False)
    _check_cost(workload, task, batch, dimensions)
    if importlib.util.find_spec("onnxruntime") is not None:
        command = {
            "workload": workload.plain(), "exported": batch.exported, "dimensions": dict(dimensions),
            "inputs": inputs, "seed": seed,
        }  # fmt: skip
        child = Child("edgetune.workloads.batch_check")
        try:
            reply = child.ask(command, deadline_s=time.monotonic() + _TIMEOUT_S)
        except TimeoutError:
            reply = {"same": None}
        finally:
            child.close()
        if reply["same"] is False:
            raise _refusal(workload, batch, reply["reason"])
        if reply["same"]:
            return
    if not batch.followed:
        raise _refusal(workload, batch, f"its batch cannot be followed: {batch.why}")


def is_unanswered(workload: Workload, batch_size: int, dimensions: Mapping[str, int]) -> bool:
    """Return whether every output has the same known shape for one sample and for ``batch_size`` samples.

    The batch is open, so that nothing is refused: the samples may be combined, or all but one left out.
    """
    if batch_size == 1:
        return False
    found = []
    for size in (1, batch_size):
        try:
            graph = fixed_model(workload, size, dimensions, weights=False).graph
        except InputError:  # told where the network is measured
            return False
        known = known_shapes(graph)
        found.append([known.get(output.name) for output in graph.output])
    return None not in found[0] and found[0] == found[1]


def _refusal(workload: Workload, batch: Batch, reason: str) -> InputError:
    return InputError(
        f"{workload.reference}, exported for {batch.exported} along {describe_axes(batch.axes)}, cannot be given "
        f"another batch size: {reason}",
        f"leave the batch size out, which measures it as exported: {batch.exported}",
    )


def _check_cost(workload: Workload, task: Task, batch: Batch, dimensions: Mapping[str, int]) -> None:
    """Raise ``InputError`` if FLOP or bytes written do not grow with the batch; unknown costs are not checked."""
    from edgetune.workloads.costs import operator_table

    exported = batch.exported or 1
    try:
        one, several = (
            operator_table(workload, task, size, dimensions=dimensions) for size in (exported, _TIMES * exported)
        )
    except InputError:
        return
    for what, least, before, after in (
        ("floating-point operations", _LEAST_GROWTH, one.flops, several.flops),
        ("bytes written", 0.0, _written(one), _written(several)),
    ):
        growth = after / before / _TIMES if before else 1.0
        if not least <= growth <= _MOST_GROWTH:
            raise _refusal(
                workload, batch, f"{_TIMES} times the batch would take {growth * _TIMES:.3g} times the {what}"
            )


def _written(table: Any) -> int:
    return sum(row.bytes_written for row in table.rows)


def compare(workload: Workload, exported: int, dimensions: Mapping[str, int], inputs: str | None, seed: int) -> Any:
    """Run the exported network on the parts of a larger batch, run it on the whole batch, and compare the outputs.

    Returns:
        ``{"same": True}``, ``{"same": False, "reason": ...}``, or ``{"same": None}`` if undecidable: the network fails
        on these inputs, or its outputs are random.
    """
    from edgetune.workloads.ort_session import one_line, open_session
    from edgetune.workloads.partition.check import difference_between, tolerance_of

    def opened(size: int) -> tuple[Any, Mapping[str, Any]]:
        return open_session(workload, size, RunOptions(inputs=inputs, dimensions=dimensions, seed=seed))

    axes = dict(network_batch(workload, dimensions).axes)
    try:
        session, feed = opened(_TIMES * exported)
        whole = session.run(None, feed)
    except Exception as error:
        first = error
        whole = None
    try:
        session, own = opened(exported)
        if whole is None:
            session.run(None, own)
            reason = first.message if isinstance(first, EdgetuneError) else one_line(first)
            return {"same": False, "reason": reason}
        parts = [_part(feed, axes, index, exported) for index in range(_TIMES)]
        answers = [session.run(None, part) for part in parts]
        again = session.run(None, parts[0])
    except Exception:
        return {"same": None}
    if difference_between(again, answers[0]) != 0:
        return {"same": None}
    tolerance = tolerance_of(fixed_model(workload, exported, dimensions, weights=False))
    names = [output.name for output in session.get_outputs()]
    for name, got, *each in zip(names, whole, *answers, strict=True):
        if not any(difference_between([got], [want]) <= tolerance for want in _joined(each, got.shape)):
            return {"same": False, "reason": f"output {name!r} of a batch is not that of its parts put together"}
    return {"same": True}


def _part(feed: Mapping[str, Any], axes: Mapping[str, int], index: int, size: int) -> dict[str, Any]:
    """Return part ``index``, of ``size`` samples, of a batch."""
    own = range(index * size, (index + 1) * size)
    return {name: np.take(value, own, axis=axes[name]) if name in axes else value for name, value in feed.items()}


def _joined(parts: Sequence[Any], shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Return every array of ``shape`` that joining the outputs of the parts may give.

    A reshape may have merged other axes into the batch axis ahead of the batch; the parts then alternate along it.
    """
    first = parts[0]
    if first.shape == shape:
        return [first] if all(np.array_equal(first, part, equal_nan=True) for part in parts) else []
    grown = [axis for axis in range(first.ndim) if first.ndim == len(shape) and shape[axis] != first.shape[axis]]
    if len(grown) != 1 or shape[grown[0]] != len(parts) * first.shape[grown[0]]:
        return []
    axis, size = grown[0], first.shape[grown[0]]
    found = []
    for outer in (n for n in range(1, size + 1) if size % n == 0):
        split = [part.reshape(*first.shape[:axis], outer, size // outer, *first.shape[axis + 1 :]) for part in parts]
        found.append(np.concatenate(split, axis=axis + 1).reshape(shape))
    return found


def main(arguments: list[str]) -> None:
    """Serve the command of the module docstring until the pipe ends."""

    def handle(command: Mapping[str, Any]) -> dict[str, Any]:
        workload = Workload.from_plain(command["workload"])
        found: dict[str, Any] = compare(
            workload, command["exported"], command["dimensions"], command["inputs"], command["seed"]
        )
        return found

    serve(arguments, handle)


if __name__ == "__main__":
    main(sys.argv[1:])
