"""Runs that confirm or refute a batch of a network, in the process of ``observe_worker``.

Samples along a batch axis do not see each other. Two and three samples together must give the outputs of each alone,
within the rounding of sums in another order. And if the second of three samples changes, the outputs of the first and
the third must stay the same, bit by bit: a small leak is found so, and a maximum by values of another range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx

from edgetune.errors import InputError
from edgetune.workloads.batch import open_batch
from edgetune.workloads.costs.walk import cost_nodes, read_graph
from edgetune.workloads.dimensions import fix_dimensions, input_specs
from edgetune.workloads.graphs import nested_nodes
from edgetune.workloads.input_values import needs_runs
from edgetune.workloads.network_inputs import drawn, fillings, fit_inputs
from edgetune.workloads.ort_runs import RunError, Session
from edgetune.workloads.partition.check import difference_between
from edgetune.workloads.shapes import known_shapes, without_weights
from edgetune.workloads.value_runs import find_values
from edgetune.workloads.workload import Batch, InputValues, Reshapes, describe_axes

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]

_CLOSE = 0.05
"""Difference between batches of different sizes, as a share of the largest magnitude."""
_LEAST = 2e-5
"""Magnitude below which outputs are rounding: those of a sigmoid far from its middle."""
_SCALES = ((1.0, 0.0), (0.25, 0.0), (1.0, 0.0), (8.0, -4.0), (2e4, -1e4))
"""Factor and shift of the floats of three samples, and of two that replace the second of them."""
_SHARE_OF_ONES = 0.75
"""Of a mask; the sample that replaces it has the opposite."""
_LEAST_GROWTH, _MOST_GROWTH = 1.5, 2.04
"""Limits of the growth of costs where the batch doubles; work on constants does not grow."""
_MOST_EXPOSED_BYTES = 64 << 20


class _RefutedError(Exception):
    """The axes are no batch; the message says why."""


def confirm(
    declared: onnx.ModelProto,
    batch: Batch,
    dimensions: Mapping[str, int],
    inputs_file: str | None,
    folder: Path,
    *,
    explain: bool,
) -> dict[str, Any]:
    """Return how a candidate is given other batch sizes and why it is the batch, or why it is ``refuted``.

    Args:
        declared: The model with its weights.
        batch: The candidate.
        dimensions: Sizes of open dimensions.
        inputs_file: ``.npz`` of the user's inputs; ``None`` for random ones.
        folder: A folder for its files.
        explain: Whether to find the operator that refutes it.

    Raises:
        InputError: the network cannot be loaded, does not run as exported, or an input cannot be generated.
    """
    model = fix_dimensions(declared, batch_size=batch.exported or 1, dimensions=dimensions, batch=batch)
    known = known_shapes(model.graph)
    values: tuple[InputValues, ...] = ()
    if inputs_file is None and needs_runs(model):
        try:
            values = find_values(model, folder)
        except RunError as error:
            return {"refuted": f"the network does not run on made-up inputs: {error}"}
        model = fix_dimensions(declared, batch_size=batch.exported or 1, dimensions=dimensions, batch=batch)
    samples = _Samples(model, batch, inputs_file, values)
    each = samples.each(_SCALES if _is_exact(model) else _SCALES[:1] * 5)
    reasons: list[Exception] = []
    ways: tuple[Reshapes, ...] = get_args(Reshapes) if batch.exported is not None else ("kept",)
    for reshapes in ways:
        weights = len(model.graph.initializer)
        open_batch(model, batch, reshapes, known)
        if reshapes != "kept" and len(model.graph.initializer) == weights:
            break
        try:
            why = _compare(model, samples, each, folder)
            _check_cost(declared, Batch(batch.axes, batch.exported, why, reshapes), dimensions)
        except (_RefutedError, RunError) as error:
            reasons.append(error)
        else:
            return {"reshapes": reshapes, "why": why}
    first = reasons[0]
    if isinstance(first, RunError) and batch.exported is not None:
        exported = fix_dimensions(declared, batch_size=batch.exported, dimensions=dimensions, batch=batch)
        try:
            return _compare_as_exported(exported, samples, batch, folder, str(first))
        except _RefutedError:
            return {"refuted": str(first)}
    operator = None
    if explain and isinstance(first, _RefutedError):
        again = fix_dimensions(declared, batch_size=batch.exported or 1, dimensions=dimensions, batch=batch)
        open_batch(again, batch, "kept", known)
        with suppress(RunError):
            operator = _first_mixing(again, known, samples, each, folder, close=_CLOSE)
    return {"refuted": f"{operator} combines what lies along {describe_axes(batch.axes)}" if operator else str(first)}


@dataclass(slots=True)
class _Samples:
    """Makes feeds of one sample each and joins them.

    Args:
        model: The model at the exported batch size, or at one sample.
        batch: The candidate.
        inputs_file: See ``confirm``.
        values: Values of inputs without a file.
    """

    model: onnx.ModelProto
    batch: Batch
    inputs_file: str | None
    values: tuple[InputValues, ...]

    def each(self, scales: Sequence[tuple[float, float]]) -> list[Feed]:
        """Return feeds of one sample each, floats with its factor and shift; inputs without a batch axis are alike."""
        if self.inputs_file is not None:
            return self._given(self.inputs_file, len(scales))
        generator, axes = np.random.default_rng(1), dict(self.batch.axes)
        feeds: list[Feed] = [{} for _ in scales]
        for filling in fillings(self.model, self.values):
            axis, shape = axes.get(filling.name), list(filling.shape)
            if axis is None:
                shared = drawn(filling, tuple(shape), generator)
                for feed in feeds:
                    feed[filling.name] = shared
                continue
            shape[axis] = 1
            for index, (feed, (factor, shift)) in enumerate(zip(feeds, scales, strict=True)):
                array = drawn(filling, tuple(shape), generator)
                if filling.least is None:
                    array = (array * factor + shift).astype(array.dtype)
                elif (filling.least, filling.most) == (1, 1):
                    ones = generator.random(shape) < _SHARE_OF_ONES
                    array = (ones if index < 3 else ~feeds[1][filling.name].astype(bool)).astype(array.dtype)
                feed[filling.name] = array
        return feeds

    def _given(self, path: str, count: int) -> list[Feed]:
        """Return samples of the user's file; where it has too few, their elements change places."""
        generator, axes = np.random.default_rng(1), dict(self.batch.axes)
        specs = []
        for name, shape, dtype in input_specs(self.model):
            sizes = [count if axes.get(name) == axis else size for axis, size in enumerate(shape)]
            specs.append((name, tuple(sizes), dtype))
        arrays = fit_inputs(path, specs, count, axes)
        feeds: list[Feed] = []
        for index in range(count):
            own = {name: np.take(a, [index], axes[name]) if name in axes else a for name, a in arrays.items()}
            for name in axes if index else ():
                if np.array_equal(own[name], feeds[0][name]):
                    own[name] = generator.permuted(own[name].ravel()).reshape(own[name].shape)
            feeds.append(own)
        return feeds

    def join(self, feeds: Sequence[Feed]) -> Feed:
        """Return one feed of several samples."""
        axes = dict(self.batch.axes)
        return {
            name: np.concatenate([feed[name] for feed in feeds], axes[name]) if name in axes else array
            for name, array in feeds[0].items()
        }

    def runs(self, each: Sequence[Feed]) -> list[Feed]:
        """Return the feeds to compare: one, another, both, with a third, the third alone, the second replaced twice."""
        one, two, three, *others = each
        feeds = [one, two, self.join([one, two]), self.join([one, two, three]), three]
        return [*feeds, *(self.join([one, other, three]) for other in others)]


