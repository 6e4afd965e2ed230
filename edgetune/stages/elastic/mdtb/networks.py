"""The six networks of Miriam's benchmark, in sizes of any kind: small ones run on the CPU, ``side=224`` needs a GPU.

    image --alexnet, squeezenet, resnet (18 layers), cifarnet--> shares of classes
    sequence --gru, lstm--> a prediction

The layers are those of the papers named at each network. Published sizes of the recurrent networks are unknown to us;
those here are ours. Batch normalisation of ResNet is taken to be part of weights and biases, as it is in inference.

The workloads of Miriam's benchmark (MDTB) and its case study: a critical network and a normal one, and arrivals.

    A      alexnet     closed loop     cifarnet     closed loop      32 x 32 images of cifarnet, as it was made for
    B      squeezenet  uniform 10/s    alexnet      closed loop
    C      gru         poisson 10/s    resnet       closed loop
    D      lstm        uniform 10/s    squeezenet   closed loop
    A224   alexnet     closed loop     cifarnet     closed loop      224 x 224, as the study has it of all networks
    LGSVL  resnet      uniform 10/s    squeezenet   uniform 12.5/s   obstacles, and pose, in a simulator of driving

Source of networks, arrivals and figures: Zhao et al., Miriam: Exploiting Elastic Kernels for Real-time Multi-DNN
Inference on Edge GPU (SenSys 2023), body of the text. Its kernels, sizes and GPUs were others.
"""

import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from importlib import resources as package
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetune import limits
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Gpu, GpuTask, KernelSequence, Resources
from edgetune.stages.elastic.mdtb.builder import Builder, LayerOutput

ARCHITECTURE = "sm_87"
"""For which networks are made unless a GPU is named: that of Jetson Orin."""


@cache
def stored_resources(architecture: str = ARCHITECTURE) -> Mapping[str, Mapping[int, Resources]]:
    """Return what every kernel needs, by name and by logical threads per physical thread (1: the original).

    ``resources.json`` was made by ``tests/elastic/mdtb_resources.py`` with NVRTC, so that simulations need no compiler.
    Of an architecture that it lacks (NVRTC no longer compiles for Xavier's) the next later one counts, or the last.
    """
    table = json.loads(package.files(__package__).joinpath("resources.json").read_text(encoding="utf-8"))
    known = sorted(table["architectures"])  # all of two digits
    nearest = next((each for each in known if each >= architecture), known[-1])
    return {
        kernel: {int(per_thread): Resources(**needs) for per_thread, needs in forms.items()}
        for kernel, forms in table["architectures"][nearest].items()
    }


def compiled_for(gpu: Gpu, tasks: Iterable[GpuTask]) -> tuple[GpuTask, ...]:
    """Return tasks whose kernels of the benchmark need what they need when compiled for a GPU."""
    made, wanted = stored_resources(), stored_resources(f"sm_{gpu.compute_capability.replace('.', '')}")
    found = []
    for task in tasks:
        calls = [
            replace(call, resources=wanted[call.kernel]) if call.resources is made.get(call.kernel) else call
            for call in task.network.calls
        ]
        found.append(replace(task, network=replace(task.network, calls=calls)))
    return tuple(found)


