"""Measurement of peaks: times and power of kernels in power modes.

    idle in every mode  ->  every size of a kernel in every mode

The best size differs between modes: where memory is slow, a product needs another. The same kernel runs in one mode
after the other, so that a child process that has it loaded keeps it. The caller gives a function that measures a
point: on a device, on a twin, or by the closed formula of a test.

The kernels, with their sizes, that measure the peaks of a device.

Square products find the peak of arithmetic, element-wise work, copies and transposes that of memory, and thin products
lie between the two, so that the energy of an operation and of a byte can be separated. Sizes are powers of two up to
what fits, because the best size of a library is not known beforehand.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import KernelRun
from edgetune.devices.capabilities import Absent, PowerSensor
from edgetune.devices.cpu import MachineMemory
from edgetune.devices.device import Device, LiveSource
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, InputError
from edgetune.stages.roofline.fit import IDLE
from edgetune.units import format_bytes
from edgetune.workloads.kernels import MATMUL, PRECISIONS, BenchmarkKernel, resolve_kernel
from edgetune.workloads.workload import Workload

READINGS = 5
"""Readings that the mean is of: as many as a profile's power needs at least."""

_SPARE_READINGS = 2
"""One may straddle the start and one come late."""

_SETTLING_INTERVALS = 2
"""Refresh intervals until a reading covers the new mode alone: one began before it, and one until it is shown."""


def idle_run(device: Device, mode: Mode) -> KernelRun | None:
    """Apply ``mode``, wait until power has settled, and return the mean of at least ``READINGS`` readings.

    The mode stays set; the caller that opened the device restores it.

    Args:
        device: With nothing of ours running on it, and a network loaded: a GPU without a context may be powered off.
        mode: Without knobs it is left as found.

    Returns:
        ``None`` where there is no power sensor, or too few readings came.

    Raises:
        DeviceError: the mode cannot be set.
    """
    if isinstance(device.power, Absent):
        return None
    if not isinstance(device.modes, Absent):
        device.modes.apply(mode)
    elif mode.knobs():
        raise DeviceError(f"{device.name} cannot set {mode}: {device.modes.reason}", "leave its mode as it is")
    refresh_s = device.power.refresh_s
    device.clock.sleep_s(_settling_s(device.power))
    begun_ns = device.clock.now_ns()
    with device.power.record() as recording:
        device.clock.sleep_s(_reading_s(device.power))
    refresh_ns = round(refresh_s * 1e9)
    counted = [reading.power_w for reading in recording.readings if reading.time_ns - refresh_ns >= begun_ns]
    if len(counted) < READINGS:
        return None
    return KernelRun(IDLE, 0, "", mode, 0.0, 0.0, len(counted) * refresh_s, fmean(counted))


def longest_idle_s(power: PowerSensor) -> float:
    """Return how long the power at rest of one mode takes to measure, s."""
    return _settling_s(power) + _reading_s(power)


def _settling_s(power: PowerSensor) -> float:
    return max(power.settle_s, _SETTLING_INTERVALS * power.refresh_s)


def _reading_s(power: PowerSensor) -> float:
    return (READINGS + _SPARE_READINGS) * power.refresh_s


Measure = Callable[[Workload, Mode], ProfileRow]
"""Measures one kernel in one mode, its precision in its name: 10 repetitions, see ``kernel_plan.REPETITIONS``."""

Idle = Callable[[Mode], KernelRun | None]
"""Measures power with nothing running, ``None`` without a sensor; see ``idle.idle_run``."""

LONGEST_RUN_S = 2.0
"""A size expected to take longer is left out: a dozen runs of it would take half a minute for each mode, and what is
gained from one power of two to the next is below a percent long before."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The measured kernels.

    Args:
        runs: By mode; of each mode the idle run first, then kernels in the order in which they ran.
        notes: What was left out or failed, with its reason.
    """

    runs: tuple[KernelRun, ...]
    notes: tuple[DataWarning, ...] = ()


