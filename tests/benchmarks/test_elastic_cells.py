"""How the GPU benchmark divides its time, reads power; on fakes."""

import json
import math
import os
import sys
import threading
import time
from types import SimpleNamespace

import elastic_report
import pytest
from elastic_cells import told
from elastic_report import Plan, PowerMeter, mean_w, plan, power_meter, sensor_of, watch

from edgetune.devices.capabilities import Absent, PowerReading
from fakes.nvml import FakeGpu, FakeNvml

ASKED = {"turns": 5, "longest_s": 5.0, "smallest_s": 0.5, "group_s": 2.0, "run_s": 0.1}


@pytest.mark.parametrize(
    ("left_s", "made"),
    [
        (math.inf, Plan(2, 5, 5.0)),
        (102.0, Plan(2, 5, 0.9)),  # (102 - 2) / (20 runs x 5) - 0.1
        (50.0, Plan(2, 4, 0.5)),  # 48 / (20 x 4) - 0.1
        (26.0, Plan(2, 2, 0.5)),
        (25.0, Plan(1, 4, 0.525)),  # the second one would have 23 / (20 x 2) - 0.1 = 0.475 s
        (11.0, Plan(0, 0, 0.0)),
    ],
)
def test_time_is_divided_over_runs_then_turns_then_workloads(left_s, made):
    found = plan(left_s, [10, 10], **ASKED)
    assert (found.groups, found.turns) == (made.groups, made.turns)
    assert found.duration_s == pytest.approx(made.duration_s)


def test_one_turn_if_one_is_asked_for():
    assert plan(13.0, [10, 10], **{**ASKED, "turns": 1}) == Plan(1, 1, pytest.approx(1.2))


def test_power_is_of_readings_that_lie_in_the_run():
    every = [PowerReading(at * 100_000_000, 100.0 * at) for at in range(20)]
    meter = PowerMeter("fake", 0.1, lambda: every)
    readings_w = meter.between_w(750_000_000, 1_500_000_000)  # a reading is the mean of 0.1 s
    assert readings_w == [900, 1000, 1100, 1200, 1300, 1400, 1500]
    assert mean_w(readings_w) == 1200
    assert mean_w(readings_w[:4]) is None


def test_without_a_sensor_there_is_no_power_and_a_reason():
    with power_meter("GPU-0") as meter:
        assert meter.source.startswith("not read: ")
        assert meter.between_w(0, 1 << 62) == []


def test_the_sensor_is_that_of_the_gpu_with_the_same_uuid(monkeypatch, capsys):
    nvml = FakeNvml([FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b", refresh_ns=20_000_000)])
    assert sensor_of("GPU-c", FakeNvml([FakeGpu()])) == Absent("NVML lists no GPU GPU-c")
    ours, theirs = os.pipe()
    with os.fdopen(ours) as ending:
        monkeypatch.setattr(sys, "stdin", ending)
        threading.Timer(0.4, os.close, [theirs]).start()
        watch(sensor_of("GPU-b", nvml))
    first, *lines = capsys.readouterr().out.splitlines()
    assert json.loads(first)["source"] == "nvml:energy, of the whole board"
    assert len(lines) > 2


def test_readings_of_another_process_are_read_as_they_come(monkeypatch, tmp_path):
    script = tmp_path / "power.py"
    script.write_text(
        'import sys\nprint(\'{"source": "fake", "refresh_s": 0.1}\')\n'
        'print("200000000 50.0\\n400000000 70.0\\n5000", end="", flush=True)\nsys.stdin.read()\n'
    )
    monkeypatch.setattr(elastic_report, "__file__", str(script))
    with power_meter("GPU-0") as meter:
        assert (meter.source, meter.refresh_s) == ("fake", 0.1)
        for _ in range(500):  # the process has 5 s
            if meter.between_w(0, 1 << 62):
                break
            time.sleep(0.01)
        assert meter.between_w(0, 1 << 62) == [50.0, 70.0]
        assert meter.between_w(150_000_000, 1 << 62) == [70.0]


def test_energy_stands_in_the_line_of_a_policy_where_it_was_read():
    ratio = SimpleNamespace(value=1.0, low=None, high=None)
    each = SimpleNamespace(policy="elastic", p50_x=ratio, p99_x=ratio, throughput_x=None, normal_per_s=2.0, missed=0.0)
    assert told(each, {"power_w": 350.4, "request_j": 0.1812}).endswith("missed 0.0%  350 W  181.2 mJ a request")
    assert told(each, None).endswith("missed 0.0%")
