"""Parses options of measurements: task, batch sizes and axes, precision, dimensions, modes, inputs."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import TASKS, Task
from edgetune.choices import choose
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.devices.modes import Selection, default_modes, known_by_name, select_modes
from edgetune.errors import DeviceError, InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import parse_quantity, parse_share, parse_time_s
from edgetune.workflows.profile.options import MeasuringOptions, PointOptions
from edgetune.workloads.engines import ENGINES
from edgetune.workloads.kernels import PRECISIONS
from edgetune.workloads.resolve import KINDS, recognised
from edgetune.workloads.workload import Axes, Workload

_MOST = 1_000_000_000
"""Samples in a minibatch, or elements along a dimension: enough for anything real, and far from any overflow."""

_DEGREES = {"C": 1.0, "°C": 1.0, "degC": 1.0}


def parse_task(text: str | None, *, model: str = "") -> Task:
    """Return ``infer`` or ``train``.

    Args:
        text: The value of ``--task``; ``None`` where the option is missing.
        model: The workload as written, whose kind has a default task: a Python file trains, and an ONNX file or a
            network of the zoo infers.

    Raises:
        InputError: An unknown task, or a workload without a default task and no ``--task``.
    """
    if text is not None:
        return cast(Task, choose(text, TASKS, what="task"))
    kind = recognised(model) if model else None
    if kind is not None and kind.task is not None:
        return kind.task
    raise InputError(
        f"{model or 'the workload'} may infer or train, and no task is given", "--task infer, or --task train"
    )


def parse_batch_sizes(text: str | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes in ``1,4,16`` or a sequence, in that order, each once.

    Raises:
        InputError: one is not a whole number above zero.
    """
    sizes = []
    for word in text.split(",") if isinstance(text, str) else map(str, text):
        size = _count(word.strip())
        if size is None:
            raise InputError(
                f"--batch-sizes: {word[:40]!r} is not a whole number from 1 to {_MOST}", "e.g. --batch-sizes 1,4,16"
            )
        sizes.append(size)
    return tuple(dict.fromkeys(sizes))


def parse_precision(text: str) -> str:
    """Return the name of a precision that kernels know; networks and devices check their own support of it.

    Raises:
        InputError: the precision is unknown.
    """
    return choose(text, PRECISIONS, what="precision")


def parse_dimensions(words: Sequence[str]) -> dict[str, int]:
    """Return the sizes in ``sequence=128`` by name.

    Raises:
        InputError: not ``name=value`` with a whole number.
    """
    found: dict[str, int] = {}
    for word in words:
        name, _, text = word.partition("=")
        size = 0 if text == "0" else _count(text)  # an empty key-value cache; what else is empty, the model refuses
        if not name or size is None:
            raise InputError(f"--dim: {word[:80]!r} is not name=size, a size up to {_MOST}", "e.g. --dim sequence=128")
        if found.setdefault(name, size) != size:
            raise InputError(f"--dim: {name} is given as {found[name]} and as {size}", "give it once")
    return found


def parse_columns(words: Sequence[str]) -> dict[str, str]:
    """Return the meanings of foreign columns by name, from words such as ``lat=minibatch_ms``.

    Raises:
        InputError: a word is not ``theirs=ours``, or one column has two meanings.
    """
    found: dict[str, str] = {}
    for word in words:
        theirs, equals, ours = (part.strip() for part in word.rpartition("="))
        if not (theirs and equals and ours):
            raise InputError(f"--column: {word[:80]!r} is not THEIRS=OURS", "e.g. --column lat=minibatch_ms")
        if found.setdefault(theirs, ours) != ours:
            raise InputError(f"--column: {theirs} is said to be {found[theirs]} and {ours}", "say it once")
    return found


def _count(text: str) -> int | None:
    """Return a whole number above zero that every file and library can hold; ``None`` for any other text."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST)):
        return None
    return int(text) if 0 < int(text) <= _MOST else None


def choose_modes(device: Device, text: str | None) -> Selection:
    """Return the modes that ``text`` names on ``device``; without a text, the highest mode, or all modes of a table.

    Raises:
        DeviceError: the device cannot set modes; the hint says why.
        InputError: the words name no mode of this device.
    """
    if isinstance(device.modes, Absent):
        if text is None:
            return Selection((Mode(),))
        raise DeviceError(f"{device.name} has no power modes to set: {device.modes.reason}", "leave --modes out")
    space = device.modes.space
    return Selection(tuple(default_modes(space))) if text is None else select_modes(text, space)


def mode_here(device: Device, mode: Mode) -> Mode:
    """Return a plan's mode as a mode of this device; errors as ``known_by_name``."""
    return mode if isinstance(device.modes, Absent) else known_by_name(mode, device.modes.space)


def parse_inputs(path: str | None) -> str | None:
    """Return the file of inputs; ``None`` without one.

    Raises:
        InputError: the file does not exist.
    """
    if path is not None and not Path(path).is_file():
        raise InputError(f"{path} does not exist", "--inputs takes a .npz file with one array per input")
    return path