def measure_peaks(measure: Measure, idle: Idle, modes: Sequence[Mode], kernels: Iterable[BenchmarkKernel]) -> Peaks:
    """Run kernels in power modes.

    A precision that the device lacks is left out with a note, and so is a size that fails or takes too long, with all
    larger ones of its family. A precision whose first family fails at its smallest size is given up; one that has runs
    keeps them, whatever fails later.

    Args:
        measure: Measures a kernel in a mode; raises ``DeviceError`` where the device lacks the precision.
        idle: Measures static power in a mode.
        modes: At least one, the highest first.
        kernels: From ``plan_kernels``: families together, by ascending size.

    Raises:
        InputError: every kernel failed, for want of memory, say; the last failure is named.
        DeviceError: nothing could be measured because of the device; likewise.
    """
    session = _Session(measure)
    session.rest(idle, modes)
    for precision, of_precision in groupby(kernels, key=lambda kernel: kernel.precision):
        for label, family in groupby(of_precision, key=lambda kernel: kernel.label):
            try:
                ran = session.run_family(list(family), modes)
            except DeviceError as error:
                ran = False
                session.refuse(precision, label, error)
            if not ran and not session.has(precision):
                break
    if all(run.kernel == IDLE for run in session.runs):
        if session.refused:
            raise session.refused[0]
        raise InputError(f"no kernel could be measured: {session.notes[-1].advice}", "see edgetune doctor")
    runs = sorted(session.runs, key=lambda run: modes.index(run.mode))  # stable: kernels stay in their order
    return Peaks(tuple(runs), tuple(session.notes))


@dataclass(slots=True)
class _Session:
    """The results of the kernels so far."""

    measure: Measure
    runs: list[KernelRun] = field(default_factory=list)
    notes: list[DataWarning] = field(default_factory=list)
    refused: list[DeviceError] = field(default_factory=list)

    def has(self, precision: str) -> bool:
        """Whether any kernel of that precision was measured."""
        return any(run.precision == precision and run.kernel != IDLE for run in self.runs)

    def refuse(self, precision: str, label: str, error: DeviceError) -> None:
        """Note that the device lacks a precision, or a kernel in one that it has."""
        if self.has(precision):
            self.notes.append(DataWarning("kernel-failed", f"{label} in {precision} is left out: {error.message}"))
            return
        self.refused.append(error)
        self.notes.append(DataWarning("precision-missing", f"{precision} is left out: {error.message}"))

    def rest(self, idle: Idle, modes: Sequence[Mode]) -> None:
        """Keep an idle run of every mode; add a note on the modes without one."""
        found = [run for mode in modes if (run := idle(mode)) is not None]
        self.runs += found
        if missing := len(modes) - len(found):
            advice = "power at rest could not be measured: no power sensor, or too few readings"
            self.notes.append(DataWarning("no-static-power", advice, {"modes": float(missing)}))

    def run_family(self, family: Sequence[BenchmarkKernel], modes: Sequence[Mode]) -> bool:
        """Run sizes in ascending order in each mode; return whether any ran.

        A mode ends with the first size that fails or would take too long in it: its best size is not that of another
        mode. A size that fails in the first mode is run in no other; one that only slower modes leave out has no note.

        Raises:
            DeviceError: the device lacks the precision.
        """
        before, ran, last_s = family[0], False, dict.fromkeys(modes, 0.0)
        for kernel in family:
            taken_s: dict[Mode, float] = {}
            for mode, seconds in last_s.items():
                expected_s = seconds * _work(kernel) / _work(before)
                if expected_s > LONGEST_RUN_S:
                    if mode == modes[0]:
                        advice = f"{kernel.reference} and larger would take too long a run and are left out"
                        self.notes.append(DataWarning("kernel-too-long", advice, {"expected_s": expected_s}))
                elif (run := self._run(kernel, mode)) is not None:
                    taken_s[mode] = run.seconds
                elif mode == modes[0]:
                    break
            if not taken_s:
                break
            before, ran, last_s = kernel, True, taken_s
        return ran

    def _run(self, kernel: BenchmarkKernel, mode: Mode) -> KernelRun | None:
        """Measure one kernel in one mode; a failure becomes a note."""
        try:
            row = self.measure(resolve_kernel(kernel.reference), mode)
        except InputError as error:
            self._leave_out(kernel, mode, error.message)
            return None
        if row.status != "ok" or row.minibatch_s is None:
            self._leave_out(kernel, mode, f"{row.status}: {row.reason}" if row.reason else row.status)
            return None
        run = KernelRun(
            kernel=kernel.label, size=kernel.rows, precision=kernel.precision, mode=mode, flops=float(kernel.flops),
            bytes_moved=float(kernel.bytes_moved), seconds=row.minibatch_s / kernel.repeats, power_w=row.power_w,
        )  # fmt: skip
        self.runs.append(run)
        return run

    def _leave_out(self, kernel: BenchmarkKernel, mode: Mode, reason: str) -> None:
        self.notes.append(DataWarning("kernel-failed", f"{kernel.reference} [{mode}] is left out: {reason}"))


