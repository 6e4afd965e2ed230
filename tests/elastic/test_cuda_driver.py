"""The driver behind one call, and its errors as a user sees them."""

from __future__ import annotations

import pytest

from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda import driver as codes
from edgetune.stages.elastic.cuda.driver import Driver, KernelFailedError, NotOfferedError, load_driver
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu


def fake(**more) -> FakeCuda:
    return FakeCuda([FakeCudaGpu()], FakeClock(), **more)


def test_a_call_returns_nothing_a_value_or_a_tuple() -> None:
    driver = load_driver(fake())
    assert driver.call("cuInit", 0) is None
    assert driver.call("cuDeviceGetCount") == 1
    driver.call("cuCtxPushCurrent", driver.call("cuDevicePrimaryCtxRetain", driver.call("cuDeviceGet", 0)))
    assert driver.call("cuCtxGetStreamPriorityRange") == (0, -5)


def test_no_driver_at_all() -> None:
    with pytest.raises(DeviceError, match=r"no NVIDIA driver on this machine: .*libcuda\.so\.1") as caught:
        Driver(fake(fails_with=None))
    assert "simulate" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "words", "hint"),
    [
        (100, "there is no NVIDIA GPU on this machine", "simulate"),
        (803, "updated while an older one is loaded", "reboot"),
        (34, "a stub for linking", "library path"),
        (999, "cuInit: CUDA error 999, CUDA_ERROR_UNKNOWN", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_says_why(code: int, words: str, hint: str) -> None:
    with pytest.raises(DeviceError, match=words) as caught:
        Driver(fake(fails_with=code))
    assert hint in caught.value.hint


def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no NVIDIA GPU on this machine"):
        Driver(FakeCuda([], FakeClock()))


def test_a_function_that_the_driver_or_the_bindings_lack() -> None:
    driver = Driver(fake(missing=["cuGreenCtxCreate"]))
    with pytest.raises(NotOfferedError, match="cuGreenCtxCreate: this NVIDIA driver is too old"):
        driver.call("cuGreenCtxCreate", None, None, 1)
    with pytest.raises(NotOfferedError, match="cuOfTomorrow is missing from this cuda-bindings"):
        driver.call("cuOfTomorrow")


def test_a_code_that_the_bindings_do_not_know_is_told_by_its_number() -> None:
    error = Driver(fake()).translated("cuThis", 987)
    assert error.message == "cuThis: CUDA error 987, which these cuda-bindings do not know"


@pytest.mark.parametrize("code", sorted(codes.FAILED_KERNELS))
def test_every_way_in_which_a_kernel_fails_is_reported_in_words(code: int) -> None:
    error = Driver(fake()).translated("cuEventQuery", code)
    assert isinstance(error, KernelFailedError)
    assert error.message.startswith(codes.FAILED_KERNELS[code])
    assert "--check" in error.hint


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


def test_where_nothing_is_faked_there_is_a_driver_or_two_lines_that_say_what_is_missing() -> None:
    try:
        load_driver()
    except DeviceError as error:
        said = error.message, error.hint
    else:
        said = "a driver", "and a GPU"
    assert all(said)
    assert not any("\n" in line for line in said)
