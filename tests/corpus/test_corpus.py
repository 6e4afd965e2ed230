"""Every network of the corpus is measured as it is in its file, or refused; not one is silently another.

What is right is said by the corpus and by ONNX Runtime alone: the feeds that edgetune measured with go into the file
once more, without edgetune, and the outputs must be the same. At twice the batch, two runs of the file with half of the
feeds each must give what edgetune's one run gave.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from foreign import NETWORKS, ForeignNetwork

from conftest import Ended, Seen, bare


def dims(network: ForeignNetwork) -> list[str]:
    return [word for name, size in network.dimensions.items() for word in ("--dim", f"{name}={size}")]


def profile(edgetune, path: Path, *words: str) -> Ended:
    how = ("--task", "infer", "--device", "host", "--minibatches", "2", "-q")
    return edgetune("profile", str(path), *how, "-o", f"{len(words)}.parquet", *words)


def assert_refused(ended: Ended, network: ForeignNetwork) -> None:
    assert ended.refused, f"exit {ended.code}: {ended.err}"
    names = network.names or (*network.shapes, *network.dimensions)
    named = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", ended.err)]
    assert named, f"names none of {', '.join(names)}: {ended.err}"


def assert_alike(ours: list[np.ndarray], theirs: list[np.ndarray], *, tolerance: float, values: bool = True) -> None:
    assert [array.shape for array in ours] == [array.shape for array in theirs]
    assert [array.dtype for array in ours] == [array.dtype for array in theirs]
    for mine, other in zip(ours, theirs, strict=True) if values else ():
        off = np.abs(mine.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)
        largest = np.abs(other.astype(np.float64)).max(initial=0.0)
        assert off <= tolerance * largest, f"outputs differ by {off:.3g} of {largest:.3g}"


def judged(edgetune, path: Path, network: ForeignNetwork, seen: Seen) -> None:
    """Measure the network as it is in its file, and at twice the batch."""
    ended = profile(edgetune, path, *dims(network))
    if network.verdict == "refused" or (network.verdict == "either" and ended.code):
        assert_refused(ended, network)
        if network.shapes:  # it is refused for what it is, not because it would not run
            assert len(bare(path, network.feeds())) == len(network.build().graph.output)
    else:
        assert ended.code == 0, ended.err
        assert {name: array.shape for name, array in seen.feeds.items()} == dict(network.shapes)
        assert network.accept(seen.feeds) == ""
        assert_alike(seen.outputs, bare(path, seen.feeds), tolerance=1e-3, values=network.repeatable)
    ended = profile(edgetune, path, "--batch-sizes", str(2 * network.batch_size), *dims(network))
    if ended.code or network.verdict == "refused" or not network.batch_axes:
        assert_refused(ended, network)
        return
    axes = {name: _doubled(array.shape, network.shapes[name]) for name, array in seen.feeds.items()}
    assert {name: axes[name] for name in network.batch_axes} == dict(network.batch_axes)
    halves = [
        bare(path, {n: a if axes[n] is None else np.split(a, 2, axes[n])[half] for n, a in seen.feeds.items()})
        for half in (0, 1)
    ]
    joined = [_joined(ours, pair) for ours, *pair in zip(seen.outputs, *halves, strict=True)]
    assert_alike(seen.outputs, joined, tolerance=0.02, values=network.repeatable)


def _doubled(shape: tuple[int, ...], before: tuple[int, ...]) -> int | None:
    """Return the axis that is twice as long, ``None`` where the shape is the same; else fail."""
    changed = [axis for axis, (new, old) in enumerate(zip(shape, before, strict=True)) if new != old]
    assert len(changed) <= 1, f"{before} became {shape}"
    assert all(shape[axis] == 2 * before[axis] for axis in changed), f"{before} became {shape}"
    return changed[0] if changed else None


def _joined(ours: np.ndarray, halves: list[np.ndarray]) -> np.ndarray:
    """Return the outputs of two halves of a batch as one, along the axis that is twice as long in ``ours``.

    Samples may alternate along it; the nearest of these orders counts.
    """
    shape = halves[0].shape
    axis = _doubled(ours.shape, shape)
    if axis is not None:
        split = [
            [half.reshape(*shape[:axis], outer, -1, *shape[axis + 1 :]) for half in halves]
            for outer in range(1, shape[axis] + 1) if shape[axis] % outer == 0
        ]  # fmt: skip
        orders = [np.concatenate(each, axis + 1).reshape(ours.shape) for each in split]
        return min(orders, key=lambda order: np.abs(order.astype(np.float64) - ours.astype(np.float64)).sum())
    assert np.array_equal(*halves), "an output does not follow the batch, and depends on it"
    return halves[0]


def counted(edgetune, path: Path, *words: str) -> tuple[Ended, dict]:
    """Return how ``roofline ops`` ended and its answer, every row of whose file was checked."""
    from edgetune.artifacts.io import read
    from edgetune.artifacts.ops import OpsTable

    ended = edgetune("roofline", "ops", str(path), "--json", "-o", f"{len(words)}.ops.parquet", "-q", *words)
    if ended.code:
        return ended, {}
    for row in read(OpsTable, f"{len(words)}.ops.parquet").rows:
        amounts = (row.macs, row.flops, row.flops_other, row.bytes_read, row.bytes_written, row.weight_bytes)
        assert min(amounts) >= 0, f"{row.name} ({row.op}) costs {amounts}"
    return ended, json.loads(ended.out)


def costed(edgetune, path: Path, network: ForeignNetwork) -> None:
    """Count its operators as it is in its file."""
    ended, answer = counted(edgetune, path, *dims(network))
    expected = network.costed or network.verdict
    if expected == "refused" or (expected == "either" and ended.code):
        assert_refused(ended, network)
    else:
        assert ended.code == 0, ended.err
        if network.macs is not None:
            assert answer["totals"]["macs"] == pytest.approx(network.macs, rel=0.01)
        if network.weight_bytes is not None:  # scales and zero points may be counted too
            assert answer["totals"]["weight_bytes"] == pytest.approx(network.weight_bytes, rel=0.1)


def costed_twice(edgetune, path: Path, network: ForeignNetwork) -> None:
    """Count its operators at twice the batch, which runs may have to find: costs grow with it, or it is refused."""
    ended, answer = counted(edgetune, path, "--batch-size", str(2 * network.batch_size), *dims(network))
    expected = network.costed or network.verdict
    if ended.code or expected == "refused" or (expected == "measured" and not network.batch_axes and network.shapes):
        assert_refused(ended, network)
    elif network.macs is not None and any(axis is not None for axis in network.batch_axes.values()):
        assert answer["totals"]["macs"] == pytest.approx(2 * network.macs, rel=0.01)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_network_is_measured_and_costed_as_it_is_or_refused(
    network: ForeignNetwork, edgetune, seen: Seen, tmp_path: Path
) -> None:
    path = network.write(tmp_path)
    costed(edgetune, path, network)
    if not network.slow:
        costed_twice(edgetune, path, network)
        judged(edgetune, path, network, seen)


@pytest.mark.slow
@pytest.mark.parametrize("network", [n for n in NETWORKS.values() if n.slow], ids=lambda network: network.name)
def test_a_large_network_is_measured_as_it_is(network: ForeignNetwork, edgetune, seen: Seen, tmp_path: Path) -> None:
    path = network.write(tmp_path)
    costed_twice(edgetune, path, network)
    judged(edgetune, path, network, seen)