def _compare(model: onnx.ModelProto, samples: _Samples, each: Sequence[Feed], folder: Path) -> str:
    """Compare samples together with each alone, and return why they are a batch.

    Raises:
        _RefutedError, RunError: they are none, or the network does not run.
    """
    where = describe_axes(samples.batch.axes)
    session, feeds = Session(model, folder), samples.runs(each)
    try:
        seen = [session.run(feed) for feed in feeds[:6]]
    except RunError as error:
        raise RunError(f"{error} with one, two and three samples along {where}") from None
    with suppress(RunError):  # no user has values that large
        seen += [session.run(feed) for feed in feeds[6:]]
    tolerance, growing, sensitive = 0.0 if _is_exact(model) else _CLOSE, 0, False
    outputs = [runs for runs in zip(session.outputs, *seen, strict=True) if all(map(_is_array, runs[1:]))]
    if any(_differ(again, first) for again, first in zip(session.run(feeds[0]), seen[0], strict=True)):
        if any(runs[1].shape == runs[3].shape for runs in outputs):
            raise _RefutedError(f"the outputs are random, and not all grow with {where}")
        return "its outputs are random, and their shapes follow it"
    for name, *runs in outputs:
        wrong = _judge(runs, _CLOSE, tolerance)
        if wrong:
            raise _RefutedError(f"output {name!r} {wrong} along {where}")
        if runs[0].shape != runs[2].shape:
            growing += 1
            sensitive |= _differ(runs[1], runs[0])
    if not growing:
        raise _RefutedError(f"no output grows with {where}")
    if not sensitive:  # those of an argmax may be equal by chance
        operator = _first_mixing(model, known_shapes(samples.model.graph), samples, each, folder, close=np.inf)
        if operator:
            raise _RefutedError(f"{operator} combines what lies along {where}")
    return "three samples together have the outputs of each alone"


