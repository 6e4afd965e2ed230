"""Measures the roofline of a device, or reads an earlier one from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from edgetune.artifacts import roofline as rooflines
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.devices.capabilities import Absent
from edgetune.devices.cpu import BUSY_SHARE
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.errors import EdgetuneError, InputError, NotRestoredError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.roofline.clocks import infer_roofs
from edgetune.stages.roofline.fit import fit_roofs
from edgetune.stages.roofline.measure import REPETITIONS, Peaks, buffer_limits_on, idle_run, measure_peaks, plan_kernels
from edgetune.workflows.device_option import warn_of_load
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.kernels import BenchmarkKernel, resolve_kernel
from edgetune.workloads.workload import Workload


def kernel_precision(device: Device, precision: str, asked: Sequence[str] = ()) -> str:
    """Return the precision of the kernels that measure the roof of a network of ``precision``.

    FP32 networks are placed beneath TF32 on NVIDIA GPUs and their twins: ONNX Runtime multiplies in it by default, and
    PyTorch convolves in it. PyTorch's matrix products outside convolutions do not reach this roof: they are FP32 since
    1.12, unless ``torch.set_float32_matmul_precision("high")`` is called.

    Args:
        device: The device that runs kernels.
        precision: Precision of the network.
        asked: All requested precisions; if TF32 is one of them, FP32 means plain FP32.
    """
    on_cpu = isinstance(device.source, LiveSource) and device.source.torch_device == "cpu"
    return "tf32" if precision == "fp32" and not on_cpu and "tf32" not in asked else precision


def measured_peaks(
    device: Device, modes: Sequence[Mode], precisions: Sequence[str], *, quick: bool, reporter: Reporter
) -> Roofline:
    """Measure peaks and energy constants in ``modes``, restore the device, and return its roofline.

    Args:
        device: The device that runs kernels.
        modes: The modes, the highest first.
        precisions: Precisions of the kernels.
        quick: Whether to measure fewer sizes.
        reporter: Receives progress.

    Raises:
        InputError, DeviceError: nothing could be measured.
    """
    if isinstance(device.source, TableSource):
        raise InputError(f"{device.name} is a table: kernels cannot run on it", "--peaks FILE gives its device's peaks")
    limits = buffer_limits_on(device)
    kernels = plan_kernels(limits.memory_bytes, precisions, cache_bytes=limits.cache_bytes, quick=quick)
    warn_of_load(device, reporter)
    reporter.info(f"measuring peaks of {device.name}: {len(modes)} mode{'s' if len(modes) > 1 else ''}")
    conditions = {**device.conditions, "device": device.name, "device_description": device.description}
    with reporter.bar("measuring kernels", len(modes) * len(kernels)) as advance, bench_on(device, reporter) as bench:

        def measure(workload: Workload, mode: Mode) -> ProfileRow:
            row = bench.measure(workload, mode)
            if advance is not None:
                advance(1, "measuring kernels")
            return row

        if isinstance(device.source, LiveSource) and not isinstance(device.power, Absent):
            conditions["power_at_rest"] = bench.load(kernels[0], modes[0])
        peaks: Peaks = measure_peaks(measure, lambda mode: idle_run(device, mode), modes, kernels)
    fit = fit_roofs(peaks.runs)
    header = Header.new(
        rooflines.KIND, rooflines.VERSION, conditions={**conditions, "simulated": device.simulated},
        warnings=(*peaks.notes, *bench.data_warnings, *fit.data_warnings),
    )  # fmt: skip
    return rooflines.Roofline(header, device.name, fit.roofs, peaks.runs)


_KERNEL_TIMEOUT_S = 120.0
"""How long one kernel may take: some forty runs of the longest planned, see ``measure.LONGEST_RUN_S``, with time to
load a library. A CPU without FP16 arithmetic would take half an hour for what it does in FP32 in a second."""


_TRIES = 3
"""Times that a kernel is measured while others use the CPUs."""
_AGAIN = 12
"""Kernels measured again in all: on a machine that stays busy the rest would be as busy."""


@contextmanager
def bench_on(device: Device, reporter: Reporter) -> Iterator[KernelBench]:
    """Open a device exclusively, yield a bench of kernels, and restore the device."""
    with device.exclusive(), KernelBench(device, reporter) as bench:
        try:
            yield bench
        finally:
            if not isinstance(device.modes, Absent):
                device.modes.restore()


class KernelBench:
    """Runs kernels, which stay loaded across modes. A kernel disturbed by other processes is run again."""

    def __init__(self, device: Device, reporter: Reporter) -> None:
        self._device = device
        self._on_state = reporter.points
        self._stack = ExitStack()
        self._profiler: Profiler | None = None
        self._loaded: Workload | None = None
        self._again_left = _AGAIN
        self._disturbed: list[ProfileRow] = []

    def __enter__(self) -> KernelBench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def data_warnings(self) -> tuple[DataWarning, ...]:
        """Warnings about kernels that other processes disturbed each time."""
        if not self._disturbed:
            return ()
        most = max(row.others_cpu_share or 0.0 for row in self._disturbed)
        advice = "other processes used the CPUs, so peaks may be too low; stop them and measure the peaks again"
        return (DataWarning("peaks-busy", advice, {"kernels": len(self._disturbed), "others_cpu_share_max": most}),)

    def load(self, kernel: BenchmarkKernel, mode: Mode) -> str:
        """Run a kernel, which stays loaded, and return what is loaded then.

        A GPU with an open context is powered, as while kernels run; without one the board may gate it, and power at
        rest is another figure.
        """
        try:
            self._once(resolve_kernel(kernel.reference), mode)
        except NotRestoredError:
            raise
        except EdgetuneError:  # it fails again where it is measured, with a note
            return "with nothing loaded: a GPU may have been powered off"
        return f"with {kernel.reference} loaded, which does not run"

    def measure(self, workload: Workload, mode: Mode) -> ProfileRow:
        """Measure a kernel, repeatedly while others use the CPUs; return an undisturbed run, else the fastest one."""
        rows = [self._once(workload, mode)]
        while (rows[-1].others_cpu_share or 0.0) >= BUSY_SHARE and len(rows) < _TRIES and self._again_left > 0:
            self._again_left -= 1
            rows.append(self._once(workload, mode))
        measured = [row for row in rows if row.status == "ok" and row.minibatch_s]
        if not measured:
            return rows[-1]
        best = min(measured, key=lambda row: ((row.others_cpu_share or 0.0) >= BUSY_SHARE, row.minibatch_s))
        if (best.others_cpu_share or 0.0) >= BUSY_SHARE:
            self._disturbed.append(best)
        return best

    def _once(self, workload: Workload, mode: Mode) -> ProfileRow:

        if self._profiler is None or workload != self._loaded:
            self._stack.close()
            options = ProfileOptions(minibatches=REPETITIONS, point_timeout_s=_KERNEL_TIMEOUT_S)
            profiler = Profiler(self._device, workload, "infer", options, self._on_state)
            self._profiler = self._stack.enter_context(profiler)
            self._loaded = workload
        attempt = self._profiler.attempts(Point(workload.name, "infer", 1, mode))[-1]
        if attempt.error is not None:
            raise attempt.error
        return attempt.row


def roofs_in(roofline: Roofline, precision: str) -> list[Roof]:
    """Return the roofs of a precision.

    Raises:
        InputError: there is none.
    """
    alike = [roof for roof in roofline.roofs if roof.precision == precision]
    if not alike:
        known = ", ".join(dict.fromkeys(roof.precision for roof in roofline.roofs))
        raise InputError(f"these peaks of {roofline.device} have none in {precision}", f"--precision: {known}")
    return alike


def choose_roof(roofline: Roofline, precision: str, mode: Mode | None, *, like: Roof | None = None) -> Roof:
    """Return the roof of a mode and precision, by default in the mode of ``like``, else the highest of its precision.

    Raises:
        InputError: there is no such roof, or too few measured modes to infer it.
    """
    alike = roofs_in(roofline, precision)
    if mode is None:
        beside = [roof for roof in alike if like is not None and roof.mode == like.mode]
        return max(beside or alike, key=lambda roof: roof.flops_per_s)
    same = [roof for roof in alike if roof.mode == mode]
    return same[0] if same else infer_roofs(alike, [mode]).roofs[0]


def roofs_beside(roofline: Roofline, roof: Roof) -> list[Roof]:
    """Return the roofs of other precisions in the same mode, inferred if not measured and if possible."""
    found = []
    for precision in dict.fromkeys(each.precision for each in roofline.roofs if each.precision != roof.precision):
        with suppress(InputError):  # too few modes to infer from: the main roof then stands for it
            found.append(choose_roof(roofline, precision, roof.mode))
    return found
