"""The four workloads of Miriam's benchmark (MDTB): a critical network with its arrivals, and a normal one.

    A   alexnet     closed loop     cifarnet
    B   squeezenet  uniform 10/s    alexnet
    C   gru         poisson 10/s    resnet
    D   lstm        uniform 10/s    squeezenet       normal networks run in closed loops

Source of networks, arrivals and figures: Zhao et al., Miriam: Exploiting Elastic Kernels for Real-time Multi-DNN
Inference on Edge GPU (SenSys 2023), body of the text. Its kernels, sizes and GPUs were others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetune.errors import InputError
from edgetune.stages.elastic.mdtb.networks import network
from edgetune.stages.elastic.work import GpuTask

CRITICAL, NORMAL = 1, 0
SOURCE = "Zhao et al., Miriam (SenSys 2023), body of the text; real GPUs and other kernels than these"


@dataclass(frozen=True, slots=True)
class TaskPair:
    """Two tasks.

    Args:
        name: Letter.
        critical: The one with priority.
        normal: The best-effort one.
    """

    name: str
    critical: GpuTask
    normal: GpuTask


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A published figure, to be printed beside ours.

    Args:
        workload: Letter.
        policy: Of ours, the one most like theirs.
        device: Where it was measured.
        what: ``critical latency``: times that alone on the GPU; ``throughput``: times sequential.
        value: The factor.
    """

    workload: str
    policy: str
    device: str
    what: Literal["critical latency", "throughput"]
    value: float


PUBLISHED: tuple[PublishedFigure, ...] = (
    PublishedFigure("A", "multistream", "rtx-2060", "critical latency", 1.95),
    PublishedFigure("A", "multistream", "xavier", "critical latency", 2.02),
    PublishedFigure("A", "barrier", "rtx-2060", "critical latency", 1.52),
    PublishedFigure("A", "barrier", "xavier", "critical latency", 1.77),
    PublishedFigure("A", "elastic", "rtx-2060", "critical latency", 1.21),
    PublishedFigure("A", "elastic", "xavier", "critical latency", 1.28),
    PublishedFigure("A", "elastic", "rtx-2060", "throughput", 1.64),
    PublishedFigure("A", "elastic", "xavier", "throughput", 1.83),
    PublishedFigure("B", "elastic", "xavier", "throughput", 1.85),
    PublishedFigure("C", "elastic", "xavier", "throughput", 1.79),
    PublishedFigure("D", "elastic", "xavier", "throughput", 1.91),
)
"""Figures that the text states; figures read off plots are not among them."""

_WORKLOADS: dict[str, tuple[str, str, str]] = {
    "A": ("alexnet", "closed", "cifarnet"),
    "B": ("squeezenet", "uniform:10/s", "alexnet"),
    "C": ("gru", "poisson:10/s", "resnet"),
    "D": ("lstm", "uniform:10/s", "squeezenet"),
}
WORKLOADS = tuple(_WORKLOADS)
"""Their letters."""


def workload(letter: str, *, sizes: Mapping[str, Mapping[str, int]] | None = None) -> TaskPair:
    """Return a workload.

    Args:
        letter: A to D.
        sizes: Of networks, by name, in place of the usual ones.

    Raises:
        InputError: there is no such workload.
    """
    found = _WORKLOADS.get(letter.upper())
    if found is None:
        raise InputError(f"there is no workload {letter!r}", f"known: {', '.join(_WORKLOADS)}")
    first, arrivals, second = found
    told = sizes or {}
    critical = GpuTask(first, network(first, **told.get(first, {})), CRITICAL, arrivals)
    return TaskPair(letter.upper(), critical, GpuTask(second, network(second, **told.get(second, {})), NORMAL))
