"""Persistent forms on the fake GPU: control words, blocks that leave and come back, and what is checked on a GPU."""

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import (
    BLOCK_US,
    BLOCKS,
    BUILD,
    FORMS,
    KERNELS,
    SIZE,
    THREADS,
    US,
    VALUES,
    Machine,
    launch,
    moments,
    network,
    task,
)
from network_differences import network_ways, run

from edgetune.errors import DeviceError
from edgetune.stages.elastic import kernel
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.view import Launch
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaKernel, FakeLaunch, FakeMemory

NEEDS = FORMS["double_it"][None]


def take(memory: FakeMemory, done: FakeLaunch) -> None:
    """Double what physical blocks below the quota take: a logical block each, and all of them where all may go on."""
    source, target, control = (struct.unpack("<Q", done.arguments[place])[0] for place in (0, 1, 4))
    numbers = struct.unpack("<8I", done.arguments[3])
    assert numbers[:6] == (BLOCKS, 1, 1, THREADS, 1, 1)
    rank, count = numbers[6:]
    words = memory.view(control, np.uint32, 3)
    able = min(done.grid[0], max(0, int(words[2]) - rank))
    begin = min(int(words[0]), count)
    end = count if able == done.grid[0] else min(begin + able, count)
    words[0] = end + (able if end == count else 0)
    words[1] += end - begin
    here = slice(begin * THREADS, min(end * THREADS, SIZE))
    memory.view(target, np.int32, SIZE)[here] = 2 * memory.view(source, np.int32, SIZE)[here]


TAKING = {"double_it__persistent": FakeCudaKernel((8, 8, 4, kernel.SIZE_BYTES, 8), BLOCKS * BLOCK_US * US, take)}
TAKING_FORMS = {**FORMS, "double_it": {**FORMS["double_it"], kernel.PERSISTENT: NEEDS}}
TAKING_BUILD = replace(BUILD, image=fake_image(*KERNELS, *TAKING), forms=TAKING_FORMS)


@contextmanager
def opened() -> Iterator[tuple[Machine, Context, Program]]:
    machine = Machine(kernels={**KERNELS, **TAKING})
    with machine.context() as context:
        program = Program(context, network(), TAKING_BUILD)
        program.write(VALUES)
        yield machine, context, program


def doubled(program: Program) -> int:
    """Return how many logical blocks have been done."""
    y = program.read("y")
    return next((block for block in range(BLOCKS) if y[min(block * THREADS, SIZE - 1)] == -1), BLOCKS)


def whole(number: int = 0, **more: object) -> Launch:
    return launch(number, **{"blocks": 3, "persistent": True, **more})


def test_what_is_behind_waits_until_blocks_that_came_back_have_done_the_rest() -> None:
    with opened() as (machine, context, program):
        stream, control = context.stream(), program.control
        assert control is not None
        program.launch(whole(), stream)
        program.launch(launch(1, call=1), stream)
        control.set_quota(1)
        machine.clock.advance_ns(2 * BLOCKS * BLOCK_US * US)
        assert doubled(program) == 1
        assert [each.symbol for each in machine.cuda.launches] == ["double_it__persistent"]
        control.set_quota(kernel.NO_QUOTA)
        program.bring_back(whole(), 1, context.stream())
        context.synchronise(stream)
        np.testing.assert_array_equal(program.read("z"), 2 * VALUES["x"] + 1)
    _, more, behind = machine.cuda.launches
    assert (more.symbol, more.grid) == ("double_it__persistent", (2, 1, 1))
    assert more.arguments[3] == kernel.packed((BLOCKS, 1, 1), (THREADS, 1, 1), 1, BLOCKS)
    assert behind.symbol == "add_one"
    assert behind.start_ns >= more.end_ns


def test_the_rest_of_a_call_is_taken_behind_its_pieces() -> None:
    with opened() as (_, context, program):
        stream = context.stream()
        program.launch(launch(0, first=0, count=2, blocks=1), stream)
        program.launch(whole(1, first=2, count=BLOCKS - 2), stream)
        context.synchronise(stream)
        np.testing.assert_array_equal(program.read("y"), 2 * VALUES["x"])


def test_blocks_that_are_brought_before_the_call_begins_find_nothing() -> None:
    with opened() as (_, context, program):
        stream = context.stream()
        program.bring_back(whole(), 1, stream)
        context.synchronise(stream)
        assert doubled(program) == 0


def test_warming_up_takes_nothing() -> None:
    with opened() as (machine, context, program):
        stream = context.stream()
        program.warm_up(stream)
        assert "double_it__persistent" in {each.symbol for each in machine.cuda.launches}
        np.testing.assert_array_equal(program.read("z"), 2 * VALUES["x"] + 1)
        program.clear("y")
        program.launch(whole(), stream)
        context.synchronise(stream)
        assert doubled(program) == BLOCKS


def test_a_check_changes_the_quota_of_persistent_forms_as_they_run() -> None:
    with opened() as (machine, context, program):
        tried = [way for way in network_ways(program) if way[0].persistent]
        assert {way[0].blocks for way in tried} == {1, 3, BLOCKS + 2}
        assert max(len(way[0].shards) for way in tried) > 2
        for way in tried:
            before = len(machine.cuda.launches)
            np.testing.assert_array_equal(
                run(context, program, way, context.stream())["z"], 2 * VALUES["x"] + 1, str(way)
            )
            assert len(machine.cuda.launches) - before == 2 + len(way[1].shards)


def calls(machine: Machine, since: int) -> Counter[str]:
    return Counter(machine.cuda.calls[since:])


def test_the_backend_lowers_a_quota_with_one_call_and_brings_back_the_blocks_that_left() -> None:
    with opened() as (machine, context, program):
        backend = CudaBackend(context, {"a": program}, [task("a")])
        backend.launch(whole())
        since = len(machine.cuda.calls)
        backend.set_quota("a", 1)
        assert calls(machine, since) == {"cuMemsetD2D32Async": 1}
        machine.clock.advance_ns(2 * BLOCKS * BLOCK_US * US)
        assert [event.kind for event in backend.wait(backend.now_ns() + 1)] == ["started"]
        since = len(machine.cuda.calls)
        backend.set_quota("a", kernel.NO_QUOTA)
        assert calls(machine, since) == {"cuMemsetD2D32Async": 1, "cuLaunchKernel": 1}
        (event,) = moments(backend)
        assert (event.kind, event.failure) == ("ended", None)
        assert doubled(program) == BLOCKS
        assert machine.cuda.launches[-1].grid == (2, 1, 1)


def test_a_run_begins_without_the_quota_of_one_that_broke_down() -> None:
    with opened() as (_, context, program):
        CudaBackend(context, {"a": program}, [task("a")]).set_quota("a", 0)
        backend = CudaBackend(context, {"a": program}, [task("a")])
        backend.launch(whole())
        assert [event.kind for event in moments(backend)] == ["started", "ended"]
        assert doubled(program) == BLOCKS


def test_a_gpu_whose_streams_cannot_wait_for_a_word_is_refused_before_anything_runs() -> None:
    machine = Machine(kernels={**KERNELS, **TAKING}, more={"missing": ["cuStreamWaitValue32"]})
    with machine.context() as context, pytest.raises(DeviceError, match="cuStreamWaitValue32"):
        Program(context, network(), TAKING_BUILD)
