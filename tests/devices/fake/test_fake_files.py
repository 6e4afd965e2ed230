"""The fake's files: rights, faults at a chosen write, and one state for every process that opens the folder."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from edgetune.devices.sysfs import Sysfs
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_kernel import FakeKernel, Killed

POLICY = "sys/devices/system/cpu/cpufreq/policy0"
LOW, HIGH = f"{POLICY}/scaling_min_freq", f"{POLICY}/scaling_max_freq"
ORIN = "jetson-agx-orin-64gb"


@pytest.fixture
def kernel(tmp_path):
    return make_board(tmp_path, ORIN, kernel="5.10", clock=FakeClock())


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def test_another_object_meets_the_same_kernel(kernel):
    kernel.write(HIGH, "1113600")
    other = FakeKernel(kernel.root)
    assert other.read(HIGH) == "1113600"
    assert other.writes == kernel.writes == [(HIGH, "1113600")]
    assert other.settings() == kernel.settings()
    other.forget_writes()
    assert kernel.writes == []


def test_another_process_meets_the_same_kernel(kernel):
    code = (
        "import sys; from pathlib import Path; from edgetune.testing.fake_kernel import FakeKernel; "
        f"FakeKernel(Path(sys.argv[1])).write({HIGH!r}, '1113600')"
    )
    kernel.fail_at(2, "EBUSY")
    subprocess.run([sys.executable, "-c", code, str(kernel.root)], check=True)
    assert kernel.read(HIGH) == "1113600"
    again = subprocess.run([sys.executable, "-c", code, str(kernel.root)], check=False, capture_output=True)
    assert again.returncode == 1
    assert kernel.writes == [(HIGH, "1113600")]


@pytest.mark.parametrize("path", ["sys/kernel/debug/bpmp/debug/clk/emc/rate", f"{POLICY}/cpuinfo_cur_freq"])
def test_a_user_may_not_read_what_is_roots(kernel, path):
    user = FakeKernel(kernel.root, user="user")
    assert error_of(user.read, path) == "EACCES"
    assert int(kernel.read(path)) > 0


def test_a_user_cannot_read_the_cap_of_jetpack_5_but_that_of_6(tmp_path):
    old, new = (make_board(tmp_path / kernel, ORIN, kernel=kernel, user="user") for kernel in ("5.10", "5.15"))
    assert error_of(old.read, "sys/kernel/nvpmodel_emc_cap/emc_iso_cap") == "EACCES"
    assert new.read("sys/kernel/nvpmodel_clk_cap/emc") == "3199000000"


def test_a_user_writes_nothing_and_is_told_so(kernel):
    user = FakeKernel(kernel.root, user="user")
    for path in user.settings():
        assert not user.writable(path)
        assert error_of(user.write, path, "1") == "EACCES"
    assert user.writes == []


def test_a_user_sees_nothing_in_debugfs(kernel):
    user = FakeKernel(kernel.root, user="user")
    pattern = "sys/kernel/debug/bpmp/debug/clk/*/rate"
    assert kernel.glob(pattern) == ["sys/kernel/debug/bpmp/debug/clk/emc/rate"]
    assert user.glob(pattern) == []


def test_root_too_may_not_write_what_nobody_may(kernel):
    assert error_of(kernel.write, f"{POLICY}/cpuinfo_max_freq", "1") == "EACCES"
    assert not kernel.writable(f"{POLICY}/cpuinfo_max_freq")
    assert kernel.writable(HIGH)


def test_a_file_that_is_not_there_is_neither_read_nor_made(kernel):
    assert error_of(kernel.read, f"{POLICY}/boost") == "ENOENT"
    assert error_of(kernel.write, f"{POLICY}/boost", "1") == "ENOENT"
    assert not kernel.writable(f"{POLICY}/boost")


def test_settings_are_the_same_through_any_link(kernel):
    kernel.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq", "1113600")
    assert kernel.settings()[HIGH] == "1113600"


@pytest.mark.parametrize("fault", ["EINVAL", "EBUSY", "EACCES", "ENODEV"])
def test_a_write_fails_as_told_and_the_next_does_not(kernel, fault):
    before = kernel.settings()
    kernel.fail_at(1, fault)
    assert error_of(kernel.write, HIGH, "1113600") == fault
    assert kernel.settings() == before
    kernel.write(HIGH, "1113600")
    assert kernel.read(HIGH) == "1113600"
    assert len(kernel.writes) == 1


@pytest.mark.parametrize(("fault", "kept"), [("kill-before", "2201600"), ("kill-after", "1113600")])
def test_a_killed_process_does_nothing_more(kernel, fault, kept):
    kernel.fail_at(1, fault)
    with pytest.raises(Killed):
        kernel.write(HIGH, "1113600")
    for call in (lambda: kernel.read(HIGH), lambda: kernel.write(HIGH, "1")):
        with pytest.raises(Killed):
            call()
    assert FakeKernel(kernel.root).read(HIGH) == kept
    kernel.revive()
    assert kernel.read(HIGH) == kept


def test_killing_is_not_an_error_that_a_program_could_handle():
    assert not issubclass(Killed, Exception)


def test_an_ignored_write_succeeds_without_effect(kernel):
    kernel.fail_at(1, "ignored")
    kernel.write(HIGH, "1113600")
    assert kernel.read(HIGH) == "2201600"
    assert kernel.writes == [(HIGH, "1113600")]


@pytest.mark.parametrize(("asked", "kept"), [("1113600", "1036800"), ("115200", "192000"), ("5", "2201600")])
def test_a_clamped_write_ends_at_the_neighbour(kernel, asked, kept):
    kernel.fail_at(1, "clamped")
    kernel.write(HIGH, asked)
    assert kernel.read(HIGH) == kept


def test_a_function_runs_before_the_write_goes_on(kernel):
    seen = []
    kernel.fail_at(2, lambda path, value: seen.append((path, value, kernel.read(path))))
    kernel.write(HIGH, "1113600")
    kernel.write(HIGH, "1190400")
    assert seen == [(HIGH, "1190400", "1113600")]
    assert kernel.read(HIGH) == "1190400"


def test_faults_are_counted_from_when_they_are_reported_and_over_refused_writes(kernel):
    kernel.write(HIGH, "1113600")
    kernel.fail_at(3, "EBUSY")
    kernel.write(HIGH, "1190400")
    assert error_of(kernel.write, HIGH, "many") == "EINVAL"
    assert error_of(kernel.write, HIGH, "1190400") == "EBUSY"


@pytest.mark.parametrize("mode", ["MAXN", "MODE_30W"])
def test_after_a_power_cut_the_board_is_as_after_boot_and_the_disk_as_before(tmp_path, mode):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", mode=mode, clock=FakeClock())
    before = kernel.settings()
    journal = kernel.root / "var/lib/edgetune/journal"
    journal.write_text("found")
    kernel.write(HIGH, "1113600")
    kernel.write("sys/devices/system/cpu/cpu5/online", "0")
    kernel.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "1")
    assert kernel.settings() != before
    boot_id = kernel.read("proc/sys/kernel/random/boot_id")
    kernel.power_cut()
    assert kernel.settings() == before
    assert journal.read_text() == "found"
    assert kernel.read("proc/sys/kernel/random/boot_id") != boot_id


def test_power_may_go_at_a_write(kernel):
    before = kernel.settings()
    kernel.write(HIGH, "1113600")
    kernel.fail_at(1, "power-cut")
    with pytest.raises(Killed):
        kernel.write(LOW, "1113600")
    kernel.revive()
    assert kernel.settings() == before


def test_reading_and_writing_can_be_denied_for_every_process(kernel):
    kernel.deny_reading(HIGH)
    kernel.deny_writing("sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", errno.EPERM)
    other = FakeKernel(kernel.root)
    assert error_of(other.read, HIGH) == "EACCES"
    assert error_of(other.write, LOW, "1") == "EPERM"
    assert not other.writable(LOW)


def test_a_driver_can_be_told_what_to_keep(kernel):
    kernel.answer(HIGH, lambda value: str(int(value) // 2))
    kernel.write(HIGH, "2000000")
    assert kernel.read(HIGH) == "1000000"


def test_no_reader_meets_a_file_without_its_text(kernel):
    """A shorter text leaves line ends behind it, never a piece of the longer one."""
    with (kernel.root / HIGH).open() as reader:
        kernel.put(HIGH, 1)
        assert reader.read() == "1" + "\n" * 7
    assert kernel.read(HIGH) == "1"
    kernel.put_bytes("proc/device-tree/model", b"Short\0")
    assert (kernel.root / "proc/device-tree/model").read_bytes() == b"Short\0"


def test_rights_are_those_of_the_files(kernel):
    assert os.stat(kernel.root / f"{POLICY}/cpuinfo_cur_freq").st_mode & 0o777 == 0o400
    assert Sysfs(kernel.root).read(HIGH) == "2201600"  # and a plain reader sees plain files


def test_a_signal_comes_before_the_write_goes_on(kernel):
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(kernel.read(HIGH)))
    try:
        kernel.fail_at(1, "SIGTERM")
        kernel.write(HIGH, "1113600")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == ["2201600"]
    assert kernel.read(HIGH) == "1113600"


def test_another_process_can_be_killed_in_the_middle(kernel):
    code = (
        "import sys; from pathlib import Path; from edgetune.testing.fake_kernel import FakeKernel; "
        f"k = FakeKernel(Path(sys.argv[1])); k.write({HIGH!r}, '1113600'); k.write({LOW!r}, '1113600')"
    )
    kernel.fail_at(2, "SIGKILL")
    killed = subprocess.run([sys.executable, "-c", code, str(kernel.root)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [kernel.read(path) for path in (LOW, HIGH)] == ["729600", "1113600"]
