"""The GPU clock: found under every release's name, kept awake while it is set, judged by its limits."""

import errno

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.gpu import find_gpu
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles


def add_devfreq(sysfs, name, *, compatible=None, node=None):
    folder = f"sys/class/devfreq/{name}"
    sysfs.put(f"{folder}/available_frequencies", "300000000 100000000 200000000")
    if compatible:
        sysfs.put(f"{folder}/device/of_node/compatible", f"{compatible}\0")
    if node:
        sysfs.put(f"{folder}/device/of_node/name", f"{node}\0")


def test_the_node_of_the_gpu_goes_before_names(tmp_path):
    sysfs = KernelFiles(tmp_path)
    add_devfreq(sysfs, "a-gpu-by-name-only")
    add_devfreq(sysfs, "b", node="gv11b")
    add_devfreq(sysfs, "c", compatible="nvidia,ga10b")
    add_devfreq(sysfs, "d.vic", compatible="nvidia,tegra234-vic", node="vic")
    assert find_gpu(sysfs).limits.low == "sys/class/devfreq/b/min_freq"
    sysfs.put("sys/devices/platform/gpu.0/of_node/compatible", "nvidia,ga10b\0")
    gpu = find_gpu(sysfs)
    assert gpu.limits.low == "sys/class/devfreq/c/min_freq"
    assert gpu.table == (100_000_000, 200_000_000, 300_000_000)
    assert gpu.power is None


def test_a_name_alone_will_do(tmp_path):
    sysfs = KernelFiles(tmp_path)
    add_devfreq(sysfs, "15340000.vic", node="vic")
    assert "no GPU clock" in find_gpu(sysfs)
    add_devfreq(sysfs, "17000000.gpu")
    assert find_gpu(sysfs).limits.high == "sys/class/devfreq/17000000.gpu/max_freq"


@pytest.mark.parametrize("node", ["late", "absent"])
def test_a_gpu_that_the_kernel_does_not_show_is_fixed_and_the_rest_works(bench, node):
    at = bench(gpu_node=node)
    control = at.control
    assert "until the GPU was first used" in control.space.fixed["gpu_mhz"]
    found = control.snapshot()
    assert control.apply(Mode(cpu_cores=2, cpu_mhz=729.6), found).gpu_mhz is None
    assert control.restore(found) == []


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-orin-nano-8gb"])
def test_the_gpu_is_kept_awake_while_its_limits_change_and_sleeps_again(bench, board):
    at = bench(board)
    gpu = find_gpu(at.kernel)
    found = at.control.snapshot()
    mhz = at.control.space.knobs["gpu_mhz"]
    at.control.apply(Mode(gpu_mhz=mhz[1]), found)
    steps = [(path, value) for path, value in at.kernel.writes]
    assert steps[0] == (gpu.power, "on")
    assert steps[-1] == (gpu.power, "auto")
    assert {path for path, _ in steps[1:-1]} == {gpu.limits.low, gpu.limits.high}


def test_a_gpu_that_cannot_be_woken_gets_its_limits_back_all_the_same(bench):
    at = bench()
    found = at.control.snapshot()
    at.control.apply(Mode(gpu_mhz=408.0), found)
    at.kernel.deny_writing(find_gpu(at.kernel).power, errno.EIO)
    with pytest.raises(DeviceError, match="power/control refused on"):
        at.control.apply(Mode(gpu_mhz=510.0), found)
    at.put_back(found)


def test_a_gpu_whose_sleep_was_not_noted_is_not_kept_awake(bench):
    at = bench()
    power = find_gpu(at.kernel).power
    found = at.control.snapshot()
    at.control.apply(Mode(gpu_mhz=408.0), found)
    noted = {path: value for path, value in found.items() if path != power}
    assert at.control.restore(noted) == []
    assert at.kernel.read(power) == "auto"
    assert at.differences() == {}


@pytest.mark.parametrize("end", ["low", "high"])
def test_one_limit_that_cannot_be_put_back_does_not_keep_the_other(bench, end):
    at = bench()
    gpu = find_gpu(at.kernel)
    found = at.control.snapshot()
    at.control.apply(Mode(gpu_mhz=408.0), found)
    stuck = getattr(gpu.limits, end)
    at.kernel.deny_writing(stuck, errno.EIO)
    assert [told.split()[0] for told in at.control.restore(found)] == [f"/{stuck}"]
    assert set(at.differences()) == {at.kernel.real(stuck)}


def test_limits_kept_in_khz_are_the_clock_of_the_table(bench):
    at = bench(kernel="5.15")
    gpu = find_gpu(at.kernel)
    at.put(gpu.limits.high, 510_001_001)
    at.put(gpu.limits.low, 510_000_001)
    assert [at.kernel.read(path) for path in gpu.limits.paths] == ["510000000", "510002000"]
    assert at.control.read().gpu_mhz is None
    at.put(gpu.limits.high, 510_000_001)
    assert [at.kernel.read(path) for path in gpu.limits.paths] == ["510000000", "510001000"]
    assert at.control.read().gpu_mhz == 510.0  # what rounding leaves of a clock that is no whole kHz


def test_an_upper_limit_of_0_is_never_written(bench):
    at = bench("jetson-nano")
    gpu = find_gpu(at.kernel)
    found = at.control.snapshot()
    wrong = at.control.restore(found | {gpu.limits.high: "0"})
    assert len(wrong) == 1
    assert "never set to 0" in wrong[0]
    assert {path for path, _ in at.kernel.writes} == {gpu.power}
    at.kernel.write(gpu.limits.low, "0")
    at.kernel.write(gpu.limits.high, "0")
    with pytest.raises(DeviceError, match="max_freq reads 0, which could not be put back"):
        at.control.snapshot()


def test_on_thor_the_pci_device_above_the_clock_is_kept_awake(tmp_path):
    sysfs = KernelFiles(tmp_path)
    pci = "sys/devices/platform/d0b0000000.pcie/0000:01:00.0"
    node = f"{pci}/gpu-gpc-0/devfreq/gpu-gpc-0"
    texts = {"available_frequencies": "315000000 1575000000", "min_freq": 315_000_000, "max_freq": 1_575_000_000}
    for name, text in texts.items():
        sysfs.put(f"{node}/{name}", text)
    for device, status in ((pci, "suspended"), (f"{pci}/gpu-gpc-0", "unsupported")):
        sysfs.put(f"{device}/power/control", "auto")
        sysfs.put(f"{device}/power/runtime_status", status)
    (tmp_path / node / "device").symlink_to(tmp_path / pci / "gpu-gpc-0")
    (tmp_path / "sys/class/devfreq").mkdir(parents=True)
    (tmp_path / "sys/class/devfreq/gpu-gpc-0").symlink_to(tmp_path / node)
    power = find_gpu(sysfs).power
    assert (tmp_path / power).resolve() == (tmp_path / pci / "power/control").resolve()
