"""Work of a network for the twin: its operators grouped by the hardware that runs them.

The twin needs the operations, bytes and kernels of each operator and, for convolutions, how well the channels fill a
tensor-core tile. A power mode changes only two rates per group. So a group's operators are sorted by intensity once,
and the time in each mode is a look-up (see ``OperatorGroup.roof_s``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.devices.twin.constants import Constants
from edgetune.errors import InputError

Array = NDArray[np.float64]

GROUPS = ("conv", "gemm", "rnn", "depthwise", "saturated", "stream")
"""Tensor-core convolutions, matrix products, recurrent layers, depthwise convolutions, matrix products that reach the
roof of tensor cores, and memory-bound operators (streams)."""

_CUDNN = ("conv", "depthwise", "rnn")
PRECISION_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
_RUNS_AS = {"tf32": "fp32", "bf16": "fp16"}
"""Precisions without published data, and the precision whose rates and energies they use."""


@dataclass(frozen=True, slots=True)
class Work:
    """One network at one batch size, as arrays over its operators.

    Args:
        flops, moved_bytes, channels_in, channels_out: Per group of ``GROUPS``, one value per operator; for operators
            of another precision than the network's, per group and precision, see ``key_of``.
        operators: Number of operators that an eager framework launches.
        cudnn_calls: Number of convolutions and recurrent layers among them.
        kernels: Total number of kernels.
        images: Images that CPU cores decode per minibatch.
        precision: ``fp32``, ``fp16`` or ``int8``: the precision of most products.
    """

    flops: dict[str, Array]
    moved_bytes: dict[str, Array]
    channels_in: dict[str, Array]
    channels_out: dict[str, Array]
    operators: int
    cudnn_calls: int
    kernels: int
    images: int
    precision: str
    _groups: dict[float, dict[str, OperatorGroup]] = field(default_factory=dict, repr=False, compare=False)

    def groups(self, constants: Constants) -> dict[str, OperatorGroup]:
        """Return the operators of each group, sorted by intensity; cached by the tile constant."""
        key = constants.conv_half_channels
        if key not in self._groups:
            self._groups.clear()
            self._groups[key] = {name: self._group(name, key) for name in self.flops}
        return self._groups[key]

    @property
    def precisions(self) -> tuple[str, ...]:
        """The network's precision, then other precisions of its operators."""
        others = dict.fromkeys(name.partition(":")[2] for name in self.flops)
        return (self.precision, *(each for each in others if each))

    def key_of(self, name: str, precision: str) -> str:
        """Return the key of a group of ``GROUPS`` in one of ``precisions``."""
        return name if precision == self.precision else f"{name}:{precision}"

    def _group(self, name: str, half_channels: float) -> OperatorGroup:
        flops, moved = self.flops[name], self.moved_bytes[name]
        if name.startswith("conv"):
            flops = flops * tile_waste(self.channels_in[name], self.channels_out[name], half_channels)
        return OperatorGroup.of(flops, moved, nominal_flops=float(self.flops[name].sum()))


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """Operators that share one compute rate, in ascending order of FLOP per byte.

    Args:
        intensity: FLOP per byte, ascending, FLOP including wasted tile lanes.
        flops_below, bytes_below: Sums over the first 0, 1, ... operators.
        nominal_flops: FLOP without waste, for the energy, because multiplying zeros is nearly free.
    """

    intensity: Array
    flops_below: Array
    bytes_below: Array
    nominal_flops: float

    @classmethod
    def of(cls, flops: Array, moved_bytes: Array, *, nominal_flops: float) -> OperatorGroup:
        """Sort operators by intensity; an operator without bytes is always compute-bound."""
        intensity = np.divide(flops, moved_bytes, out=np.full_like(flops, np.inf), where=moved_bytes > 0)
        order = np.argsort(intensity, kind="stable")
        below = [np.concatenate(([0.0], np.cumsum(values[order]))) for values in (flops, moved_bytes)]
        return cls(intensity[order], below[0], below[1], nominal_flops)

    def roof_s(self, flops_per_s: Array, bytes_per_s: Array) -> tuple[Array, Array]:
        """Return the sum of max(compute time, memory time) over the operators, and its compute-bound part, s.

        Args:
            flops_per_s, bytes_per_s: The two rates, one value per power mode.
        """
        first = np.searchsorted(self.intensity, flops_per_s / bytes_per_s, side="right")
        compute_s = (self.flops_below[-1] - self.flops_below[first]) / flops_per_s
        return compute_s + self.bytes_below[first] / bytes_per_s, compute_s


