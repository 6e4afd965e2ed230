"""``edgetune device watch``: lines in a pipe, a table in a terminal, and a terminal left as it was."""

import io
import json
import os
import re
import subprocess
import sys
from datetime import datetime

import pytest
from command_line import assert_two_lines
from rich.console import Console

from edgetune.cli import device_watch
from edgetune.cli.device_watch import DisplayUnit, heading, note, shown, text, unit
from edgetune.testing.fake_board import make_board

TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""
"""Runs a command under a terminal of its own, with this standard input as its keyboard."""

READINGS = {
    "mode": {"cpu_cores": 12, "gpu_mhz": None},
    "clocks_mhz": {"gpu": 1300.5, "memory": None},
    "power_w": {"VDD_IN": 7.2049},
    "throttling_now": {"devices": "none"},
    "fan": {"speed_rpm": 2100, "pwm": 88},
}


@pytest.fixture
def root(tmp_path):
    return make_board(tmp_path / "board", "jetson-agx-orin-64gb", kernel="5.10").root


@pytest.fixture
def watching(root):
    """Watch the board in a terminal of so many lines; returns the process, its keyboard and its screen."""
    started = []

    def start(*words, lines=60):
        size = {"COLUMNS": "80", "LINES": str(lines), "TERM": "xterm"}
        command = [sys.executable, "-m", "edgetune", "device", "watch", "--root", str(root), *words]
        process = subprocess.Popen(
            [sys.executable, "-c", TERMINAL, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, **size},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def until(process, word):
    """Return what the screen was sent up to a word."""
    sent = b""
    while word.encode() not in sent:
        block = process.stdout.read(4096)
        assert block, sent.decode()
        sent += block
    return sent.decode()


def plain(sent):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent).replace("\r", "")


def drawn(readings, *, height=60, width=80):
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, highlight=False)
    extremes = {}
    for reading in readings:
        note(extremes, reading)
    console.print(device_watch._drawn("a board", readings[-1], extremes, console))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


# In a pipe.


def test_a_pipe_gets_one_document_a_line(edgetune, root):
    ended = edgetune("device", "watch", "jetson", "--root", str(root), "--count", "3", "--interval", "10ms")
    assert (ended.code, ended.err) == (0, "")
    documents = [json.loads(line) for line in ended.out.splitlines()]
    assert len(documents) == 3
    times = [datetime.fromisoformat(document["time"]) for document in documents]
    assert times == sorted(times)
    assert times[0].tzinfo is not None
    for document in documents:
        assert document["device"] == "jetson"
        assert document["simulated"] is True
        assert document["mode"] == {"cpu_cores": 12, "cpu_mhz": None, "gpu_mhz": None, "mem_mhz": None}
        assert set(document["power_w"]) >= {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}
        assert document["clocks_mhz"]["memory"] == 204.0
        assert all(30 < celsius < 60 for celsius in document["temperature_c"].values())
    assert edgetune("device", "watch", "--root", str(root), "--count", "1", "--json").out.count("\n") == 1


