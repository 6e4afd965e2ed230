"""Peaks measured: which kernels are planned, which of them run where, what is told, and that a twin gives its roofs.

How much memory a network can be in: the card's own, the host's, a simulated board's by its name, or nobody says.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import KernelRun
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource, open_device
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, InputError
from edgetune.stages.roofline.fit import IDLE, fit_roofs
from edgetune.stages.roofline.measure import buffer_limits_on, idle_run, measure_peaks, memory_of, plan_kernels
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline import peaks
from edgetune.workloads.kernels import PRECISIONS, BenchmarkKernel, kernel_of
from fakes.device import FakePower

HIGH, MIDDLE, LOW = Mode(gpu_mhz=1300.5), Mode(gpu_mhz=726.75), Mode(gpu_mhz=318.75)
GIB = 1 << 30
PEAK, BANDWIDTH, STATIC, PER_FLOP, PER_BYTE = 10e12, 200e9, 18.0, 4e-12, 140e-12


class Ideal:
    """A device exactly on its roofline, its rates in proportion to the GPU clock; it notes what it is asked for."""

    def __init__(self, **changed_rows):
        self.asked = []
        self.changed_rows = changed_rows

    def measure(self, workload, mode):
        self.asked.append((workload.name, mode))
        kernel = kernel_of(workload, "infer", 1)
        share = mode.gpu_mhz / HIGH.gpu_mhz
        run_s = max(kernel.flops / (share * PEAK), kernel.bytes_moved / (share * BANDWIDTH))
        power_w = STATIC + (PER_FLOP * kernel.flops + PER_BYTE * kernel.bytes_moved) / run_s
        row = ProfileRow(workload.name, "infer", 1, run_s * kernel.repeats, gpu_mhz=mode.gpu_mhz, power_w=power_w)
        return replace(row, **self.changed_rows.get(workload.name.replace("-", "_"), {}))

    def idle(self, mode):
        return KernelRun(IDLE, 0, "", mode, 0.0, 0.0, 5.0, STATIC)


# Planning


@given(
    st.floats(2, 200),
    st.lists(st.sampled_from(sorted(PRECISIONS)), min_size=1, max_size=3, unique=True),
    st.sampled_from([None, 4 << 20, 32 << 20, 60 << 20]),
    st.booleans(),
)
def test_planned_kernels_fit_the_memory_and_exceed_the_cache(gib, precisions, cache, quick):
    kernels = plan_kernels(gib * GIB, precisions, cache_bytes=cache, quick=quick)
    assert {kernel.precision for kernel in kernels} == set(precisions)
    assert max(kernel.bytes_moved for kernel in kernels) <= gib * GIB / 2
    for kernel in kernels:
        if not kernel.inner:
            assert kernel.bytes_moved / 2 >= 4 * (cache or 64 << 20)
    for precision in precisions:
        own = [kernel for kernel in kernels if kernel.precision == precision]
        assert {"matmul", "relu", "transpose", "copy"} <= {kernel.label for kernel in own}
        assert len(own) == len(set(own))
    rows = {kernel.rows for kernel in kernels}
    assert all(size & (size - 1) == 0 for size in rows)


def test_too_little_memory_and_unknown_precisions():
    with pytest.raises(InputError, match="too little to measure fp32 beyond the cache") as caught:
        plan_kernels(256 << 20, ["fp32"])
    assert "1 GiB" in caught.value.hint
    assert plan_kernels(GIB, ["fp32"])
    with pytest.raises(InputError, match="no precision 'fp12'"):
        plan_kernels(GIB, ["fp12"])


# Measuring


def test_every_size_in_every_mode():
    device = Ideal()
    kernels = plan_kernels(8 * GIB, ["fp32"])
    peaks = measure_peaks(device.measure, device.idle, [HIGH, MIDDLE, LOW], kernels)
    assert peaks.notes == ()
    assert [run.mode for run in peaks.runs if run.kernel == IDLE] == [HIGH, MIDDLE, LOW]
    families = {kernel.label for kernel in kernels}
    count = Counter((run.mode, run.kernel) for run in peaks.runs)
    for family in families:
        sizes = sum(kernel.label == family for kernel in kernels)
        left_out = family == "matmul"  # the largest product would take 3.6 s in the slowest mode
        assert [count[mode, family] for mode in (HIGH, MIDDLE, LOW)] == [sizes, sizes, sizes - left_out]
    assert [run.mode for run in peaks.runs] == sorted((run.mode for run in peaks.runs), key=[HIGH, MIDDLE, LOW].index)


def test_an_ideal_device_gives_its_roofline_back():
    device = Ideal()
    peaks = measure_peaks(device.measure, device.idle, [HIGH, LOW], plan_kernels(8 * GIB, ["tf32"]))
    roofs = {roof.mode: roof for roof in fit_roofs(peaks.runs).roofs}
    for mode, share in ((HIGH, 1.0), (LOW, LOW.gpu_mhz / HIGH.gpu_mhz)):
        assert roofs[mode].flops_per_s == pytest.approx(share * PEAK)
        assert roofs[mode].bytes_per_s == pytest.approx(share * BANDWIDTH)
        assert roofs[mode].static_w == pytest.approx(STATIC)
        assert roofs[mode].flop_j == pytest.approx(PER_FLOP, rel=1e-3)
        assert roofs[mode].byte_j == pytest.approx(PER_BYTE, rel=1e-3)


def test_a_precision_that_the_device_lacks_is_left_out_with_a_note():
    device = Ideal()

    def measure(workload, mode):
        if workload.name.endswith("fp8"):
            raise DeviceError("cuda:0 has compute capability 8.7; fp8 needs 8.9", "leave that precision out")
        return device.measure(workload, mode)

    kernels = plan_kernels(8 * GIB, ["fp8", "fp16"])
    peaks = measure_peaks(measure, device.idle, [HIGH, LOW], kernels)
    assert {run.precision for run in peaks.runs if run.kernel != IDLE} == {"fp16"}
    assert [(note.code, note.advice) for note in peaks.notes] == [
        ("precision-missing", "fp8 is left out: cuda:0 has compute capability 8.7; fp8 needs 8.9")
    ]


def test_a_precision_that_lacks_one_kernel_keeps_the_others():
    """A library may have products of a type and no element-wise arithmetic on it."""
    device = Ideal()

    def measure(workload, mode):
        if workload.name.startswith("relu"):
            raise DeviceError("cuda:0 cannot run kernel:relu: not implemented for 'Float8_e4m3fn'", "leave it out")
        return device.measure(workload, mode)

    peaks = measure_peaks(measure, device.idle, [HIGH, LOW], plan_kernels(8 * GIB, ["fp8", "fp16"]))
    for precision in ("fp8", "fp16"):
        labels = {run.kernel for run in peaks.runs if run.precision == precision}
        assert {"matmul", "transpose", "copy", "matmul_k256"} <= labels
        assert "relu" not in labels
    failed = [note.advice for note in peaks.notes if note.code == "kernel-failed"]
    assert len(failed) == 2
    assert failed[0].startswith("relu in fp8 is left out: cuda:0 cannot run")
    assert "precision-missing" not in {note.code for note in peaks.notes}


@pytest.mark.parametrize(
    "failure",
    [
        {"status": "failed", "minibatch_s": None, "reason": "it was killed"},
        {"status": "throttled", "reason": "it was killed"},
    ],
)
def test_a_size_that_fails_ends_its_family_and_is_reported(failure):
    device = Ideal(matmul_4096_fp32=failure)
    kernels = [BenchmarkKernel.square("matmul", size, "fp32") for size in (2048, 4096, 8192)]
    peaks = measure_peaks(
        device.measure, device.idle, [HIGH, LOW], [*kernels, BenchmarkKernel.square("relu", 8192, "fp32")]
    )
    assert Counter(name for name, _ in device.asked) == {
        "matmul-2048-fp32": 2,
        "matmul-4096-fp32": 1,
        "relu-8192-fp32": 2,
    }
    assert [run.size for run in peaks.runs if run.kernel == "matmul"] == [2048, 2048]
    (note,) = peaks.notes
    assert note.code == "kernel-failed"
    assert "kernel:matmul:4096:fp32 [GPU 1300.5 MHz] is left out" in note.advice
    assert "it was killed" in note.advice


def test_a_size_expected_to_take_too_long_is_not_begun():
    """A product of twice the size takes eight times as long: 0.11 s, 0.88 s, 7 s, of which 2 s are allowed."""
    device = Ideal()
    kernels = [BenchmarkKernel.square("matmul", size, "fp32") for size in (8192, 16384, 32768)]
    peaks = measure_peaks(device.measure, device.idle, [HIGH], kernels)
    assert [run.size for run in peaks.runs if run.kernel == "matmul"] == [8192, 16384]
    (note,) = peaks.notes
    assert note.code == "kernel-too-long"
    assert note.numbers["expected_s"] == pytest.approx(2 * 32768**3 / PEAK)
    assert len(device.asked) == 2


def test_nothing_measured_is_an_error_that_says_why():
    def missing(workload, mode):
        raise DeviceError("training and CUDA need PyTorch", "pip install 'edgetune[torch]'")

    kernels = plan_kernels(8 * GIB, ["fp32", "fp16"])
    with pytest.raises(DeviceError, match="need PyTorch"):
        measure_peaks(missing, Ideal().idle, [HIGH], kernels)
    broken = Ideal(**{k.reference[7:].replace(":", "_"): {"status": "failed", "reason": "crashed"} for k in kernels})
    with pytest.raises(InputError, match=r"no kernel could be measured: .* crashed"):
        measure_peaks(broken.measure, broken.idle, [HIGH], kernels)
    assert len(broken.asked) == 2  # the smallest product of each precision, and then no more of it


MAXN = Mode(12, 2201.6, 1300.5, 3199.0)


# Static power and room


def test_idle_power_is_that_of_the_mode_once_settled():
    device = open_device("twin:orin-agx")
    high, low = (idle_run(device, replace(MAXN, gpu_mhz=mhz)) for mhz in (1300.5, 318.75))
    again = idle_run(device, MAXN)
    assert high.power_w == again.power_w > low.power_w


def host_like(torch_device, **conditions):
    source = LiveSource(("CPUExecutionProvider",), torch_device)
    return replace(open_device("twin:orin-agx"), source=source, conditions=conditions)


def test_room_on_hosts_boards_and_cards(tmp_path):
    sysfs = KernelFiles(tmp_path)
    sysfs.put("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable:    4000000 kB\n")
    assert buffer_limits_on(host_like("cpu"), sysfs).cache_bytes is None
    for cpu, index, level, size, shared in (
        (0, 0, 1, "32K", "0"), (0, 3, 3, "8192K", "0-1"), (1, 3, 3, "8192K", "0-1"), (2, 3, 3, "4M", "2-3"),
    ):  # fmt: skip
        folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        for name, value in (("level", level), ("size", size), ("shared_cpu_list", shared)):
            sysfs.put(f"{folder}/{name}", value)
    host, board = buffer_limits_on(host_like("cpu"), sysfs), buffer_limits_on(host_like("cuda:0"), sysfs)
    assert (host.memory_bytes, host.cache_bytes) == (4_096_000_000, 12 << 20)
    assert (board.memory_bytes, board.cache_bytes) == (4_096_000_000, None)
    assert buffer_limits_on(host_like("cuda:0", gpu_memory_bytes=80 * GIB), sysfs).memory_bytes == 80 * GIB


@pytest.mark.parametrize(("fails", "told"), [(False, "with kernel:"), (True, "with nothing loaded")])
def test_power_at_rest_is_measured_with_a_kernel_loaded_and_the_table_says_so(monkeypatch, fails, told):
    """A GPU without an open context may be powered off, which is not the rest of a run."""
    ideal, done = Ideal(), []

    def once(_, workload, mode):
        done.append(workload.reference)
        if fails and len(done) == 1:
            raise DeviceError("not now", "later")
        return ideal.measure(workload, mode)

    def rest(_, mode):
        done.append("rest")
        return ideal.idle(mode)

    monkeypatch.setattr(peaks.KernelBench, "_once", once)
    monkeypatch.setattr(peaks, "idle_run", rest)
    power = FakePower(FakeClock(), lambda t: t)
    device = replace(open_device("host"), power=power, modes=Absent("not here"), load=None)
    found = peaks.measured_peaks(device, [HIGH, LOW], ["fp32"], quick=True, reporter=Reporter())
    assert done[:4] == [done[3], "rest", "rest", done[0]]
    assert found.header.conditions["power_at_rest"].startswith(told)


def changed(device: Device, **conditions: object) -> Device:
    return replace(device, conditions={**device.conditions, **conditions})


def test_a_host_has_what_its_kernel_says_and_a_card_its_own(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:    9000000 kB\n")
    host = open_device("host")
    assert memory_of(host, Sysfs(tmp_path)) == 16000000 << 10
    assert memory_of(changed(host, gpu_memory_bytes=80 << 30), Sysfs(tmp_path)) == 80 << 30
