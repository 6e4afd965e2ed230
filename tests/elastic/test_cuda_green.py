"""Part of a GPU alone: green contexts, and reasons why there are none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_scene import BUILD, VALUES, Machine, launch, moments, network, task

from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda.green import green_context, part_of, why_not_green
from edgetune.stages.elastic.cuda.program import Program
from fakes.cuda_gpu import FakeCudaGpu


def test_streams_of_a_green_context_run_on_its_multiprocessors() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132)])
    with machine.context() as context, green_context(context, 16) as part:
        assert (context.facts.gpu.sm_count, part.facts.gpu.sm_count) == (132, 16)
        program = Program(part, network(), BUILD)
        program.write(VALUES)
        program.warm_up(part.stream())
        assert np.array_equal(program.read("z"), 2 * VALUES["x"] + 1)
    assert {each.sm_count for each in machine.cuda.launches} == {16}
    assert machine.cuda.leaked() == []


def test_a_green_context_has_at_least_the_requested_multiprocessors() -> None:
    with Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)]).context() as context:
        for asked, got in ((1, 8), (8, 8), (9, 16)):
            with green_context(context, asked) as part:
                assert part.facts.gpu.sm_count == got


def test_more_than_there_are() -> None:
    with (
        Machine().context() as context,
        pytest.raises(DeviceError, match="has 16 multiprocessors, and 17 are asked for"),
        green_context(context, 17),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine([FakeCudaGpu(green=False)]), "cuDeviceGetDevResource: this GPU or its driver does not offer it"),
        (Machine(more={"missing": ["cuGreenCtxCreate"]}), "cuGreenCtxCreate: this NVIDIA driver is too old"),
        (Machine([FakeCudaGpu(sm_count=4, green_least=8)]), "cuDevSmResourceSplitByCount: .* does not offer it"),
    ],
)
def test_where_they_do_not_there_is_a_reason(machine: Machine, words: str) -> None:
    with machine.context() as context:
        reason = why_not_green(context)
    assert reason is not None
    assert re.match(words, reason)
    assert machine.cuda.leaked() == []


def test_a_task_that_may_use_a_part_has_its_streams_there_and_the_kernels_of_the_whole() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)])
    with machine.backend(task("a", 1), task("b", sms=24), task("c", sms=200)) as backend:
        for number, name in enumerate("abc"):
            backend.launch(launch(number, name))
        found = moments(backend)
    assert [each.failure for each in found] == [None] * 6
    assert [each.sm_count for each in machine.cuda.launches] == [132, 24, 132]
    assert machine.cuda.leaked() == []


def test_a_part_of_a_part() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)])
    with machine.context() as context, green_context(context, 32) as part:
        stream = part.stream(0, part_of(part, 8))
        program = Program(part, network(), BUILD)
        program.write(VALUES)
        program.warm_up(stream)
        assert part_of(part, 32) is None
    assert {each.sm_count for each in machine.cuda.launches} == {8}
    assert machine.cuda.leaked() == []


def test_a_part_of_another_size_than_was_asked_for_is_refused() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)])
    with machine.context() as context, pytest.raises(DeviceError, match="to 9 multiprocessors has 16") as refused:
        part_of(context, 9)
    assert refused.value.hint == "ask for 16"
