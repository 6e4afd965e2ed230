"""A live search: refused at once where power cannot be measured, and what it measured is kept, however it ended."""

import dataclasses
import signal
import subprocess
import sys

import onnx
import pytest
import yaml
from command_line import assert_two_lines
from onnx import parser
from small_network import small_network

from edgetune.artifacts import io
from edgetune.devices import discover
from edgetune.devices.capabilities import Absent
from edgetune.stages.profiling.profiler import Profiler

LIVE = ("search", "zoo:squeezenet", "--task", "train", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301",
        "--batch-sizes", "4,8")  # fmt: skip


@pytest.fixture
def blind(monkeypatch):
    """Any device opens without its power sensor, and nothing may be measured on it."""
    real = discover.open_device

    def opened(name, *, seed=0):
        return dataclasses.replace(real(name, seed=seed), power=Absent("the sensor is at lunch"))

    def measure(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(discover, "open_device", opened)
    monkeypatch.setattr(Profiler, "measure", measure)


@pytest.mark.parametrize("options", [("--power-budget", "30W"), ("--objective", "energy")])
def test_without_a_power_sensor_a_power_budget_is_refused_at_once(edgetune, blind, options):
    ended = edgetune(*LIVE, *options, "--quiet")
    assert_two_lines(ended, 4)


def test_the_answer_is_kept_running_on_a_real_device_alone(edgetune, few_minibatches, tmp_path):
    small_network(tmp_path)
    words = ("search", str(tmp_path / "small.onnx"), "--batch-sizes", "1,2", "--soak", "1s")
    ended = edgetune(*words, "--device", "host")
    assert ended.code == 0, ended.err
    assert yaml.safe_load(ended.out)["conditions"]["soak_s"] == 1.0
    assert "soak" not in edgetune(*words, "--device", "host", "--dry-run").err
    refused = edgetune(*words, "--device", "twin:orin-agx")
    assert_two_lines(refused, 2)
    pair = edgetune(*words, "--device", "host", "--kind", "infer+infer", "--arrival-rate", "10/s")
    assert_two_lines(pair, 2)


def test_measured_points_are_a_profile_that_the_next_search_reuses(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    first = edgetune(*LIVE, "--power-budget", "25W", "--max-points", "6", "--points", points)
    assert first.code == 0, first.err
    plan = yaml.safe_load(first.out)
    profile = io.read_profile(points)
    assert len(profile.rows) == plan["search"]["points_measured"]
    assert profile.header.simulated
    assert profile.header.inputs["workload"]["name"] == "squeezenet"
    again = yaml.safe_load(edgetune(*LIVE, "--power-budget", "25W", "--max-points", "0", "--known", points).out)
    assert again["search"] == {**plan["search"], "points_measured": 0, "known_points": len(profile.rows)}
    assert again["configuration"] == plan["configuration"]


def test_the_points_file_keeps_what_it_has_and_takes_the_new_points_too(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    request = (*LIVE, "--power-budget", "25W", "--strategy", "random", "--max-points", "4")
    assert edgetune(*request, "--points", points).code == 0
    before = io.read_profile(points).rows
    assert edgetune(*request, "--points", points, "--seed", "1").code == 0
    after = io.read_profile(points).rows
    assert after[:4] == before
    assert len({row.point for row in after}) == 8


def test_points_that_would_be_lost_are_not_overwritten(edgetune, tmp_path):
    path = tmp_path / "points.parquet"
    path.write_bytes(b"a night of measurements")
    ended = edgetune(*LIVE, "--power-budget", "25W", "--points", str(path))
    assert_two_lines(ended, 2)
    assert path.read_bytes() == b"a night of measurements"


def test_infeasible_keeps_the_points(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    ended = edgetune(*LIVE, "--power-budget", "1W", "--strategy", "random", "--max-points", "3", "--points", points)
    assert ended.code == 3
    assert len(io.read_profile(points).rows) == 3


def test_nothing_measured_leaves_no_file(edgetune, blind, tmp_path):
    points = tmp_path / "points.parquet"
    assert edgetune(*LIVE, "--power-budget", "30W", "--points", str(points)).code == 4
    assert not points.exists()


TRAIN = """
import time
def make(batch_size):
    def step():
        time.sleep(3600 if batch_size == 8 else 0.005)
    return step
"""


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_a_stopped_search_keeps_its_points(tmp_path, number, code):
    script, points = tmp_path / "train.py", tmp_path / "points.parquet"
    script.write_text(TRAIN)
    argv = ["search", str(script), "--task", "train", "--device", "host", "--batch-sizes", "1,2,8", "--points"]
    command = [sys.executable, "-m", "edgetune", *argv, str(points), "--strategy", "exhaustive", "--verbose"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        while not line.startswith("step 2:"):
            assert line, "ended before its second point"
            line = process.stderr.readline()
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code, rest
    assert "Traceback" not in rest
    assert f"measured are in {points}: the same command goes on" in rest
    assert [row.batch_size for row in io.read_profile(str(points)).rows] == [1, 2]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--precision", "fp16")],
)
def test_options_of_measuring_are_refused_for_a_table(edgetune, tmp_path, option, value):
    path = tmp_path / "table.csv"
    path.write_text("workload,task,batch_size,gpu_mhz,minibatch_s,power_w\nnet,train,8,300,0.2,12\n")
    ended = edgetune("search", str(path), option, value)
    assert_two_lines(ended, 2)


def test_a_live_search_gives_a_point_up_after_the_time_it_is_reported(edgetune, tmp_path):
    path = tmp_path / "slow.py"
    path.write_text("import time\ndef make(batch_size):\n    return lambda: time.sleep(60)\n")
    ended = edgetune("search", str(path), "--task", "train", "--device", "host", "--batch-sizes", "1",
                     "--point-timeout", "1s", "--quiet")  # fmt: skip
    assert_two_lines(ended, 2)


def test_a_network_of_one_batch_size_needs_none_named_to_be_searched(edgetune, tmp_path):
    """What a refusal of another batch size advises, to leave the batch size out, can be done in a search too."""
    points = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[64,3] x) => (float[1,1] y) { a = Relu(x) y = ReduceMax <axes = [0, 1]> (a) }""")
    onnx.save(points, tmp_path / "points.onnx")
    words = ("search", str(tmp_path / "points.onnx"), "--device", "twin:orin-agx", "--modes", "MAXN", "--kind", "infer")
    refused = edgetune(*words, "--batch-sizes", "4")
    assert refused.code == 2
    ended = edgetune(*words, "-o", str(tmp_path / "plan.yaml"))
    assert ended.code == 0, ended.err
