"""What the twin's GPU takes for each operator: the sum that makes its time of a minibatch, not yet added up."""

from __future__ import annotations

from dataclasses import replace

from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.devices.twin.constants import Constants
from edgetune.devices.twin.physics import Clocks, predict
from edgetune.devices.twin.work import work_of


def layer_times(c: Constants, ops: OpsTable, at: Clocks, *, tf32_matmul: bool = False) -> LayerTimes:
    """Return the GPU time of each row; what launches and image decoding add to it is between the rows.

    Args:
        c: The twin's constants.
        ops: The operator table.
        at: One power mode.
        tf32_matmul: See ``physics.rates``.

    Raises:
        InputError: see ``work_of``.
    """
    whole = predict(c, work_of(ops), at, tf32_matmul=tf32_matmul)
    launched = [row for row in ops.rows if row.op_class != "view" and row.kernels > 0]

    def gpu_s(row: OpRow) -> float:
        alone = work_of(replace(ops, rows=(row,)))
        return float(predict(c, alone, at, tf32_matmul=tf32_matmul).gpu_s[0])

    times = tuple(LayerTime(row.name, row.op, row.phase, (row.name,), gpu_s(row), "simulated") for row in launched)
    return LayerTimes(f"the twin's model of {ops.workload}", True, 1, float(whole.minibatch_s[0]), times)
