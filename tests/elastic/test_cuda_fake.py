"""The fake of CUDA's driver orders work and refuses calls as the driver does."""

from __future__ import annotations

import pytest
from cuda_scene import US

from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, WouldWaitForeverError
from fakes.cuda_handles import codes


class Raw:
    """The fake with a context, called as the module is."""

    def __init__(self, kernel: FakeCudaKernel) -> None:
        self.clock = FakeClock()
        self.cuda = FakeCuda([FakeCudaGpu(start_ns=0)], self.clock, kernels={"k": kernel}, other_ns=0)
        assert self.cuda.cuMemAlloc(4)[0] == codes.NOT_INITIALIZED
        self("cuInit", 0)
        assert self.cuda.cuMemAlloc(4)[0] == codes.INVALID_CONTEXT
        self("cuCtxPushCurrent", self("cuDevicePrimaryCtxRetain", self("cuDeviceGet", 0)))
        self.function = self("cuModuleGetFunction", self("cuModuleLoadData", fake_image("k")), b"k")
        self.one, self.other = (self("cuStreamCreateWithPriority", 1, 0) for _ in range(2))

    def __call__(self, name: str, *arguments):
        code, *values = getattr(self.cuda, name)(*arguments)
        assert int(code) == 0, code
        return values[0] if values else None

    def launch(self, stream, *, grid=(1, 1, 1), block=(32, 1, 1), shared=0) -> int:
        return int(self.cuda.cuLaunchKernel(self.function, *grid, *block, shared, stream, 0, 0)[0])


def test_a_stream_is_ordered_and_waits_for_an_event_as_it_was_recorded() -> None:
    raw = Raw(FakeCudaKernel(duration_ns=50 * US))
    event = raw("cuEventCreate", 0)
    raw.launch(raw.one)
    raw("cuEventRecord", event, raw.one)
    raw("cuStreamWaitEvent", raw.other, event, 0)
    raw.launch(raw.one)
    assert raw.cuda.cuEventQuery(event)[0] == codes.NOT_READY
    raw("cuEventRecord", event, raw.one)  # the wait is for the earlier record
    raw.launch(raw.other)
    assert [each.start_ns for each in raw.cuda.launches] == [0, 50 * US, 50 * US]


def test_launches_that_are_too_large_are_refused() -> None:
    raw = Raw(FakeCudaKernel(registers=128))
    for size in ({"block": (1025, 1, 1)}, {"grid": (1, 65536, 1)}, {"grid": (0, 1, 1)}, {"shared": (48 << 10) + 1}):
        assert raw.launch(raw.one, **size) == codes.INVALID_VALUE
    assert raw.launch(raw.one, block=(1024, 1, 1)) == codes.LAUNCH_OUT_OF_RESOURCES
    raw("cuStreamDestroy", raw.one)
    assert raw.launch(raw.one) == codes.INVALID_HANDLE
    assert raw.launch(raw.other, block=(512, 1, 1)) == 0  # none of them is held against the next


def test_after_a_kernel_that_failed_every_call_fails_and_an_endless_wait_is_an_error_of_the_fake() -> None:
    raw = Raw(FakeCudaKernel(duration_ns=50 * US, fails=codes.ILLEGAL_ADDRESS))
    raw.launch(raw.one)
    raw.clock.advance_ns(100 * US)
    assert raw.launch(raw.other) == raw.cuda.cuMemAlloc(4)[0] == codes.ILLEGAL_ADDRESS
    endless = Raw(FakeCudaKernel(duration_ns=None))
    address = endless("cuMemAlloc", 4)
    endless.launch(endless.one)
    with pytest.raises(WouldWaitForeverError):
        endless("cuMemFree", address)