def test_a_reader_that_has_enough_ends_it_quietly(root):
    command = [sys.executable, "-m", "edgetune", "device", "watch", "--root", str(root), "--interval", "10ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_this_machine_can_be_watched_too(edgetune):
    (line,) = edgetune("device", "watch", "host", "--count", "1").out.splitlines()
    document = json.loads(line)
    assert (document["device"], document["simulated"]) == ("host", False)


@pytest.mark.parametrize(
    "words", ["twin:orin-agx", "host --count 0", "host --interval 0", "host --interval 1w", "host --root /", "hots"]
)
def test_devices_that_cannot_be_watched_are_two_lines(edgetune, words):
    assert_two_lines(edgetune("device", "watch", *words.split()), 2)


# In a terminal.


def test_a_terminal_gets_a_table_with_units_until_ctrl_c(watching):
    process = watching("--interval", "20ms")
    sent = until(process, "quiet")
    lines = plain(sent).splitlines()
    assert "a fake kernel" in " ".join(lines)
    assert all(len(line) <= 80 for line in lines)
    rows = {line.split("  ")[1]: line.rstrip() for line in lines if line.startswith("  ")}
    assert rows["GPU-therm"].endswith("°C")
    assert rows["VDD_CPU_CV"].endswith("  W")
    assert rows["17000000.ga10b"].endswith("MHz")
    assert rows["speed_rpm"].endswith("rpm")
    assert "not pinned" in rows["gpu_mhz"]
    process.stdin.write(b"\x03")
    sent += process.stdout.read().decode()
    assert process.wait(60) == 130
    assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l")  # the cursor is shown again
    assert "Traceback" not in sent
    assert "error" not in sent
    assert plain(sent).rstrip("^C").endswith("\n")


def test_with_a_count_it_ends_by_itself(watching):
    process = watching("--interval", "10ms", "--count", "2")
    sent = process.stdout.read().decode()
    assert process.wait(60) == 0
    assert plain(sent).count("VDD_CPU_CV") == 2 + 1  # and once more when it is left standing


def test_json_is_for_machines_also_in_a_terminal(watching):
    process = watching("--count", "1", "--json")
    assert json.loads(process.stdout.read())["device"] == "jetson"


def test_in_a_low_terminal_every_reading_is_still_on_the_screen(watching):
    process = watching("--interval", "20ms", lines=24)
    lines = plain(until(process, "quiet")).splitlines()
    assert len(lines) <= 24
    assert "..." not in " ".join(lines)
    told = " ".join(lines)
    for word in ("VDD_CPU_CV 2.", "Tdiode_tegra 4", "oc3 0", "Temperature °C", "Power W", "cpu policy8 729.6"):
        assert word in told


# What is drawn.


def test_each_reading_has_its_lowest_and_highest():
    low, high = ({**READINGS, "power_w": {"VDD_IN": watts}} for watts in (5.0, 11.256))
    lines = drawn([READINGS, high, low])
    assert lines[0].startswith("a board  ")
    assert lines[1].split() == ["reading", "now", "lowest", "highest"]
    assert lines[lines.index("Power") + 1].split() == ["VDD_IN", "5.00", "5.00", "11.26", "W"]
    assert lines[lines.index("Mode") + 1].split() == ["cpu_cores", "12", "12", "12"]
    assert lines[lines.index("Mode") + 2].split() == ["gpu_mhz", "not", "pinned"]
    assert lines[lines.index("Clocks") + 1].split() == ["gpu", "1300.5", "1300.5", "1300.5", "MHz"]
    assert lines[lines.index("Clocks") + 2].split() == ["memory", "-"]
    assert lines[lines.index("Throttling now") + 1].split() == ["devices", "none"]


def test_a_sensor_that_disappears_and_returns_keeps_its_extremes():
    gone = {**READINGS, "power_w": {"VDD_IN": None}}
    lines = drawn([READINGS, gone])
    assert lines[lines.index("Power") + 1].split() == ["VDD_IN", "-", "7.20", "7.20", "W"]


def test_where_the_table_is_too_tall_readings_stand_side_by_side():
    whole = drawn([READINGS], height=15)
    assert "reading" in whole[1]
    assert len(whole) == 15
    flat = drawn([READINGS], height=14)
    assert [line.split("  ")[0] for line in flat[1:]] == ["Mode", "Clocks MHz", "Power W", "Throttling now", "Fan"]
    assert flat[3].split() == ["Power", "W", "VDD_IN", "7.20"]


@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert all(len(line) <= width for height in (5, 60) for line in drawn([READINGS], height=height, width=width))


@pytest.mark.parametrize(
    ("group", "name", "value", "told"),
    [
        ("power_w", "VDD_IN", 7.2049, "Power: 7.20 W"),
        ("temperature_c", "gpu", 45.125, "Temperature: 45.1 °C"),
        ("clocks_mhz", "gpu", 1300.5, "Clocks: 1300.5 MHz"),
        ("clocks_mhz", "gpu", 114.75, "Clocks: 114.75 MHz"),
        ("fan", "speed_rpm", 2100, "Fan: 2100 rpm"),
        ("fan", "pwm", 88, "Fan: 88 "),
        ("load_percent", "gpu", 97, "Load: 97 %"),
        ("memory_bytes", "used", 3 * 2**30, "Memory: 3072 MiB"),
        ("throttling_events", "oc3", 12345678, "Throttling events: 12345678 "),
    ],
)
def test_figures_have_the_digits_and_the_unit_of_their_kind(group, name, value, told):
    kind = unit(group, name)
    assert f"{heading(group)}: {shown(group, name, value)} {kind.name}" == told
    assert shown(group, name, value) == text(value, kind)


def test_words_are_shown_as_they_are():
    assert shown("fan", "profile", "quiet") == "quiet"
    assert unit("fan", "profile") == DisplayUnit("")
