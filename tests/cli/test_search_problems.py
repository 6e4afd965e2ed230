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


def test_the_points_nearest_to_an_answer_for_two_networks(edgetune, tables):
    words = ("search", *tables, "--kind", "train+infer", "--background-batch", "16", "--arrival-rate", "20/s")
    ended = edgetune(*words, "--power-budget", "32W", "--latency-budget", "700ms", "--top", "9")
    assert ended.err.splitlines()[:7] == [
        "gpu_mhz  batch  samples/s  latency   power  why it lost",
        "    300      4         80   210 ms  15.0 W  the answer",
        "    900      4        240   172 ms  33.0 W  1 W over budget",
        "    900     16        320   825 ms  33.0 W  125 ms over budget, 1 W over budget",
        "    300     16         80   960 ms  15.0 W  260 ms over budget",
        "    900      1          0  8.00 ms  33.0 W  1 W over budget, no time left",
        "    300      1          0  20.0 ms  15.0 W  no time left",
    ]
    assert ended.err.endswith("; all 8 points of the tables\n")


def test_the_points_nearest_to_an_answer_of_requests(edgetune, tables):
    budgets = ("--power-budget", "25W", "--latency-budget", "80ms", "--arrival-rate", "60/s")
    ended = edgetune("search", tables[0], *budgets, "--top", "4")
    assert ended.err.splitlines()[:5] == [
        "gpu_mhz  batch  latency   power  why it lost",
        "    900      1  8.00 ms  20.0 W  the answer",
        "    300      1  20.0 ms  12.0 W  cannot keep up",
        "    900      4  72.0 ms  24.0 W  800% slower",
        "    300      4   110 ms  13.0 W  30 ms over budget",
    ]
    ended = edgetune("search", tables[0], "--objective", "energy", "--top", "2")
    assert "    4  22.0 ms  24.0 W  0.6% more energy" in ended.err


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


def test_a_latency_budget_without_an_arrival_rate_holds_for_a_batch(edgetune, tables):
    words = ("search", tables[0], "--power-budget", "20W", "--latency-budget", "80ms", "--objective", "throughput")
    plan = json.loads(edgetune(*words, "--json").out)
    assert plan["configuration"]["batch_size"] == 1  # 125 per s; batch 4 at 300 MHz answers 67 per s
    assert plan["warnings"][0]["advice"].startswith(BACK_TO_BACK)
    ended = edgetune("search", tables[0], "--power-budget", "20W", "--latency-budget", "7ms")
    assert_two_lines(ended, 3)
    assert "8 ms" in ended.err


def test_a_rate_given_later_says_nothing_of_batches_back_to_back(edgetune, tables):
    ended = edgetune("search", tables[0], "--power-budget", "20W", "--arrival-rate", "10/s")
    assert plan_of(ended)["warnings"] == []
    assert "back to back" not in ended.err


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
    assert "no arrivals are given" in ended.err
    assert "--arrivals uniform:60" in ended.err
    ended = edgetune(*run, "--arrivals", "uniform:10", "-o", str(tmp_path / "run.parquet"))
    assert ended.code == 0, ended.err


def test_two_networks_need_an_arrival_rate(edgetune, tables):
    words = ("search", *tables, "--kind", "train+infer", "--background-batch", "16", "--power-budget", "35W")
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert "back to back leave no time for a second network" in ended.err
    plan_of(edgetune(*words, "--arrival-rate", "20/s"))  # the hint holds


def test_missing_parts_of_a_pair_are_named_with_their_options(edgetune, tables):
    ended = edgetune("search", *tables, "--kind", "train+infer", *TWO)
    assert_two_lines(ended, 2)
    assert "--background-batch 16" in ended.lines[1]
    ended = edgetune("search", tables[0], "--kind", "train+infer", *TWO)
    assert_two_lines(ended, 2)
    assert "no train points" in ended.err


