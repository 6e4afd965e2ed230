"""A context for one run: facts of the GPU, what is made and given back."""

from __future__ import annotations

import pytest
from cuda_scene import Machine

from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda.context import open_context
from edgetune.stages.elastic.cuda.driver import Driver, KernelFailedError
from fakes.cuda_driver import fake_image
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


def test_a_scope_gives_back_what_was_made_in_it_alone() -> None:
    machine = Machine()
    with machine.context() as context:
        kept = context.allocate(100)
        with context.scope():
            context.allocate(200)
        assert machine.cuda.works[0].memory.used_bytes == 100
        context.upload(kept, b"abc")
        assert context.download(kept, 3) == b"abc"


def test_an_unknown_gpu_is_refused() -> None:
    machine = Machine()
    with (
        pytest.raises(DeviceError, match="no GPU 1 on this machine, which has 1"),
        open_context(Driver(machine.cuda), 1),
    ):
        raise AssertionError


def _launch(context, name: str):
    stream, function = context.stream(), context.function(context.load(fake_image(name)), name)
    context.driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    return stream


def test_waiting_for_a_stream_takes_as_long_as_what_is_on_it() -> None:
    machine = Machine(kernels={"slow": FakeCudaKernel(duration_ns=5_000_000_000)})
    with machine.context() as context:
        stream, begin_ns = _launch(context, "slow"), machine.clock.now_ns()
        context.synchronise(stream)
        assert 5.0e9 <= machine.clock.now_ns() - begin_ns < 5.001e9


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
