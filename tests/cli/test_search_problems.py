"""``edgetune search`` for every kind of problem, with relatives, and in tables that people measured themselves."""

import json
from dataclasses import replace
from itertools import product

import pytest
import yaml
from command_line import assert_two_lines, drawn

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.artifacts.run import Run
from edgetune.stages.search.strategies import STRATEGIES

INFER = """device,workload,task,batch_size,gpu_mhz,minibatch_s,power_w,duration_s
board,answers,infer,1,300,0.020,12,10
board,answers,infer,4,300,0.060,13,10
board,answers,infer,16,300,0.210,14,10
board,answers,infer,1,900,0.008,20,10
board,answers,infer,4,900,0.022,24,10
board,answers,infer,16,900,0.075,28,10
"""
TRAIN = """device,workload,task,batch_size,gpu_mhz,minibatch_s,power_w,duration_s
board,learns,train,16,300,0.120,15,10
board,learns,train,16,900,0.045,33,10
board,learns,train,32,900,0.080,34,10
"""
TWO = ("--power-budget", "35W", "--latency-budget", "1s", "--arrival-rate", "20/s")


@pytest.fixture
def tables(tmp_path):
    infer, train = tmp_path / "infer.csv", tmp_path / "train.csv"
    infer.write_text(INFER)
    train.write_text(TRAIN)
    return str(infer), str(train)


def plan_of(ended):
    assert ended.code == 0, ended.err
    return yaml.safe_load(ended.out)


def test_two_networks_from_two_tables(edgetune, tables):
    plan = plan_of(edgetune("search", *tables, "--kind", "train+infer", "--background-batch", "16", *TWO))
    assert plan["configuration"] == {
        "mode": {"gpu_mhz": 900.0}, "infer_batch_size": 16, "train_batch_size": 16, "train_minibatches": 16,
    }  # fmt: skip  # (16 / 20 - 0.075) / 0.045 = 16.1
    assert plan["measured"]["train"]["power_w"] == 33.0
    assert plan["measured"]["throughput_per_s"] == pytest.approx(16 * 16 / 0.8)
    assert plan["problem"]["kind"] == "train+infer"


BACK_TO_BACK = "no arrival rate was given: batches run back to back"


@pytest.mark.parametrize("strategy", drawn([*STRATEGIES, None], 3))
def test_without_an_arrival_rate_the_latency_is_the_time_of_a_batch(edgetune, tables, strategy):
    chosen = [] if strategy is None else ["--strategy", strategy]
    if strategy == "staircase":
        assert_two_lines(edgetune("search", tables[0], "--power-budget", "20W", *chosen), 2)
        return
    ended = edgetune("search", tables[0], "--power-budget", "20W", *chosen)
    plan = plan_of(ended)
    assert plan["configuration"] == {"mode": {"gpu_mhz": 900.0}, "batch_size": 1}
    assert plan["measured"]["latency_s"] == plan["measured"]["minibatch_s"] == 0.008
    assert plan["measured"]["throughput_per_s"] == 1 / 0.008
    (warning,) = plan["warnings"]
    assert warning["code"] == "back-to-back"
    assert warning["advice"].startswith(BACK_TO_BACK)


def test_a_problem_file_is_read_and_the_command_line_goes_before_it(edgetune, tables, tmp_path):
    file, plan_file = tmp_path / "problem.yaml", tmp_path / "plan.yaml"
    file.write_text("kind: train\npower_budget_w: 20\n")
    words = ("search", tables[1], "--batch-sizes", "16", "--problem")
    assert plan_of(edgetune(*words, str(file)))["configuration"]["mode"] == {"gpu_mhz": 300.0}
    plan = plan_of(edgetune(*words, str(file), "--power-budget", "40W"))
    assert (plan["problem"]["power_budget_w"], plan["configuration"]["mode"]) == (40.0, {"gpu_mhz": 900.0})
    plan_file.write_text(yaml.safe_dump(plan))
    assert plan_of(edgetune(*words, str(plan_file)))["problem"] == plan["problem"]
    file.write_text("kind: train\npowr_budget_w: 20\n")
    ended = edgetune(*words, str(file))
    assert_two_lines(ended, 2)


def test_a_time_budget_counts_what_measurements_took(edgetune, tables):
    words = ("search", tables[0], "--power-budget", "40W", "--arrival-rate", "10/s", "--strategy", "exhaustive")
    ended = edgetune(*words, "--time-budget", "35s")
    assert plan_of(ended)["search"]["points_measured"] == 3  # 10 s each
    assert plan_of(edgetune(*words))["search"]["points_measured"] == 6


def test_wavering_power_is_measured_again_and_counted(edgetune, tables):
    words = ("search", tables[1], "--batch-sizes", "16", "--power-budget", "33.5W", "--strategy", "exhaustive")
    plan = json.loads(edgetune(*words, "--json", "--power-noise", "1.5%", "--max-points", "9").out)
    assert plan["configuration"]["mode"] == {"gpu_mhz": 900.0}  # 33 W of 33.5: four readings
    assert plan["search"]["points_measured"] == 5