def test_two_live_networks(edgetune):
    plan = plan_of(
        edgetune(
            "search",
            "zoo:squeezenet",
            "--kind",
            "train+infer",
            "--background",
            "zoo:mobilenet_v3_large",
            "--background-batch",
            "16",
            "--batch-sizes",
            "1,4,16",
            "--device",
            "twin:orin-agx",
            "--modes",
            "gpu_mhz=114:1301",
            "--power-budget",
            "40W",
            "--latency-budget",
            "1s",
            "--arrival-rate",
            "30/s",
        )
    )
    assert plan["search"]["points_measured"] <= 15
    assert plan["inputs"]["background"]["name"] == "mobilenet_v3_large"
    assert plan["configuration"]["train_minibatches"] >= 1
    assert plan["measured"]["power_w"] <= 40


def test_two_live_inference_networks(edgetune):
    words = (
        "search", "zoo:squeezenet", "--kind", "infer+infer", "--background", "zoo:resnet18", "--batch-sizes", "1,4",
        "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301", "--arrival-rate", "30/s",
    )  # fmt: skip
    plan = plan_of(edgetune(*words, "--background-batch", "8"))
    assert plan["configuration"]["background_batch_size"] == 8
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert "--background-batch" in ended.lines[1]


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
    assert "--batch-sizes 32" in ended.lines[1]
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
    assert "did you mean power_budget_w?" in ended.lines[1]


def test_a_misspelt_kind_is_suggested(edgetune, tables):
    ended = edgetune("search", *tables, "--kind", "train+inferr")
    assert_two_lines(ended, 2)
    assert "did you mean train+infer" in ended.lines[1]


def test_tables_of_two_devices_are_refused(edgetune, tables, tmp_path):
    other = tmp_path / "other.parquet"
    words = ("profile", "zoo:squeezenet", "--task", "train", "--batch-sizes", "16", "--device", "twin:orin-agx")
    assert edgetune(*words, "-o", str(other)).code == 0
    again = tmp_path / "again.parquet"
    io.write(_of_device(io.read_profile(str(other)), "elsewhere"), again)
    ended = edgetune("search", str(other), str(again), "--power-budget", "30W")
    assert_two_lines(ended, 2)
    assert "different devices: elsewhere, twin:orin-agx" in ended.err


def _of_device(profile, name):
    from dataclasses import replace

    return replace(profile, header=replace(profile.header, conditions={**profile.header.conditions, "device": name}))


def test_tables_that_set_different_knobs_have_no_mode_in_common(edgetune, tables, tmp_path):
    train = tmp_path / "more.csv"
    train.write_text(
        TRAIN.replace("gpu_mhz,", "gpu_mhz,mem_mhz,")
        .replace("300,0.1", "300,665,0.1")
        .replace("900,0.0", "900,665,0.0")
    )
    ended = edgetune("search", tables[0], str(train), "--kind", "train+infer", "--background-batch", "16", *TWO)
    assert_two_lines(ended, 2)
    assert "mem_mhz only in learns's" in ended.err


def test_a_time_budget_counts_what_measurements_took(edgetune, tables):
    words = ("search", tables[0], "--power-budget", "40W", "--arrival-rate", "10/s", "--strategy", "exhaustive")
    ended = edgetune(*words, "--time-budget", "35s")
    assert plan_of(ended)["search"]["points_measured"] == 3  # 10 s each
    assert "time-over" in ended.err
    assert plan_of(edgetune(*words))["search"]["points_measured"] == 6


@pytest.mark.parametrize(
    ("options", "strategy"),
    [(("--time-budget", "10m"), "roofline"), ((), "roofline"), (("--reusable",), "pareto")],
)
def test_auto_takes_what_fits_and_says_so(edgetune, tables, options, strategy):
    words = ("search", tables[1], "--batch-sizes", "16", "--power-budget", "40W", "--strategy", "auto", *options)
    ended = edgetune(*words)
    assert plan_of(ended)["search"]["strategy"] == strategy
    assert ended.err.startswith(f"{strategy}: ")


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
    assert "NOT MEASURED" in ended.err


