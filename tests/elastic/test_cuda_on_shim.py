"""The whole way with kernels really run: generated forms, packed as for a GPU, on a fake one whose cores are the shim.

What a launch hands to a kernel is taken from the fake driver byte for byte and run on the CPU, so that a wrong order,
size or offset of arguments gives wrong numbers. Neither timing nor CUDA itself is in this.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import Machine
from network_differences import differences, run

from edgetune.stages.elastic import abi
from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import ORIGINAL, LaunchVariant
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.forms import Form, Forms, variants_by_count
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import network, values
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Argument, GpuTask, KernelSequence, Pointer, Scalar
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, FakeLaunch, FakeMemory

NEEDS = Resources(registers_per_thread=32)
SIZES = {
    "gru": {"units": 16, "inputs": 8, "steps": 2},
    "cifarnet": {"narrow": 8, "side": 16},
    "squeezenet": {"narrow": 16, "side": 35, "classes": 10},
}


def forms_of(transformed: TransformResult) -> dict[str, Forms]:
    return {
        each.kernel.name: Forms(
            Form(each.kernel.name, NEEDS),
            {count: Form(variant.symbol, NEEDS) for count, variant in variants_by_count(each).items()},
            *(Form(variant.symbol, NEEDS) for variant in each.variants if variant.level == "persistent"),
        )
        for each in transformed.kernels
    }


def kernels_of(
    asked: KernelSequence, transformed: TransformResult, forms: dict[str, Forms]
) -> dict[str, FakeCudaKernel]:
    """Return every form as a kernel of the fake that the shim runs."""
    built = build(transformed.source, f"{asked.name}.cu")

    def run_it(memory: FakeMemory, launch: FakeLaunch) -> None:
        places = {base: memory.view(base, np.uint8, size) for base, size in memory.allocations()}
        for value in launch.arguments:  # words amid an allocation
            address = struct.unpack("<Q", value)[0] if len(value) == 8 else 0
            for base, size in memory.allocations():
                if base < address < base + size:
                    del places[base]
                    places[address] = memory.view(address, np.uint8, base + size - address)

        def argument(value: bytes) -> Argument:
            address = struct.unpack("<Q", value)[0] if len(value) == 8 else None
            return Pointer(f"{address}") if address in places else Scalar(value)

        asked_launch = ShimLaunch(
            launch.symbol, launch.grid, launch.block, tuple(map(argument, launch.arguments)), launch.shared_bytes
        )
        outcome = built.run([asked_launch], {f"{base}": array for base, array in places.items()})
        assert outcome.status == "ok", outcome.message
        for base, array in places.items():
            array[:] = outcome.buffers[f"{base}"]

    found = {}
    for call in asked.calls:
        sizes = tuple(8 if isinstance(each, Pointer) else len(each.value) for each in call.arguments)
        found[call.kernel] = FakeCudaKernel(sizes, 5000, run_it)
        for form in forms[call.kernel].elastic.values():
            found[form.symbol] = FakeCudaKernel((*sizes, abi.SIZE_BYTES), 5000, run_it)
        if (taking := forms[call.kernel].persistent) is not None:
            found[taking.symbol] = FakeCudaKernel((*sizes, abi.SIZE_BYTES, 8), 5000, run_it)
    return found


@contextmanager
def on_the_shim(name: str, *, persistent: bool = False) -> Iterator[tuple[Machine, Context, KernelSequence, Build]]:
    asked = network(name, **SIZES[name])
    transformed = transform(asked.source, f"{name}.cu", persistent=persistent)
    forms = forms_of(transformed)
    kernels = kernels_of(asked, transformed, forms)
    machine = Machine([FakeCudaGpu(sm_count=2, threads_per_sm=512)], kernels=kernels)
    with machine.context() as context:
        yield machine, context, asked, Build(fake_image(*kernels), forms)


@pytest.mark.parametrize("name", ["gru", "squeezenet"])
def test_a_network_in_pieces_of_every_form_is_the_network(name: str) -> None:
    with on_the_shim(name) as (_, context, asked, built):
        program = Program(context, asked, built)
        program.write(values(asked, 1))
        answer = run(context, program, ORIGINAL, context.stream())
        (output,) = [buffer.name for buffer in asked.buffers if buffer.role == "output"]
        assert np.isfinite(answer[output]).all()
        assert np.ptp(answer[output]) > 0
        tried = [LaunchVariant(1, 2, 3), LaunchVariant(2, 7), LaunchVariant(4, 1, 2), LaunchVariant(8, 2)]
        there = {each for call in range(len(asked.calls)) for each in program.per_thread(call)}
        assert {way.per_thread for way in tried} == there
        assert differences(context, program, tried) == []


def test_a_network_of_persistent_forms_is_the_network() -> None:
    with on_the_shim("gru", persistent=True) as (machine, context, asked, built):
        program = Program(context, asked, built)
        program.write(values(asked, 1))
        tried = [LaunchVariant(1, blocks=3, quotas=()), LaunchVariant(1, blocks=2, quotas=(1, 0))]
        assert differences(context, program, tried) == []
        launched = [each.symbol for each in machine.cuda.launches if each.symbol.endswith("__persistent")]
        assert len(launched) == 3 * sum(map(program.has_persistent, range(len(asked.calls))))
        assert launched


@pytest.mark.parametrize("policy", ["elastic", "persistent"])
def test_a_run_by_a_policy_of_pieces_leaves_the_answers_of_both_networks(policy: str) -> None:
    with on_the_shim("cifarnet", persistent=policy == "persistent") as (machine, context, asked, built):
        context.facts = replace(context.facts, gpu=replace(context.facts.gpu, launch_s=1e-6))
        ready = GpuSession(context, builder=lambda *_: built)
        tasks = ready.fitted([GpuTask("urgent", asked, 1, "uniform:2000/s"), GpuTask("normal", asked)])
        with ready.open_backend(tasks) as backend:
            wanted = {each.name: ready.program("urgent").read(each.name) for each in asked.buffers}  # by warming up
            for task in tasks:
                for buffer in asked.buffers:
                    if buffer.role in ("scratch", "output"):
                        ready.program(task.name).clear(buffer.name)
            loop = ElasticLoop(POLICIES.find(policy)(), backend, tasks, gpu=ready.gpu, duration_s=0.001)
            loop.run()
        assert {each.task.name for each in loop.requests if each.outcome == "ok"} == {"urgent", "normal"}
        assert any(each.launch.blocks is not None for each in loop.launches)
        assert any(each.launch.persistent for each in loop.launches) == (policy == "persistent")
        for task in tasks:
            for buffer, array in wanted.items():
                found = ready.program(task.name).read(buffer)
                assert found.tobytes() == array.tobytes(), (task.name, buffer)
    assert machine.cuda.leaked() == []
