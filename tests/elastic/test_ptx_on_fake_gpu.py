"""PTX handed to the driver as text: on a fake one whose cores are the interpreter, with the packed arguments."""

from __future__ import annotations

from cuda_scene import Machine, interpreted
from network_differences import differences
from ptx_corpus import text, transformed, trials

from edgetune.stages.elastic.cuda.building import build as built_network
from edgetune.stages.elastic.cuda.building import load_forms
from edgetune.stages.elastic.cuda.gpu_equivalence import LaunchVariant, check
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.work import KernelBuffer, KernelSequence
from fakes.cuda_gpu import FakeCudaGpu

NAME = "triton_softmax"


def machine_for(done: TransformResult) -> Machine:
    return interpreted(done, FakeCudaGpu(sm_count=2, threads_per_sm=512))


def test_forms_from_the_driver_are_compared_on_the_gpu() -> None:
    done = transformed(NAME)
    machine = machine_for(done)
    with machine.context() as context:
        built = load_forms(done, context, f"{NAME}.ptx")
        found = check(context, built, done, trials(NAME))
    form = built.forms["softmax_kernel"].elastic[1]
    assert (form.symbol, form.resources.registers_per_thread) == ("softmax_kernel__grid", 40)
    assert [(each.answer, each.reason) for each in found.verdicts] == [("equal", "")]
    assert found.untried == {}
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
        assert recorded.forms["softmax_kernel"].persistent is not None
        program = Program(context, asked, built_network(asked, context))
        program.write(trial.buffers)
        assert differences(context, program, [LaunchVariant(1, 2, 3), LaunchVariant(1, 7)]) == []
