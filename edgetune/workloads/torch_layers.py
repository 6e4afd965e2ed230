"""Times of a network's layers in training, from PyTorch's profiler.

Each node of the graph runs in a profiler range of its own. The operations in it are the node's forward time. An
operation with a gradient has a sequence number, and the function of its gradient has the same number, so the time of
that function is the node's backward time.

    forward     [node a: conv #7] [node b: relu #8] [node c: addmm #9]  loss #10
    backward     loss #10, addmm #9 -> c, relu #8 -> b, conv #7 -> a         optimiser

The loss and the overhead between operations have no row in the operator table. The optimiser is one time for the rows
of all weights. On an accelerator times are those of its kernels, on the CPU those of the operations.
"""

import bisect
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.ops import Phase
from edgetune.workloads.graph_rows import GraphRows, rows_of_graph
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.torch_module import trainer
from edgetune.workloads.workload import LayerSampling, RunOptions, Workload

_NODE = "edgetune.node:"
_STEP = "edgetune.minibatch"
_BACKWARD = "autograd::engine::evaluate_function: "
_OPTIMISER = "Optimizer.step#"
"""Names that PyTorch gives the function of a gradient and the optimiser's step. Source: torch/csrc/autograd/engine.cpp
and torch/optim/optimizer.py."""


_NO_SEQUENCE = -1


@dataclass(frozen=True, slots=True)
class Event:
    """One event of PyTorch's profiler.

    Args:
        name: PyTorch's name.
        start_us, end_us: Start and end on the CPU, microseconds.
        thread: Thread of the event.
        sequence: Number that a forward operation and the function of its gradient share; -1 without one.
        busy_us: Time on the device, microseconds.
    """

    name: str
    start_us: float
    end_us: float
    thread: int
    sequence: int
    busy_us: float


@dataclass(frozen=True, slots=True)
class _Key:
    """Key of a time that is measured in several minibatches."""

    phase: Phase
    name: str
    op: str
    rows: tuple[str, ...]


def measure_training(workload: Workload, batch_size: int, options: RunOptions, how: LayerSampling) -> LayerTimes:
    """Train a network under PyTorch's profiler and return the times of its nodes, see ``layer_times.measure``.

    Raises:
        InputError: the network cannot be trained here.
    """
    device = options.torch_device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    fixed = fixed_model(workload, batch_size, options.dimensions, weights=True)
    rows = rows_of_graph(fixed)
    step = trainer(fixed, batch_size, device=device, seed=options.seed, label=_NODE).step
    for _ in range(how.warmup):
        step()
    events = record(step, how.minibatches, accelerated=device.startswith("cuda"))
    times, minibatch_s = node_times(events, rows)
    return LayerTimes(f"PyTorch {torch.__version__} on {device}", False, how.minibatches, minibatch_s, times)


def record(step: Callable[[], object], minibatches: int, *, accelerated: bool) -> list[Event]:
    """Run minibatches and return the events of PyTorch's profiler, with one event for each minibatch."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if accelerated:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=kinds) as profiler:
        for _ in range(minibatches):
            with torch.profiler.record_function(_STEP):
                step()
                if accelerated:
                    torch.cuda.synchronize()
    found = []
    for event in (each for each in profiler.events() if each.device_type == torch.autograd.DeviceType.CPU):
        start_us, end_us = event.time_range.start, event.time_range.end
        busy = "device_time_total" if hasattr(event, "device_time_total") else "cuda_time_total"  # until PyTorch 2.3
        busy_us = getattr(event, busy) if accelerated else end_us - start_us
        found.append(Event(event.name, start_us, end_us, event.thread, event.sequence_nr, busy_us))
    return found


def node_times(events: Iterable[Event], rows: GraphRows) -> tuple[tuple[LayerTime, ...], float]:
    """Return the median times of nodes forward and backward and of the optimiser, and of a minibatch, s.

    The time of a minibatch is the sum of these medians and of the median of the remaining time, so that shares of it
    never exceed one.

    Args:
        events: Events of at least one minibatch.
        rows: The network's rows.
    """
    ordered = sorted(events, key=lambda event: (event.start_us, -event.end_us))
    starts = [event.start_us for event in ordered]
    minibatches, left_us = [], []
    for whole in (event for event in ordered if event.name == _STEP):
        inside = ordered[bisect.bisect_left(starts, whole.start_us) : bisect.bisect_right(starts, whole.end_us)]
        times = _of_minibatch([event for event in inside if event.name != _STEP], rows)
        minibatches.append(times)
        left_us.append(max(whole.end_us - whole.start_us - sum(times.values()), 0.0))
    keys = dict.fromkeys(key for times in minibatches for key in times)
    found = tuple(
        LayerTime(key.name, key.op, key.phase, key.rows, 1e-6 * median_us, "node" if key.rows else "unmatched")
        for key in keys
        if (median_us := statistics.median(times.get(key, 0.0) for times in minibatches)) > 0
    )
    return found, sum(time.seconds for time in found) + 1e-6 * statistics.median(left_us)


def _of_minibatch(events: Sequence[Event], rows: GraphRows) -> dict[_Key, float]:
    """Return the times of one minibatch, microseconds; ``events`` are in order of their start."""
    times: dict[_Key, float] = {}
    row_of_sequence: dict[int, str | None] = {}
    optimiser_rows = tuple(rows.parameters)
    node: Event | None = None
    outermost_end_us = 0.0  # end of the outermost operation in the node's range
    for event in events:
        if event.name.startswith(_NODE):
            node, outermost_end_us = event, event.start_us
        elif event.name.startswith(_BACKWARD):
            function = event.name.removeprefix(_BACKWARD)
            row = row_of_sequence.get(event.sequence)
            key = _Key("backward", row or function, function, (row,) if row else ())
            times[key] = times.get(key, 0.0) + event.busy_us
        elif event.name.startswith(_OPTIMISER):
            key = _Key("optimiser", "optimiser", event.name.removeprefix(_OPTIMISER), optimiser_rows)
            times[key] = times.get(key, 0.0) + event.busy_us
        else:
            inside = node is not None and event.thread == node.thread and event.end_us <= node.end_us
            row = rows.by_tensor.get(node.name.removeprefix(_NODE)) if node is not None and inside else None
            repeats = "Backward" in event.name or "AccumulateGrad" in event.name  # inside the function of a gradient
            if event.sequence != _NO_SEQUENCE and not repeats:
                row_of_sequence[event.sequence] = row  # the last operation with a number owns it
            if row is not None and event.start_us >= outermost_end_us:
                key = _Key("forward", row, rows.ops[row], (row,))
                times[key] = times.get(key, 0.0) + event.busy_us
                outermost_end_us = event.end_us
    return times
