"""What the fake of CUDA's driver holds to."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from cuda_scene import US, Machine

from edgetune.stages.elastic.cuda import driver as codes
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, WouldWaitForeverError


class Raw:
    """The fake with a context, called as the module is."""

    def __init__(self, *, kernels: dict[str, FakeCudaKernel] | None = None, **more) -> None:
        self.clock = FakeClock()
        self.cuda = FakeCuda([FakeCudaGpu(**more)], self.clock, kernels=kernels, other_ns=0)
        assert self("cuInit", 0) == ()
        (self.device,) = self("cuDeviceGet", 0)
        (context,) = self("cuDevicePrimaryCtxRetain", self.device)
        self("cuCtxPushCurrent", context)

    def __call__(self, name: str, *arguments):
        code, *values = getattr(self.cuda, name)(*arguments)
        assert int(code) == 0, code
        return tuple(values)

    def code(self, name: str, *arguments) -> int:
        return int(getattr(self.cuda, name)(*arguments)[0])

    def function(self, name: str):
        (module,) = self("cuModuleLoadData", fake_image(name))
        return self("cuModuleGetFunction", module, name.encode())[0]

    def launch(self, function, stream, *, grid=(1, 1, 1), block=(32, 1, 1), shared=0, pointers=0) -> int:
        return self.code("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, 0)

    def stream(self, priority: int = 0):
        return self("cuStreamCreateWithPriority", 1, priority)[0]

    def event_after(self, stream):
        (event,) = self("cuEventCreate", 0)
        self("cuEventRecord", event, stream)
        return event


def test_nothing_works_before_init_nor_without_a_context() -> None:
    cuda = FakeCuda([FakeCudaGpu()], FakeClock())
    assert int(cuda.cuDeviceGetCount()[0]) == codes.NOT_INITIALIZED
    cuda.cuInit(0)
    assert cuda.cuMemAlloc(4) == (codes.INVALID_CONTEXT, None)


def test_a_stream_is_ordered_and_another_runs_beside_it() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(duration_ns=50 * US)}, start_ns=0)
    function, one, other = raw.function("k"), raw.stream(), raw.stream()
    for stream in (one, one, other):
        assert raw.launch(function, stream) == 0
    assert [(each.start_ns, each.end_ns) for each in raw.cuda.launches] == [
        (0, 50 * US), (50 * US, 100 * US), (0, 50 * US),
    ]  # fmt: skip


def test_an_event_is_over_with_what_was_before_it_on_its_stream() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(duration_ns=50 * US)}, start_ns=0)
    function, stream = raw.function("k"), raw.stream()
    raw.launch(function, stream)
    first = raw.event_after(stream)
    raw.launch(function, stream)
    second = raw.event_after(stream)
    raw.clock.advance_ns(50 * US - 1)
    assert raw.code("cuEventQuery", first) == codes.NOT_READY
    raw.clock.advance_ns(1)
    assert [raw.code("cuEventQuery", event) for event in (first, second)] == [0, codes.NOT_READY]
    assert raw.code("cuEventElapsedTime", first, second) == codes.NOT_READY
    raw.clock.advance_ns(50 * US)
    assert raw("cuEventElapsedTime", first, second) == (ctypes.c_float(0.05).value,)


def test_an_event_that_was_never_recorded_is_over_and_has_no_time() -> None:
    raw = Raw()
    (event,) = raw("cuEventCreate", 0)
    assert raw.code("cuEventQuery", event) == 0
    assert raw.code("cuEventElapsedTime", event, event) == codes.INVALID_HANDLE


def test_a_stream_waits_for_an_event_as_it_was_recorded_when_it_was_told_to() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(duration_ns=50 * US)}, start_ns=0)
    function, one, other = raw.function("k"), raw.stream(), raw.stream()
    raw.launch(function, one)
    event = raw.event_after(one)
    raw("cuStreamWaitEvent", other, event, 0)
    raw.launch(function, one)
    raw("cuEventRecord", event, one)  # the wait is for the earlier record
    raw.launch(function, other)
    assert raw.cuda.launches[-1].start_ns == 50 * US


def test_arguments_are_copied_when_it_is_launched() -> None:
    seen = []
    raw = Raw(kernels={"k": FakeCudaKernel((8, 4), run=lambda _, launch: seen.append(launch.arguments))})
    values = np.array([7, 9], np.uint64)
    pointers = np.array([values.ctypes.data, values.ctypes.data + 8], np.uint64)
    stream = raw.stream()
    assert raw.launch(raw.function("k"), stream, pointers=int(pointers.ctypes.data)) == 0
    values[:] = 0
    raw("cuStreamSynchronize", stream)
    assert seen == [(struct.pack("<Q", 7), struct.pack("<I", 9))]


def test_bytes_are_moved_when_their_stream_comes_to_it() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(duration_ns=50 * US)}, start_ns=0)
    (address,), stream, other = raw("cuMemAlloc", 4), raw.stream(), raw.stream()
    raw("cuMemsetD8Async", address, 7, 4, stream)
    raw("cuStreamSynchronize", stream)
    raw.launch(raw.function("k"), stream)
    data, found = bytearray(b"abcd"), bytearray(4)
    raw("cuMemcpyHtoDAsync", address, data, 4, stream)
    data[:] = b"...."  # it was read already
    raw("cuMemcpyDtoHAsync", found, address, 4, other)
    assert found == b"\7\7\7\7"
    raw("cuMemcpyDtoHAsync", found, address, 4, stream)
    assert found == b"abcd"
    assert raw.clock.now_ns() >= 50 * US


def test_a_copy_does_not_wait_for_another_stream() -> None:
    """What a program that forgets to wait reads on a GPU, too: the old bytes."""

    def fill(memory, launch) -> None:
        memory.view(struct.unpack("<Q", launch.arguments[0])[0], np.uint8, 4)[:] = 1

    raw = Raw(kernels={"fill": FakeCudaKernel((8,), 50 * US, fill)})
    (address,) = raw("cuMemAlloc", 4)
    raw("cuMemsetD8Async", address, 0, 4, other := raw.stream())
    raw("cuStreamSynchronize", other)
    argument = np.array([int(address)], np.uint64)
    pointers = np.array([argument.ctypes.data], np.uint64)
    raw.launch(raw.function("fill"), stream := raw.stream(), pointers=int(pointers.ctypes.data))
    found = bytearray(4)
    raw("cuMemcpyDtoHAsync", found, address, 4, other)
    assert found == b"\0\0\0\0"
    raw("cuMemcpyDtoHAsync", found, address, 4, stream)
    assert found == b"\1\1\1\1"


def test_launches_that_are_too_large_are_refused() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(), "greedy": FakeCudaKernel(registers=128)})
    function, stream = raw.function("k"), raw.stream()
    assert raw.launch(function, stream, block=(1025, 1, 1)) == codes.INVALID_VALUE
    assert raw.launch(function, stream, grid=(1, 65536, 1)) == codes.INVALID_VALUE
    assert raw.launch(function, stream, grid=(0, 1, 1)) == codes.INVALID_VALUE
    assert raw.launch(function, stream, shared=(48 << 10) + 1) == codes.INVALID_VALUE
    assert raw.launch(raw.function("greedy"), stream, block=(1024, 1, 1)) == codes.LAUNCH_OUT_OF_RESOURCES
    assert raw.cuda.launches == []
    assert raw.launch(function, stream, block=(1024, 1, 1)) == 0  # none of them is held against the next


def test_more_shared_memory_than_usual_has_to_be_permitted() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel(static_shared_bytes=1024)})
    function, attribute = raw.function("k"), FakeCuda.CUfunction_attribute(8)
    assert raw("cuFuncGetAttribute", attribute, function) == (47 << 10,), "usual, less what the kernel declares"
    assert raw.code("cuFuncSetAttribute", function, attribute, 163 << 10) == codes.INVALID_VALUE
    raw("cuFuncSetAttribute", function, attribute, 100 << 10)
    assert raw.launch(function, raw.stream(), shared=100 << 10) == 0


def test_after_a_kernel_that_failed_every_call_fails() -> None:
    raw = Raw(kernels={"bad": FakeCudaKernel(duration_ns=50 * US, fails=codes.ILLEGAL_ADDRESS), "k": FakeCudaKernel()})
    stream = raw.stream()
    raw.launch(raw.function("bad"), stream)
    function = raw.function("k")  # until it ends, all is well
    raw.clock.advance_ns(100 * US)
    assert raw.launch(function, raw.cuda.handles[0]) == codes.ILLEGAL_ADDRESS
    assert raw.code("cuMemAlloc", 4) == codes.ILLEGAL_ADDRESS
    assert raw.code("cuStreamSynchronize", stream) == codes.ILLEGAL_ADDRESS


def test_a_kernel_that_touches_what_is_not_its_own_fails() -> None:
    raw = Raw(kernels={"wild": FakeCudaKernel(run=lambda memory, _: memory.view(12345, np.uint8, 4))})
    raw.launch(raw.function("wild"), stream := raw.stream())
    assert raw.code("cuStreamSynchronize", stream) == codes.ILLEGAL_ADDRESS


def test_an_endless_wait_is_an_error_of_the_fake() -> None:
    raw = Raw(kernels={"endless": FakeCudaKernel(duration_ns=None)})
    (address,) = raw("cuMemAlloc", 4)
    raw.launch(raw.function("endless"), stream := raw.stream())
    for name, argument in (("cuStreamSynchronize", stream), ("cuMemFree", address)):
        with pytest.raises(WouldWaitForeverError):
            getattr(raw.cuda, name)(argument)
    assert raw.code("cuEventQuery", raw.event_after(stream)) == codes.NOT_READY
    assert raw.code("cuStreamDestroy", stream) == 0  # returns at once


def test_handles_that_were_destroyed_or_are_of_another_kind_are_refused() -> None:
    raw = Raw(kernels={"k": FakeCudaKernel()})
    stream, function = raw.stream(), raw.function("k")
    raw("cuStreamDestroy", stream)
    assert raw.launch(function, stream) == codes.INVALID_HANDLE
    assert raw.code("cuStreamDestroy", stream) == codes.INVALID_HANDLE
    assert raw.launch(function, function) == codes.INVALID_HANDLE


def test_types_are_refused_as_the_bindings_do() -> None:
    raw = Raw()
    (module,) = raw("cuModuleLoadData", fake_image("k"))
    with pytest.raises(TypeError):
        raw.cuda.cuModuleGetFunction(module, "k")
    with pytest.raises(TypeError):
        raw.cuda.cuDeviceGetAttribute(16, raw.device)


def test_modules() -> None:
    raw = Raw()
    assert raw.code("cuModuleLoadData", b"not machine code") == codes.INVALID_IMAGE
    (module,) = raw("cuModuleLoadData", fake_image("k"))
    assert raw.code("cuModuleGetFunction", module, b"other") == codes.NOT_FOUND


def test_priorities_are_clamped() -> None:
    raw = Raw(priorities=(0, -2), kernels={"k": FakeCudaKernel()})
    function = raw.function("k")
    for priority in (-9, -1, 5):
        raw.launch(function, raw.stream(priority))
    assert [each.priority for each in raw.cuda.launches] == [-2, -1, 0]


def test_memory_that_was_not_written_is_no_zero() -> None:
    machine = Machine()
    with machine.context() as context:
        assert set(context.download(context.allocate(64), 64)) == {0xCD}
