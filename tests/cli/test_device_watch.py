"""``edgetune device watch``: a JSON document a line, in a pipe and in a terminal, until it is interrupted."""

import json
import subprocess
import sys
from datetime import datetime

import pytest
from terminal import Terminal

from edgetune.testing.fake_board import make_board


@pytest.fixture
def root(tmp_path):
    return make_board(tmp_path / "board", "jetson-agx-orin-64gb", kernel="5.10").root


def test_each_reading_is_one_document_a_line(edgetune, root):
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


def test_a_reader_that_has_enough_ends_it_quietly(root):
    command = [sys.executable, "-m", "edgetune", "device", "watch", "--root", str(root), "--interval", "10ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_terminal_gets_the_same_lines_until_ctrl_c(root):
    terminal = Terminal(80)
    terminal.start("device", "watch", "--root", str(root), "--interval", "20ms", cwd=root)
    shown = terminal.read_until(b"\r\n")
    assert json.loads(shown.decode().splitlines()[0])["device"] == "jetson"
    terminal.type(b"\x03")
    assert terminal.process.wait(60) == 130
    assert "error" not in terminal.read_until(None).decode()
