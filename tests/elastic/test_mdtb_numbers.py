"""The networks' answers by their kernels on the CPU: as PyTorch's; and by their elastic forms, bit by bit."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import mdtb_reference
import numpy as np
import pytest
import torch
from mdtb_resources import KERNELS
from ptx_corpus import made as made_of

from edgetune.stages.elastic.gpu import Call, KernelSequence, Scalar
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult, packed
from edgetune.stages.elastic.mdtb.builder import Builder, kernel_source
from edgetune.stages.elastic.mdtb.networks import network, values
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import FORWARD, CpuLaunch

SMALL: dict[str, dict[str, int]] = {
    "alexnet": {"side": 63, "narrow": 16, "classes": 11},
    "squeezenet": {"side": 41, "narrow": 8, "classes": 13},
    "resnet": {"side": 37, "narrow": 16, "classes": 7},
    "cifarnet": {"narrow": 4, "side": 24},
    "lstm": {"units": 40, "inputs": 24, "steps": 5},
    "gru": {"units": 40, "inputs": 24, "steps": 5},
}
EACH = [
    pytest.param(name, marks=() if name in ("cifarnet", "gru") else pytest.mark.slow, id=name) for name in SMALL
]  # fmt: skip
Memory = Mapping[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def transformed() -> TransformResult:
    return made_of("\n".join(kernel_source(kernel) for kernel in KERNELS))


@pytest.fixture(scope="module")
def built(transformed: TransformResult) -> PtxProgram:
    return PtxProgram(transformed.source, "mdtb.ptx")


def memory(made: KernelSequence, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return all buffers; what is to be written before it is read is no number at first."""
    drawn = values(made, seed)
    return {each.name: drawn.get(each.name, np.full(each.shape, np.nan, np.float32)) for each in made.buffers}


def answer(built: PtxProgram, made: KernelSequence, launches: Sequence[CpuLaunch], before: Memory) -> Any:
    outcome = next(built.run_all([(launches, FORWARD)], before, 300))
    assert outcome.status == "ok", outcome.message
    (output,) = [each.name for each in made.buffers if each.role == "output"]
    return outcome.buffers[output].ravel()


def original(call: Call) -> CpuLaunch:
    return CpuLaunch(call.kernel, call.logical.grid, call.logical.block, call.arguments)


def pieces(call: Call, elastic: ElasticKernel, chosen: random.Random) -> Iterator[CpuLaunch]:
    """Yield a call cut into two or three pieces, each in some form with some physical blocks."""
    logical, forms = call.logical, {each.per_thread: each for each in elastic.variants}
    cuts = sorted({0, *(chosen.randrange(logical.blocks) for _ in range(2)), logical.blocks})
    for first, end in pairwise(cuts):
        per_thread = chosen.choice(sorted(forms))
        variant = forms[per_thread]
        block = logical.block if variant.level == "grid" else (logical.threads // per_thread, 1, 1)
        launch = Scalar(packed(logical.grid, logical.block, first, end - first))
        yield CpuLaunch(variant.symbol, (chosen.randint(1, 5), 1, 1), block, (*call.arguments, launch))


def test_all_kernels_have_all_forms(transformed: TransformResult) -> None:
    """Nothing in them is refused: what a user's kernel may be refused for can be written in another way."""
    assert [each.kernel.name for each in transformed.kernels] == list(KERNELS)
    for each in transformed.kernels:
        assert each.refusals == ()
        assert [one.per_thread for one in each.variants] == [1, 2, 4, 8]


@pytest.mark.parametrize("name", EACH)
def test_a_network_answers_as_in_pytorch(name: str, built: PtxProgram) -> None:
    made = network(name, **SMALL[name])
    before = memory(made, 1)
    got = answer(built, made, [original(call) for call in made.calls], before)
    right = mdtb_reference.expected(name, {key: before[key] for key in values(made, 1)})
    assert got.shape == right.shape
    # Single precision, some tens of layers: errors of a few units in the last place of the largest number.
    assert np.abs(got - right).max() <= 2e-6 * np.abs(right).max()
    assert np.ptp(right) > 0.01 * np.abs(right).max()  # no answer that anything would give


@pytest.mark.parametrize("name", EACH)
def test_elastic_forms_answer_the_same_bits(name: str, built: PtxProgram, transformed: TransformResult) -> None:
    made, chosen = network(name, **SMALL[name]), random.Random(name)
    forms = {each.kernel.name: each for each in transformed.kernels}
    before = memory(made, 2)
    once = answer(built, made, [original(call) for call in made.calls], before)
    launches = [launch for call in made.calls for launch in pieces(call, forms[call.kernel], chosen)]
    assert answer(built, made, launches, before).tobytes() == once.tobytes()


@pytest.mark.parametrize(
    ("channels", "window", "stride", "padding"), [(33, 3, 2, 1), (1, 1, 1, 0), (70, 5, 1, 2), (4, 9, 3, 0)]
)
def test_a_convolution_of_any_size(channels: int, window: int, stride: int, padding: int, built: PtxProgram) -> None:
    b = Builder("one", {})
    made = b.network(
        b.convolution(
            "conv", b.tensor("image", 5, 9, "input"), channels, window, stride=stride, padding=padding, relu=False
        )
    )
    before = memory(made, 3)
    got = answer(built, made, [original(call) for call in made.calls], before)
    tensors = [torch.from_numpy(before[key]).double() for key in ("image", "conv.weights", "conv.bias")]
    right = torch.nn.functional.conv2d(tensors[0][None], *tensors[1:], stride=stride, padding=padding)
    assert np.abs(got - right.flatten().numpy()).max() <= 2e-6 * right.abs().max().item()


@pytest.mark.parametrize("round_up", [False, True])
@pytest.mark.parametrize("sizes", [(9, 3, 2, 1), (8, 3, 2, 0), (7, 2, 3, 1)])
@pytest.mark.parametrize("kind", ["max_pool", "average_pool"])
def test_pooling_of_any_size(kind: str, sizes: tuple[int, int, int, int], round_up: bool, built: PtxProgram) -> None:
    side, window, stride, padding = sizes
    b = Builder("one", {})
    image = b.tensor("image", 33, side, "input")
    made = b.network(b.pool(kind, "pool", image, window, stride, padding=padding, round_up=round_up))
    before = memory(made, 4)
    got = answer(built, made, [original(call) for call in made.calls], before)
    image, how = torch.from_numpy(before["image"]).double()[None], (window, stride, padding)
    if kind == "max_pool":
        right = torch.nn.functional.max_pool2d(image, *how, ceil_mode=round_up)
    else:
        right = torch.nn.functional.avg_pool2d(image, *how, ceil_mode=round_up, count_include_pad=False)
    assert np.abs(got - right.flatten().numpy()).max() <= 1e-6


def test_a_wrong_weight_is_noticed(built: PtxProgram) -> None:
    """The comparison is no comparison of softmax with itself: one weight of an early layer shows in the answer."""
    made = network("cifarnet", **SMALL["cifarnet"])
    before = memory(made, 1)
    drawn = {key: before[key].copy() for key in values(made, 1)}
    drawn["conv1.weights"][0, 0, 2, 2] += 0.1
    got = answer(built, made, [original(call) for call in made.calls], before)
    right = mdtb_reference.expected("cifarnet", drawn)
    assert np.abs(got - right).max() > 2e-6 * np.abs(right).max()
