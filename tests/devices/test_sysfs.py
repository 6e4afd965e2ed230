"""Small files of the kernel, read as they come."""

import errno
import os
import time
from pathlib import Path

import pytest

from edgetune.devices.board_files import follow
from edgetune.devices.sysfs import Sysfs, why
from edgetune.testing.fake_files import KernelFiles


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def test_bytes_that_are_no_text_are_read_as_such_and_not_as_an_error(tmp_path):
    (tmp_path / "type").write_bytes(b"CPU-therm\x83\n")
    assert Sysfs(tmp_path).read("type") == "CPU-therm\ufffd"
    assert Sysfs(tmp_path).read_int("type") is None


def test_a_file_of_a_block_that_is_off_has_no_value_now_and_is_no_error(sysfs):
    sysfs.put("temp", 41_000)
    sysfs.deny_reading("temp", errno.EAGAIN)
    with pytest.raises(BlockingIOError) as caught:
        sysfs.read("temp")
    assert "powered off" in why(caught.value)
    assert sysfs.read_int("temp") is None
    assert sysfs.text("temp") == ""
    assert sysfs.shows_number("temp")


def test_a_driver_that_never_answers_is_given_up_and_not_asked_again_until_it_does(sysfs):
    path = "sys/class/devfreq/gpu-gpc-0/min_freq"
    sysfs.put(path, 315_000_000)
    sysfs.deny_reading(path, errno.EAGAIN)
    with pytest.raises(TimeoutError) as caught:
        sysfs.read(path)
    assert caught.value.errno == errno.ETIMEDOUT
    assert "did not answer within" in why(caught.value)
    begun_s = time.monotonic()
    for _ in range(50):
        assert sysfs.read_int(path) is None
    waited_s = time.monotonic() - begun_s
    sysfs.put("sys/class/devfreq/gpu-nvd-0/min_freq", 315_000_000)
    assert sysfs.read_int("sys/class/devfreq/gpu-nvd-0/min_freq") == 315_000_000
    assert waited_s < 50  # one patience each


def test_links_are_followed_below_the_root_also_on_the_way(tmp_path):
    (tmp_path / "nix/store/0-etc/etc").mkdir(parents=True)
    (tmp_path / "nix/store/1-nvpmodel.conf").touch()
    (tmp_path / "nix/store/0-etc/etc/nvpmodel.conf").symlink_to("/nix/store/1-nvpmodel.conf")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/static").symlink_to("/nix/store/0-etc/etc")
    (tmp_path / "etc/nvpmodel.conf").symlink_to("/etc/static/../etc/nvpmodel.conf")
    assert follow(tmp_path, "etc/nvpmodel.conf") == "nix/store/1-nvpmodel.conf"
    (tmp_path / "etc/loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        follow(tmp_path, "etc/loop")
    with pytest.raises(FileNotFoundError):
        follow(tmp_path, "etc/missing")


def test_a_file_that_is_written_or_read_by_root_is_below_its_tree_however_links_lead(tmp_path):
    for name in ("sys/devices/gpu", "sys/class", "etc"):
        (tmp_path / name).mkdir(parents=True)
    for path in (tmp_path / "sys/devices/gpu/min_freq", tmp_path / "etc/secret"):
        path.write_text("1")
    (tmp_path / "sys/class/gpu").symlink_to("../devices/gpu")
    (tmp_path / "sys/class/out").symlink_to("../../etc/secret")
    (tmp_path / "sys/class/away").symlink_to("/etc")
    Sysfs(tmp_path).write("sys/class/gpu/min_freq", "2")
    assert Sysfs(tmp_path).read("sys/devices/gpu/min_freq") == "2"
    for path in ("sys/class/out", "sys/class/away/hostname", "sys/class/../../etc/secret"):
        with pytest.raises(OSError, match="cross-device") as refused:
            Sysfs(tmp_path).write(path, "2")
        assert refused.value.errno == errno.EXDEV
    with pytest.raises(OSError, match="cross-device"):
        Sysfs(Path("/")).open("proc/self/root/etc/passwd", os.O_RDONLY)


def test_a_device_in_place_of_a_file_of_the_kernel_is_read_to_a_limit(tmp_path):
    (tmp_path / "model").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="too large"):
        Sysfs(tmp_path).read("model")
