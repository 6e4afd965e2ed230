"""Runs that confirm or refute a batch of a network, in the process of ``observe_worker``.

Samples along a batch axis do not see each other. Two and three samples together must give the outputs of each alone,
within the rounding of sums in another order. And if the second of three samples changes, the outputs of the first and
the third must stay the same, bit by bit: a small leak is found so, and a maximum by values of another range.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
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
from edgetune.workloads.ort_runs import RunError, Session, find_values
from edgetune.workloads.partition.check import difference_between
from edgetune.workloads.shapes import known_shapes, without_weights
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
_MOST_EXPOSED = 16 << 20
"""Elements of one sample that are compared inside."""


class _RefutedError(Exception):
    """The axes are no batch; the message says why."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A candidate and the feeds to compare.

    Args:
        batch: The candidate.
        feeds: One sample, another, both, with a third, the third alone; then the second of three replaced twice.
        exact: Allowed difference between batches of one size.
        known: Shapes of tensors at the exported batch size, or at one sample.
        folder: A folder for files.
    """

    batch: Batch
    feeds: Sequence[Feed]
    exact: float
    known: Mapping[str, Sequence[int]]
    folder: Path

    @property
    def where(self) -> str:
        return describe_axes(self.batch.axes)


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
    fixed = partial(fix_dimensions, batch_size=batch.exported or 1, dimensions=dimensions, batch=batch)
    light = fixed(without_weights(declared))
    values = find_values(fixed(declared), folder) if inputs_file is None and needs_runs(light) else ()
    # 8-bit tensors of one batch may share their scale, others keep their outputs bit by bit
    exact = not any(re.search("Quantize|Integer|QLinear", node.op_type) for node in nested_nodes(light.graph.node))
    draw = partial(_samples, light, dict(batch.axes), inputs_file, values)
    one, two, three, *others = draw(_SCALES if exact else _SCALES[:1] * 5)
    joined = [[one], [two], [one, two], [one, two, three], [three], *([one, other, three] for other in others)]
    feeds = [_join(each, batch) for each in joined]
    trial = _Trial(batch, feeds, 0.0 if exact else _CLOSE, known_shapes(light.graph), folder)
    reasons: list[Exception] = []
    ways: tuple[Reshapes, ...] = get_args(Reshapes) if batch.exported is not None else ("kept",)
    for reshapes in ways:
        model = fixed(declared)
        weights = len(model.graph.initializer)
        open_batch(model, batch, reshapes, trial.known)
        if reshapes != "kept" and len(model.graph.initializer) == weights:
            break
        try:
            why = _compare(model, trial)
            _check_cost(declared, replace(batch, reshapes=reshapes), dimensions)
        except (_RefutedError, RunError) as error:
            reasons.append(error)
        else:
            return {"reshapes": reshapes, "why": why}
    first, operator = reasons[0], None
    if isinstance(first, RunError) and batch.exported is not None:
        base = _join(draw([_SCALES[0]] * batch.exported), batch)
        if _is_independent(Session(fixed(declared), folder), batch, base, draw(_SCALES[3:], seed=2)):
            return {"reshapes": None, "why": str(first)}
    elif explain:
        model = fixed(declared)
        open_batch(model, batch, "kept", trial.known)
        operator = _first_mixing(model, trial, close=_CLOSE)
    return {"refuted": f"{operator} combines what lies along {trial.where}" if operator else str(first)}


def _samples(
    model: onnx.ModelProto,
    axes: Mapping[str, int],
    inputs_file: str | None,
    values: Sequence[InputValues],
    scales: Sequence[tuple[float, float]],
    *,
    seed: int = 1,
) -> list[Feed]:
    """Return feeds of one sample each, floats with its factor and shift; inputs without a batch axis are alike.

    Those of a user's file are its samples, of which all but the first have their elements in another order.
    """
    generator, count = np.random.default_rng(seed), len(scales)
    specs = [
        (name, tuple(count if axes.get(name) == axis else size for axis, size in enumerate(shape)), dtype)
        for name, shape, dtype in input_specs(model)
    ]
    found = {} if inputs_file else fillings(model, values)
    arrays = {name: drawn(found[name], shape, dtype, generator) for name, shape, dtype in specs if not inputs_file}
    if inputs_file:
        arrays = fit_inputs(inputs_file, specs, count, axes)
    feeds: list[Feed] = [{} for _ in scales]
    for name, array in arrays.items():
        made, axis = found.get(name), axes.get(name)
        for index, (factor, shift) in enumerate(scales):
            own = array if axis is None else np.take(array, [index], axis)
            if axis is None:
                pass
            elif inputs_file:
                own = generator.permuted(own.ravel()).reshape(own.shape) if index else own
            elif made is None:
                own = (own * factor + shift).astype(own.dtype)
                if shift and own.size:  # the largest and the smallest, also of few
                    own.flat[-1], own.flat[0] = shift, factor + shift
            elif (made.least, made.most) == (1, 1):
                ones = generator.random(own.shape) < _SHARE_OF_ONES
                own = (ones if index < 3 else ~feeds[1][name].astype(bool)).astype(own.dtype)
            feeds[index][name] = own
    return feeds


def _join(feeds: Sequence[Feed], batch: Batch) -> Feed:
    """Return one feed of several samples."""
    axes = dict(batch.axes)
    return {
        name: np.concatenate([feed[name] for feed in feeds], axes[name]) if name in axes else array
        for name, array in feeds[0].items()
    }


def _compare(model: onnx.ModelProto, trial: _Trial) -> str:
    """Compare samples together with each alone, and return why they are a batch.

    Raises:
        _RefutedError, RunError: they are none, or the network does not run.
    """
    session, feeds = Session(model, trial.folder), trial.feeds
    try:
        seen = [session.run(feed) for feed in feeds[:6]]
    except RunError as error:
        raise RunError(f"{error} with one, two and three samples along {trial.where}") from None
    with suppress(RunError):  # no user has values that large
        seen += [session.run(feed) for feed in feeds[6:]]
    outputs = [
        runs
        for runs in zip(session.outputs, *seen, strict=True)
        if all(isinstance(run, np.ndarray) for run in runs[1:])
    ]
    if any(_differ(again, first) for again, first in zip(session.run(feeds[0]), seen[0], strict=True)):
        if not all(any(_layouts(one.shape, two.shape, three.shape)) for _, one, _, two, three, *_ in outputs):
            raise _RefutedError(f"the outputs are random, and not all grow in proportion to {trial.where}")
        return "its outputs are random, and their shapes follow it"
    for name, *runs in outputs:
        wrong = _judge(runs, _CLOSE, trial.exact)
        if wrong:
            raise _RefutedError(f"output {name!r} {wrong} along {trial.where}")
    growing = [runs for runs in outputs if runs[1].shape != runs[3].shape]
    if not growing:
        raise _RefutedError(f"no output grows with {trial.where}")
    if not any(_differ(two, one) for _, one, two, *_ in growing):  # those of an argmax may be equal by chance
        operator = _first_mixing(model, trial, close=np.inf)
        if operator:
            raise _RefutedError(f"{operator} combines what lies along {trial.where}")
    return "three samples together have the outputs of each alone"


def _judge(runs: Sequence[Array], close: float, exact: float) -> str:
    """Return what is wrong with an output of samples that lie along a batch axis; ``""`` if nothing is.

    An output that does not grow must be the same for all samples.

    Args:
        runs: The output for each of ``_Trial.feeds``.
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


