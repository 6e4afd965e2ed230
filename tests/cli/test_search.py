"""``edgetune search`` on tables and live: what it prints, refuses and keeps, however it ended."""

import dataclasses
import hashlib
import io as streams
import json
import os
import sys
from pathlib import Path

import onnx
import pytest
import yaml
from command_line import assert_two_lines
from onnx import parser

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.devices import device
from edgetune.devices.capabilities import Absent
from edgetune.stages.profiling.profiler import Profiler

TABLE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w
net,train,16,300,0.20,12
net,train,16,600,0.12,20
net,train,16,900,0.09,29
net,train,16,1300,0.07,41
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return str(path)


def test_the_plan_is_the_fastest_within_the_budget(edgetune, table):
    ended = edgetune("search", table, "--power-budget", "30W", "--strategy", "exhaustive", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    plan = yaml.safe_load(ended.out)
    assert plan["configuration"] == {"mode": {"gpu_mhz": 900.0}, "batch_size": 16}
    assert plan["measured"]["power_w"] == 29.0
    assert plan["search"] == {"strategy": "exhaustive", "points_measured": 4, "seed": 0, "known_points": 0}
    assert plan["problem"]["power_budget_w"] == 30.0


def test_a_table_is_answered_from_all_of_its_points_and_says_so(edgetune, table):
    ended = edgetune("search", table, "--power-budget", "30W")
    assert yaml.safe_load(ended.out)["search"]["strategy"] == "exhaustive"
    assert ended.err.splitlines() == ["GPU 900 MHz, batch 16: 90 ms per minibatch, 29 W; all 4 points of the table"]
    dry = json.loads(edgetune("search", table, "--power-budget", "30W", "--dry-run", "--json").out)
    assert (dry["strategy"], dry["points"]) == ("exhaustive", 4)


@pytest.mark.parametrize(
    ("intervals", "options", "told"),
    [
        (((0.085, 0.095), (0.06, 0.08)), (), False),
        (((0.06, 0.12), (0.05, 0.09)), (), True),
        ((("", ""), ("", "")), (), False),
    ],
)
def test_an_answer_that_leads_by_less_than_its_interval_says_so(edgetune, tmp_path, intervals, options, told):
    lines = TABLE.splitlines()
    (tmp_path / "t.csv").write_text(
        f"{lines[0]},minibatch_ci95_low_s,minibatch_ci95_high_s,minibatches\n"
        + f"{lines[1]},0.2,0.2,50\n"
        + f"{lines[2]},0.1,0.14,50\n"
        + "".join(f"{line},{low},{high},50\n" for line, (low, high) in zip(lines[3:], intervals, strict=True))
    )
    ended = edgetune("search", str(tmp_path / "t.csv"), *options)
    assert ended.code == 0
    assert ("cannot tell the answer from" in ended.err) == told
    codes = [each["code"] for each in yaml.safe_load(ended.out).get("warnings", ())]
    assert codes.count("cannot-tell") == told


SPREAD = [0.435e-3] * 90 + [14.185e-3] * 10
"""Times of a busy host, s: median 0.435 ms, mean 1.81 ms, 95th percentile 14.185 ms."""


@pytest.mark.parametrize(
    ("asked", "figures_s", "said"),
    [
        (({"times_s": SPREAD}, "--arrival-rate=500/s"), (1.81e-3, 14.185e-3), "(95th percentile)"),
        (({"times_s": SPREAD}, "--arrival-rate=2000/s"), None, "--arrival-rate 552/s"),
        (({"minibatch_p95_s": 12.6e-3}, "--latency-budget=5ms"), None, "answers within 12.6 ms"),
        (({}, "--latency-budget=5ms"), (0.435e-3, 0.435e-3), "no-percentile"),
    ],
)
def test_rates_follow_from_the_mean_and_latencies_from_the_95th_percentile(edgetune, tmp_path, asked, figures_s, said):
    columns, budget = asked
    row = ProfileRow.at(Point("net", "infer", 1, Mode(gpu_mhz=300.0)), 0.435e-3, **columns)
    Profile(Header.new("profile", 2), (row,)).save(tmp_path / "t.parquet")
    ended = edgetune("search", str(tmp_path / "t.parquet"), budget)
    assert said in ended.err
    assert (ended.code == 0) == (figures_s is not None)
    if figures_s is not None:
        measured = yaml.safe_load(ended.out)["measured"]
        assert (1 / measured["throughput_per_s"], measured["latency_s"]) == pytest.approx(figures_s)
        assert measured.get("minibatch_p95_s", measured["minibatch_s"]) == pytest.approx(figures_s[1])


def test_the_points_nearest_to_the_answer_and_why_they_lost(edgetune, table):
    budget = ("--power-budget", "28.5W")
    ended = edgetune("search", table, *budget, "--top", "4", "--json")
    answer, nearest, *_ = json.loads(ended.out)["top"]
    assert answer["configuration"] == json.loads(ended.out)["configuration"]
    assert nearest == {
        "configuration": {"mode": {"gpu_mhz": 900.0}, "batch_size": 16},
        "measured": {"minibatch_s": 0.09, "power_w": 29.0, "throughput_per_s": 16 / 0.09, "energy_j": 0.09 * 29.0},
        "lost": "500 mW over budget",
    }
    assert edgetune("search", table, *budget, "--top", "2", "-q").err == ""
    assert_two_lines(edgetune("search", table, *budget, "--top", "0"), 2)


def test_a_pipe_keeps_the_hash_of_what_came_through(edgetune, monkeypatch):
    data = TABLE.encode()
    monkeypatch.setattr(sys, "stdin", streams.TextIOWrapper(streams.BytesIO(data), encoding="utf-8"))
    plan = yaml.safe_load(edgetune("search", "-", "--power-budget", "30W").out)
    assert hashlib.sha256(data).hexdigest() in json.dumps(plan["inputs"])


def test_plan_and_trace_go_to_files(edgetune, table, tmp_path):
    plan, trace = tmp_path / "plan.yaml", tmp_path / "trace.parquet"
    ended = edgetune(
        "search", table, "--power-budget", "30W", "--strategy", "exhaustive", "-o", str(plan), "--trace", str(trace)
    )
    assert (ended.code, ended.out) == (0, "")
    assert io.read(Plan, str(plan)).configuration.mode.gpu_mhz == 900
    assert [row.step for row in io.read(Trace, str(trace)).rows] == [1, 2, 3, 4]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_disk_too_full_for_the_trace_does_not_cost_the_plan(edgetune, table):
    ended = edgetune("search", table, "--power-budget", "30W", "--trace", "/dev/full", "--quiet")
    assert_two_lines(ended, 2)
    assert yaml.safe_load(ended.out)["kind"] == "plan"


def test_infeasible_ends_with_3_and_keeps_the_trace(edgetune, table, tmp_path):
    trace = tmp_path / "trace.parquet"
    ended = edgetune("search", table, "--power-budget", "5W", "--strategy", "exhaustive", "--trace", str(trace))
    assert_two_lines(ended, 3)
    assert len(io.read(Trace, str(trace)).rows) == 4


def test_simulated_figures_say_so_even_when_quiet(edgetune, tmp_path):
    path = tmp_path / "twin.csv"
    lines = TABLE.splitlines()
    path.write_text("\n".join([lines[0] + ",device", *(line + ",twin:orin-agx" for line in lines[1:])]) + "\n")
    ended = edgetune("search", str(path), "--power-budget", "30W", "--quiet")
    assert "SIMULATED" in ended.err
    assert yaml.safe_load(ended.out)["conditions"]["simulated"] is True


BAD = {
    "no unit": ["--power-budget", "30"],
    "margin above one": ["--power-budget", "30W", "--margin", "150%"],
    "misspelt strategy": ["--power-budget", "30W", "--strategy", "exhaustve"],
    "misspelt option": ["--power-bugdet", "30W"],
    "another workload": ["--power-budget", "30W", "--workload", "nett"],
    "negative points": ["--power-budget", "30W", "--max-points", "-1"],
    "a trace beside the plan": ["--power-budget", "30W", "--trace", "-"],
    "a plan in a folder that is not there": ["--power-budget", "30W", "-o", "/nowhere/plan.yaml"],
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD)
def test_bad_options_are_two_lines_and_2(edgetune, table, options):
    ended = edgetune("search", table, *options)
    assert_two_lines(ended, 2)
    assert ended.out == ""


def test_a_network_needs_a_device(edgetune):
    for network in ("zoo:resnet18", "kernel:matmul:16", "llm:config.json"):
        ended = edgetune("search", network, "--power-budget", "30W")
        assert_two_lines(ended, 2)


LIVE = ("search", "zoo:squeezenet", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301", "--batch-sizes", "4,8")


def test_a_live_search_measures_only_what_it_asks_for(edgetune):
    ended = edgetune(*LIVE, "--task", "train", "--power-budget", "25W", "--max-points", "6", "--verbose")
    assert ended.code == 0, ended.err
    plan = yaml.safe_load(ended.out)
    assert plan["measured"]["power_w"] <= 25
    assert plan["search"]["points_measured"] <= 6
    assert plan["conditions"]["simulated"] is True
    assert ended.err.count("step ") == plan["search"]["points_measured"]


@pytest.fixture
def grid(tmp_path):
    """A table of 84 modes."""
    lines = [
        f"net,train,16,{cpu},{gpu},{30 / gpu + 10 / cpu},{5 + gpu / 40 + cpu / 300}"
        for cpu in range(400, 2200, 300)
        for gpu in range(300, 1700, 100)
    ]
    path = tmp_path / "grid.csv"
    path.write_text("workload,task,batch_size,cpu_mhz,gpu_mhz,minibatch_s,power_w\n" + "\n".join(lines) + "\n")
    return str(path)


def test_the_expected_gain_of_more_points_is_said(edgetune, grid):
    words = ("search", grid, "--power-budget", "30W", "--strategy", "roofline", "--max-points")
    few, more = (edgetune(*words, points) for points in ("3", "9"))
    gains = [yaml.safe_load(ended.out)["search"]["expected_gain"] for ended in (few, more)]
    assert 0 <= gains[1] < gains[0] < 1


# A command with subcommands beside it

EXAMPLE = str(Path(__file__).parents[2] / "examples/resnet18-train-twin.csv")


def test_a_misspelt_subcommand_is_told_from_a_missing_file(edgetune):
    ended = edgetune("search", "evalute", EXAMPLE)
    assert_two_lines(ended, 2)


def test_a_file_that_is_nearly_called_like_a_subcommand_is_a_file(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("evaluat").write_bytes(Path(EXAMPLE).read_bytes())
    assert edgetune("search", "evaluat", "--power-budget", "30W").code == 0


# Live

LIVE_TRAIN = (*LIVE, "--task", "train")


@pytest.fixture
def blind(monkeypatch):
    """Any device opens without its power sensor, and nothing may be measured on it."""
    real = device.open_device

    def opened(name, *, seed=0):
        return dataclasses.replace(real(name, seed=seed), power=Absent("the sensor is at lunch"))

    def measure(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(device, "open_device", opened)
    monkeypatch.setattr(Profiler, "measure", measure)


@pytest.mark.parametrize("options", [("--power-budget", "30W"), ("--objective", "energy")])
def test_without_a_power_sensor_a_power_budget_is_refused_at_once(edgetune, blind, options):
    ended = edgetune(*LIVE_TRAIN, *options, "--quiet")
    assert_two_lines(ended, 4)


def test_measured_points_are_a_profile_that_the_next_search_reuses(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    first = edgetune(*LIVE_TRAIN, "--power-budget", "25W", "--max-points", "6", "--points", points)
    assert first.code == 0, first.err
    plan = yaml.safe_load(first.out)
    profile = io.read_profile(points)
    assert len(profile.rows) == plan["search"]["points_measured"]
    assert profile.header.simulated
    assert profile.header.inputs["workload"]["name"] == "squeezenet"
    again = yaml.safe_load(edgetune(*LIVE_TRAIN, "--power-budget", "25W", "--max-points", "0", "--known", points).out)
    assert again["search"] == {**plan["search"], "points_measured": 0, "known_points": len(profile.rows)}
    assert again["configuration"] == plan["configuration"]


def test_the_points_file_keeps_what_it_has_and_takes_the_new_points_too(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    request = (*LIVE_TRAIN, "--power-budget", "25W", "--strategy", "random", "--max-points", "4")
    assert edgetune(*request, "--points", points).code == 0
    before = io.read_profile(points).rows
    assert edgetune(*request, "--points", points, "--seed", "1").code == 0
    after = io.read_profile(points).rows
    assert after[:4] == before
    assert len({row.point for row in after}) == 8


def test_points_that_would_be_lost_are_not_overwritten(edgetune, tmp_path):
    path = tmp_path / "points.parquet"
    path.write_bytes(b"a night of measurements")
    ended = edgetune(*LIVE_TRAIN, "--power-budget", "25W", "--points", str(path))
    assert_two_lines(ended, 2)
    assert path.read_bytes() == b"a night of measurements"


def test_infeasible_keeps_the_points(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    ended = edgetune(
        *LIVE_TRAIN, "--power-budget", "1W", "--strategy", "random", "--max-points", "3", "--points", points
    )
    assert ended.code == 3
    assert len(io.read_profile(points).rows) == 3


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
