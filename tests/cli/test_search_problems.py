"""``edgetune search`` for every kind of problem, from flags and from YAML, with little time and with much."""

import json

import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.plan import Plan
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


@pytest.mark.parametrize("strategy", [*STRATEGIES, None])
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
    assert "batches back to back (the latency is the time of a batch)" in ended.err
    (warning,) = plan["warnings"]
    assert warning["code"] == "back-to-back"
    assert warning["advice"].startswith(BACK_TO_BACK)


def test_a_live_plan_without_an_arrival_rate_is_interleaved_with_arrivals_given_then(edgetune, tmp_path):
    path = str(tmp_path / "plan.yaml")
    live = ("--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301", "--batch-sizes", "1,4", "--task", "infer")
    budgets = ("--power-budget", "30W", "--latency-budget", "80ms")
    ended = edgetune("search", "zoo:squeezenet", *live, *budgets, "-o", path)
    assert ended.code == 0
    assert "batches back to back" in ended.err
    measured = io.read(Plan, path).measured
    assert measured.latency_s == measured.minibatch_s
    run = ("interleave", path, "--device", "twin:orin-agx", "--duration", "2s")
    ended = edgetune(*run)
    assert_two_lines(ended, 2)
    assert "--arrivals uniform:60" in ended.err
    ended = edgetune(*run, "--arrivals", "uniform:10", "-o", str(tmp_path / "run.parquet"))
    assert ended.code == 0, ended.err


def test_two_live_networks(edgetune):
    pair = ("--kind", "train+infer", "--background", "zoo:mobilenet_v3_large", "--background-batch", "16")
    live = ("--batch-sizes", "1,4,16", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    budgets = ("--power-budget", "40W", "--latency-budget", "1s", "--arrival-rate", "30/s")
    plan = plan_of(edgetune("search", "zoo:squeezenet", *pair, *live, *budgets))
    assert plan["search"]["points_measured"] <= 15
    assert plan["inputs"]["background"]["name"] == "mobilenet_v3_large"
    assert plan["configuration"]["train_minibatches"] >= 1
    assert plan["measured"]["power_w"] <= 40


def test_time_to_accuracy_weighs_the_epochs_of_each_batch_size(edgetune, tables, tmp_path):
    epochs = tmp_path / "problem.yaml"
    words = ("search", tables[1], "--power-budget", "40W", "--problem", str(epochs))
    epochs.write_text("kind: accuracy\nepochs_to_target: {16: 10, 32: 10}\n")
    assert plan_of(edgetune(*words))["configuration"]["batch_size"] == 32
    epochs.write_text("kind: accuracy\nepochs_to_target: {16: 10, 32: 20}\n")
    assert plan_of(edgetune(*words))["configuration"]["batch_size"] == 16
    epochs.write_text("kind: accuracy\nepochs_to_target: {16: 10}\n")
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert plan_of(edgetune(*words, "--batch-sizes", "16"))["configuration"]["batch_size"] == 16


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


@pytest.mark.parametrize("options", [("--time-budget", "10m"), ()])
def test_auto_takes_what_fits(edgetune, tables, options):
    words = ("search", tables[1], "--batch-sizes", "16", "--power-budget", "40W", "--strategy", "auto", *options)
    assert plan_of(edgetune(*words))["search"]["strategy"] == "roofline"


def test_with_no_time_the_answer_is_the_maximum_mode_and_says_that_it_is_not_measured(edgetune):
    live = ("--task", "infer", "--batch-sizes", "1,4", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    words = ("search", "zoo:squeezenet", *live, "--power-budget", "10W", "--arrival-rate", "10/s", "--strategy", "auto")
    ended = edgetune(*words, "--time-budget", "10ms")
    plan = plan_of(ended)
    assert plan["configuration"]["mode"]["gpu_mhz"] == 1300.5
    assert plan["configuration"]["batch_size"] == 1
    assert plan["measured"] == {}
    assert plan["search"]["points_measured"] == 0
    assert plan["warnings"][0]["code"] == "not-measured"


def test_with_no_time_what_was_measured_earlier_answers(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    live = ("--task", "infer", "--batch-sizes", "1,4", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    words = ("search", "zoo:squeezenet", *live, "--power-budget", "30W", "--arrival-rate", "10/s")
    assert edgetune(*words, "--points", points).code == 0
    plan = plan_of(edgetune(*words, "--strategy", "auto", "--time-budget", "10ms", "--known", points))
    assert plan["measured"]["power_w"] <= 30
    assert plan["search"]["points_measured"] == 0


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
    assert "its largest batch (32) takes 2.4 times as long" in ended.err
    assert "its batch of fewest epochs (16) takes 2.4 times as long" in ended.err
    assert "its best batch (16) takes 2.4 times as long" in ended.err  # a tie: the lower power
    assert "a training on 16000 samples takes about 8 m 20 s\n" in edgetune(*accuracy, "--samples", "16000").err


def test_the_noise_of_gradients_stands_in_for_a_table_of_epochs(edgetune, accuracy):
    """At 900 MHz a sample takes 3.125 ms in batches of 16 and 2.5 in 32, so 32 is better from a noise of 48 on."""
    words = (*accuracy[:4], "--noise-scale")
    assert plan_of(edgetune(*words, "47"))["configuration"]["batch_size"] == 16
    assert plan_of(edgetune(*words, "49"))["configuration"]["batch_size"] == 32
    assert plan_of(edgetune(*words, "inf"))["configuration"]["batch_size"] == 32
    for wrong in (["0"], ["nan"], ["9", "--samples", "9"], ["9", *accuracy[4:6]]):
        assert_two_lines(edgetune(*words, *wrong), 2)
    assert_two_lines(edgetune("search", accuracy[1], "--noise-scale", "9"), 2)


def test_nothing_that_is_read_or_holds_measurements_is_overwritten(edgetune, tables, tmp_path):
    sweep, plan = tmp_path / "sweep.parquet", tmp_path / "plan.yaml"
    live = ("zoo:squeezenet", "--task", "infer", "--batch-sizes", "1", "--device", "twin:orin-agx")
    assert edgetune("profile", *live, "-o", str(sweep)).code == 0
    words = ("search", tables[1], "--batch-sizes", "16", "--power-budget", "40W")
    before = sweep.read_bytes()
    for options in (
        ("-o", tables[1]),
        ("-o", str(sweep)),
        ("--trace", str(sweep)),
        ("-o", str(plan), "--trace", str(plan)),
    ):
        ended = edgetune(*words, *options)
        assert_two_lines(ended, 2)
    assert sweep.read_bytes() == before
    assert edgetune(*words, "-o", str(plan)).code == 0
    assert edgetune(*words, "-o", str(plan)).code == 0  # a plan may take the place of a plan


def test_points_of_another_network_are_not_mixed_in(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    live = ("--task", "infer", "--batch-sizes", "1,4", "--device", "twin:orin-agx", "--objective", "throughput")
    assert edgetune("search", "zoo:squeezenet", *live, "--points", points).code == 0
    ended = edgetune("search", "zoo:alexnet", *live, "--points", points)
    assert_two_lines(ended, 2)
    ended = edgetune("search", "zoo:alexnet", *live, "--known", points)
    assert ended.code == 0