def _first_mixing(model: onnx.ModelProto, trial: _Trial, *, close: float) -> str | None:
    """Return the first operator whose outputs are not those of samples along a batch axis; ``None`` where none is.

    Args:
        model: The model with open batch axes.
        trial: Its feeds.
        close: Allowed difference between batches of different sizes; infinite to look at those of one size alone.
    """
    made = [name for node in model.graph.node for name in node.output if name in trial.known]
    inside = {*made} - {output.name for output in model.graph.output}
    most = _MOST_EXPOSED / max(len(made), 1)
    exposed = sorted(name for name in inside if np.prod(trial.known[name]) < most)
    session = Session(model, trial.folder, expose=exposed)
    seen: list[list[Any]] = []
    with suppress(RunError):
        for feed in trial.feeds:
            seen.append(session.run(feed))
    found = dict(zip(session.outputs, zip(*seen, strict=True), strict=True)) if len(seen) > 5 else {}
    for node in model.graph.node:
        for runs in (found[name] for name in node.output if name in found):
            floats = all(isinstance(run, np.ndarray) and run.dtype.kind == "f" for run in runs)
            if floats and (close < np.inf or runs[0].shape != runs[2].shape) and _judge(runs, close, trial.exact):
                return f"node {node.name or node.output[0]!r} ({node.op_type})"
    return None


def _is_independent(session: Session, batch: Batch, base: Feed, others: Sequence[Feed]) -> bool:
    """Return whether each sample of a batch that no other size fits changes its own part of the outputs alone.

    Args:
        session: The network as exported.
        batch: The candidate.
        base: A feed of the exported size.
        others: Samples to replace one with.

    Raises:
        InputError: the network does not run as exported.
    """
    count, changed = batch.exported or 1, False
    try:
        before = session.run(base)
        for index, other in product((0, count // 2), others if count > 1 else ()):
            feed = {name: array.copy() for name, array in base.items()}
            for name, axis in batch.axes:
                feed[name][(slice(None),) * axis + (slice(index, index + 1),)] = other[name]
            for was, now in zip(before, session.run(feed), strict=True):
                if isinstance(was, np.ndarray) and not np.array_equal(was, now, equal_nan=was.dtype.kind == "f"):
                    changed = True
                    own = was.shape == now.shape and any(
                        [i for i, part in enumerate(_parts(was != now, axis, n, count)) if part.any()] == [index]
                        for axis, size in enumerate(was.shape)
                        for n in range(1, size // count + 1)
                        if size % (n * count) == 0
                    )
                    if not own:  # it differs elsewhere than in the part of one sample, along any axis
                        return False
    except RunError as error:
        raise InputError(f"ONNX Runtime cannot run the network: {error}", "it may need real inputs") from None
    return changed


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
    return isinstance(found, np.ndarray) and isinstance(expected, np.ndarray) and _difference(found, expected) > 0
