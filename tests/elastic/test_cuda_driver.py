"""The driver behind one call, and its errors as a user sees them."""

from __future__ import annotations

import pytest

from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda.driver import Driver, NotOfferedError
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu


def fake(**more) -> FakeCuda:
    return FakeCuda([FakeCudaGpu()], FakeClock(), **more)


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
