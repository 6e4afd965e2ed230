"""How a network is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetune.workloads.partition.optimised import Level


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """What makes one prepared folder differ from another of the same model.

    Args:
        batch_size: Samples per request.
        dimensions: Sizes of open dimensions, see ``fix_dimensions``.
        optimise: How far ONNX Runtime optimises before the cut.
        split_bytes: Fully connected layers and tables with a larger matrix are split; ``None`` for none.
        whole: One layer for the whole network.
        batch_axes: The batch axes that the user names, see ``Workload``.
    """

    batch_size: int = 1
    dimensions: Mapping[str, int] = field(default_factory=dict)
    optimise: Level = "all"
    split_bytes: int | None = None
    whole: bool = False
    batch_axes: tuple[tuple[str, int], ...] | None = None

    def document(self) -> dict[str, Any]:
        """Return them as the manifest holds them, but for the batch size, which has a place of its own."""
        named = {} if self.batch_axes is None else {"batch_axes": dict(self.batch_axes)}
        return named | {
            "dimensions": dict(sorted(self.dimensions.items())),
            "optimise": self.optimise,
            "split_bytes": self.split_bytes,
            "whole": self.whole,
        }