def profile_options(opts: PointOptions) -> ProfileOptions:
    """Return the measuring options in base units; options of a single point are completed by the defaults of a sweep.

    Raises:
        InputError: a value cannot be used.
    """
    sweep = opts if isinstance(opts, MeasuringOptions) else MeasuringOptions()
    cool_to, gaps = opts.cool_to, () if sweep.idle_gap is None else sweep.idle_gap.split(",")
    return ProfileOptions(
        target_ci=parse_share(sweep.target_ci, what="--target-ci"),
        minibatches=sweep.minibatches,
        point_timeout_s=parse_time_s(opts.point_timeout, what="--point-timeout"),
        retries=sweep.retries,
        cool_to_c=None if cool_to is None else parse_quantity(cool_to, _DEGREES, what="--cool-to", example="50C"),
        cool_timeout_s=parse_time_s(opts.cool_timeout, what="--cool-timeout"),
        fan=None if sweep.fan is None else choose(sweep.fan, ["max"], what="--fan"),
        interleave_repeats=sweep.interleave_repeats or 1,
        soak_s=None if sweep.soak is None else parse_time_s(sweep.soak, what="--soak"),
        idle_gaps_s=tuple(parse_time_s(word, what="--idle-gap") for word in gaps),
        step_pattern=_step_pattern(opts.step_pattern),
        steps=opts.steps,
        start=opts.start,
        engine=choose(opts.engine or "ort", ENGINES, what="engine"),
        dla_core=opts.dla_core,
        allow_gpu_fallback=opts.allow_gpu_fallback,
        python=opts.python,
        inputs=parse_inputs(opts.inputs),
        dimensions=parse_dimensions(opts.dim),
        precision=None if opts.precision is None else parse_precision(opts.precision),
        seed=opts.seed,
    )


def _step_pattern(text: str | None) -> str | None:
    """Return a regular expression, checked.

    Raises:
        InputError: it is none, or matches every line.
    """
    try:
        everything = text is not None and re.compile(text).search("") is not None
    except re.error as error:
        raise InputError(f"--step-pattern {text!r} is no regular expression: {error}", "e.g. 'step +[0-9]+'") from None
    if everything:
        raise InputError(f"--step-pattern {text!r} matches every line", "e.g. 'step +[0-9]+'")
    return text


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
    dimensions: Mapping[str, int] = _NOTHING,
    inputs: str | None = None,
    default: tuple[int, ...] = (1,),
    use: str = "measured",
) -> tuple[tuple[int, ...], str | None]:
    """Return the batch sizes, checked against the network, and a note on a batch that is fixed or has no effect.

    Args:
        workload: Anything that ``resolve`` returns.
        sizes: The requested sizes; empty leaves the choice to this function.
        dimensions: Sizes of its open dimensions.
        inputs: ``.npz`` for the runs that decide its batch, see ``network_batch``.
        default: The sizes where none is requested and the network's batch axis is open.
        use: The operation at these sizes, for messages.

    Raises:
        InputError: see ``network_batch``; the network cannot run at one of the sizes.
    """
    kind = KINDS.get(workload.kind)
    if kind is not None and kind.batch_limits is not None:
        limits = kind.batch_limits(workload)
        fits = [size for size in default if size >= limits.least and (limits.most is None or size <= limits.most)]
        usual = (limits.usual,) if default or limits.most == limits.least else ()
        chosen = tuple(sizes) or tuple(fits) or usual
        for size in chosen:
            limits.check(size, workload.reference)
        return chosen, f"{workload.name}: takes {limits}, {use} at {', '.join(map(str, chosen))}"
    if not workload.has_graph:
        return tuple(sizes) or default, None
    from edgetune.workloads.dimensions import data_inputs
    from edgetune.workloads.model_storage import check_inputs
    from edgetune.workloads.onnx_file import fixed_model, load_model, network_batch

    batch = network_batch(workload, dimensions, inputs=inputs)
    if not sizes and batch.exported is not None:  # nobody asks for this batch: it counts as a sample
        check_inputs(data_inputs(load_model(workload, weights=False)), workload.reference, batch_size=1)
    chosen = tuple(sizes) or (default if batch.exported is None else (batch.exported,))
    for size in chosen if batch.exported is not None else ():
        batch = network_batch(workload, dimensions, size, inputs=inputs)
        fixed_model(workload, size, dimensions, weights=False)
    if batch.exported is None and _is_unanswered(workload, max(chosen, default=1), dimensions):
        return chosen, (
            f"{workload.name}: no output grows with the batch ({batch.why}): a minibatch of {max(chosen)} may not be "
            f"{max(chosen)} answers"
        )
    if batch.exported is None and workload.batch_axes is None:  # as everybody expects; the file says it
        return chosen, None
    if batch.axes:
        told = f"{batch}, {use} at {', '.join(map(str, chosen))}"
    elif batch.decided:
        told = f"{batch}, {use} as exported, one run a minibatch ({batch.why})"
    else:
        told = f"{use} as exported, one run a minibatch"
    return chosen, f"{workload.name}: {told}"


def _is_unanswered(workload: Workload, batch_size: int, dimensions: Mapping[str, int]) -> bool:
    """Return whether every output has the same known shape for one sample and for ``batch_size`` samples.

    The batch is open, so that nothing is refused: the samples may be combined, or all but one left out.
    """
    from edgetune.workloads.onnx_file import fixed_model
    from edgetune.workloads.shapes import known_shapes

    found = []
    for size in (1, batch_size) if batch_size > 1 else ():
        try:
            graph = fixed_model(workload, size, dimensions, weights=False).graph
        except InputError:  # told where the network is measured
            return False
        known = known_shapes(graph)
        found.append([known.get(output.name) for output in graph.output])
    return bool(found) and None not in found[0] and found[0] == found[1]
