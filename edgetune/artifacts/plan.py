"""The plan: the answer of a search, read by the other commands and by people's scripts."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem

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
    """

    mode: Mode
    batch_size: int | None = None
    infer_batch_size: int | None = None
    train_batch_size: int | None = None
    train_minibatches: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one configuration, measured or predicted; ``None`` where there is none."""

    minibatch_s: float | None = None
    power_w: float | None = None
    latency_s: float | None = None
    throughput_per_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """How the plan was found: by which strategy, from how many measured points, with which seed."""

    strategy: str
    points_measured: int
    seed: int
    known_points: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A configuration that was measured within the budgets of its problem.

    The workload's name and hash are in ``header.inputs["workload"]``, the device in ``header.conditions["device"]``.
    """

    header: Header
    problem: Problem
    configuration: Configuration
    measured: Figures
    search: SearchSummary
    predicted: Figures | None = None
