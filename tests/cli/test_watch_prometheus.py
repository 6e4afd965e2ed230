"""``edgetune device watch --prometheus``: names, units, labels, and a server on the loopback address alone."""

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from command_line import assert_two_lines

from edgetune.devices.machine import ProcessReading
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device.options import WatchOptions
from edgetune.workflows.device.prometheus import exposition
from edgetune.workflows.device.watch import Snapshot, open_watched

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\} (\S+)')


@pytest.fixture
def root(tmp_path):
    return make_board(tmp_path / "board", "jetson-agx-orin-64gb", kernel="5.10").root


@pytest.fixture
def watched(root):
    return open_watched(WatchOptions(name="jetson", root=str(root)))


def told(watched, groups, processes=()):
    lines = exposition(watched, Snapshot(groups, processes)).splitlines()
    return {(m[1], m[2].split(",device=")[0]): float(m[3]) for m in map(SAMPLE.fullmatch, lines) if m is not None}


def test_every_sample_has_a_type_and_says_that_it_is_simulated(watched):
    text = exposition(watched, watched.read())
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) > 20
    for line in samples:
        assert SAMPLE.fullmatch(line), line
        name = line.partition("{")[0]
        assert text.count(f"# TYPE {name} ") == text.count(f"# HELP {name} ") == 1
        assert 'device="jetson",simulated="true"' in line


def test_units_are_base_units(watched):
    groups = {
        "load_percent": {"gpu": 97.0},
        "clocks_mhz": {"gpu": 1300.5},
        "power_w": {"VDD_IN": 7.25, "gone": None},
        "temperature_c": {"tj": 50.5},
        "machine_memory_bytes": {"used": 25276514304},
        "throttling_events": {"oc3": 4},
        "throttling_now": {"devices": "cpu-throttle-alert"},
        "fan": {"speed_rpm": 2100, "pwm": 51, "profile": "quiet"},
    }
    used = (
        ProcessReading(7, "edgetune profile net.onnx", 150.0, 64 << 20, True),
        ProcessReading(8, "top", 9.0, 1, False),
    )
    found = told(watched, groups, used)
    found.pop(next(key for key in found if key[0] == "edgetune_device_info"))
    assert found == {
        ("edgetune_load_ratio", 'part="gpu"'): 0.97,
        ("edgetune_clock_hertz", 'clock="gpu"'): 1300.5e6,
        ("edgetune_power_watts", 'rail="VDD_IN"'): 7.25,
        ("edgetune_temperature_celsius", 'sensor="tj"'): 50.5,
        ("edgetune_machine_memory_bytes", 'kind="used"'): 25276514304,
        ("edgetune_throttling_events_total", 'counter="oc3"'): 4,
        ("edgetune_throttled", 'device="jetson",simulated="true"'): 1,
        ("edgetune_fan_rpm", 'device="jetson",simulated="true"'): 2100,
        ("edgetune_fan_duty_ratio", 'device="jetson",simulated="true"'): 0.2,
        ("edgetune_process_cpu_ratio", 'pid="7",program="edgetune profile"'): 1.5,
        ("edgetune_process_resident_memory_bytes", 'pid="7",program="edgetune profile"'): 64 << 20,
    }


def test_hostile_names_stay_inside_their_quotes(watched):
    text = exposition(watched, Snapshot({"power_w": {'a"} 1\nb\\': 1.0}}, ()))
    (line,) = [line for line in text.splitlines() if line.startswith("edgetune_power")]
    assert SAMPLE.fullmatch(line)


def test_it_serves_on_the_loopback_address_and_ends_after_its_count(root):
    command = [sys.executable, "-m", "edgetune", "device", "watch", "jetson", "--root", str(root)]
    with subprocess.Popen(
        [*command, "--prometheus", "0", "--count", "2"], stderr=subprocess.PIPE, text=True
    ) as process:
        address = next(word for word in process.stderr.readline().split() if word.startswith("http"))
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"edgetune_power_watts{" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.removesuffix("metrics"), timeout=60)
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.read().endswith(b"\n")
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_a_port_in_use_is_two_lines(edgetune, root):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_two_lines(edgetune("device", "watch", "jetson", "--root", str(root), "--prometheus", port), 2)
