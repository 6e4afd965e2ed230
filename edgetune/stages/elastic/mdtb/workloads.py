"""The workloads of Miriam's benchmark (MDTB) and its case study: a critical network and a normal one, and arrivals.

    A      alexnet     closed loop     cifarnet     closed loop      32 x 32 images of cifarnet, as it was made for
    B      squeezenet  uniform 10/s    alexnet      closed loop
    C      gru         poisson 10/s    resnet       closed loop
    D      lstm        uniform 10/s    squeezenet   closed loop
    A224   alexnet     closed loop     cifarnet     closed loop      224 x 224, as the study has it of all networks
    LGSVL  resnet      uniform 10/s    squeezenet   uniform 12.5/s   obstacles, and pose, in a simulator of driving

Source of networks, arrivals and figures: Zhao et al., Miriam: Exploiting Elastic Kernels for Real-time Multi-DNN
Inference on Edge GPU (SenSys 2023), body of the text. Its kernels, sizes and GPUs were others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import GpuTask
from edgetune.stages.elastic.mdtb.networks import network

CRITICAL, NORMAL = 1, 0
SOURCE = "Zhao et al., Miriam (SenSys 2023), body of the text; real GPUs and other kernels than these"


@dataclass(frozen=True, slots=True)
class TaskPair:
    """Two tasks.

    Args:
        name: As in the table above.
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
        workload: Its name.
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
    PublishedFigure("LGSVL", "multistream", "rtx-2060", "critical latency", 1.82),
    PublishedFigure("LGSVL", "barrier", "rtx-2060", "critical latency", 1.56),
    PublishedFigure("LGSVL", "elastic", "rtx-2060", "critical latency", 1.11),
    PublishedFigure("LGSVL", "multistream", "rtx-2060", "throughput", 1.41),
    PublishedFigure("LGSVL", "barrier", "rtx-2060", "throughput", 1.25),
    PublishedFigure("LGSVL", "elastic", "rtx-2060", "throughput", 1.89),
)
"""Figures that the text states; figures read off plots are not among them."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A workload: networks, arrivals, unusual sizes, and the workload of the study whose figures stand beside it."""

    critical: str
    arrivals: str
    normal: str
    normal_arrivals: str = "closed"
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    published: str | None = None


_WORKLOADS: dict[str, _Row] = {
    "A": _Row("alexnet", "closed", "cifarnet"),
    "B": _Row("squeezenet", "uniform:10/s", "alexnet"),
    "C": _Row("gru", "poisson:10/s", "resnet"),
    "D": _Row("lstm", "uniform:10/s", "squeezenet"),
    "A224": _Row("alexnet", "closed", "cifarnet", sizes={"cifarnet": {"side": 224}}, published="A"),
    "LGSVL": _Row("resnet", "uniform:10/s", "squeezenet", "uniform:12.5/s"),
}
WORKLOADS = ("A", "B", "C", "D")
"""The four of the benchmark's table."""


def workload(name: str, *, sizes: Mapping[str, Mapping[str, int]] | None = None) -> TaskPair:
    """Return a workload.

    Args:
        name: Of a workload, whatever the case of letters.
        sizes: Of networks, by name, in place of the usual ones.

    Raises:
        InputError: there is no such workload.
    """
    found = _WORKLOADS.get(name.upper())
    if found is None:
        raise InputError(f"there is no workload {name!r}", f"known: {', '.join(_WORKLOADS)}")
    first, second = (
        network(each, **{**found.sizes.get(each, {}), **(sizes or {}).get(each, {})})
        for each in (found.critical, found.normal)
    )
    critical = GpuTask(found.critical, first, CRITICAL, found.arrivals)
    return TaskPair(name.upper(), critical, GpuTask(found.normal, second, NORMAL, found.normal_arrivals))


def published(name: str) -> tuple[PublishedFigure, ...]:
    """Return the published figures of a workload."""
    found = _WORKLOADS.get(name)
    theirs = name if found is None or found.published is None else found.published
    return tuple(figure for figure in PUBLISHED if figure.workload == theirs)
