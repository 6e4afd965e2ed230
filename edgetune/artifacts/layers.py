"""Times of layers within a minibatch, as reported by a runtime's profiler and joined to the operator table.

    minibatch   |conv1+relu1|maxpool|  |reorder|conv2+relu2|     |gemm|  |
    explained   |###########|#######|          |###########|     |####|       has rows in the operator table
    unexplained                      ..|.......|            .....      ..     between kernels; inserted by the runtime

Data classes only, no file format: ``workloads.layer_times`` measures, ``roofline.layers`` joins.
"""

from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.ops import OpRow, Phase

How = Literal["node", "fused", "inserted", "unmatched", "simulated"]
"""How a time belongs to the network: it is one operator of the graph (``node``), several that the runtime runs as one
(``fused``), work that the runtime added, such as a change of layout (``inserted``), nothing known (``unmatched``), or
what a model says of one operator (``simulated``)."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Time of one kernel that the runtime runs in every minibatch.

    Args:
        name: As the runtime names it.
        op: Operator type as the runtime names it, e.g. ``Conv``, ``FusedConv``, ``ReorderInput``.
        phase: ``forward``, or a step of training.
        rows: The rows of the operator table that it covers, or nodes of the graph, each with all rows of the phase.
            Empty for ``inserted`` and ``unmatched`` times.
        seconds: Median time per minibatch, s.
        how: See ``How``.
        data_bytes: Bytes of its inputs and outputs without weights; ``None`` if the runtime does not report them.
    """

    name: str
    op: str
    phase: Phase
    rows: tuple[str, ...]
    seconds: float
    how: How
    data_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Times of a network's layers in one task, batch size and mode.

    Args:
        source: The runtime and its settings, e.g. ``"ONNX Runtime 1.20.1, optimisation all"``.
        simulated: Whether they come from a model.
        minibatches: Number of profiled minibatches, without warm-up.
        minibatch_s: Time of a profiled minibatch: the sum of ``times`` and the gaps between them, s.
        times: Times in the order of execution.
        undisturbed_s: Median time of a minibatch without the profiler, s; ``None`` if not measured.
        cautions: Cautions on the figures, as sentences.
    """

    source: str
    simulated: bool
    minibatches: int
    minibatch_s: float
    times: tuple[LayerTime, ...]
    undisturbed_s: float | None = None
    cautions: tuple[str, ...] = ()

    @property
    def between_s(self) -> float:
        """Time of a minibatch in which none of ``times`` ran: the framework, launches, waiting, s."""
        return max(self.minibatch_s - sum(time.seconds for time in self.times), 0.0)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer with its cost and its time: a point of the roofline.

    Args:
        row: Its cost as one row. For a fused layer the sum of its rows, with the name of the row with most operations
            and an ``op`` such as ``Conv+Relu``.
        rows: Names of its rows in the order of the table; views are included only if it has no other rows.
        seconds: Time per minibatch, s.
        share: Share of the time of a minibatch.
        how: See ``How``.
    """

    row: OpRow
    rows: tuple[str, ...]
    seconds: float
    share: float
    how: How

    @property
    def intensity(self) -> float:
        """FLOP per byte; infinite if no bytes are moved."""
        moved = self.row.bytes_moved
        return self.row.flops / moved if moved else float("inf")

    @property
    def flops_per_s(self) -> float:
        """Achieved rate; infinite without a time."""
        return self.row.flops / self.seconds if self.seconds else float("inf")


@dataclass(frozen=True, slots=True)
class Layers:
    """A network's layers with their times, and the unexplained times.

    Args:
        measured: The joined times.
        layers: The layers in the order of the table.
        unexplained: Times that match no row of the table.
        untimed: Rows with a cost but without a time: folded into constants, or optimised away.
    """

    measured: LayerTimes
    layers: tuple[Layer, ...]
    unexplained: tuple[LayerTime, ...]
    untimed: tuple[str, ...]

    @property
    def explained_share(self) -> float:
        """Share of a minibatch's time that has rows in the table."""
        return sum(layer.share for layer in self.layers)

    @property
    def unexplained_share(self) -> float:
        """Share of a minibatch's time without rows: ``inserted_share``, ``between_share``, and times not joined."""
        return max(1.0 - self.explained_share, 0.0)

    @property
    def inserted_share(self) -> float:
        """Share of work that the runtime added."""
        inserted_s = sum(time.seconds for time in self.unexplained if time.how == "inserted")
        return inserted_s / self.measured.minibatch_s

    @property
    def between_share(self) -> float:
        """Share between the times: the framework, launches, waiting."""
        return self.measured.between_s / self.measured.minibatch_s