CONVERGENCE = """workload,dataset,batch_size,epochs,target_accuracy
learns,pictures,16,10,0.9
learns,pictures,32,12,0.9
"""
SWEEP = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w
learns,train,16,300,0.12,10
learns,train,16,900,0.05,20
learns,train,32,300,0.20,12
learns,train,32,900,0.08,31
"""


@pytest.fixture
def accuracy(tmp_path):
    table, epochs = tmp_path / "sweep.csv", tmp_path / "epochs.csv"
    table.write_text(SWEEP)
    epochs.write_text(CONVERGENCE)
    return "search", str(table), "--kind", "accuracy", "--convergence", str(epochs), "--power-budget", "30W"


def test_an_answer_to_time_to_accuracy_stands_beside_both_baselines(edgetune, accuracy):
    ended = edgetune(*accuracy)
    assert plan_of(ended)["configuration"] == {"mode": {"gpu_mhz": 900.0}, "batch_size": 16}
    # the batch of 32 draws 31 W at 900 MHz, so that both baselines stay at 300; 0.2 / 32 * 12 over 0.05 / 16 * 10
    assert ended.err.count(" takes 2.4 times as long") == 3


def test_the_noise_of_gradients_stands_in_for_a_table_of_epochs(edgetune, accuracy):
    """At 900 MHz a sample takes 3.125 ms in batches of 16 and 2.5 in 32, so 32 is better from a noise of 48 on."""
    words = (*accuracy[:4], "--noise-scale")
    assert plan_of(edgetune(*words, "47"))["configuration"]["batch_size"] == 16
    assert plan_of(edgetune(*words, "49"))["configuration"]["batch_size"] == 32
    assert plan_of(edgetune(*words, "inf"))["configuration"]["batch_size"] == 32
    for wrong in (["0"], ["nan"], ["9", *accuracy[4:6]]):
        assert_two_lines(edgetune(*words, *wrong), 2)
    assert_two_lines(edgetune("search", accuracy[1], "--noise-scale", "9"), 2)


# Relatives from files, and what is left out of them

CPU, GPU = (400.0, 800.0, 1200.0), (300.0, 600.0, 900.0, 1300.0)


def rows_of(network="net", *, scale=1.0, cpu=CPU, gpu=GPU, batch=16):
    return tuple(
        ProfileRow.at(
            Point(network, "train", batch, Mode(cpu_mhz=c, gpu_mhz=g)), scale * (30 / g + 10 / c), power_w=5 + g / 60
        )
        for c, g in product(cpu, gpu)
    )


def write(path, rows, *, device="board", sha256=None, **conditions):
    workload = {"name": rows[0].workload, **({} if sha256 is None else {"sha256": sha256})}
    header = Header.new("profile", 2, inputs={"workload": workload}, conditions={"device": device, **conditions})
    io.write(Profile(header, tuple(replace(row, device=device) for row in rows)), path)
    return str(path)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "net.parquet", rows_of(), sha256="00")


@pytest.fixture
def search(edgetune, table):
    def run(*like, source=table):
        words = [word for name in like for word in ("--like", str(name))]
        ended = edgetune("search", source, "--power-budget", "20W", "--max-points", "4", *words)
        return replace(ended, err=" ".join(ended.err.split())) if ended.code == 0 else ended

    return run


def test_several_files_are_relatives(search, tmp_path):
    one = write(tmp_path / "one.parquet", rows_of("one", scale=2))
    two = write(tmp_path / "two.csv", rows_of("two", scale=3)[:7])
    ended = search(one, two)
    assert f"relatives: one train (12 points of {one}), two train (7 points of {two})" in ended.err


def test_a_relative_of_other_knobs_or_of_few_points_is_left_out(search, tmp_path):
    good = write(tmp_path / "good.json", rows_of("good"))
    single = write(tmp_path / "single.parquet", rows_of("single")[:1])
    knobs = write(tmp_path / "knobs.parquet", rows_of("knobs", cpu=CPU[:1], gpu=(*GPU, 500.0)))
    ended = search(good, single, knobs, good)
    assert f"relatives: good train (12 points of {good})" in ended.err


def test_another_device_or_another_board_is_refused(search, tmp_path):
    ended = search(write(tmp_path / "far.parquet", rows_of("far"), device="another"))
    assert_two_lines(ended, 2)
    board = write(tmp_path / "net.parquet", rows_of(), sha256="00", board="another kit")
    ended = search(write(tmp_path / "one.parquet", rows_of("one"), board="devkit"), source=board)
    assert_two_lines(ended, 2)
    assert_two_lines(search("absent.parquet"), 2)


def test_rows_of_the_searched_network_are_known_rather_than_like(search, table, tmp_path):
    for own in (table, write(tmp_path / "again.parquet", rows_of()[:6], sha256="00")):
        ended = search(own)
        assert_two_lines(ended, 2)
    both = write(tmp_path / "both.parquet", (*rows_of(), *rows_of("one")))
    ended = search(both)
    assert f"relatives: one train (12 points of {both})" in ended.err
    assert f"net train of {both} (searched for; --known {both} uses it)" in ended.err


def test_knobs_that_neither_varies_do_not_matter(edgetune, tmp_path):
    """The names and the values of knobs that both leave alone are those of the search."""
    rows = rows_of("one", cpu=(777.0,), gpu=(*GPU[1:], 500.0, 700.0))
    like = write(tmp_path / "like.parquet", [replace(row, power_mode="15W") for row in rows])
    source = write(tmp_path / "bare.parquet", [replace(row, cpu_mhz=None) for row in rows_of("bare", cpu=(1.0,))])
    ended = edgetune("search", source, "--power-budget", "20W", "--max-points", "3", "--like", like)
    assert (ended.code, f"relatives: one train (5 points of {like})" in " ".join(ended.err.split())) == (0, True)


# Tables of others: modes by name, columns by other names

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


@pytest.mark.parametrize("strategy", drawn([*STRATEGIES, None], 3))
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


SAID = ("--column", "net_name=workload", "--column", "lat=minibatch_ms", "--column", "f=gpu_mhz")
SAID += ("--column", "draw=power_mw", "--column", "task=infer", "--column", "batch_size=1")