def _work(kernel: BenchmarkKernel) -> int:
    """Return the work by which sizes of a kernel are compared: operations of products, bytes of other kernels."""
    return kernel.flops if kernel.inner else kernel.bytes_moved


_SIMULATED_BYTES = 8 << 30
"""Nothing is allocated on a simulated device, and beyond this its rates no longer change with size."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Memory for kernels.

    Args:
        memory_bytes: What is free now; on an NVIDIA card, all it has.
        cache_bytes: The last-level caches together; ``None`` where it is unknown.
    """

    memory_bytes: int
    cache_bytes: int | None


def buffer_limits_on(device: Device, sysfs: Sysfs | None = None) -> BufferLimits:
    """Return the memory for kernels on a device.

    Args:
        device: A GPU that does not say how much memory it has shares that of the host, as on a Jetson.
        sysfs: The kernel's files.
    """
    sysfs = sysfs or Sysfs()
    if not isinstance(device.source, LiveSource):
        return BufferLimits(_SIMULATED_BYTES, None)
    on_host = device.source.torch_device == "cpu"
    own_bytes = device.conditions.get("gpu_memory_bytes")
    free_bytes = own_bytes or MachineMemory(sysfs).available_bytes() or 0
    return BufferLimits(int(free_bytes), _cache_bytes(sysfs) if on_host else None)


def memory_of(device: Device, sysfs: Sysfs | None = None) -> int | None:
    """Return all the memory that a network can be in on a device; ``None`` where it is unknown.

    A GPU with memory of its own has that, all others the host's. A simulated board has what its name in the catalogue
    says, e.g. ``jetson-agx-orin-64gb``: memory is sold in powers of two. Its system takes a part of it.
    """
    if isinstance(device.source, LiveSource):
        own_bytes = device.conditions.get("gpu_memory_bytes")
        return int(own_bytes) if own_bytes else MachineMemory(sysfs or Sysfs()).total_bytes()
    named = re.search(r"-(\d+)gb$", str(device.conditions.get("board", "")))
    return int(named[1]) << 30 if named else None


def _cache_bytes(sysfs: Sysfs) -> int | None:
    """Return the size of all caches of the highest level, each counted once.

    Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu, ``cache/index*``.
    """
    found: dict[tuple[int, str], int] = {}
    for folder in sysfs.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        try:
            size = sysfs.read(f"{folder}/size")
            key = int(sysfs.read(f"{folder}/level")), sysfs.read(f"{folder}/shared_cpu_list")
            found[key] = int(size[:-1]) * _UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    highest = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == highest) or None


REPETITIONS = 10
"""Steps timed of each kernel; their median counts. Source: Pagoda (2025), section on microbenchmarks."""

STREAMS = ("relu", "transpose", "copy")

