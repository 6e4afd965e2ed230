"""Persistent forms on the fake GPU: control words, launches that go on, and what is checked on a GPU."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import BLOCK_US, BLOCKS, BUILD, FORMS, KERNELS, SIZE, THREADS, US, VALUES, Machine, launch, network

from edgetune.errors import EdgetuneError
from edgetune.stages.elastic import abi
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import LaunchVariant, put, ways
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.forms import Form
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaKernel, FakeLaunch, FakeMemory

NEEDS = FORMS["double_it"].original.resources


def take(memory: FakeMemory, done: FakeLaunch) -> None:
    """Double what the physical blocks below the quota take: one logical block of each launch, all with full quota."""
    source, target, control = (struct.unpack("<Q", done.arguments[place])[0] for place in (0, 1, 4))
    numbers = struct.unpack("<8I", done.arguments[3])
    assert numbers[:6] == (BLOCKS, 1, 1, THREADS, 1, 1)
    rank, count = numbers[6:]
    words = memory.view(control, np.uint32, 2)
    able = min(done.grid[0], max(0, int(words[1]) - rank))
    begin = min(int(words[0]), count)
    end = count if able == done.grid[0] else min(begin + able, count)
    words[0] = end + (able if end == count else 0)
    here = slice(begin * THREADS, min(end * THREADS, SIZE))
    memory.view(target, np.int32, SIZE)[here] = 2 * memory.view(source, np.int32, SIZE)[here]


TAKING = {"double_it__persistent": FakeCudaKernel((8, 8, 4, abi.SIZE_BYTES, 8), BLOCKS * BLOCK_US * US, take)}
TAKING_FORMS = {**FORMS, "double_it": replace(FORMS["double_it"], persistent=Form("double_it__persistent", NEEDS))}
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


def test_a_persistent_launch_does_the_whole_call() -> None:
    with opened() as (machine, context, program):
        stream = context.stream()
        program.launch(launch(0, blocks=3, rank=0), stream)
        context.synchronise(stream)
        np.testing.assert_array_equal(program.read("y"), 2 * VALUES["x"])
        assert program.control(0) is not None
        assert program.control(0).reached(BLOCKS) == BLOCKS
    (made,) = machine.cuda.launches
    assert (made.symbol, made.grid, made.block) == ("double_it__persistent", (3, 1, 1), (THREADS, 1, 1))
    assert made.arguments[3] == abi.packed((BLOCKS, 1, 1), (THREADS, 1, 1), 0, BLOCKS)
    assert machine.cuda.leaked() == []


def test_a_quota_stops_it_and_another_launch_goes_on() -> None:
    with opened() as (_, context, program):
        stream, control = context.stream(), program.control(0)
        assert control is not None
        program.launch(launch(0, blocks=3, rank=0), stream)
        control.set_quota(1)
        context.synchronise(stream)
        assert control.reached(BLOCKS) == doubled(program) == 1
        control.set_quota(2)
        program.launch(launch(1, first=1, count=BLOCKS - 1, blocks=3, rank=0), stream)
        context.synchronise(stream)
        assert control.reached(BLOCKS) == doubled(program) == 3
        control.set_quota(abi.NO_QUOTA)
        program.launch(launch(2, first=3, count=BLOCKS - 3, blocks=2, rank=3), stream)
        context.synchronise(stream)
        assert control.reached(BLOCKS) == doubled(program) == BLOCKS


def test_the_counter_of_a_new_call_begins_at_zero() -> None:
    with opened() as (_, context, program):
        stream = context.stream()
        for number in range(2):
            program.clear("y")
            program.launch(launch(number, blocks=3, rank=0), stream)
            context.synchronise(stream)
            assert doubled(program) == BLOCKS


def test_a_launch_begins_with_the_quota_that_was_set_before_it() -> None:
    with opened() as (machine, context, program):
        control, begun_ns = program.control(0), machine.clock.now_ns()
        assert control is not None
        control.set_quota(0)
        program.launch(launch(0, blocks=3, rank=0), context.stream())
        calls = machine.cuda.calls
        assert calls[-4:] == ["cuMemsetD32Async", "cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"]
        assert machine.cuda.launches[-1].start_ns > begun_ns


def test_warming_up_takes_nothing_and_leaves_no_quota() -> None:
    with opened() as (machine, context, program):
        stream = context.stream()
        program.warm_up(stream)
        assert "double_it__persistent" in {each.symbol for each in machine.cuda.launches}
        np.testing.assert_array_equal(program.read("z"), 2 * VALUES["x"] + 1)
        program.clear("y")
        program.launch(launch(0, blocks=2, rank=0), stream)
        context.synchronise(stream)
        assert doubled(program) == BLOCKS


def test_a_call_without_a_persistent_form_has_no_control_words() -> None:
    with opened() as (_, context, program):
        assert program.control(1) is None
        assert program.per_thread(0) == (1, 2)
        with pytest.raises(EdgetuneError, match="kernel add_one has no persistent form"):
            program.launch(launch(0, call=1, blocks=2, rank=0), context.stream())


def test_a_check_launches_persistent_forms_until_all_is_done() -> None:
    with opened() as (_, context, program):
        tried = [way for way in ways(program, 4) if way.quotas is not None]
        assert {way.blocks for way in tried} == {None, 4, 3}
        for way in tried:
            program.clear("z")
            put(context, program, way, stream := context.stream())
            context.synchronise(stream)
            np.testing.assert_array_equal(program.read("z"), 2 * VALUES["x"] + 1, str(way))


def test_without_persistent_forms_none_are_tried() -> None:
    with Machine().program() as (_, program):
        assert all(way.quotas is None for way in ways(program, 4))
        assert LaunchVariant(1).quotas is None
