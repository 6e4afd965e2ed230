"""Measurement of the time of each layer in a minibatch, with the runtime's profiler.

It runs in a child process, as ``steps`` does.

Times of a network's layers on ONNX Runtime, from its trace.

ONNX Runtime optimises a graph before it runs: ``Conv + Relu`` becomes one kernel, the operators of an attention block
another, and changes of layout (``ReorderInput``) are added. It can save the optimised graph. In that graph a kernel
that computes a tensor of the network stands for all operators between this tensor and those that other kernels compute:

    network     Conv --c--> BatchNormalization --b--> Relu --r--> MaxPool --m-->
    kernels     Conv ------------------------------------r--> [ReorderOutput] MaxPool --m-->
                stands for all three                           inserted         stands for itself

A kernel that computes no such tensor is part of the next one that does, unless it only copies or changes layout.
"""

import json
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from edgetune.artifacts.layers import How, LayerTime, LayerTimes
from edgetune.artifacts.output_file import scratch_folder
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.graph_rows import GraphRows, rows_of_graph
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.ort_session import open_session, optimisation_level, require_onnxruntime, running
from edgetune.workloads.torch_required import require_accelerator, require_torch
from edgetune.workloads.workload import LayerSampling, RunOptions, Workload

_COPIES = frozenset(("ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost", "Cast", "Transpose"))
"""Operators that ONNX Runtime adds to change layout, type or device; they compute nothing."""
_TAILS = frozenset(("Add", "Sum", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid"))
"""Operators that a convolution of blocked layout can include. Source: ONNX Runtime's nchwc_transformer.cc."""
_KERNEL = "_kernel_time"
_WEIGHTS_IN_FILE_BYTES = 1024
_LAYOUT_SUFFIX = re.compile(r"_n(chwc|hwc)(_token_\d+)?$")
_FUSION_SUFFIX = re.compile(r"/\w*Fusion\w*/.*$")
"""Suffix of fused kernels that ONNX Runtime names after a node; kernels of blocked layout are named after their output.
Source: its nchwc_transformer.cc and optimizer/*_fusion.cc; kernels with other names are grouped more coarsely."""


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """One execution of a kernel in the trace; times in whole microseconds, as in the trace."""

    name: str
    op: str
    start_us: int
    duration_us: int
    data_bytes: int | None


@dataclass(frozen=True, slots=True)
class TracedRun:
    """One minibatch in the trace, its kernels in order of execution."""

    duration_us: int
    kernels: tuple[TracedKernel, ...]


def measure_inference(workload: Workload, batch_size: int, options: RunOptions, how: LayerSampling) -> LayerTimes:
    """Run a network under ONNX Runtime's profiler and return the time of each kernel, see ``layer_times.measure``.

    The optimised graph is saved in a temporary folder, with the size of the weights on disk.

    Raises:
        InputError: the network cannot be loaded or run.
        DeviceError: ONNX Runtime or the provider is missing.
    """
    ort = require_onnxruntime(options.ort_providers)
    with scratch_folder() as folder:
        saved = Path(folder) / "optimised.onnx"

        def configure(session: Any) -> None:
            session.enable_profiling = True
            session.profile_file_prefix = str(Path(folder) / "trace")
            session.graph_optimization_level = optimisation_level(how.optimisation)
            session.optimized_model_filepath = str(saved)
            key = "session.optimized_model_external_initializers"
            session.add_session_config_entry(f"{key}_file_name", "weights")
            session.add_session_config_entry(f"{key}_min_size_in_bytes", str(_WEIGHTS_IN_FILE_BYTES))

        session, feed = open_session(workload, batch_size, options, configure=configure)
        optimised = list(onnx.load(str(saved), load_external_data=False).graph.node)
        step = running(session, feed, workload, batch_size)
        for _ in range(how.warmup + how.minibatches):
            step()
        trace = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    rows = rows_of_graph(fixed_model(workload, batch_size, options.dimensions, weights=False))
    runs = read_trace(trace)[how.warmup :]
    if not runs:
        raise InputError(
            f"ONNX Runtime's profile of {workload.reference} has no complete minibatch",
            "use fewer minibatches: it keeps a million events",
        )
    times, minibatch_s = kernel_times(runs, rows, optimised)
    source = f"ONNX Runtime {ort.__version__}, optimisation {how.optimisation}"
    return LayerTimes(source, False, len(runs), minibatch_s, times)


def read_trace(events: Sequence[Mapping[str, Any]]) -> list[TracedRun]:
    """Return the minibatches of a trace.

    Kernels inside another (the body of a ``Loop``) are part of it. A minibatch whose kernels differ from those of the
    last one was truncated by a full trace and is left out.

    Args:
        events: The events of the trace file.
    """
    kernels = sorted(
        (_kernel(event) for event in events if event.get("cat") == "Node" and event["name"].endswith(_KERNEL)),
        key=lambda kernel: (kernel.start_us, -kernel.duration_us),
    )
    spans = sorted((e["ts"], e["dur"]) for e in events if e.get("cat") == "Session" and e["name"] == "model_run")
    runs = []
    position = 0
    for start_us, duration_us in spans:
        inside: list[TracedKernel] = []
        free_us = 0
        while position < len(kernels) and kernels[position].start_us <= start_us + duration_us:
            kernel = kernels[position]
            position += 1
            if kernel.start_us >= max(start_us, free_us):
                inside.append(kernel)
                free_us = kernel.start_us + kernel.duration_us
        runs.append(TracedRun(duration_us, tuple(inside)))
    usual = [kernel.name for kernel in runs[0].kernels] if runs else []
    return [run for run in runs if usual and [kernel.name for kernel in run.kernels] == usual]


def _kernel(event: Mapping[str, Any]) -> TracedKernel:
    details = event["args"]
    sizes = [details.get(f"{what}_size") for what in ("activation", "output")]  # prepacked weights are not reported
    data_bytes = None if None in sizes else sum(int(size) for size in sizes)
    name = event["name"].removesuffix(_KERNEL)
    return TracedKernel(name, details.get("op_name", ""), event["ts"], event["dur"], data_bytes)


def kernel_times(
    runs: Sequence[TracedRun], rows: GraphRows, optimised: Sequence[onnx.NodeProto]
) -> tuple[tuple[LayerTime, ...], float]:
    """Return the median time of each kernel with its rows, and the time of a minibatch, s.

    The time of a minibatch is the sum of these medians and of the median time between kernels, so that shares of it
    never exceed one.

    Args:
        runs: At least one minibatch; all have the same kernels.
        rows: The network's rows.
        optimised: Nodes of the optimised graph in order; where the kernels are others, their names decide.
    """
    first = runs[0].kernels
    seconds = [statistics.median(1e-6 * run.kernels[index].duration_us for run in runs) for index in range(len(first))]
    between_s = statistics.median(
        1e-6 * max(run.duration_us - sum(kernel.duration_us for kernel in run.kernels), 0) for run in runs
    )
    known = [node.op_type for node in optimised] == [kernel.op for kernel in first]
    stands_for = _by_graph(first, optimised, rows) if known else _by_name(first, rows)
    times = tuple(
        LayerTime(kernel.name, kernel.op, "forward", names, s, how, kernel.data_bytes)
        for kernel, s, (how, names) in zip(first, seconds, stands_for, strict=True)
    )
    return times, sum(seconds) + between_s


def _by_name(kernels: Sequence[TracedKernel], rows: GraphRows) -> list[tuple[How, tuple[str, ...]]]:
    """Assign each kernel to the row in its name, if the optimised graph has other kernels."""
    named = [(kernel, _named(kernel.name, rows)) for kernel in kernels]
    return [_standing_for(kernel, () if row is None else (row,)) for kernel, row in named]


def _standing_for(kernel: TracedKernel, names: tuple[str, ...]) -> tuple[How, tuple[str, ...]]:
    if not names:
        return ("inserted" if kernel.op in _COPIES else "unmatched"), ()
    return ("node" if len(names) == 1 else "fused"), names


def _named(name: str, rows: GraphRows) -> str | None:
    """Return the row that a kernel is named after: a node, or its output with a suffix."""
    tensor = _LAYOUT_SUFFIX.sub("", name)
    return rows.by_node.get(_FUSION_SUFFIX.sub("", tensor)) or rows.by_tensor.get(tensor)


def _by_graph(
    kernels: Sequence[TracedKernel], optimised: Sequence[onnx.NodeProto], rows: GraphRows
) -> list[tuple[How, tuple[str, ...]]]:
    """Assign each kernel to the rows between its inputs and its outputs."""
    ends = _ends(kernels, optimised, rows)
    taken = {row for made in ends for row in made}
    stands_for: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    for made in ends:
        if made not in stands_for:
            stands_for[made] = tuple(dict.fromkeys(name for row in made for name in rows.between(row, taken)))
            taken.update(stands_for[made])
    return [_standing_for(kernel, stands_for[made]) for kernel, made in zip(kernels, ends, strict=True)]


def _ends(
    kernels: Sequence[TracedKernel], optimised: Sequence[onnx.NodeProto], rows: GraphRows
) -> list[tuple[str, ...]]:
    """Return the rows that each kernel completes or, if it completes none, those of the next kernel that does."""
    ends = _completed(kernels, optimised, rows)
    reader = {name: index for index, node in reversed(list(enumerate(optimised))) for name in node.input if name}
    parts = list(ends)
    for index in reversed(range(len(ends))):  # from the last, so that the next kernel's rows are known
        if not parts[index]:
            after = [reader[name] for name in optimised[index].output if name in reader]
            parts[index] = parts[min(after)] if after else ()
    return [() if kernel.op in _COPIES and not ends[index] else parts[index] for index, kernel in enumerate(kernels)]


def _completed(
    kernels: Sequence[TracedKernel], optimised: Sequence[onnx.NodeProto], rows: GraphRows
) -> list[tuple[str, ...]]:
    """Return the rows whose tensors each kernel computes, by the names of its outputs, or else by its own name.

    A copy that ONNX Runtime added completes no row, even with the name of a copied tensor. A kernel identified by its
    name alone may compute more (the sum of a residual block and its activation): it also completes the only reader of
    its row, if the reader is one of ``_TAILS``, no later kernel completes it, and its other inputs are computed before.
    """
    named: set[int] = set()
    ends: list[tuple[str, ...]] = []
    done: set[str] = set()
    for index, (kernel, node) in enumerate(zip(kernels, optimised, strict=True)):
        made = tuple(dict.fromkeys(rows.by_tensor[name] for name in node.output if name in rows.by_tensor))
        if not made:
            row = _named(kernel.name, rows)
            made = () if row is None else (row,)
            named.add(index)
        if kernel.op in _COPIES and any(row in done or rows.ops[row] != kernel.op for row in made):
            made = ()
        done.update(made)
        ends.append(made)
    before: set[str] = set()
    for index, made in enumerate(ends):
        if index in named and len(made) == 1:
            ends[index] = (_onward(made[0], done, before, rows),)
        before.update(name for row in {*made, *ends[index]} for name in rows.between(row, before))
    return ends


def _onward(row: str, ends: Collection[str], before: Collection[str], rows: GraphRows) -> str:
    """Return the last row that the kernel of ``row`` completes; see ``_completed``."""
    while True:
        readers = rows.readers.get(row, ())
        if len(readers) != 1 or readers[0] in ends or rows.ops[readers[0]] not in _TAILS:
            return row
        others = {rows.by_tensor.get(name) for name in rows.takes[readers[0]]} - {None, row}
        if not others <= set(before) | rows.constants:
            return row
        row = readers[0]


OPTIMISATIONS = ("disabled", "basic", "extended", "all")
"""Optimisation levels of ONNX Runtime. Source: onnxruntime.ai, "Graph optimizations"."""


def measure(
    workload: Workload, task: Task, batch_size: int, options: RunOptions | None = None, *, how: LayerSampling
) -> LayerTimes:
    """Run minibatches of a network under its runtime's profiler and return the times of its layers.

    Args:
        workload: An ONNX file or a network of the zoo.
        task: ``infer``, on ONNX Runtime, or ``train``, on PyTorch.
        batch_size: Samples per minibatch.
        options: Options of the run.
        how: Number of minibatches, and the level of optimisation.

    Raises:
        InputError: the workload has no graph, or cannot run with these options.
        DeviceError: a library is missing, or the requested execution provider does not run the network.
    """
    if not workload.is_graph:
        raise InputError(
            f"{workload.reference} has no graph whose layers could be told apart", "give an ONNX file or zoo:NAME"
        )
    if how.minibatches < 1 or how.warmup < 0:
        raise InputError(f"cannot profile {how.minibatches} minibatches after {how.warmup}", "profile one or more")
    if how.optimisation not in OPTIMISATIONS:
        raise InputError(f"unknown optimisation level {how.optimisation!r}", f"known: {', '.join(OPTIMISATIONS)}")
    options = options or RunOptions()
    if task == "train":
        require_torch()
        require_accelerator(options.torch_device)
        from edgetune.workloads.torch_layers import measure_training

        return measure_training(workload, batch_size, options, how)
    return measure_inference(workload, batch_size, options, how)