_SMALLEST = 1024
"""Rows of the smallest product: below, starting a kernel takes longer than running it on any accelerator."""

_SMALLEST_QUICK = 2048
"""With powers of four, 2048, 8192, 32768: a CPU comes near its best at the first, a board's GPU at the second."""

_INNER = (16, 32, 64, 128, 256, 512)
_INNER_QUICK = (32, 256)
"""Inner lengths of thin products: 8 to 256 FLOP per byte in FP32, on either side of the balance of every device the
studies measure (67 to 113 on a Jetson Orin AGX). Multiples of 16, as tensor cores want them."""

_ROOM = 0.5
"""Share of the memory that operands may take: libraries' workspaces, contexts and, on a board, the whole system share
the rest."""

_CACHES = 4
"""How many times the last-level cache each operand is at least, so that hardly any of it is there still when it is read
again. Source: the run rules of STREAM (McCalpin, University of Virginia)."""

_CACHE_BYTES = 64 << 20
"""Last-level cache where it is unknown: more than accelerators have (50 MiB on an H100, 4 on a Jetson Orin)."""


def plan_kernels(
    memory_bytes: float, precisions: Sequence[str], *, cache_bytes: float | None = None, quick: bool = False
) -> list[BenchmarkKernel]:
    """Return kernels by precision and family, each family by ascending size.

    Args:
        memory_bytes: Memory there is for them and everything around them.
        precisions: Keys of ``workloads.kernels.PRECISIONS``.
        cache_bytes: Last-level cache; see ``_CACHE_BYTES`` where unknown.
        quick: Fewer sizes: products in powers of four, memory at one size, two thin products.

    Raises:
        InputError: an unknown precision, or too little memory for any product or for anything beyond the cache.
    """
    unknown = [name for name in precisions if name not in PRECISIONS]
    if unknown:
        raise InputError(f"kernels have no precision {unknown[0]!r}", f"known: {', '.join(PRECISIONS)}")
    limits = _ROOM * memory_bytes
    return [
        kernel
        for precision in dict.fromkeys(precisions)
        for kernel in _of_precision(precision, limits, _CACHE_BYTES if cache_bytes is None else cache_bytes, quick)
    ]


def _of_precision(precision: str, room_bytes: float, cache_bytes: float, quick: bool) -> list[BenchmarkKernel]:
    width = PRECISIONS[precision].operand_bytes
    beyond = _SMALLEST
    while beyond * beyond * width < _CACHES * cache_bytes:
        beyond *= 2
    smallest, growth = (_SMALLEST_QUICK, 4) if quick else (_SMALLEST, 2)
    products = _up_to(room_bytes, BenchmarkKernel.square(MATMUL, smallest, precision), growth)
    streams = [_up_to(room_bytes, BenchmarkKernel.square(name, beyond, precision), 2) for name in STREAMS]
    if not products or not all(streams):
        needed = BenchmarkKernel.square("copy", beyond, precision).bytes_moved / _ROOM
        raise InputError(
            f"{format_bytes(room_bytes / _ROOM)} of memory is too little to measure {precision} beyond the cache",
            f"free at least {format_bytes(needed)}",
        )
    thin = [BenchmarkKernel(MATMUL, beyond, beyond, inner, precision) for inner in (_INNER_QUICK if quick else _INNER)]
    fitting = [kernel for kernel in thin if kernel.bytes_moved <= room_bytes]
    return [*products, *(kernel for family in streams for kernel in family[: 1 if quick else None]), *fitting]


def _up_to(room_bytes: float, kernel: BenchmarkKernel, growth: int) -> list[BenchmarkKernel]:
    """Return the kernel and its larger sizes that fit into the memory."""
    found: list[BenchmarkKernel] = []
    while kernel.bytes_moved <= room_bytes:
        found.append(kernel)
        kernel = BenchmarkKernel.square(kernel.name, kernel.rows * growth, kernel.precision)
    return found
