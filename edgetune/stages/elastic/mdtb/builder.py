"""A network written down layer by layer: each layer is one launch of one kernel, with what it costs.

    image --convolution--> scratch --max_pool--> scratch --...--> fully_connected --> softmax --> output

A call's costs are those of a logical block, all blocks of a call alike: operations as the block executes them, those on
the edge of the last tile included; bytes are what has to come from device memory at least, every tensor once, in
equal parts. That a tile is read again by its neighbours is left to the cache. A convolution reads shared memory once
for each multiply-add, fills its tiles, and is bound by that: it reaches a small share of the peak.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources as package
from typing import Literal

from edgetune.artifacts.kernel_tasks import KernelBuffer, Role
from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Argument, Call, KernelSequence, Logical, Pointer, Resources, Scalar

_TILE, _DEPTH = 32, 16  # of convolution.cu: channels and pixels of a block, places at a time
_CONVOLUTION_EFFICIENCY = 2 / 8 / 1.75
"""Share of the peak that a convolution reaches: two operations in the time of reading a number from shared memory, in
which there is time for 8, and 1.75 times as long as these reads take, as it fills its tiles too. A multiprocessor of
compute capability 8.7 reads 32 numbers in a cycle, or adds 128 products (CUDA C++ Programming Guide: shared memory,
arithmetic throughput); with that, networks of convolutions take 0.93 to 1.09 times as long as on all and on 16
multiprocessors of an H100 (``tests/benchmarks/elastic_model.py``)."""
_THREADS = 256  # of the other kernels
_POOL_THREADS = 64  # of global_average_pool.cu
_FLOAT_BYTES = 4
_UNROLLED = 4
"""Iterations of a loop whose loads the compiler issues together; those that are left over wait one by one."""
_GATES = {"lstm": (4, ("bias",)), "gru": (3, ("input_bias", "hidden_bias"))}
"""Of a recurrent layer: rows of weights for each unit, and its biases."""
_SUM_WAITS = 2
"""Waits of a block that adds up the sums of its threads, and then reads a bias: about one each."""


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """The output of a layer.

    Args:
        buffer: Its buffer.
        channels: Of a square image; of a vector its length.
        side: Of the image; 1 of a vector.
    """

    buffer: str
    channels: int
    side: int = 1

    @property
    def size(self) -> int:
        """Numbers in it."""
        return self.channels * self.side**2


def pooled_side(side: int, window: int, stride: int, padding: int, *, round_up: bool) -> int:
    """Return the side of an image after a layer with windows.

    Args:
        side: Before it.
        window, stride, padding: Of the layer.
        round_up: Whether a last window that begins inside, but ends outside, counts.

    Raises:
        InputError: there is no room for one window.
    """
    left = side + 2 * padding - window
    if left < 0:
        raise InputError(f"an image of side {side} is too small for a window of {window}", "give a larger side")
    if not round_up:
        return left // stride + 1
    windows = -(-left // stride) + 1
    return windows - 1 if (windows - 1) * stride >= side + padding else windows


@cache
def kernel_source(kernel: str) -> str:
    """Return the CUDA C of one kernel: ``KERNEL.cu`` holds the kernel of that name."""
    return package.files(__package__).joinpath(f"{kernel}.cu").read_text(encoding="utf-8")


class Builder:
    """Builds a network layer by layer.

    Args:
        name: Of the network.
        resources: Of the compiled kernels, by name and by logical threads per physical thread.
    """

    def __init__(self, name: str, resources: Mapping[str, Mapping[int, Resources]]) -> None:
        self._name, self._resources = name, resources
        self._calls: list[Call] = []
        self._buffers: dict[str, KernelBuffer] = {}

    def network(self, output: LayerOutput) -> KernelSequence:
        """Return the network with this output."""
        kernels = sorted({call.kernel for call in self._calls})
        self._buffers[output.buffer] = replace(self._buffers[output.buffer], role="output")
        source = "\n".join(kernel_source(kernel) for kernel in kernels)
        return KernelSequence(self._name, tuple(self._calls), source, tuple(self._buffers.values()))

    def tensor(self, name: str, channels: int, side: int = 1, role: Role = "scratch") -> LayerOutput:
        """Add a square image or a vector: an input, or what layers write, side by side or one after another."""
        if channels < 1:
            raise InputError(f"{self._name}: no channels are left of {name}", "choose a smaller value of narrow")
        self._buffer(name, (channels, side, side) if side > 1 else (channels,), role)
        return LayerOutput(name, channels, side)

    def sequence(self, steps: int, inputs: int) -> LayerOutput:
        """Add a sequence of vectors as an input of the network."""
        self._buffer("sequence", (steps, inputs), "input")
        return LayerOutput("sequence", steps * inputs)

    def convolution(
        self, name: str, x: LayerOutput, channels: int, window: int, *, stride: int = 1, padding: int = 0,
        relu: bool = True, into: tuple[LayerOutput, int] | None = None,
    ) -> LayerOutput:  # fmt: skip
        """Add a convolution, its bias and, unless told otherwise, zero for what is negative.

        Args:
            name: Of the layer.
            x: Its input.
            channels: Of its output.
            window, stride, padding: As ever.
            relu: Whether negative sums become zero.
            into: The tensor to write to, and the first channel to write; a tensor of its own unless said.
        """
        side = pooled_side(x.side, window, stride, padding, round_up=False)
        out, first_channel = into or (self.tensor(name, channels, side), 0)
        weights = self._buffer(f"{name}.weights", (channels, x.channels, window, window), "weights")
        bias = self._buffer(f"{name}.bias", (channels,), "weights")
        places, pixels = x.channels * window**2, side**2
        grid = (-(-pixels // _TILE), -(-channels // _TILE), 1)
        numbers = (x.channels, x.side, channels, side, window, stride, padding, first_channel, int(relu))
        self._call(
            "convolution", Logical(grid, (16, 16, 1)), [x.buffer, weights, bias, out.buffer], numbers,
            flop_per_block=2 * _TILE**2 * -(-places // _DEPTH) * _DEPTH, efficiency=_CONVOLUTION_EFFICIENCY,
            moved=x.size + channels * places + channels + channels * pixels,
        )  # fmt: skip
        return out

    def pool(
        self, kernel: Literal["max_pool", "average_pool"], name: str, x: LayerOutput, window: int, stride: int, *,
        padding: int = 0, round_up: bool = False,
    ) -> LayerOutput:  # fmt: skip
        """Add a layer of the largest in each window, or of the mean of what lies inside."""
        out = self.tensor(name, x.channels, pooled_side(x.side, window, stride, padding, round_up=round_up))
        self._call(
            kernel, _one_dimension(-(-out.size // _THREADS)), [x.buffer, out.buffer],
            (x.channels, x.side, out.side, window, stride, padding), flop_per_block=_THREADS * window**2,
            moved=x.size + out.size,
        )  # fmt: skip
        return out

    def global_average_pool(self, name: str, x: LayerOutput) -> LayerOutput:
        """Add the mean of each channel."""
        out = self.tensor(name, x.channels)
        pixels = x.side**2
        self._call(
            "global_average_pool", _one_dimension(x.channels, _POOL_THREADS), [x.buffer, out.buffer], (pixels,),
            flop_per_block=pixels + _POOL_THREADS, moved=x.size + out.size,
        )  # fmt: skip
        return out

    def fully_connected(self, name: str, x: LayerOutput, outputs: int, *, relu: bool = False) -> LayerOutput:
        """Add a layer in which every output depends on every input."""
        out = self.tensor(name, outputs)
        weights = self._buffer(f"{name}.weights", (outputs, x.size), "weights")
        bias = self._buffer(f"{name}.bias", (outputs,), "weights")
        self._call(
            "fully_connected", _one_dimension(outputs), [x.buffer, weights, bias, out.buffer],
            (x.size, int(relu)), flop_per_block=2 * x.size + _THREADS, moved=x.size + (x.size + 2) * outputs,
            waits=_waits(x.size) + _SUM_WAITS,
        )  # fmt: skip
        return out

    def softmax(self, name: str, x: LayerOutput) -> LayerOutput:
        """Add shares that sum to one."""
        out = self.tensor(name, x.size)
        self._call(
            "softmax", _one_dimension(1), [x.buffer, out.buffer], (x.size,),
            flop_per_block=6 * x.size + 2 * _THREADS, moved=2 * x.size,
        )  # fmt: skip
        return out

    def add_relu(self, name: str, left: LayerOutput, right: LayerOutput) -> LayerOutput:
        """Add the sum of two tensors, zero where it is negative."""
        out = self.tensor(name, left.channels, left.side)
        self._call(
            "add_relu", _one_dimension(-(-out.size // _THREADS)), [left.buffer, right.buffer, out.buffer],
            (out.size,), flop_per_block=2 * _THREADS, moved=3 * out.size,
        )  # fmt: skip
        return out

    def recurrent(self, kind: Literal["lstm", "gru"], sequence: LayerOutput, units: int, steps: int) -> LayerOutput:
        """Add a recurrent layer, a launch for each step; return its last hidden state."""
        gates, biases = _GATES[kind]
        inputs = sequence.size // steps
        weights = [
            self._buffer(f"{kind}.input_weights", (gates * units, inputs), "weights"),
            self._buffer(f"{kind}.hidden_weights", (gates * units, units), "weights"),
            *(self._buffer(f"{kind}.{bias}", (gates * units,), "weights") for bias in biases),
        ]
        state = [self.tensor("lstm.cell", units).buffer] if kind == "lstm" else []
        hidden = [self.tensor(f"{kind}.hidden{which}", units) for which in range(2)]
        for step in range(steps):
            last, now = hidden[(step + 1) % 2], hidden[step % 2]
            row = inputs + (units if step else 0)
            self._call(
                f"{kind}_cell", _one_dimension(units),
                [sequence.buffer, *weights, last.buffer, now.buffer, *state], (inputs, units, step),
                flop_per_block=2 * gates * row + gates * _THREADS, moved=row + units * (gates * row + gates + 4),
                waits=gates * (_waits(inputs) + (_waits(units) if step else 0)) + _SUM_WAITS,
            )  # fmt: skip
        return hidden[(steps - 1) % 2]

    def _buffer(self, name: str, shape: tuple[int, ...], role: Role) -> str:
        self._buffers[name] = KernelBuffer(name, shape, role=role)
        return name

    def _call(
        self, kernel: str, logical: Logical, pointers: Sequence[str], numbers: Sequence[int], *,
        flop_per_block: float, moved: int, waits: int = 0, efficiency: float = 1.0,
    ) -> None:  # fmt: skip
        """Add a launch; ``moved`` are the numbers that all its blocks read and write, ``waits`` those of a thread."""
        arguments: list[Argument] = [Pointer(name) for name in pointers]
        try:
            arguments.extend(Scalar(struct.pack("<i", number)) for number in numbers)
        except struct.error:
            raise InputError(f"kernel {kernel} has more numbers than 2^31", "give smaller sizes") from None
        bytes_per_block = _FLOAT_BYTES * moved / logical.blocks
        resources = self._resources.get(kernel, {})
        call = Call(
            kernel, logical, tuple(arguments), flop_per_block, bytes_per_block, waits, efficiency, resources=resources
        )
        self._calls.append(call)


def _waits(numbers: int) -> int:
    """Return how often a thread waits for loads, where the threads of a block add up so many numbers."""
    rounds = -(-numbers // _THREADS)
    return rounds // _UNROLLED + rounds % _UNROLLED


def _one_dimension(blocks: int, threads: int = _THREADS) -> Logical:
    return Logical((blocks, 1, 1), (threads, 1, 1))
