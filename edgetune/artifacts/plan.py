"""The plan: the answer of a search, an input of other commands and of scripts."""

from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.document import Document, head_of, present
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.yaml_document import BlockMapping, plain

KIND = "plan"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Configuration:
    """The chosen mode and batch size; for two workloads one batch size each.

    Args:
        mode: The power mode to set.
        batch_size: Samples per minibatch, when there is one workload.
        infer_batch_size, train_batch_size: Samples per minibatch of each, when there are two.
        train_minibatches: Training minibatches per inference minibatch.
        background_batch_size, background_minibatches: The same of a second inference workload, one without a deadline.
    """

    mode: Mode
    batch_size: PositiveInt | None = None
    infer_batch_size: PositiveInt | None = None
    train_batch_size: PositiveInt | None = None
    train_minibatches: PositiveInt | None = None
    background_batch_size: PositiveInt | None = None
    background_minibatches: PositiveInt | None = None


@dataclass(frozen=True, slots=True)
class HalfFigures:
    """The measured figures of one of two workloads, per minibatch; see ``PlanFigures``."""

    minibatch_s: PositiveFloat | None = None
    power_w: PositiveFloat | None = None
    energy_j: PositiveFloat | None = None
    minibatch_p95_s: PositiveFloat | None = None


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """Figures of one configuration, measured or predicted; ``None`` if absent.

    ``minibatch_s`` is the mean time, from which the throughput follows; ``minibatch_p95_s`` the 95th percentile, from
    which the latency follows, where it differs.
    For two workloads ``power_w`` is the larger one, ``latency_s`` that of the urgent one and ``throughput_per_s`` that
    of the background one; ``infer`` and ``train`` (or ``background`` if both infer) have the figures of each. Those of
    tokens are of a server, see ``ProfileRow``.
    """

    minibatch_s: PositiveFloat | None = None
    power_w: PositiveFloat | None = None
    latency_s: PositiveFloat | None = None
    throughput_per_s: PositiveFloat | None = None
    energy_j: PositiveFloat | None = None
    infer: HalfFigures | None = None
    train: HalfFigures | None = None
    background: HalfFigures | None = None
    ttft_p95_s: PositiveFloat | None = None
    token_p95_s: PositiveFloat | None = None
    tokens_per_s: PositiveFloat | None = None
    tokens_per_j: PositiveFloat | None = None
    memory_peak_bytes: PositiveInt | None = None
    minibatch_p95_s: PositiveFloat | None = None


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """The search that found the plan.

    Args:
        strategy: Its name.
        points_measured: Number of measured points.
        seed: Of the strategy's random choices.
        known_points: Number of points known from earlier.
        expected_gain: Expected gain of ten more measurements, a share of the objective; ``None`` if every point was
            measured, or the strategy does not say.
    """

    strategy: str
    points_measured: NonNegativeInt
    seed: NonNegativeInt
    known_points: NonNegativeInt = 0
    expected_gain: NonNegativeFloat | None = None


@dataclass(frozen=True, slots=True)
class Plan(Document):
    """A configuration whose measurement meets the budgets of its problem.

    The workload's name, reference, absolute path and hash, and its dimensions, precision and inputs where they are not
    the default, are in ``header.inputs["workload"]``; those of a second workload in ``header.inputs["background"]``.
    The device is in ``header.conditions["device"]``.
    """

    header: Header
    problem: Problem
    configuration: Configuration
    measured: PlanFigures
    search: SearchSummary
    predicted: PlanFigures | None = None

    EXAMPLE = "see the plan that `edgetune search` writes"

    def document(self) -> dict[str, Any]:
        """Return the head, then problem, configuration, measured, predicted and search, without empty keys."""
        order = ("problem", "configuration", "measured", "predicted", "search")
        found = {key: present(plain(getattr(self, key))) for key in order if getattr(self, key) is not None}
        if self.problem.margin == 0:
            del found["problem"]["margin"]
        if not self.problem.epochs_to_target:
            del found["problem"]["epochs_to_target"]
        mode = found["configuration"]["mode"]
        mode.update({knob: int(value) for knob, value in mode.items() if knob in KNOBS and float(value).is_integer()})
        return BlockMapping({**head_of(self.header), **found})
