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
        background_batch_size, background_minibatches: The same of a second inference workload, one without a deadline.
    """

    mode: Mode
    batch_size: int | None = None
    infer_batch_size: int | None = None
    train_batch_size: int | None = None
    train_minibatches: int | None = None
    background_batch_size: int | None = None
    background_minibatches: int | None = None


@dataclass(frozen=True, slots=True)
class HalfFigures:
    """What was measured of one of two workloads, per minibatch."""

    minibatch_s: float | None = None
    power_w: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """Figures of one configuration, measured or predicted; ``None`` where there is none.

    Of two workloads ``power_w`` is the larger, ``latency_s`` that of the urgent one, ``throughput_per_s`` that of the
    background one, and ``infer`` with ``train`` (or ``background``, when both infer) is what was measured of each.
    """

    minibatch_s: float | None = None
    power_w: float | None = None
    latency_s: float | None = None
    throughput_per_s: float | None = None
    energy_j: float | None = None
    infer: HalfFigures | None = None
    train: HalfFigures | None = None
    background: HalfFigures | None = None


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
