"""Joins measured times of layers to the operator table, so that each layer can be placed on the roofline.

A runtime does not run a network as its graph is written: it folds BatchNormalization into convolutions, runs chains
as one kernel, adds changes of layout. What it ran is one layer here, whatever number of rows that is.
"""

from collections.abc import Sequence
from dataclasses import replace

from edgetune.artifacts.layers import How, Layer, Layers, LayerTime, LayerTimes
from edgetune.artifacts.ops import OpRow, OpsTable, Phase

_BYTES = ("bytes_read", "bytes_written", "weight_bytes")
_NAMED = 5
"""More operators than these (a residual block's end has as many) would not fit a line of a table."""


def join(ops: OpsTable, times: LayerTimes) -> Layers:
    """Return the layers of a network with cost, time and share.

    Times that share a row become one layer (an operator that the runtime runs as two kernels). A time without a row
    is unexplained, and so is the time between them; nothing is spread over layers by guessing.

    Args:
        ops: The operator table of the same network, task and batch size; its rows one by one (not the fused view).
        times: What was measured.
    """
    rows = _Rows(ops.rows)
    groups: list[tuple[set[int], list[LayerTime]]] = []
    unexplained = []
    for time in times.times:
        found = rows.of(time)
        if not found:
            unexplained.append(time if time.rows == () else replace(time, how="unmatched"))
            continue
        members = [time]
        apart = []
        for others, their_times in groups:
            if others & found:
                found |= others
                members = their_times + members
            else:
                apart.append((others, their_times))
        groups = [*apart, (found, members)]
    layers = [
        _layer([ops.rows[index] for index in sorted(found)], members, times.minibatch_s)
        for found, members in sorted(groups, key=lambda group: min(group[0]))
    ]
    timed = {index for found, _ in groups for index in found}
    untimed = (row.name for index, row in enumerate(ops.rows) if index not in timed and row.ledger == "modelled")
    return Layers(times, tuple(layers), tuple(unexplained), tuple(untimed))


class _Rows:
    """Finds rows of a table by their own name, or by the name of their node and the phase."""

    def __init__(self, rows: Sequence[OpRow]) -> None:
        self._by_name: dict[tuple[Phase, str], set[int]] = {}
        self._by_node: dict[tuple[Phase, str], set[int]] = {}
        for index, row in enumerate(rows):
            self._by_name.setdefault((row.phase, row.name), set()).add(index)
            # Rows of training are named after their node: conv1/weight_gradient.
            node = row.name if row.phase == "forward" else row.name.rpartition("/")[0]
            self._by_node.setdefault((row.phase, node), set()).add(index)

    def of(self, time: LayerTime) -> set[int]:
        found: set[int] = set()
        for name in time.rows:
            key = (time.phase, name)
            found |= self._by_name.get(key) or self._by_node.get(key, set())
        return found


def _layer(rows: Sequence[OpRow], times: Sequence[LayerTime], minibatch_s: float) -> Layer:
    rows = [row for row in rows if row.ledger != "zero"] or rows
    how: How = "node" if len(rows) == 1 else "fused"
    if all(time.how == "simulated" for time in times):
        how = "simulated"
    seconds = sum(time.seconds for time in times)
    merged = rows[0] if len(rows) == 1 else _merged(rows, times)
    return Layer(merged, tuple(row.name for row in rows), seconds, seconds / minibatch_s, how)


def _merged(rows: Sequence[OpRow], times: Sequence[LayerTime]) -> OpRow:
    """Return several rows as one.

    Its operations are the sum. So are its bytes, which counts what a fused kernel never writes to memory; where the
    runtime says how large the inputs and outputs of its kernels are, and these and the weights are less, it is those.
    """
    lead = max(rows, key=lambda row: (row.flops, row.bytes_moved))
    read, written, weights = (sum(getattr(row, name) for row in rows) for name in _BYTES)
    ops = dict.fromkeys(row.op for row in rows)
    told = [time.data_bytes for time in times if time.data_bytes is not None]
    if len(told) == len(times) and weights + sum(told) < read + written:
        written = min(rows[-1].bytes_written, sum(told))
        read = weights + sum(told) - written
    return replace(
        lead, op="+".join(ops) if len(ops) <= _NAMED else f"{lead.op}+{len(ops) - 1} more",
        ledger="unmodelled" if any(row.ledger == "unmodelled" for row in rows) else lead.ledger, inputs=rows[0].inputs,
        outputs=rows[-1].outputs, dtype=rows[-1].dtype, macs=sum(row.macs for row in rows),
        flops=sum(row.flops for row in rows), flops_other=sum(row.flops_other for row in rows), bytes_read=read,
        bytes_written=written, weight_bytes=weights, kernels=len(times),
    )  # fmt: skip
