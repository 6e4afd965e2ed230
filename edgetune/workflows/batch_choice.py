"""The batch sizes of a network: the requested ones, else the one that its file was exported for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Task
    from edgetune.workloads.batch import Axes
    from edgetune.workloads.workload import Workload

_EXAMPLE = "e.g. --batch-axis x=1, or --batch-axis none"
_NOTHING: Mapping[str, int] = {}


def parse_batch_axes(words: Sequence[str]) -> Axes | None:
    """Return the batch axes in ``x=1`` by input: an empty mapping for ``none``, and ``None`` without a text.

    Raises:
        InputError: the text is not ``input=axis``, names an input twice, or has ``none`` beside an axis.
    """
    found: dict[str, int] = {}
    texts = [text.strip() for word in words for text in word.split(",")]
    for text in texts:
        name, _, axis = text.rpartition("=")
        if text == "none" and len(texts) == 1:
            return ()
        if not name or not axis.isascii() or not axis.isdigit() or len(axis) > 2:
            raise InputError(f"--batch-axis: {text[:80]!r} is not input=axis, an axis counted from 0", _EXAMPLE)
        if name in found:
            raise InputError(f"--batch-axis: input {name!r} is given twice", "an input has one batch axis at most")
        found[name] = int(axis)
    return tuple(found.items()) or None


def choose_batch_sizes(
    workload: Workload,
    sizes: Sequence[int],
    *,
    task: Task,
    dimensions: Mapping[str, int] = _NOTHING,
    inputs: str | None = None,
    seed: int = 0,
    default: tuple[int, ...] = (1,),
    use: str = "measured",
) -> tuple[tuple[int, ...], str | None]:
    """Return the batch sizes, checked against the network, and a note on a fixed batch.

    Args:
        workload: Anything that ``resolve`` returns.
        sizes: The requested sizes; empty leaves the choice to this function.
        task: What the network does.
        dimensions: Sizes of its open dimensions.
        inputs, seed: The inputs with which its answers are compared, see ``check_batch``.
        default: The sizes where none is requested and the network's batch axis is open.
        use: The operation at these sizes, for messages.

    Raises:
        InputError: see ``network_batch`` and ``check_batch``.
    """
    if not workload.has_graph:
        return tuple(sizes) or default, None
    from edgetune.workloads.batch_check import check_batch
    from edgetune.workloads.onnx_file import network_batch

    batch = network_batch(workload, dimensions)
    chosen = tuple(sizes) or (default if batch.exported is None else (batch.exported,))
    check_batch(workload, chosen, task, dimensions=dimensions, inputs=inputs, seed=seed)
    if batch.exported is None and workload.batch_axes is None:  # as everybody expects; the file says it
        return chosen, None
    if not batch.axes:
        return chosen, f"{workload.name}: {batch}, {use} as exported, one run a minibatch ({batch.why})"
    return chosen, f"{workload.name}: {batch}, {use} at {', '.join(map(str, chosen))}"
