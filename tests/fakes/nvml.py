"""A fake of NVML for tests: scripted GPUs behind the function names of the module ``pynvml``.

    nvml = FakeNvml([FakeGpu()], clock)
    device = open_nvml_device(0, nvml, may_set=True)

No GPU is read, and the dependence of power on clocks and limit is made up. The following behaviour is that of the NVML
API reference: calls that need root, functions that an architecture lacks, an energy counter that moves in steps, power
as a mean over a second, locks that cannot be read, a Jetson's NVML that initialises and answers "not supported", and a
lost GPU that fails every call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from edgetune.devices.capabilities import Clock, MonotonicClock
from edgetune.devices.nvml import gpu as codes
from edgetune.devices.nvml.gpu import AMPERE, MEMORY_CLOCK, MEMORY_TEMPERATURE, POWER_INSTANT, VOLTA

INVALID_ARGUMENT, UNINITIALISED = 2, 1

_Method = TypeVar("_Method", bound=Callable[..., Any])
_FULL_W = 220.0
"""Power at the highest clocks under load, W."""


class FakeNvmlError(Exception):
    """An error with a code in ``value``, as ``pynvml.NVMLError`` has."""

    def __init__(self, value: int) -> None:
        super().__init__(f"fake NVML error {value}")
        self.value = value


@dataclass(slots=True)
class FakeGpu:
    """One scripted GPU; a test changes its fields to change its behaviour."""

    name: str = "Fake GPU (not hardware)"
    uuid: str = "GPU-fa4e0000-0000-0000-0000-000000000000"
    architecture: int = AMPERE
    clocks_mhz: Mapping[int, Sequence[int]] = field(
        default_factory=lambda: {7001: range(300, 1801, 75), 5001: range(300, 1801, 75), 405: (300, 375)}
    )
    limits_mw: tuple[int, int, int] = (102_500, 230_000, 251_000)
    limit_mw: int = 230_000
    enforced_mw: int | None = None
    idle_w: float = 20.0
    load: float = 1.0
    energy_j: Callable[[float], float] | None = None
    refresh_ns: int = 100_000_000
    averaging_ns: int = 1_000_000_000
    temperature_c: int = 55
    memory_c: int | None = None
    reasons: int = 0
    thermal_ns: int = 0
    processes: tuple[int, ...] = ()
    mig: bool = False
    persistence: bool = False
    graphics_lock: tuple[int, int] | None = None
    memory_lock: tuple[int, int] | None = None
    ignores_locks: bool = False
    rounds_mw: Callable[[int], int] = lambda limit_mw: limit_mw
    unsupported: set[str | int] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    denied: bool = False
    lost: bool = False
    calls: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    _spent: list[tuple[int, float]] = field(default_factory=list)

    @property
    def memory_mhz(self) -> int:
        highest = max(self.clocks_mhz, default=0)
        return highest if self.memory_lock is None or self.ignores_locks else self.memory_lock[1]

    @property
    def graphics_mhz(self) -> int:
        highest = max(self.clocks_mhz.get(self.memory_mhz, (0,)))
        return highest if self.graphics_lock is None or self.ignores_locks else min(highest, self.graphics_lock[1])

    @property
    def power_w(self) -> float:
        graphics = self.graphics_mhz / max((max(clocks) for clocks in self.clocks_mhz.values()), default=1)
        memory = self.memory_mhz / max(self.clocks_mhz, default=1)
        dynamic_w = (_FULL_W - self.idle_w) * self.load * (0.8 * graphics**2 + 0.2 * memory)
        return min(self.idle_w + dynamic_w, self.limit_mw / 1e3)

    def energy_until_j(self, time_ns: int) -> float:
        if self.energy_j is not None:
            return self.energy_j(time_ns / 1e9)
        ends = [start_ns for start_ns, _ in self._spent[1:]] + [time_ns]
        spans = zip(self._spent, ends, strict=True)
        return sum(power_w * max(0, min(end, time_ns) - start_ns) / 1e9 for (start_ns, power_w), end in spans)

    def note_power(self, now_ns: int) -> None:
        self._spent.append((now_ns, self.power_w))


def jetson_gpu() -> FakeGpu:
    kept = {f"nvmlDeviceGet{what}" for what in ("Count", "HandleByIndex", "Name", "UUID")}
    return FakeGpu(name="Orin (nvgpu)", unsupported={n for n in vars(FakeNvml) if n.startswith("nvmlDevice")} - kept)


def virtual_gpu() -> FakeGpu:
    silent = ("TotalEnergyConsumption", "PowerUsage", "FieldValues", "Temperature", "TemperatureV", "ViolationStatus")
    clocks = ("SupportedMemoryClocks", "SupportedGraphicsClocks", "CurrentClocksEventReasons")
    limits = ("PowerManagementLimit", "PowerManagementLimitConstraints", "CurrentClocksThrottleReasons")
    return FakeGpu(name="Fake vGPU", unsupported={f"nvmlDeviceGet{what}" for what in (*silent, *clocks, *limits)})


def _answered(method: _Method) -> _Method:
    name = method.__name__
    sets = name.startswith(("nvmlDeviceSet", "nvmlDeviceReset"))

    @functools.wraps(method)
    def call(self: FakeNvml, gpu: FakeGpu, *arguments: Any) -> Any:
        if not self.initialised:
            raise FakeNvmlError(UNINITIALISED)
        if gpu.lost:
            raise FakeNvmlError(codes.GPU_IS_LOST)
        if name in gpu.missing:
            raise FakeNvmlError(codes.FUNCTION_NOT_FOUND)
        if name in gpu.errors:
            raise FakeNvmlError(gpu.errors[name])
        if name in gpu.unsupported:
            raise FakeNvmlError(codes.NOT_SUPPORTED)
        if sets and gpu.denied:
            raise FakeNvmlError(codes.NO_PERMISSION)
        answer = method(self, gpu, *arguments)
        if sets:
            gpu.calls.append((name, arguments))
            gpu.note_power(self.clock.now_ns())
        return answer

    return call  # type: ignore[return-value]


class FakeNvml:
    """Takes the place of the module ``pynvml``; a handle is the ``FakeGpu`` itself."""

    NVMLError = FakeNvmlError

    def __init__(self, gpus: Sequence[FakeGpu], clock: Clock | None = None, *, fails_with: int | None = None) -> None:
        self.gpus = list(gpus)
        self.clock = clock or MonotonicClock()
        self.initialised = False
        self._fails_with = fails_with
        for gpu in self.gpus:
            gpu.note_power(0)

    def nvmlInit(self) -> None:
        if self._fails_with is not None:
            raise FakeNvmlError(self._fails_with)
        self.initialised = True

    def nvmlSystemGetDriverVersion(self) -> str:
        return "0.0.fake"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12040

    def nvmlDeviceGetCount(self) -> int:
        if not self.initialised:
            raise FakeNvmlError(UNINITIALISED)
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        if not 0 <= index < len(self.gpus):
            raise FakeNvmlError(INVALID_ARGUMENT)
        if self.gpus[index].lost:
            raise FakeNvmlError(codes.GPU_IS_LOST)
        return self.gpus[index]

    @_answered
    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000000:{self.gpus.index(handle) + 1:02X}:00.0", pciDeviceId=0x000010DE)

    @_answered
    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:
        if device.architecture < AMPERE:
            raise FakeNvmlError(codes.NOT_SUPPORTED)
        return [int(device.mig), int(device.mig)]

    @_answered
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeGpu) -> int:
        if handle.architecture < VOLTA:
            raise FakeNvmlError(codes.NOT_SUPPORTED)
        return int(round(handle.energy_until_j(self._renewed_ns(handle)) * 1e3, 6))

    @_answered
    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        return self._mean_mw(handle, handle.averaging_ns or handle.refresh_ns)

    @_answered
    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, fieldIds: Sequence[int]) -> list[SimpleNamespace]:
        return [self._field(handle, identifier) for identifier in fieldIds]

    @_answered
    def nvmlDeviceGetViolationStatus(self, device: FakeGpu, perfPolicyType: int) -> SimpleNamespace:
        held_ns = device.thermal_ns if perfPolicyType == 1 else 0
        return SimpleNamespace(referenceTime=self.clock.now_ns() // 1000, violationTime=held_ns)

    @_answered
    def nvmlDeviceGetSupportedGraphicsClocks(self, handle: FakeGpu, memoryClockMHz: int) -> list[int]:
        if memoryClockMHz not in handle.clocks_mhz:
            raise FakeNvmlError(INVALID_ARGUMENT)
        return sorted(handle.clocks_mhz[memoryClockMHz], reverse=True)

    @_answered
    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, type: int) -> int:
        return handle.memory_mhz if type == MEMORY_CLOCK else handle.graphics_mhz

    @_answered
    def nvmlDeviceSetPowerManagementLimit(self, handle: FakeGpu, limit: int) -> None:
        if not handle.limits_mw[0] <= limit <= handle.limits_mw[2]:
            raise FakeNvmlError(INVALID_ARGUMENT)
        handle.limit_mw = handle.rounds_mw(limit)

    @_answered
    def nvmlDeviceSetGpuLockedClocks(self, handle: FakeGpu, minGpuClockMHz: int, maxGpuClockMHz: int) -> None:
        if handle.architecture < VOLTA:
            raise FakeNvmlError(codes.NOT_SUPPORTED)
        handle.graphics_lock = (minGpuClockMHz, maxGpuClockMHz)

    @_answered
    def nvmlDeviceResetGpuLockedClocks(self, handle: FakeGpu) -> None:
        handle.graphics_lock = None

    @_answered
    def nvmlDeviceSetMemoryLockedClocks(self, handle: FakeGpu, minMemClockMHz: int, maxMemClockMHz: int) -> None:
        if handle.architecture < AMPERE:
            raise FakeNvmlError(codes.NOT_SUPPORTED)
        handle.memory_lock = (minMemClockMHz, maxMemClockMHz)

    @_answered
    def nvmlDeviceResetMemoryLockedClocks(self, handle: FakeGpu) -> None:
        handle.memory_lock = None

    def _renewed_ns(self, gpu: FakeGpu) -> int:
        return self.clock.now_ns() // gpu.refresh_ns * gpu.refresh_ns

    def _mean_mw(self, gpu: FakeGpu, span_ns: int) -> int:
        until_ns = self._renewed_ns(gpu)
        from_ns = max(0, until_ns - span_ns)
        if until_ns == from_ns:
            return 0
        used_j = gpu.energy_until_j(until_ns) - gpu.energy_until_j(from_ns)
        return round(used_j * 1e12 / (until_ns - from_ns))

    def _field(self, gpu: FakeGpu, identifier: int) -> SimpleNamespace:
        values = {POWER_INSTANT: self._mean_mw(gpu, gpu.refresh_ns), MEMORY_TEMPERATURE: gpu.memory_c}
        value = None if identifier in gpu.unsupported else values.get(identifier)
        code = codes.NOT_SUPPORTED if value is None else 0
        return SimpleNamespace(nvmlReturn=code, valueType=1, value=SimpleNamespace(uiVal=value))


_SHOWN: dict[str, Callable[[FakeGpu], Any]] = {
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "Architecture": lambda gpu: gpu.architecture,
    "VbiosVersion": lambda _: "00.00.00.00.00",
    "MemoryInfo": lambda _: SimpleNamespace(total=8 << 30, free=7 << 30, used=1 << 30),
    "UtilizationRates": lambda gpu: SimpleNamespace(gpu=round(100 * gpu.load), memory=round(50 * gpu.load)),
    "PersistenceMode": lambda gpu: int(gpu.persistence),
    "ComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid, usedGpuMemory=1 << 20) for pid in gpu.processes],
    "Temperature": lambda gpu: gpu.temperature_c,
    "TemperatureV": lambda gpu: gpu.temperature_c,
    "CurrentClocksEventReasons": lambda gpu: gpu.reasons,
    "CurrentClocksThrottleReasons": lambda gpu: gpu.reasons,
    "SupportedMemoryClocks": lambda gpu: sorted(gpu.clocks_mhz, reverse=True),
    "PowerManagementLimit": lambda gpu: gpu.limit_mw,
    "PowerManagementDefaultLimit": lambda gpu: gpu.limits_mw[1],
    "PowerManagementLimitConstraints": lambda gpu: [gpu.limits_mw[0], gpu.limits_mw[2]],
    "EnforcedPowerLimit": lambda gpu: min(gpu.limit_mw, gpu.limit_mw if gpu.enforced_mw is None else gpu.enforced_mw),
}
"""What ``nvmlDeviceGetNAME`` returns, by ``NAME``."""

for _name, _answer in _SHOWN.items():

    def _shown(self: FakeNvml, gpu: FakeGpu, *_: Any, answer: Callable[[FakeGpu], Any] = _answer) -> Any:
        return answer(gpu)

    _shown.__name__ = f"nvmlDeviceGet{_name}"
    setattr(FakeNvml, _shown.__name__, _answered(_shown))
