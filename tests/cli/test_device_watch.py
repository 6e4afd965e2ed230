"""``edgetune device watch``: lines in a pipe, a table in a terminal, and a terminal left as it was."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from itertools import count

import pytest
from command_line import assert_two_lines
from rich.cells import cell_len

from edgetune.cli.history import BLOCKS, History
from edgetune.cli.history import drawn as blocks
from edgetune.cli.watch_layout import DisplayUnit, WatchScreen, heading, shown, text, unit
from edgetune.devices.machine import ProcessReading
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device.watch import Snapshot

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


def drawn(readings, *, height=60, width=80, processes=(), unicode=True, every_s=1.0):
    """Return the lines of a screen that has noted readings, one each ``every_s``."""
    seconds = count(0.0, every_s)
    screen = WatchScreen(["a board", "SIMULATED"], History(lambda: next(seconds)), unicode=unicode)
    for reading in readings:
        screen.note(Snapshot(reading, processes))
    return [line.rstrip() for line in screen.drawn(width, height).plain.splitlines()]


def row(lines, name):
    """Return the words of a reading's line without its drawn minute."""
    (found,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return [word for word in found if not set(word) <= set(BLOCKS)]


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
    assert " °C " in rows["GPU-therm"]
    assert " W " in rows["VDD_CPU_CV"]
    assert " MHz " in rows["17000000.ga10b"]
    assert " rpm " in rows["speed_rpm"]
    assert "not pinned" in rows["gpu_mhz"]
    process.stdin.write(b"\x03")
    sent += process.stdout.read().decode()
    assert process.wait(60) == 130
    assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l")  # the cursor is shown again
    assert sent.rindex("\x1b[?1049l") > sent.rindex("\x1b[?1049h")  # on the usual screen
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
    for word in ("VDD_CPU_CV      2.", "Tdiode_tegra 4", "oc3 0", "Temperature °C", "VIN_SYS_5V0", "cpu policy8 729.6"):
        assert word in told


# What is drawn.


def test_each_reading_has_its_minute_with_the_lowest_and_highest():
    low, high = ({**READINGS, "power_w": {"VDD_IN": watts}} for watts in (5.0, 11.256))
    lines = drawn([READINGS, high, low])
    assert lines[0].startswith("a board  ")
    assert lines[1] == "SIMULATED"
    assert lines[2].split() == ["Mode", "lowest", "highest"]
    assert row(lines, "VDD_IN") == ["VDD_IN", "5.00", "W", "5.00", "11.26"]
    assert row(lines, "cpu_cores") == ["cpu_cores", "12"]
    assert row(lines, "gpu_mhz") == ["gpu_mhz", "not", "pinned"]
    assert row(lines, "gpu") == ["gpu", "1300.5", "MHz", "1300.5", "1300.5"]
    assert row(lines, "memory") == ["memory", "-"]
    assert row(lines, "devices") == ["devices", "none"]


def test_a_sensor_that_disappears_is_a_dash_and_its_minute_remains():
    lines = drawn([READINGS, {**READINGS, "power_w": {"VDD_IN": None}}])
    assert row(lines, "VDD_IN") == ["VDD_IN", "-"]


def test_in_a_wide_terminal_readings_stand_in_columns_and_no_heading_ends_one():
    groups = {f"power_{place}_w": {f"rail{place}{n}": 1.0 for n in range(5)} for place in range(6)}
    lines = drawn([groups], width=120, height=24)
    assert len(lines) == 2 + 18
    assert all(f"rail{place}{n}" in "\n".join(lines) for place in range(6) for n in range(5))
    assert len(lines[-1].split("  ")) > 1
    assert not lines[-1].startswith("Power")


CPUS = {f"cpu{n}": 12.5 * n for n in range(9)}


def test_in_a_small_terminal_each_cpu_is_a_block_and_the_chief_readings_are_drawn():
    readings = {"load_percent": {"gpu": 97.0, "cpu": 50.0, **CPUS}, **READINGS, "temperature_c": {"a": 40.0, "b": 50.0}}
    lines = drawn([readings] * 60, height=14)
    assert len(lines) <= 13
    assert lines[2].split() == ["gpu", "97", "%", BLOCKS[-1] * 14, "cpu", "50", "%", BLOCKS[4] * 14]
    assert lines[3].split()[:3] == ["VDD_IN", "7.20", "W"]
    assert lines[3].split()[4:7] == ["b", "50.0", "°C"]
    assert "Load %  cpu0-8 ▁▂▃▄▅▆▇██" in lines


def test_without_unicode_everything_is_ascii():
    readings = {"load_percent": {"gpu": 97.0, "cpu": 50.0, **CPUS}, "temperature_c": {"gpu": 50.5}}
    for height in (8, 40):
        assert "\n".join(drawn([readings], height=height, unicode=False)).isascii()


def test_throttling_stands_out():
    calm = {"throttling_events": {"oc3": 4}, "throttling_now": {"devices": "none"}}
    hot = {"throttling_events": {"oc3": 7}, "throttling_now": {"devices": "cpu-throttle-alert"}}
    for readings, styles in (([calm, calm], set()), ([calm, hot], {"bold red"})):
        screen = WatchScreen(["a board"], History(lambda: 0.0))
        screen._history = History(count().__next__)
        for reading in readings:
            screen.note(Snapshot(reading, ()))
        spans = {str(span.style) for span in screen.drawn(80, 5).spans}
        assert {style for style in spans if "red" in style} == styles
    assert "oc3 7 (+3)" in "\n".join(drawn([calm, hot], height=5))


def test_processes_fill_the_rest_of_the_screen_and_no_more():
    many = [ProcessReading(n, f"program{n}", 100.0 - n, n << 20, edgetune=n == 0) for n in range(1, 60)]
    lines = drawn([READINGS], processes=many, height=30)
    assert len(lines) == 29
    assert lines[-1].split()[0] == str(29 - lines.index(next(line for line in lines if "program" in line)) - 1)


@pytest.mark.parametrize("height", [3, 5, 12, 60])
@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_the_screen_is_never_larger_than_the_terminal(width, height):
    readings = {"load_percent": {"gpu": 97.0, "cpu": 50.0, **CPUS}, **READINGS}
    lines = drawn([readings], height=height, width=width, processes=[ProcessReading(1, "x" * 300, 1.0, 1, True)])
    assert len(lines) <= max(height - 1, 2)
    assert all(cell_len(line) <= width for line in lines)


# The minute.


def test_a_minute_is_drawn_from_its_highest_readings_and_a_rare_reading_is_held():
    seconds = iter([0, 10, 20.5, 20.9, 59, 59])
    history = History(lambda: next(seconds))
    for watts in (1.0, 2.0, 9.0, 3.0, 4.0):
        history.note({"power_w": {"in": watts}})
    assert history.of("power_w", "in") == {59: 1.0, 49: 2.0, 39: 3.0, 0: 4.0}  # of a second the last reading
    assert history.cells("power_w", "in", 6) == [1.0, 2.0, 3.0, 3.0, 3.0, 4.0]
    assert history.cells("power_w", "in", 2) == [3.0, 4.0]


def test_what_is_older_than_a_minute_is_forgotten():
    seconds = iter([0, 30, 60])
    history = History(lambda: next(seconds))
    for watts in (1.0, None, 2.0):
        history.note({"power_w": {"in": watts}})
    assert history.of("power_w", "in") == {0: 2.0}
    assert history.cells("power_w", "in", 4) == [None, None, None, 2.0]


def test_blocks_rise_from_the_lowest_to_the_highest():
    assert blocks([0.0, 50.0, None, 100.0, 120.0], 0.0, 100.0) == "▁▅ ██"
    assert blocks([3.0], 0.0, 0.0) == "▁"


# Figures.


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
