"""CUDA on one GPU: the driver and its errors, facts of the GPU, what is made and given back, and parts of it."""

import numpy as np
import pytest
from cuda_scene import BUILD, VALUES, Machine, launch, moments, network, task

from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda.building import part_of, use_part
from edgetune.stages.elastic.cuda.context import WITHOUT, open_context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workloads.cuda_driver import Driver, KernelFailedError, NotOfferedError
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel


def test_facts_are_those_that_cuda_tells() -> None:
    gpu = FakeCudaGpu(sm_count=16, clock_khz=1_300_000, memory_clock_khz=3_200_000, memory_bits=256)
    with Machine([gpu], more={"version": 13010}).context() as context:
        facts = context.facts
    assert facts.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert facts.driver == "13.1"
    assert facts.gpu.name == "Fake CUDA GPU (not hardware)"
    assert (facts.gpu.sm_count, facts.gpu.compute_capability) == (16, "8.7")
    assert facts.gpu.flop_per_s == pytest.approx(16 * 128 * 2 * 1.3e9)
    assert facts.gpu.bandwidth_bytes_per_s == pytest.approx(2 * 3.2e9 * 32)


def test_everything_is_given_back() -> None:
    machine = Machine()
    with machine.context() as context:
        context.allocate(100)
        context.stream()
        context.event()
        context.load(fake_image("k"))
        assert sorted(machine.cuda.leaked()) == ["event", "memory", "module", "stream"]
    assert machine.cuda.leaked() == []
    assert machine.cuda.works[0].memory.used_bytes == 0
    assert machine.cuda.calls[-2:] == ["cuCtxPopCurrent", "cuDevicePrimaryCtxRelease"]


def test_an_unknown_gpu_is_refused() -> None:
    machine = Machine()
    with (
        pytest.raises(DeviceError, match="there is no such NVIDIA GPU on this machine"),
        open_context(Driver(machine.cuda), 1),
    ):
        raise AssertionError


def _launch(context, name: str):
    stream, function = context.stream(), context.function(context.load(fake_image(name)), name)
    context.driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    return stream


def test_a_kernel_that_never_ends_is_given_up_and_nothing_is_freed_beside_it() -> None:
    """The fake raises where the real driver would wait for ever, as it would in freeing memory."""
    machine = Machine(kernels={"endless": FakeCudaKernel(duration_ns=None)})
    with machine.context() as context:
        context.allocate(100)
        with pytest.raises(KernelFailedError, match=r"a kernel has not ended for 0\.1 s"):
            context.synchronise(_launch(context, "endless"), hang_s=0.1)
        assert context.hung
    assert "memory" in machine.cuda.leaked()
    assert "cuDevicePrimaryCtxRelease" not in machine.cuda.calls


def test_after_a_kernel_that_failed_closing_is_quiet() -> None:
    machine = Machine(kernels={"bad": FakeCudaKernel(fails=719)})
    with machine.context() as context:
        context.allocate(100)
        with pytest.raises(KernelFailedError, match=r"a kernel failed \(CUDA error 719\)"):
            context.synchronise(_launch(context, "bad"))
    assert "cuDevicePrimaryCtxRelease" in machine.cuda.calls


def test_a_kernel_asked_for_again_keeps_the_dynamic_shared_memory_that_it_may_have() -> None:
    machine = Machine([FakeCudaGpu()])
    with machine.context() as context:
        module = context.load(fake_image("k"))
        context.function(module, "k", 65536)
        function = context.function(module, "k", 8192)
        most = context.driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        assert context.driver.call("cuFuncGetAttribute", most, function) == 65536


@pytest.mark.parametrize("why", [KeyboardInterrupt, SystemExit])
def test_a_process_stopped_at_once_waits_for_nothing(why: type[BaseException]) -> None:
    machine = Machine()

    def stopped() -> None:
        with machine.context() as context:
            context.allocate(100)
            raise why

    with pytest.raises(why):
        stopped()
    assert machine.cuda.leaked() == ["memory"]


def fake(**more) -> FakeCuda:
    return FakeCuda([FakeCudaGpu()], FakeClock(), **more)


