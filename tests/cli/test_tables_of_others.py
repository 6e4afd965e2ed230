"""Tables that people measured themselves, on the command line: modes by name, columns by other names, other layouts."""

import json

import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.run import Run
from edgetune.stages.search.strategies import STRATEGIES

NAMED = """model,mode,task,bs,latency_ms,power_mw
resnet18,15W,infer,1,20,9000
resnet18,30W,infer,1,11,17000
resnet18,MAXN,infer,1,8,31000
resnet18,15W,train,8,200,10000
resnet18,30W,train,8,110,19000
resnet18,MAXN,train,8,80,35000
"""
"""What somebody has who switched a board with nvpmodel."""


@pytest.fixture
def named(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text(NAMED)
    return str(path)


def plan_of(ended):
    assert ended.code == 0, ended.err
    return yaml.safe_load(ended.out)


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto", None])
def test_modes_by_name_are_searched_or_a_strategy_that_can_is_named(edgetune, named, strategy):
    words = ("search", named, "--kind", "infer", "--power-budget", "20W")
    chosen = () if strategy is None else ("--strategy", strategy)
    ended = edgetune(*words, *chosen)
    if strategy in STRATEGIES and not STRATEGIES[strategy].takes_names:
        assert_two_lines(edgetune(*words, *chosen, "--quiet"), 2)
        assert "15W, 30W, MAXN" in ended.err or "inference" in ended.err or "training" in ended.err
        return
    plan = plan_of(ended)
    assert plan["configuration"] == {"mode": {"power_mode": "30W"}, "batch_size": 1}
    assert plan["measured"]["minibatch_s"] == 0.011
    assert plan["measured"]["power_w"] == 17.0


def test_names_beside_clocks_that_say_the_same_are_no_axis(edgetune, tmp_path):
    path = tmp_path / "both.csv"
    path.write_text(
        "workload,task,batch_size,power_mode,gpu_mhz,minibatch_s,power_w\n"
        "net,train,8,15W,400,0.2,10\nnet,train,8,30W,700,0.11,19\nnet,train,8,MAXN,1300,0.08,35\n"
    )
    plan = plan_of(edgetune("search", str(path), "--power-budget", "20W", "--strategy", "auto"))
    assert plan["configuration"]["mode"] == {"gpu_mhz": 700, "power_mode": "30W"}
    assert plan["search"]["strategy"] == "roofline"


def test_names_for_some_of_the_modes_only_are_refused(edgetune, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text(
        "workload,task,batch_size,power_mode,minibatch_s,power_w\nnet,train,8,15W,0.2,10\nnet,train,8,,0.11,19\n"
    )
    ended = edgetune("search", str(path), "--power-budget", "20W")
    assert_two_lines(ended, 2)


def test_a_table_of_named_modes_is_a_device(edgetune, named, tmp_path):
    device = f"recorded:{named}"
    assert edgetune("device", "modes", device, "all").out.split() == ["power_mode", "15W", "30W", "MAXN"]
    out = str(tmp_path / "p.parquet")
    words = ("profile", "resnet18", "--device", device, "-t", "infer", "-o", out)
    assert edgetune(*words, "--modes", "15W,MAXN").code == 0
    assert [(row.power_mode, row.minibatch_s) for row in io.read_profile(out).rows] == [("15W", 0.02), ("MAXN", 0.008)]
    ended = edgetune(*words, "--modes", "20W", "--fresh")
    assert_two_lines(ended, 2)


@pytest.fixture
def plan(edgetune, named, tmp_path):
    path = str(tmp_path / "plan.yaml")
    ended = edgetune(
        "search", named, "--kind", "infer", "--power-budget", "20W", "--latency-budget", "99ms", "-o", path
    )
    assert ended.code == 0, ended.err
    return path


def test_a_plan_with_a_mode_by_name_is_of_use_where_the_device_knows_the_name(edgetune, plan, tmp_path):
    preset = json.loads(edgetune("device", "modes", "twin:orin-agx", "30W", "--json").out)
    assert json.loads(edgetune("device", "modes", "twin:orin-agx", plan, "--json").out) == preset
    run = ("interleave", plan, "--device", "twin:orin-agx", "--arrivals", "uniform:10", "--duration", "1s")
    ended = edgetune(*run, "--best-effort", "--explain", "-o", str(tmp_path / "run.parquet"))
    assert ended.code == 0, ended.err


def test_a_plan_of_named_modes_runs_on_its_own_table(edgetune, named, plan, tmp_path):
    run = ("interleave", plan, "--device", f"recorded:{named}", "--arrivals", "uniform:10", "--duration", "1s")
    out = str(tmp_path / "run.parquet")
    ended = edgetune(*run, "-o", out)
    assert ended.code == 0, ended.err
    requests = [row for row in io.read(Run, out).rows if row.event == "request"]
    assert len(requests) == 9  # every 0.1 s, before 1 s
    assert all(row.met for row in requests)


OWN = "net_name;lat;f;draw\nresnet18;20,25;900;9500\nresnet18;11,5;1300;17500\n"
SAID = ("--column", "net_name=workload", "--column", "lat=minibatch_ms", "--column", "f=gpu_mhz")
SAID += ("--column", "draw=power_mw", "--column", "task=infer", "--column", "batch_size=1")


def test_a_table_is_converted_once_for_the_commands_that_rename_nothing(edgetune, tmp_path):
    path, ours = tmp_path / "own.csv", str(tmp_path / "ours.parquet")
    path.write_text(OWN)
    ended = edgetune("show", str(path), *SAID, "-o", ours)
    assert ended.code == 0, ended.err
    words = ("-t", "infer", "-b", "1", "-o", str(tmp_path / "p.parquet"))
    assert edgetune("profile", "resnet18", "--device", f"recorded:{ours}", *words).code == 0


@pytest.mark.parametrize(
    "words",
    [("--column", "lat=power_w", "--column", "lat=energy_j")],
)
def test_invalid_columns_are_refused(edgetune, tmp_path, words):
    path = tmp_path / "own.csv"
    path.write_text(OWN)
    for command in ("search", "show"):
        ended = edgetune(command, str(path), *words)
        assert_two_lines(ended, 2)


def test_rows_of_several_devices_are_not_searched_as_one(edgetune, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text(
        "device,workload,task,batch_size,gpu_mhz,minibatch_s,power_w\na,net,train,8,900,0.2,10\nb,net,train,8,700,0.1,19\n"
    )
    ended = edgetune("search", str(path), "--power-budget", "20W")
    assert_two_lines(ended, 2)