def tile_waste(channels_in: Array, channels_out: Array, half_channels: float) -> Array:
    """Return the factor by which narrow layers lengthen a convolution: (1 + hc/max(ci, 32)) (1 + hc/co)."""
    wide_in, wide_out = np.maximum(channels_in, 32.0), np.maximum(channels_out, 1.0)
    return (1 + half_channels / wide_in) * (1 + half_channels / wide_out)


def work_of(ops: OpsTable, *, precision: str | None = None) -> Work:
    """Return the twin's work of an operator table.

    Views launch nothing and cost nothing. An unmodelled operator counts as a launch with its stated bytes.

    Args:
        ops: The operator table.
        precision: Treat the table as this precision instead of its own: bytes scale with the element width. Without it
            each operator runs in its own.

    Raises:
        InputError: the twin does not support the precision, or the table has no operators.
    """
    wanted = precision or ops.precision
    products = [] if precision else [row.precision for row in ops.rows if row.macs and row.precision is not None]
    for name in (wanted, ops.precision, *products):
        if name not in PRECISION_BYTES:
            hint = f"choose another precision: {', '.join(PRECISION_BYTES)}"
            raise InputError(f"the twin has no precision {name!r}", hint)
    rows = [row for row in ops.rows if row.op_class != "view" and row.kernels > 0]
    if not rows:
        raise InputError(f"{ops.workload} has no operator whose cost is known{_unknown(ops)}", "profile it on a device")
    members: dict[str, list[OpRow]] = {name: [] for name in GROUPS}
    for row in rows:
        members.setdefault(_key(row, wanted, own=precision is None), []).append(row)
    width = PRECISION_BYTES[wanted] / PRECISION_BYTES[ops.precision]
    return Work(
        flops={name: _column(group, "flops") for name, group in members.items()},
        moved_bytes={
            name: width * (_column(group, "bytes_read") + _column(group, "bytes_written"))
            for name, group in members.items()
        },
        channels_in={name: _column(group, "channels_in") for name, group in members.items()},
        channels_out={name: _column(group, "channels_out") for name, group in members.items()},
        operators=len(rows),
        cudnn_calls=sum(row.op_class in _CUDNN for row in rows),
        kernels=sum(row.kernels for row in rows),
        images=ops.batch_size if ops.loads_images else 0,
        precision=_RUNS_AS.get(wanted, wanted),
    )


def _key(row: OpRow, wanted: str, *, own: bool) -> str:
    """Return the group of a row, with the precision of a product that differs from ``wanted``; streams have none."""
    group = _group_of(row, wanted)
    if not own or row.precision is None or group == "stream":
        return group
    runs_as = _RUNS_AS.get(row.precision, row.precision)
    if runs_as == _RUNS_AS.get(wanted, wanted) or row.precision not in PRECISION_BYTES:
        return group
    return f"{_group_of(row, row.precision)}:{runs_as}"


def _group_of(row: OpRow, precision: str) -> str:
    """Return the group of ``GROUPS`` that runs an operator.

    A saturated product in true FP32 is modelled as a network's product: its rate is published (3.49 TFLOP/s, Pagoda,
    2025) but its power is not.
    """
    if row.op_class == "saturated" and precision == "fp32":
        return "gemm"
    return row.op_class if row.op_class in GROUPS else "stream"


def _unknown(ops: OpsTable) -> str:
    names = sorted({row.op for row in ops.rows if row.ledger == "unmodelled"})
    return f": it consists of {', '.join(names)}" if names else ""


def _column(rows: list[OpRow], name: str) -> Array:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)