def _judge(runs: Sequence[Array], close: float, exact: float) -> str:
    """Return what is wrong with an output of samples that lie along a batch axis; ``""`` if nothing is.

    An output that does not grow must be the same for all samples.

    Args:
        runs: The output for each of ``_Samples.runs``.
        close, exact: Allowed difference between batches of different sizes, and of one size.
    """
    a, b, ab, abc, c, *changed = runs
    if a.shape == ab.shape:
        same = all(_difference(each, a) <= close for each in runs[1:])
        return "" if same else "does not grow with the samples, and depends on what lies"
    if any(each.shape != abc.shape for each in changed):
        return "has a size that depends on the values"
    wrong = "of several samples is not that of each put together"
    for axis, outer in _layouts(a.shape, ab.shape, abc.shape):
        joined = [(ab, _joined([a, b], axis, outer)), (abc, _joined([a, b, c], axis, outer))]
        if close < np.inf and any(_difference(both, apart) > close for both, apart in joined):
            continue
        before = _parts(abc, axis, outer, 3)
        after = [_parts(each, axis, outer, 3) for each in changed]
        if all(_difference(parts[i], before[i]) <= exact for parts in after for i in (0, 2)):
            return ""
        wrong = "of a sample depends on the other samples"
    return wrong


def _first_mixing(
    model: onnx.ModelProto,
    known: Mapping[str, Sequence[int]],
    samples: _Samples,
    each: Sequence[Feed],
    folder: Path,
    *,
    close: float,
) -> str | None:
    """Return the first operator whose outputs are not those of samples along a batch axis; ``None`` where none is.

    Args:
        model: The model with open batch axes.
        known: Shapes of its tensors, those of tensors inside that are compared.
        samples, each, folder: See ``_compare``.
        close: Allowed difference between batches of different sizes; infinite to look at those of one size alone.
    """
    sizes = {name: 4 * int(np.prod(known[name])) for node in model.graph.node for name in node.output if name in known}
    own = {output.name for output in model.graph.output}
    most_bytes = _MOST_EXPOSED_BYTES / max(len(sizes), 1)
    session = Session(
        model, folder, expose=[name for name, size in sizes.items() if size < most_bytes and name not in own]
    )
    seen: list[list[Any]] = []
    for feed in samples.runs(each):
        with suppress(RunError):
            seen.append(session.run(feed))
    found = dict(zip(session.outputs, zip(*seen, strict=True), strict=True)) if len(seen) > 5 else {}
    exact = 0.0 if _is_exact(model) else _CLOSE
    for node in model.graph.node:
        for runs in (found[name] for name in node.output if name in found):
            floats = all(_is_array(run) and run.dtype.kind == "f" for run in runs)
            if floats and (close < np.inf or runs[0].shape != runs[2].shape) and _judge(runs, close, exact):
                return f"node {node.name or node.output[0]!r} ({node.op_type})"
    return None


