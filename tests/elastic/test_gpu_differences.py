"""Forms compared with originals on a GPU: what is equal, and what a wrong form is caught by."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import BLOCKS, BUILD, KERNELS, THREADS, VALUES, Machine, kernel, network
from network_differences import differences

from edgetune.stages.elastic.cuda.gpu_equivalence import ORIGINAL, LaunchVariant, launches, ways
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.work import Logical
from fakes.cuda_gpu import FakeCudaKernel


def compare(kernels: dict[str, FakeCudaKernel]):
    with Machine(kernels=kernels).context() as context:
        program = Program(context, network(), BUILD)
        program.write(VALUES)
        tried = list(ways(program, 16))
        return tried, differences(context, program, tried)


def test_every_form_is_tried_in_slices_and_blocks() -> None:
    tried, found = compare(KERNELS)
    assert found == []
    assert {way.per_thread for way in tried} == {1, 2}
    assert {way.slices for way in tried} == {1, 2, 7}
    assert {way.blocks for way in tried} == {None, 16, 3}


@pytest.mark.parametrize("blocks", [1, BLOCKS, 13])
def test_launches_of_a_way_cover_every_block_once(blocks: int) -> None:
    calls = tuple(replace(call, logical=Logical((blocks, 1, 1), (THREADS, 1, 1))) for call in network().calls)
    with Machine().context() as context:
        program = Program(context, replace(network(), calls=calls), BUILD)
        for way in ways(program, 16):
            for call in (0, 1):
                pieces = [each for each in launches(program, way) if each.call == call]
                assert len(pieces) <= way.slices
                covered = [block for each in pieces for block in range(each.first, each.first + each.count)]
                assert covered == list(range(blocks))
        assert {each.per_thread for each in launches(program, LaunchVariant(2)) if each.call == 1} == {1}, (
            "it has no form for 2"
        )
        assert all(each.blocks is None for each in launches(program, ORIGINAL))


def test_a_form_that_is_wrong_in_its_later_pieces_is_caught() -> None:
    """It forgets where its part begins: right as a whole, wrong in slices."""

    def forgets(memory, launch) -> None:
        numbers = list(struct.unpack("<8I", launch.arguments[3]))
        numbers[6] = 0
        right = kernel(2, 0, elastic=True)
        assert right.run is not None
        right.run(memory, replace(launch, arguments=(*launch.arguments[:3], struct.pack("<8I", *numbers))))

    sizes, lasts_ns = KERNELS["double_it__block2"].sizes, KERNELS["double_it__block2"].duration_ns
    _, found = compare({**KERNELS, "double_it__block2": FakeCudaKernel(sizes, lasts_ns, forgets)})
    assert {each.way.per_thread for each in found} == {2}
    assert {each.way.slices for each in found} == {2, 7}
    halves = next(each for each in found if each.way.slices == 2 and each.buffer == "y")
    assert (halves.first, halves.numbers) == (3 * THREADS, VALUES["x"].size - 3 * THREADS)
    assert {each.buffer for each in found} == {"y", "z"}, "what comes after it is wrong, too"


def test_a_network_that_differs_from_itself_is_told_as_such() -> None:
    calls = iter(range(100))

    def racy(memory, launch) -> None:
        (target,) = struct.unpack("<Q", launch.arguments[1])
        memory.view(target, np.int32, VALUES["x"].size)[:] = next(calls)

    _, found = compare({**KERNELS, "add_one": FakeCudaKernel((8, 8, 4), 1000, racy)})
    assert ORIGINAL in {each.way for each in found}