@pytest.mark.parametrize(
    ("code", "words", "hint"),
    [
        (None, r"no NVIDIA driver on this machine: .*libcuda\.so\.1", "simulate"),
        (100, "there is no NVIDIA GPU on this machine", "simulate"),
        (803, "updated while an older one is loaded", "reboot"),
        (34, "a stub for linking", "library path"),
        (999, "cuInit: CUDA error 999, CUDA_ERROR_UNKNOWN", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_says_why(code: int | None, words: str, hint: str) -> None:
    with pytest.raises(DeviceError, match=words) as caught:
        Driver(fake(fails_with=code), WITHOUT)
    assert hint in caught.value.hint


def test_a_function_that_the_driver_or_the_bindings_lack() -> None:
    driver = Driver(fake(missing=["cuGreenCtxCreate"]))
    with pytest.raises(NotOfferedError, match="cuGreenCtxCreate: this NVIDIA driver is too old"):
        driver.call("cuGreenCtxCreate", None, None, 1)
    with pytest.raises(NotOfferedError, match="cuOfTomorrow is missing from this cuda-bindings"):
        driver.call("cuOfTomorrow")


def test_the_fake_has_the_names_and_numbers_of_the_bindings() -> None:
    """Functions, parameters and enumerations; what they do can be compared on a GPU only."""
    bindings = pytest.importorskip("cuda.bindings.driver")
    for name in ("CUresult", "CUdevice_attribute", "CUfunction_attribute", "CUdevResourceType"):
        for member in getattr(FakeCuda, name):
            assert int(getattr(getattr(bindings, name), member.name)) == int(member), member
    functions = [name for name in dir(FakeCuda) if name.startswith("cu")]
    assert len(functions) > 30
    for name in functions:
        documented = getattr(bindings, name).__doc__.split("\n")[0].partition("(")[2].rpartition(")")[0]
        wanted = [word.split(":")[0].split()[-1].lstrip("*") for word in documented.split(",") if word]
        wanted = ["flags" if word == "useFlags" else word for word in wanted]  # as older ones call it
        code = getattr(FakeCuda, name)
        code = getattr(code, "__wrapped__", code).__code__
        assert list(code.co_varnames[1 : code.co_argcount]) == wanted, name


def test_a_part_runs_on_its_multiprocessors() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132)])
    with machine.context() as context:
        flop_per_s = context.facts.gpu.flop_per_s
        use_part(context, 16)
        assert context.facts.gpu.sm_count == 16
        assert context.facts.gpu.flop_per_s == pytest.approx(flop_per_s * 16 / 132)
        program = Program(context, network(), BUILD)
        program.write(VALUES)
        program.warm_up(context.stream())
        assert np.array_equal(program.read("z"), 2 * VALUES["x"] + 1)
    assert {each.sm_count for each in machine.cuda.launches} == {16}
    assert machine.cuda.leaked() == []


@pytest.mark.parametrize(("asked", "got"), [(1, 8), (8, 8), (9, 16)])
def test_a_part_has_at_least_the_requested_multiprocessors(asked: int, got: int) -> None:
    with Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)]).context() as context:
        use_part(context, asked)
        assert context.facts.gpu.sm_count == got


def test_all_multiprocessors_are_no_part() -> None:
    with Machine([FakeCudaGpu(sm_count=15, green=False)]).context() as context:
        use_part(context, 15)
        assert context.part is None


def test_more_than_there_are() -> None:
    with (
        Machine().context() as context,
        pytest.raises(DeviceError, match="has 16 multiprocessors, and 17 are asked for"),
    ):
        use_part(context, 17)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine([FakeCudaGpu(green=False)]), "cuDeviceGetDevResource: this GPU or its driver does not offer it"),
        (Machine(more={"missing": ["cuGreenCtxCreate"]}), "cuGreenCtxCreate: this NVIDIA driver is too old"),
        (Machine([FakeCudaGpu(sm_count=4, green_least=8)]), "cuDevSmResourceSplitByCount: .* does not offer it"),
    ],
)
def test_where_they_do_not_there_is_a_reason(machine: Machine, words: str) -> None:
    with machine.context() as context, pytest.raises(DeviceError, match=words):
        use_part(context, 1)
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
    with machine.context() as context:
        use_part(context, 32)
        program = Program(context, network(), BUILD)
        program.write(VALUES)
        program.warm_up(context.stream(0, part_of(context, 8)))
        assert part_of(context, 32) is None
    assert {each.sm_count for each in machine.cuda.launches} == {8}
    assert machine.cuda.leaked() == []


def test_a_part_of_another_size_than_was_asked_for_is_refused() -> None:
    machine = Machine([FakeCudaGpu(sm_count=132, green_least=8, green_step=8)])
    with machine.context() as context, pytest.raises(DeviceError, match="to 9 multiprocessors has 16") as refused:
        part_of(context, 9)
    assert refused.value.hint == "ask for 16"