def alexnet(b: Builder, *, side: int = 224, narrow: int = 1, classes: int = 1000) -> LayerOutput:
    """One column, without local response normalisation (Krizhevsky, One weird trick, 2014)."""
    x = b.convolution("conv1", b.tensor("image", 3, side, "input"), 64 // narrow, 11, stride=4, padding=2)
    x = b.pool("max_pool", "pool1", x, 3, 2)
    x = b.convolution("conv2", x, 192 // narrow, 5, padding=2)
    x = b.pool("max_pool", "pool2", x, 3, 2)
    for place, channels in enumerate((384, 256, 256), start=3):
        x = b.convolution(f"conv{place}", x, channels // narrow, 3, padding=1)
    x = b.pool("max_pool", "pool5", x, 3, 2)
    x = b.fully_connected("fc6", x, 4096 // narrow, relu=True)
    x = b.fully_connected("fc7", x, 4096 // narrow, relu=True)
    return b.softmax("shares", b.fully_connected("fc8", x, classes))


def squeezenet(b: Builder, *, side: int = 224, narrow: int = 1, classes: int = 1000) -> LayerOutput:
    """Version 1.0, of fire modules: a narrow layer, then two wide ones side by side (Iandola et al. 2016)."""
    x = b.convolution("conv1", b.tensor("image", 3, side, "input"), 96 // narrow, 7, stride=2)
    x = b.pool("max_pool", "pool1", x, 3, 2, round_up=True)
    for place, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        x = _fire(b, f"fire{place}", x, squeezed // narrow, 4 * squeezed // narrow)
        if place in (4, 8):
            x = b.pool("max_pool", f"pool{place}", x, 3, 2, round_up=True)
    x = b.convolution("conv10", x, classes, 1)
    return b.softmax("shares", b.global_average_pool("means", x))


def _fire(b: Builder, name: str, x: LayerOutput, squeezed: int, expanded: int) -> LayerOutput:
    squeeze = b.convolution(f"{name}.squeeze", x, squeezed, 1)
    both = b.tensor(f"{name}.both", 2 * expanded, x.side)
    b.convolution(f"{name}.expand1", squeeze, expanded, 1, into=(both, 0))
    return b.convolution(f"{name}.expand3", squeeze, expanded, 3, padding=1, into=(both, expanded))


def resnet(b: Builder, *, side: int = 224, narrow: int = 1, classes: int = 1000) -> LayerOutput:
    """18 layers (He et al. 2016)."""
    x = b.convolution("conv1", b.tensor("image", 3, side, "input"), 64 // narrow, 7, stride=2, padding=3)
    x = b.pool("max_pool", "pool1", x, 3, 2, padding=1)
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        x = _residual(b, f"block{stage}a", x, channels // narrow, stride=1 if stage == 1 else 2)
        x = _residual(b, f"block{stage}b", x, channels // narrow, stride=1)
    return b.softmax("shares", b.fully_connected("fc", b.global_average_pool("means", x), classes))


def _residual(b: Builder, name: str, x: LayerOutput, channels: int, *, stride: int) -> LayerOutput:
    straight = x
    if stride > 1 or channels != x.channels:
        straight = b.convolution(f"{name}.straight", x, channels, 1, stride=stride, relu=False)
    first = b.convolution(f"{name}.conv1", x, channels, 3, stride=stride, padding=1)
    second = b.convolution(f"{name}.conv2", first, channels, 3, padding=1, relu=False)
    return b.add_relu(f"{name}.sum", straight, second)


def cifarnet(b: Builder, *, side: int = 32, narrow: int = 1, classes: int = 10) -> LayerOutput:
    """Three convolutions for small images, as ``cifar10_quick`` of Caffe (Krizhevsky's cuda-convnet before it)."""
    x = b.convolution("conv1", b.tensor("image", 3, side, "input"), 32 // narrow, 5, padding=2)
    x = b.pool("max_pool", "pool1", x, 3, 2, round_up=True)
    x = b.convolution("conv2", x, 32 // narrow, 5, padding=2)
    x = b.pool("average_pool", "pool2", x, 3, 2, round_up=True)
    x = b.convolution("conv3", x, 64 // narrow, 5, padding=2)
    x = b.pool("average_pool", "pool3", x, 3, 2, round_up=True)
    x = b.fully_connected("fc1", x, 64 // narrow)
    return b.softmax("shares", b.fully_connected("fc2", x, classes))


def lstm(b: Builder, *, units: int = 512, inputs: int = 512, steps: int = 32, outputs: int = 10) -> LayerOutput:
    """One recurrent layer and a fully connected one (Hochreiter and Schmidhuber 1997, with a forget gate)."""
    return b.fully_connected("fc", b.recurrent("lstm", b.sequence(steps, inputs), units, steps), outputs)


def gru(b: Builder, *, units: int = 512, inputs: int = 512, steps: int = 32, outputs: int = 10) -> LayerOutput:
    """One recurrent layer and a fully connected one (Cho et al. 2014, with the reset gate behind the product)."""
    return b.fully_connected("fc", b.recurrent("gru", b.sequence(steps, inputs), units, steps), outputs)


NETWORKS: dict[str, Callable[..., LayerOutput]] = {
    build.__name__: build for build in (alexnet, squeezenet, gru, lstm, resnet, cifarnet)
}
"""By name; their parameters are their sizes."""


def network(name: str, **sizes: int) -> KernelSequence:
    """Return a network, ready to be launched: kernels, launches, arguments and buffers.

    Args:
        name: One of ``NETWORKS``.
        sizes: ``side`` of the image, ``classes``, ``narrow`` (every number of channels is divided by it); ``units``,
            ``inputs``, ``steps``, ``outputs`` of recurrent networks.

    Raises:
        InputError: there is no such network, it has no such size, or the image is too small for it.
    """
    build = NETWORKS[choose(name, NETWORKS, what="network of the benchmark")]
    known = [each for each in inspect.signature(build).parameters if each != "b"]
    for size, value in sizes.items():
        if size not in known:
            raise InputError(f"{name} has no {size}", f"it has {', '.join(known)}")
        if value < 1:
            raise InputError(f"{size} of {name} is {value}", "a whole number above zero")
        limits.check("kernel_size", value, f"{size} of {name}")
    builder = Builder(name, stored_resources())
    return builder.network(build(builder, **sizes))


def values(network: KernelSequence, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Return the contents of buffers before a request: inputs and weights; kernels write the others.

    Single-precision numbers are random, all else is zero: whole numbers may be places in other buffers, and there is
    always a first one.

    The scale of weights keeps values in the network from fading or growing: their variance is one over the inputs of an
    output, and twice that where negative sums become zero (He et al. 2015).

    Args:
        network: With buffers.
        seed: Of the generator.
    """
    generator = np.random.default_rng(seed)
    drawn: dict[str, npt.NDArray[Any]] = {}
    for name, shape, dtype, role in (astuple(buffer) for buffer in network.buffers):
        if role in ("input", "weights"):
            array = generator.standard_normal(shape, dtype=np.float32)
            if role == "weights":  # outputs first; of biases the spread is small
                spread = 0.1 if len(shape) == 1 else math.sqrt((2 if len(shape) == 4 else 1) / math.prod(shape[1:]))
                array *= np.float32(spread)
            drawn[name] = array if dtype == "float32" else np.zeros(shape, dtype)
    return drawn


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
    for workload, what, policy, figures in (
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
    for device, value in figures.items()
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
    letter = choose(name.upper(), _WORKLOADS, what="workload")
    critical, arrivals, normal, normal_arrivals = _WORKLOADS[letter]
    first, second = (
        network(each, **{**_SIZES.get((letter, each), {}), **(sizes or {}).get(each, {})})
        for each in (critical, normal)
    )
    return TaskPair(letter, GpuTask(critical, first, 1, arrivals), GpuTask(normal, second, 0, normal_arrivals))


def published(name: str) -> tuple[PublishedFigure, ...]:
    """Return the published figures of a workload; those of A stand beside A224."""
    return tuple(figure for figure in PUBLISHED if figure.workload == ("A" if name == "A224" else name))
