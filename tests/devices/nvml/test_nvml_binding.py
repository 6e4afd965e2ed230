"""NVML loaded and its errors told in two lines: what happened, what to do."""

import sys

import pytest

from edgetune.devices.nvml import gpu, sensors
from edgetune.devices.nvml.gpu import Gpu, GpuLostError, NoPermissionError, NotSupportedError, Nvml, load_nvml
from edgetune.errors import DeviceError, ExitCode
from fakes.nvml import FakeGpu, FakeNvml, FakeNvmlError


class Failing:
    """A library of one function, which fails."""

    NVMLError = FakeNvmlError

    def __init__(self, code: int) -> None:
        self.code = code

    def nvmlInit(self) -> None:
        pass

    def nvmlSomething(self) -> None:
        raise FakeNvmlError(self.code)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (gpu.NOT_SUPPORTED, NotSupportedError, "nvmlSomething"),
        (gpu.FUNCTION_NOT_FOUND, NotSupportedError, "nvmlSomething"),
        (gpu.NO_PERMISSION, NoPermissionError, "permission denied"),
        (gpu.GPU_IS_LOST, GpuLostError, "the GPU is lost"),
        (gpu.RESET_REQUIRED, GpuLostError, "needs a reset"),
        (gpu.VERSION_MISMATCH, DeviceError, "was updated"),
        (999, DeviceError, "nvmlSomething: fake NVML error 999"),
    ],
)
def test_each_error_code_has_a_meaning_and_a_remedy(code: int, kind: type[DeviceError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        Nvml(Failing(code)).call("nvmlSomething")
    assert type(caught.value) is kind
    assert caught.value.exit_code is ExitCode.DEVICE
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_function_that_the_library_lacks_is_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="nvmlTomorrow is missing from this nvidia-ml-py"):
        Nvml(Failing(0)).call("nvmlTomorrow")


def test_without_nvidia_ml_py_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DeviceError, match="nvidia-ml-py, which is not installed") as caught:
        load_nvml()
    assert caught.value.hint == "pip install 'edgetune[nvidia]'"


def test_a_gpu_beyond_the_last_is_named_with_their_number() -> None:
    nvml = load_nvml(FakeNvml([FakeGpu(), FakeGpu()]))
    with pytest.raises(DeviceError, match="there is no NVIDIA GPU 2: this machine has 2"):
        Gpu(nvml, 2)


def test_a_new_name_falls_back_to_the_old_one_but_not_when_the_gpu_is_lost() -> None:
    fake = FakeGpu(missing={"nvmlDeviceGetTemperatureV"})
    gpu = Gpu(load_nvml(FakeNvml([fake])), 0)
    assert gpu.ask_either("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", 0) == fake.temperature_c
    fake.lost = True
    with pytest.raises(GpuLostError):
        gpu.ask_either("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", 0)
    with pytest.raises(GpuLostError):
        gpu.maybe("nvmlDeviceGetTemperature", 0)


def test_the_numbers_are_those_of_the_real_library() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install 'edgetune[nvidia]'")
    codes = ("NOT_SUPPORTED", "NO_PERMISSION", "DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND")
    for name in (*codes, "GPU_IS_LOST", "RESET_REQUIRED", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED"):
        assert getattr(gpu, name) == getattr(pynvml, f"NVML_ERROR_{name}")
    assert pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH == gpu.VERSION_MISMATCH
    for name in ("VOLTA", "TURING", "AMPERE"):
        assert getattr(gpu, name) == getattr(pynvml, f"NVML_DEVICE_ARCH_{name}")
    assert pynvml.NVML_FI_DEV_POWER_INSTANT == gpu.POWER_INSTANT
    assert pynvml.NVML_FI_DEV_MEMORY_TEMP == gpu.MEMORY_TEMPERATURE
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN == gpu.SW_THERMAL_SLOWDOWN_NS
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN == gpu.HW_THERMAL_SLOWDOWN_NS
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN == gpu.HW_POWER_BRAKE_NS
    assert (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_MEM) == (gpu.GRAPHICS_CLOCK, gpu.MEMORY_CLOCK)
    assert pynvml.nvmlClocksEventReasonHwSlowdown == sensors.HW_SLOWDOWN
    assert pynvml.nvmlClocksEventReasonSwThermalSlowdown == sensors.SW_THERMAL
    assert pynvml.nvmlClocksEventReasonHwThermalSlowdown == sensors.HW_THERMAL
    assert pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown == sensors.HW_POWER_BRAKE
    for kind, member in enumerate(gpu._VALUE_OF_TYPE):
        assert hasattr(pynvml.c_nvmlFieldValue_t().value, member), kind


def test_every_function_of_the_fake_is_one_of_the_real_library() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install 'edgetune[nvidia]'")
    assert [name for name in vars(FakeNvml) if name.startswith("nvml") and not hasattr(pynvml, name)] == []
