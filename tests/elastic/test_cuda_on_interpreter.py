"""The whole way with kernels really run: forms, packed as for a GPU, on a fake one whose cores are the interpreter.

What a launch hands to a kernel is taken from the fake driver byte for byte and run on the CPU, so that a wrong order,
size or offset of arguments gives wrong numbers. Neither timing nor CUDA itself is in this.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import Machine, interpreted
from network_differences import differences, network_ways, originals, run
from ptx_corpus import made, text, transformed, trials

from edgetune.stages.elastic.cuda.building import Build, load_forms
from edgetune.stages.elastic.cuda.building import build as built_network
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import check
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import GpuTask, KernelBuffer, KernelSequence
from edgetune.stages.elastic.kernel import PERSISTENT, TransformResult
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import network, values
from edgetune.stages.elastic.policies import POLICIES
from fakes.cuda_gpu import FakeCudaGpu

SIZES = {
    "gru": {"units": 16, "inputs": 8, "steps": 2},
    "cifarnet": {"narrow": 16, "side": 12},
    "squeezenet": {"narrow": 16, "side": 35, "classes": 10},
}


@contextmanager
def on_the_interpreter(
    name: str, *, persistent: bool = False
) -> Iterator[tuple[Machine, Context, KernelSequence, Build]]:
    asked = network(name, **SIZES[name])
    done = made(asked.source, persistent=persistent)
    machine = interpreted(done, FakeCudaGpu(sm_count=2, threads_per_sm=512))
    with machine.context() as context:
        yield machine, context, asked, load_forms(done, context, f"{name}.ptx")


@pytest.mark.parametrize("name", ["gru", pytest.param("squeezenet", marks=pytest.mark.slow)])
def test_a_network_in_pieces_of_every_form_is_the_network(name: str) -> None:
    with on_the_interpreter(name) as (_, context, asked, built):
        program = Program(context, asked, built)
        program.write(values(asked, 1))
        answer = run(context, program, originals(program), context.stream())
        (output,) = [buffer.name for buffer in asked.buffers if buffer.role == "output"]
        assert np.isfinite(answer[output]).all()
        assert np.ptp(answer[output]) > 0
        tried = network_ways(program)[5::13]  # one of each form
        launched = {each.symbol.rpartition("__")[2] for way in tried for each in way}
        assert launched >= {"grid", "block2", "block4", "block8"}
        assert differences(context, program, tried) == []


def test_a_network_of_persistent_forms_is_the_network() -> None:
    with on_the_interpreter("gru", persistent=True) as (machine, context, asked, built):
        program = Program(context, asked, built)
        program.write(values(asked, 1))
        tried = [way for way in network_ways(program) if all(each.persistent for each in way)][::4]
        assert {len(each.shards) > 1 for way in tried for each in way} == {True, False}
        assert differences(context, program, tried) == []
        launched = [each.symbol for each in machine.cuda.launches if each.symbol.endswith("__persistent")]
        assert len(launched) == 2 * len(tried) * len(asked.calls), "each once, and its blocks are brought back"


@pytest.mark.parametrize("policy", [pytest.param("elastic", marks=pytest.mark.slow), "persistent"])
def test_a_run_by_a_policy_of_pieces_leaves_the_answers_of_both_networks(policy: str) -> None:
    with on_the_interpreter("cifarnet", persistent=policy == "persistent") as (machine, context, asked, built):
        context.facts = replace(context.facts, gpu=replace(context.facts.gpu, launch_s=1e-6))
        ready = GpuSession(context, builder=lambda *_: built)
        tasks = ready.fitted([GpuTask("urgent", asked, 1, "uniform:2000/s"), GpuTask("normal", asked)])
        with ready.open_backend(tasks) as backend:
            wanted = {each.name: ready.programs["urgent"].read(each.name) for each in asked.buffers}  # by warming up
            for task in tasks:
                for buffer in asked.buffers:
                    if buffer.role in ("scratch", "output"):
                        ready.programs[task.name].clear(buffer.name)
            loop = ElasticLoop(POLICIES.find(policy)(), backend, tasks, gpu=ready.gpu, duration_s=0.001)
            loop.run()
        assert {each.task.name for each in loop.requests if each.outcome == "ok"} == {"urgent", "normal"}
        assert any(each.launch.blocks is not None for each in loop.launches)
        assert any(each.launch.persistent for each in loop.launches) == (policy == "persistent")
        for task in tasks:
            for buffer, array in wanted.items():
                found = ready.programs[task.name].read(buffer)
                assert found.tobytes() == array.tobytes(), (task.name, buffer)
    assert machine.cuda.leaked() == []


NAME = "triton_softmax"


def machine_for(done: TransformResult) -> Machine:
    return interpreted(done, FakeCudaGpu(sm_count=2, threads_per_sm=512))


def test_forms_from_the_driver_are_compared_on_the_gpu() -> None:
    done = transformed(NAME)
    machine = machine_for(done)
    with machine.context() as context:
        built = load_forms(done, context, f"{NAME}.ptx")
        found, untried = check(context, built, done, trials(NAME))
    assert built.forms["softmax_kernel"][1].registers_per_thread == 40
    assert [(each.answer, each.reason) for each in found] == [("equal", "")]
    assert untried == {}
    assert machine.cuda.leaked() == []


def test_a_network_may_have_its_kernels_as_ptx() -> None:
    (trial,) = trials(NAME)
    buffers = tuple(
        KernelBuffer(name, array.shape, array.dtype.str, "output" if name == "out" else "input")
        for name, array in trial.buffers.items()
    )
    asked = KernelSequence("mine", (trial.call,), text(NAME), buffers)
    with machine_for(transformed(NAME)).context() as context:
        recorded = built_network(asked, context, recorded=True, persistent=True)
        assert recorded.recorded
        assert PERSISTENT in recorded.forms["softmax_kernel"]
        program = Program(context, asked, built_network(asked, context))
        program.write(trial.buffers)
        assert differences(context, program, network_ways(program)[:4]) == []
