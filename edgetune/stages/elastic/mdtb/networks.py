"""The six networks of Miriam's benchmark, in sizes of any kind: small ones run on the CPU, ``side=224`` needs a GPU.

    image --alexnet, squeezenet, resnet (18 layers), cifarnet--> shares of classes
    sequence --gru, lstm--> a prediction

The layers are those of the papers named at each network. Published sizes of the recurrent networks are unknown to us;
those here are ours. Batch normalisation of ResNet is taken to be part of weights and biases, as it is in inference.
"""

import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources as package
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetune import limits
from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Gpu, GpuTask, KernelSequence, Resources
from edgetune.stages.elastic.mdtb.builder import Builder, LayerOutput

ARCHITECTURE = "sm_87"
"""For which networks are made unless a GPU is named: that of Jetson Orin."""
KERNELS = (
    "add_relu", "average_pool", "convolution", "fully_connected", "global_average_pool", "gru_cell", "lstm_cell",
    "max_pool", "softmax",
)  # fmt: skip


@cache
def stored_resources(architecture: str = ARCHITECTURE) -> Mapping[str, Mapping[int, Resources]]:
    """Return what every kernel needs, by name and by logical threads per physical thread (1: the original).

    ``resources.json`` was made by ``tests/elastic/mdtb_resources.py`` with NVRTC, so that simulations need no compiler.
    Of an architecture that it lacks (NVRTC no longer compiles for Xavier's) the next later one counts, or the last.
    """
    table = json.loads(package.files(__package__).joinpath("resources.json").read_text(encoding="utf-8"))
    known = sorted(table["architectures"])  # all of two digits
    nearest = next((each for each in known if each >= architecture), known[-1])
    return MappingProxyType(
        {
            kernel: {int(per_thread): Resources(**needs) for per_thread, needs in forms.items()}
            for kernel, forms in table["architectures"][nearest].items()
        }
    )


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
    x = b.convolution("conv3", x, 384 // narrow, 3, padding=1)
    x = b.convolution("conv4", x, 256 // narrow, 3, padding=1)
    x = b.convolution("conv5", x, 256 // narrow, 3, padding=1)
    x = b.pool("max_pool", "pool5", x, 3, 2)
    x = b.fully_connected("fc6", x, 4096 // narrow, relu=True)
    x = b.fully_connected("fc7", x, 4096 // narrow, relu=True)
    return b.softmax("shares", b.fully_connected("fc8", x, classes))


def squeezenet(b: Builder, *, side: int = 224, narrow: int = 1, classes: int = 1000) -> LayerOutput:
    """Version 1.0, of fire modules: a narrow layer, then two wide ones side by side (Iandola et al. 2016)."""
    x = b.convolution("conv1", b.tensor("image", 3, side, "input"), 96 // narrow, 7, stride=2)
    x = b.pool("max_pool", "pool1", x, 3, 2, round_up=True)
    x = _fire(b, "fire2", x, 16 // narrow, 64 // narrow)
    x = _fire(b, "fire3", x, 16 // narrow, 64 // narrow)
    x = _fire(b, "fire4", x, 32 // narrow, 128 // narrow)
    x = b.pool("max_pool", "pool4", x, 3, 2, round_up=True)
    x = _fire(b, "fire5", x, 32 // narrow, 128 // narrow)
    x = _fire(b, "fire6", x, 48 // narrow, 192 // narrow)
    x = _fire(b, "fire7", x, 48 // narrow, 192 // narrow)
    x = _fire(b, "fire8", x, 64 // narrow, 256 // narrow)
    x = b.pool("max_pool", "pool8", x, 3, 2, round_up=True)
    x = _fire(b, "fire9", x, 64 // narrow, 256 // narrow)
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
    build = NETWORKS.get(name)
    if build is None:
        raise InputError(f"there is no network {name!r} among the kernels", f"known: {', '.join(NETWORKS)}")
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
    for buffer in network.buffers:
        if buffer.role in ("input", "weights"):
            drawn[buffer.name] = generator.standard_normal(buffer.shape, dtype=np.float32)
        if buffer.role == "weights":  # outputs first; of biases the spread is small
            shape = buffer.shape
            spread = 0.1 if len(shape) == 1 else math.sqrt((2 if len(shape) == 4 else 1) / math.prod(shape[1:]))
            drawn[buffer.name] *= np.float32(spread)
        if buffer.name in drawn and buffer.dtype != "float32":
            drawn[buffer.name] = np.zeros(buffer.shape, buffer.dtype)
    return drawn