def test_with_no_time_what_was_measured_earlier_answers(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    live = ("--task", "infer", "--batch-sizes", "1,4", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    words = ("search", "zoo:squeezenet", *live, "--power-budget", "30W", "--arrival-rate", "10/s")
    assert edgetune(*words, "--points", points).code == 0
    plan = plan_of(edgetune(*words, "--strategy", "auto", "--time-budget", "10ms", "--known", points))
    assert plan["measured"]["power_w"] <= 30
    assert plan["search"]["points_measured"] == 0


def test_a_look_up_takes_no_time(edgetune, tables):
    words = ("search", tables[0], "--power-budget", "40W", "--arrival-rate", "10/s", "--strategy", "auto")
    assert plan_of(edgetune(*words, "--time-budget", "5s"))["search"]["points_measured"] >= 1


def test_reusable_needs_a_strategy_that_is(edgetune, tables):
    ended = edgetune("search", tables[1], "--power-budget", "40W", "--reusable", "--strategy", "gmd")
    assert_two_lines(ended, 2)
    assert "--strategy pareto" in ended.lines[1]


def test_known_points_of_another_device_are_refused(edgetune, tables, tmp_path):
    known = tmp_path / "known.parquet"
    words = ("zoo:squeezenet", "--task", "infer", "--batch-sizes", "1", "--device", "twin:orin-agx")
    assert edgetune("profile", *words, "-o", str(known)).code == 0
    io.write(_of_device(io.read_profile(str(known)), "elsewhere"), known)
    ended = edgetune("search", *words, "--objective", "throughput", "--known", str(known))
    assert_two_lines(ended, 2)
    assert "was measured on elsewhere, not on twin:orin-agx" in ended.err


def test_known_points_that_disagree_are_reported(edgetune, tables, tmp_path):
    known = tmp_path / "known.csv"
    known.write_text(TRAIN + "board,learns,train,16,900,0.060,33,10\n")
    ended = edgetune("search", tables[1], "--batch-sizes", "16", "--power-budget", "40W", "--known", str(known))
    assert "some differ by more than 3 %" in ended.err
    assert plan_of(ended)["measured"]["minibatch_s"] == 0.06  # the newer


def test_wavering_power_is_measured_again_and_counted(edgetune, tables):
    words = (
        "search",
        tables[1],
        "--batch-sizes",
        "16",
        "--power-budget",
        "33.5W",
        "--strategy",
        "exhaustive",
        "--json",
    )
    plan = json.loads(edgetune(*words, "--power-noise", "1.5%", "--max-points", "9").out)
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
    assert "a training" not in ended.err  # neither table nor option says how many samples an epoch has
    assert "a training on 16000 samples takes about 8 m 20 s\n" in edgetune(*accuracy, "--samples", "16000").err


def test_the_cost_of_measuring_stands_beside_the_training_it_is_for(edgetune, accuracy, tmp_path):
    header, *rows = SWEEP.splitlines()
    (tmp_path / "sweep.csv").write_text("\n".join([f"{header},duration_s", *(f"{row},10" for row in rows)]))
    measured = edgetune(*accuracy, "--samples", "16000").err
    assert "takes about 8 m 20 s; measuring took 40 s, 8.0% of it" in measured
    assert_two_lines(edgetune("search", accuracy[1], "--samples", "9"), 2)


def test_the_noise_of_gradients_stands_in_for_a_table_of_epochs(edgetune, accuracy):
    """At 900 MHz a sample takes 3.125 ms in batches of 16 and 2.5 in 32, so 32 is better from a noise of 48 on."""
    words = (*accuracy[:4], "--noise-scale")
    assert plan_of(edgetune(*words, "47"))["configuration"]["batch_size"] == 16
    assert plan_of(edgetune(*words, "49"))["configuration"]["batch_size"] == 32
    assert plan_of(edgetune(*words, "inf"))["configuration"]["batch_size"] == 32
    for wrong in (["0"], ["nan"], ["9", "--samples", "9"], ["9", *accuracy[4:6]]):
        assert_two_lines(edgetune(*words, *wrong), 2)
    assert_two_lines(edgetune("search", accuracy[1], "--noise-scale", "9"), 2)


def test_batch_sizes_that_missed_the_target_are_left_out_and_reported(edgetune, accuracy, tmp_path):
    (tmp_path / "epochs.csv").write_text(CONVERGENCE.replace("32,12,", "32,,"))
    ended = edgetune(*accuracy)
    assert plan_of(ended)["configuration"]["batch_size"] == 16
    assert "batch 32 is left out: its run missed the target" in ended.err


def test_a_convergence_table_that_lacks_a_batch_size_says_how_to_add_it(edgetune, accuracy, tmp_path):
    (tmp_path / "epochs.csv").write_text("\n".join(CONVERGENCE.splitlines()[:2]) + "\n")
    ended = edgetune(*accuracy)
    assert_two_lines(ended, 2)
    assert "--batch-sizes 32" in ended.lines[1]


def test_convergence_is_for_accuracy_only(edgetune, accuracy):
    ended = edgetune(*["train" if word == "accuracy" else word for word in accuracy])
    assert_two_lines(ended, 2)
    assert "--kind accuracy" in ended.lines[1]


def test_the_front_is_drawn(edgetune, tables, tmp_path):
    figure = tmp_path / "front.svg"
    words = ("search", tables[0], "--power-budget", "40W", "--arrival-rate", "10/s", "--plot", str(figure))
    assert edgetune(*words).code == 0
    assert "power" in figure.read_text()
    ended = edgetune(*words[:-1], str(tmp_path / "front.bmp"))
    assert_two_lines(ended, 2)


def test_nothing_that_is_read_or_holds_measurements_is_overwritten(edgetune, tables, tmp_path):
    sweep, plan = tmp_path / "sweep.parquet", tmp_path / "plan.yaml"
    live = ("zoo:squeezenet", "--task", "infer", "--batch-sizes", "1", "--device", "twin:orin-agx")
    assert edgetune("profile", *live, "-o", str(sweep)).code == 0
    words = ("search", tables[1], "--batch-sizes", "16", "--power-budget", "40W")
    before = sweep.read_bytes()
    for options, message in (
        (("-o", tables[1]), "is an input of this command, and would be lost"),
        (("-o", str(sweep)), "is a file of kind profile, and would be lost"),
        (("--trace", str(sweep)), "is a file of kind profile, and would be lost"),
        (("-o", str(plan), "--trace", str(plan)), "-o and --trace both name"),
    ):
        ended = edgetune(*words, *options)
        assert_two_lines(ended, 2)
        assert message in ended.err
    assert sweep.read_bytes() == before
    assert edgetune(*words, "-o", str(plan)).code == 0
    assert edgetune(*words, "-o", str(plan)).code == 0  # a plan may take the place of a plan


def test_points_of_another_network_are_not_mixed_in(edgetune, tmp_path):
    points = str(tmp_path / "points.parquet")
    live = ("--task", "infer", "--batch-sizes", "1,4", "--device", "twin:orin-agx", "--objective", "throughput")
    assert edgetune("search", "zoo:squeezenet", *live, "--points", points).code == 0
    ended = edgetune("search", "zoo:alexnet", *live, "--points", points)
    assert_two_lines(ended, 2)
    assert "holds squeezenet infer" in ended.err
    ended = edgetune("search", "zoo:alexnet", *live, "--known", points)
    assert "known-unused: none of the" in ended.err
    assert ended.code == 0


def test_measurements_of_another_network_are_a_first_guess(edgetune, tmp_path):
    like = str(tmp_path / "like.parquet")
    live = ("--task", "infer", "--batch-sizes", "1", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    assert edgetune("profile", "zoo:squeezenet", *live, "-o", like).code == 0
    words = ("search", "zoo:alexnet", *live, "--power-budget", "30W", "--arrival-rate", "20/s", "--like", like)
    plan = plan_of(edgetune(*words))
    assert plan["search"]["known_points"] == 0  # a guess, not a measurement
    assert plan["search"]["points_measured"] >= 1
