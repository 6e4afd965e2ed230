"""Small files of the kernel, read as they come."""

from edgetune.devices.sysfs import Sysfs


def test_bytes_that_are_no_text_are_read_as_such_and_not_as_an_error(tmp_path):
    (tmp_path / "type").write_bytes(b"CPU-therm\x83\n")
    assert Sysfs(tmp_path).read("type") == "CPU-therm\ufffd"
    assert Sysfs(tmp_path).read_int("type") is None
