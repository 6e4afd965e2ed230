"""PTX handed to the driver as text: on a fake one whose cores are the interpreter, with the packed arguments."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import Machine
from network_differences import differences
from ptx_corpus import text, transformed, trials

from edgetune.artifacts.kernel_tasks import KernelBuffer
from edgetune.errors import InputError
from edgetune.stages.elastic.cuda.building import build as built_network
from edgetune.stages.elastic.cuda.gpu_equivalence import LaunchVariant, build, check
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.shim.run import FORWARD, ShimLaunch
from edgetune.stages.elastic.work import Argument, KernelSequence, Pointer, Scalar
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, FakeLaunch, FakeMemory

NAME = "triton_softmax"


def machine_for(done: TransformResult) -> Machine:
    program = PtxProgram.of(done.source, "k.ptx")

    def run_it(memory: FakeMemory, launch: FakeLaunch) -> None:
        places = {base: memory.view(base, np.uint8, size) for base, size in memory.allocations()}

        def argument(value: bytes) -> Argument:
            address = struct.unpack("<Q", value)[0] if len(value) == 8 else None
            return Pointer(f"{address}") if address in places else Scalar(value)

        asked = ShimLaunch(
            launch.symbol, launch.grid, launch.block, tuple(map(argument, launch.arguments)), launch.shared_bytes
        )
        outcome = next(program.run_all([([asked], FORWARD)], {f"{base}": array for base, array in places.items()}))
        assert outcome.status == "ok", outcome.message
        for base, array in places.items():
            array[:] = outcome.buffers[f"{base}"]

    kernels = {}
    for entry in program.module.entries:
        sizes = tuple(each.size_bytes for each in entry.parameters)
        kernels[entry.name] = FakeCudaKernel(sizes, 5000, run_it, registers=40, static_shared_bytes=0)
    return Machine([FakeCudaGpu(sm_count=2, threads_per_sm=512)], kernels=kernels, more={"version": 12090})


def test_ptx_that_is_newer_than_the_driver_is_not_loaded() -> None:
    machine = Machine([FakeCudaGpu()], more={"version": 12040})
    with machine.context() as context, pytest.raises(InputError, match=r"k\.ptx is PTX 8\.8, and the driver"):
        build(transformed(NAME), context, name="k.ptx")


def test_forms_from_the_driver_are_compared_on_the_gpu() -> None:
    done = transformed(NAME)
    machine = machine_for(done)
    with machine.context() as context:
        built = build(done, context, name=f"{NAME}.ptx")
        found = check(context, built, done, trials(NAME))
    form = built.forms["softmax_kernel"].elastic[1]
    assert (form.symbol, form.resources.registers_per_thread) == ("softmax_kernel__grid", 40)
    assert [(each.answer, each.reason) for each in found.verdicts] == [("equal", "")]
    assert found.untried == {}
    assert machine.cuda.leaked() == []


def test_a_wrong_form_is_found_out_on_the_gpu_too() -> None:
    done = transformed(NAME)
    wrong = replace(
        done, source=done.source.replace("add.u32 %edgetune_number, %edgetune_first,", "mov.u32 %edgetune_number,")
    )
    with machine_for(wrong).context() as context:
        (verdict,) = check(context, build(wrong, context, name="k.ptx"), wrong, trials(NAME)).verdicts
    assert verdict.answer == "different"


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
        assert recorded.forms["softmax_kernel"].persistent is not None
        program = Program(context, asked, built_network(asked, context))
        program.write(trial.buffers)
        assert differences(context, program, [LaunchVariant(1, 2, 3), LaunchVariant(1, 7)]) == []
