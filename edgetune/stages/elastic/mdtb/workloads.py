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
from dataclasses import dataclass

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
    what: str
    value: float


PUBLISHED: tuple[PublishedFigure, ...] = tuple(
    PublishedFigure(workload, policy, device, what, value)
    for workload, what, policy, values in (
        ("A", "critical latency", "multistream", {"rtx-2060": 1.95, "xavier": 2.02}),
        ("A", "critical latency", "barrier", {"rtx-2060": 1.52, "xavier": 1.77}),
        ("A", "critical latency", "elastic", {"rtx-2060": 1.21, "xavier": 1.28}),
        ("A", "throughput", "elastic", {"rtx-2060": 1.64, "xavier": 1.83}),
        ("B", "throughput", "elastic", {"xavier": 1.85}),
        ("C", "throughput", "elastic", {"xavier": 1.79}),
        ("D", "throughput", "elastic", {"xavier": 1.91}),
        ("LGSVL", "critical latency", "multistream", {"rtx-2060": 1.82}),
        ("LGSVL", "critical latency", "barrier", {"rtx-2060": 1.56}),
        ("LGSVL", "critical latency", "elastic", {"rtx-2060": 1.11}),
        ("LGSVL", "throughput", "multistream", {"rtx-2060": 1.41}),
        ("LGSVL", "throughput", "barrier", {"rtx-2060": 1.25}),
        ("LGSVL", "throughput", "elastic", {"rtx-2060": 1.89}),
    )
    for device, value in values.items()
)
"""Figures that the text states; figures read off plots are not among them."""


_WORKLOADS: Mapping[str, tuple[str, str, str, str]] = {
    "A": ("alexnet", "closed", "cifarnet", "closed"),
    "B": ("squeezenet", "uniform:10/s", "alexnet", "closed"),
    "C": ("gru", "poisson:10/s", "resnet", "closed"),
    "D": ("lstm", "uniform:10/s", "squeezenet", "closed"),
    "A224": ("alexnet", "closed", "cifarnet", "closed"),
    "LGSVL": ("resnet", "uniform:10/s", "squeezenet", "uniform:12.5/s"),
}
"""The critical network and its arrivals, the normal one and its arrivals."""
_SIZES: Mapping[tuple[str, str], Mapping[str, int]] = {("A224", "cifarnet"): {"side": 224}}
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
    letter = name.upper()
    if letter not in _WORKLOADS:
        raise InputError(f"there is no workload {name!r}", f"known: {', '.join(_WORKLOADS)}")
    critical, arrivals, normal, normal_arrivals = _WORKLOADS[letter]
    first, second = (
        network(each, **{**_SIZES.get((letter, each), {}), **(sizes or {}).get(each, {})})
        for each in (critical, normal)
    )
    return TaskPair(
        letter, GpuTask(critical, first, CRITICAL, arrivals), GpuTask(normal, second, NORMAL, normal_arrivals)
    )


def published(name: str) -> tuple[PublishedFigure, ...]:
    """Return the published figures of a workload; those of A stand beside A224."""
    return tuple(figure for figure in PUBLISHED if figure.workload == ("A" if name == "A224" else name))
