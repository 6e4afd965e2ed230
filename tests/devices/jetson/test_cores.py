"""Cores: which there are, which run, and which are switched for a number of them."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.cpu import PATIENCE_S, find_cores, online_file, parse_ranges
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles

FOLDER = "sys/devices/system/cpu"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-2,5", (0, 1, 2, 5)), ("0 3 4", (0, 3, 4)), ("", ())],
)
def test_lists_of_cores_are_read_as_the_kernel_writes_them(text, numbers):
    assert parse_ranges(text) == numbers


def test_core_0_and_cores_without_a_file_always_run(tmp_path):
    sysfs = KernelFiles(tmp_path)
    sysfs.put(f"{FOLDER}/present", "0-3")
    for core in (0, 1, 3):
        sysfs.put(online_file(core), 1)
    cores = find_cores(sysfs)
    assert cores.numbers == (0, 1, 2, 3)
    assert cores.switchable == (1, 3)
    assert cores.counts == (2, 3, 4)
    assert online_file(0) not in cores.settable


def test_without_a_list_of_cores_there_is_no_control(tmp_path):
    with pytest.raises(DeviceError, match="present does not list the cores"):
        find_cores(KernelFiles(tmp_path))


def test_cores_go_off_from_the_highest_and_come_from_the_lowest(bench):
    at = bench("jetson-nano")
    found = at.control.snapshot()
    at.control.apply(Mode(cpu_cores=1), found)
    at.control.restore(found)
    assert at.kernel.writes == [
        (online_file(core), value) for value, cores in (("0", (3, 2, 1)), ("1", (1, 2, 3))) for core in cores
    ]


def test_cores_that_ran_when_found_go_before_those_that_were_off(bench):
    at = bench("jetson-tx2", mode="MAXQ")  # its Denver cores 1 and 2 are off
    found = at.control.snapshot()
    for count, running in [(4, "0,3,4,5"), (3, "0,3,4"), (5, "0,1,3,4,5"), (6, "0,1,2,3,4,5"), (1, "0")]:
        at.control.apply(Mode(cpu_cores=count), found)
        assert at.kernel.read(f"{FOLDER}/online") == running
    assert at.control.restore(found) == []
    assert at.differences() == {}


@pytest.mark.parametrize("cpu0_file", [True, False])
def test_core_0_is_never_written(bench, cpu0_file):
    at = bench("jetson-nano", cpu0_file=cpu0_file)
    found = at.control.snapshot()
    for count in (1, 4, 2):
        assert at.control.apply(Mode(cpu_cores=count), found).cpu_cores == count
    assert at.control.restore(found) == []
    assert {path for path, _ in at.kernel.writes} == {online_file(core) for core in (1, 2, 3)}


def test_a_core_that_does_not_go_off_is_told_after_a_second(bench):
    at = bench("jetson-orin-nano-8gb", stuck_cores=(5,))
    found = at.control.snapshot()
    began = at.clock.now_ns()
    with pytest.raises(DeviceError, match=r"cpu5/online refused 0: the device is busy") as caught:
        at.control.apply(Mode(cpu_cores=2), found)
    assert PATIENCE_S <= (at.clock.now_ns() - began) / 1e9 < 1.5
    assert "another program" in caught.value.hint
    assert at.control.restore(found) == []
    assert at.differences() == {}


def test_a_core_that_is_busy_for_a_moment_is_asked_again(bench):
    at = bench()
    for write in (1, 2, 3):
        at.kernel.fail_at(write, "EBUSY")
    assert at.control.apply(Mode(cpu_cores=5), at.control.snapshot()).cpu_cores == 5
