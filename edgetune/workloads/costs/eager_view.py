"""The table as an eager framework without kernels for it would run it: every part of an operator is a kernel.

The scores of attention, what lies between the five kernels of a GELU, and every gate of an LSTM then go to memory and
come back. Studies that count an exported graph node by node count so. Softmax and normalisations stay one kernel, as
they are in eager frameworks. Operations stay what they are: only bytes and launches grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetune.workloads.costs.node import WHOLE
from edgetune.workloads.costs.walk import Costed


def apart(costed: Sequence[Costed]) -> list[Costed]:
    """Return the operators with what their parts move and launch as kernels of their own, a row for each as before."""
    return [
        Costed(
            item.node,
            replace(
                item.cost,
                bytes_read=item.cost.bytes_read + item.cost.parts.bytes_read,
                bytes_written=item.cost.bytes_written + item.cost.parts.bytes_written,
                kernels=item.cost.kernels + item.cost.parts.kernels,
                parts=WHOLE,
            ),
        )
        for item in costed
    ]