def _compare_as_exported(
    model: onnx.ModelProto, samples: _Samples, batch: Batch, folder: Path, why: str
) -> dict[str, Any]:
    """Return the batch of a network that no other size fits: what a sample changes is its own part of the outputs.

    Raises:
        InputError: the network does not run as exported.
        _RefutedError: a sample changes more, or nothing.
    """
    count, session, axes = batch.exported or 1, Session(model, folder), dict(batch.axes)
    generator = np.random.default_rng(2)
    if samples.inputs_file is not None:
        base = fit_inputs(samples.inputs_file, input_specs(model), count, axes)
        others = [{name: generator.permuted(array.ravel()).reshape(array.shape) for name, array in base.items()}]
    else:
        found = fillings(model, samples.values)
        base, other = ({each.name: drawn(each, each.shape, generator) for each in found} for _ in range(2))
        floats = {each.name for each in found if each.least is None}
        others = [
            {n: (array * factor + shift).astype(array.dtype) if n in floats else array for n, array in other.items()}
            for factor, shift in _SCALES[3:]
        ]
    try:
        before, changed = session.run(base), False
        if count == 1:
            raise _RefutedError(why)
        for index, other in product((0, count // 2), others):
            feed = {name: array.copy() for name, array in base.items()}
            for name, axis in axes.items():
                place = (slice(None),) * axis + (index,)
                feed[name][place] = other[name][place]
            for name, was, now in zip(session.outputs, before, session.run(feed), strict=True):
                if not _is_array(was) or np.array_equal(was, now, equal_nan=was.dtype.kind == "f"):
                    continue
                changed = True
                if was.shape != now.shape or not _is_of_one(was != now, index, count):
                    where = describe_axes(batch.axes)
                    raise _RefutedError(f"output {name!r} of a sample depends on the other samples along {where}")
    except RunError as error:
        raise InputError(f"ONNX Runtime cannot run the network: {error}", "it may need real inputs") from None
    if not changed:
        raise _RefutedError(f"no output depends on {describe_axes(batch.axes)}")
    return {"reshapes": None, "why": why}


def _is_of_one(differs: Array, index: int, count: int) -> bool:
    """Return whether elements differ in the part of one sample alone, along any axis."""
    for axis, size in enumerate(differs.shape):
        for outer in (n for n in range(1, size // count + 1) if size % (n * count) == 0):
            if [i for i, part in enumerate(_parts(differs, axis, outer, count)) if part.any()] == [index]:
                return True
    return False


def _check_cost(declared: onnx.ModelProto, batch: Batch, dimensions: Mapping[str, int]) -> None:
    """Raise ``_RefutedError`` if FLOP or bytes written do not grow with the batch; unknown costs are not compared."""
    light = without_weights(declared)
    flops, written = [], []
    for times in (1, 2):
        try:
            size = times * (batch.exported or 1)
            graph = read_graph(fix_dimensions(light, batch_size=size, dimensions=dimensions, batch=batch))
        except InputError:
            return
        costs = [item.cost for item in cost_nodes(graph.nodes)]
        if not graph.settled or any(cost.ledger == "unmodelled" for cost in costs):
            return
        flops.append(sum(2 * cost.macs + cost.flops_other for cost in costs))
        written.append(sum(cost.bytes_written for cost in costs))
    for what, least, (before, after) in (
        ("floating-point operations", _LEAST_GROWTH, flops),
        ("bytes written", 0.0, written),
    ):
        if before and not least <= after / before <= _MOST_GROWTH:
            where = describe_axes(batch.axes)
            raise _RefutedError(f"twice the samples along {where} take {after / before:.3g} times the {what}")


def _layouts(one: tuple[int, ...], two: tuple[int, ...], three: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the axis that grows, and how many times the samples alternate along it.

    A reshape may have merged other axes into the batch axis ahead of the batch.
    """
    grown = [axis for axis in range(len(one)) if len(one) == len(two) == len(three) and two[axis] != one[axis]]
    if len(grown) == 1 and (two[grown[0]], three[grown[0]]) == (2 * one[grown[0]], 3 * one[grown[0]]):
        yield from ((grown[0], n) for n in range(1, one[grown[0]] + 1) if one[grown[0]] % n == 0)


def _joined(parts: Sequence[Array], axis: int, outer: int) -> Array:
    shape = parts[0].shape
    split = [part.reshape(*shape[:axis], outer, -1, *shape[axis + 1 :]) for part in parts]
    return np.concatenate(split, axis + 1).reshape(*shape[:axis], -1, *shape[axis + 1 :])


def _parts(whole: Array, axis: int, outer: int, count: int) -> list[Array]:
    shape = whole.shape
    return np.split(whole.reshape(*shape[:axis], outer, -1, *shape[axis + 1 :]), count, axis + 1)


def _difference(found: Array, expected: Array) -> float:
    return difference_between([found], [expected], least=_LEAST)


def _differ(found: Any, expected: Any) -> bool:
    return _is_array(found) and _is_array(expected) and _difference(found, expected) > 0


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_exact(model: onnx.ModelProto) -> bool:
    """Return whether samples of one batch keep their outputs bit by bit: 8-bit tensors may share their scale."""
    return not any(re.search("Quantize|Integer|QLinear", node.op_type) for node in nested_nodes(model.graph.node))
