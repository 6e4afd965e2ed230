"""``edgetune search evaluate`` on small tables."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_two_lines

from edgetune.artifacts.evaluation import Evaluation
from edgetune.artifacts.io import read, write
from edgetune.errors import ExitCode

HEAD = "device,workload,task,batch_size,gpu_mhz,mem_mhz,minibatch_s,power_w"


def table(path: Path, workload: str = "net", task: str = "train", *, device: str = "board", sizes=(16,)) -> str:
    lines = [HEAD]
    for size in sizes:
        for gpu in (300, 500, 700, 900, 1100):
            for mem in (600, 1600, 2100, 3200):
                time_s = 4 * (size**0.8 / gpu + 0.2 / mem) / (1 if task == "train" else 3)
                power_w = 8 + (gpu / 400) ** 2 + mem / 600
                lines.append(f"{device},{workload},{task},{size},{gpu},{mem},{time_s},{power_w}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where files that nobody named are written


@pytest.fixture
def train(tmp_path):
    return table(tmp_path / "train.csv")


@pytest.fixture
def infer(tmp_path):
    return table(tmp_path / "infer.csv", task="infer", sizes=(1, 4, 16))


def test_a_table_for_people(edgetune, train):
    ended = edgetune("search", "evaluate", train, "--strategies", "gmd,random:20", "--jobs", "1")
    assert ended.code == 0
    caption, legend, head, gmd, everything = ended.out.splitlines()
    assert caption == "train, 23 solvable problems: time over the best, of the solved; over: answers over budget"
    assert head.split()[:4] == ["strategy", "solved", "%", "over"]
    assert "to 3/1 %: points until half the problems are that near the best" in legend
    assert gmd.split()[0] == "gmd"
    # random:20 measures every point there is
    assert everything.split()[1:9] == ["100", "0", "0.00", "0.00-0.00", *["0.00"] * 3, "20"]
    near, nearer = map(int, everything.split()[9].split("/"))
    assert 1 <= near <= nearer <= 20
    assert max(map(len, ended.out.splitlines())) <= 100
    assert "train: 23 problems, 23 of them solvable" in ended.err


def test_json_has_the_same_figures(edgetune, train):
    ended = edgetune("search", "evaluate", train, "--strategies", "random:20", "--json", "-q")
    answer = json.loads(ended.out)
    assert (answer["simulated"], answer["family"], answer["grids"]) == (False, "train", ["auto"])
    (result,) = answer["results"]
    assert result["strategy"] == "random:20"
    assert result["solved"] == result["solvable"] == answer["problems"]["solvable"]
    assert (result["mean"], result["violations"], result["measurement_s"]) == (0.0, 0, None)
    assert result["mean_low"] == result["mean_high"] == result["worst"] == 0.0
    assert 1 <= result["points_to_3_percent"] <= result["points_to_1_percent"] <= 20
    assert ended.err == ""


def test_the_file_has_a_row_per_problem_and_run(edgetune, infer, tmp_path):
    out = tmp_path / "results.parquet"
    words = ("--strategies", "random:9,gmd:3", "--seeds", "2", "--sample", "30", "--jobs", "1")
    ended = edgetune("search", "evaluate", infer, *words, "-o", str(out))
    assert ended.code == 0, ended.err
    evaluation = read(Evaluation, str(out))
    assert [(run.contender, run.seed) for run in evaluation.runs] == [
        ("random:9", 0), ("random:9", 1), ("gmd:3", 0), ("gmd:3", 1)
    ]  # fmt: skip
    assert {len(run.problem) for run in evaluation.runs} == {30}
    assert all(run.solvable.all() for run in evaluation.runs)
    assert evaluation.header.inputs["tables"][0]["name"].endswith("infer.csv")
    assert evaluation.header.conditions["problems"]["replayed"] == 30
    assert not evaluation.header.simulated
    shown = edgetune("show", str(out))
    assert shown.code == 0
    assert "random:9" in shown.out


def test_a_file_of_removed_options_is_shown(edgetune, train, tmp_path):
    assert edgetune("search", "evaluate", train, "--strategies", "roofline:3", "--sample", "3").code == 0
    made = read(Evaluation, "evaluation.parquet")
    conditions = {**made.header.conditions, "simulated": True, "published": True}
    for name, law in (("study", None), ("other", "falling")):
        named = conditions if law is None else {**conditions, "misspecified": law}
        write(replace(made, header=replace(made.header, conditions=named)), tmp_path / f"{name}.parquet")
        shown = edgetune("show", str(tmp_path / f"{name}.parquet"))
        assert shown.code == 0, shown.err
        assert "roofline:3" in shown.out
        assert ("flatter" in shown.out) == (law is None)
        assert edgetune("show", str(tmp_path / f"{name}.parquet"), "--json").code == 0


def test_every_table_is_the_relative_of_the_others_on_its_device(edgetune, tmp_path, monkeypatch):
    from edgetune.stages.search.evaluation import answering

    given: dict[str, set[str]] = {}

    def searching(problem, space, measure, settings):
        given[space.points[0].workload] = {row.workload for row in settings.hints.relatives}
        return run_search(problem, space, measure, settings)

    run_search = answering.run_search
    monkeypatch.setattr(answering, "run_search", searching)
    tables = [table(tmp_path / f"{name}.csv", name) for name in ("a", "b")]
    tables.append(table(tmp_path / "far.csv", "c", device="elsewhere"))
    words = ("--strategies", "roofline:2", "--sample", "9", "--jobs", "1", "--json")
    alone = edgetune("search", "evaluate", *tables, *words)
    assert given == {"a": set(), "b": set(), "c": set()}
    related = edgetune("search", "evaluate", *tables, *words, "--like", "others")
    assert given == {"a": {"b"}, "b": {"a"}, "c": set()}
    assert "without relatives, for want of another network on the same device: c on elsewhere" in related.err
    assert (json.loads(related.out)["like"], "like" in json.loads(alone.out)) == ("others", False)


def test_a_simulated_table_says_so(edgetune, tmp_path):
    simulated = table(tmp_path / "twin.csv", "resnet18", device="twin:orin-agx")
    figure = tmp_path / "excess.svg"
    ended = edgetune("search", "evaluate", simulated, "--strategies", "random:9", "--plot", str(figure))
    assert ended.out.startswith("SIMULATED")
    assert "train: 41 problems, " in ended.err
    assert "SIMULATED" in figure.read_text()
    answer = edgetune("search", "evaluate", simulated, "--strategies", "random:9", "--json", "-q")
    assert answer.err.startswith("SIMULATED")


def test_pairs_come_from_two_tables(edgetune, train, infer):
    ended = edgetune(
        "search", "evaluate", train, infer, "--family", "train+infer", "--strategies", "random:100", "--by", "workload"
    )
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[3].split()[:2] == ["random:100", "net+net"]
    assert "background throughput lost" in ended.out
    assert "background batch sizes: net 16" in ended.err


def test_the_newer_of_two_measurements_stands_and_it_is_said(edgetune, train, tmp_path):
    other = tmp_path / "again.csv"
    other.write_text(Path(train).read_text().replace("0.1", "0.9"))
    ended = edgetune("search", "evaluate", train, str(other), "--strategies", "random:20")
    assert ended.code == 0
    assert "duplicate-points" in ended.err


def test_stopped_half_way_what_was_done_is_reported_and_kept(edgetune, train, tmp_path, monkeypatch):
    from edgetune.stages.search.evaluation import runner

    whole, calls = runner.EvaluationTask.run, []

    def stopping(self, case):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, case)

    monkeypatch.setattr(runner.EvaluationTask, "run", stopping)
    out = tmp_path / "part.parquet"
    ended = edgetune("search", "evaluate", train, "--strategies", "random:9,gmd", "--jobs", "1", "-o", str(out))
    assert ended.code == ExitCode.INTERRUPTED
    assert "gmd" in ended.out
    evaluation = read(Evaluation, str(out))
    assert [caution.code for caution in evaluation.header.warnings] == ["stopped-early"]
    assert np.sum(evaluation.runs[1].solved) > 0


BAD = {
    "family": (("--family", "trian"), "did you mean train"),
    "strategy": (("--strategies", "rofline"), "did you mean roofline"),
    "points": (("--strategies", "random:many"), "whole number"),
    "grid": (("--grid", "fulcum"), "fulcrum"),
    "grid of others": (("--grid", "fulcrum"), "no train problems of net"),
    "sample": (("--sample", "10", "--all"), "exclude each other"),
    "noise": (("--noise", "3x"), "--noise"),
    "figure": (("--plot", "figure.gif"), ".svg, .png or .pdf"),
    "grouping": (("--by", "device"), "workload"),
    "partner": (("--family", "train+infer"), "no table has infer rows"),
    "accuracy": (("--family", "accuracy"), "--convergence FILE"),
    "convergence": (("--convergence", "c.csv"), "--family accuracy"),
    "arrivals": (("--arrivals", "a.csv"), "--family dynamic"),
    "relatives": (("--like", "othres"), "did you mean others"),
    "relatives of one table": (("--like", "others"), "give tables of several networks"),
    "folder": (("-o", "nowhere/results.parquet"), "cannot write"),
}


@pytest.mark.parametrize(("words", "told"), BAD.values(), ids=BAD)
def test_bad_input_is_two_lines(edgetune, train, words, told):
    ended = edgetune("search", "evaluate", train, *words)
    assert_two_lines(ended, 2)
    assert told in ended.err


def test_all_networks_of_the_study_are_held_against_its_count(edgetune, tmp_path):
    from edgetune.stages.search.evaluation.problems import STUDY_NETWORKS

    tables = [table(tmp_path / f"{name}.csv", name, device="twin:orin-agx") for name in STUDY_NETWORKS["train"]]
    ended = edgetune("search", "evaluate", *tables, "--strategies", "random:9")
    assert "train: 215 problems (the study: about 215), " in ended.err
    assert "bert_base 51, " in ended.err


def test_time_to_accuracy(edgetune, tmp_path):
    epochs, several = tmp_path / "epochs.csv", table(tmp_path / "train.csv", sizes=(8, 16, 32))
    epochs.write_text("workload,batch_size,epochs\nproxy,8,30\nproxy,16,24\nproxy,32,40\n")
    words = (
        "--family",
        "accuracy",
        "--convergence",
        str(epochs),
        "--strategies",
        "exhaustive,roofline:4",
        "--jobs",
        "1",
    )
    ended = edgetune("search", "evaluate", several, *words)
    assert ended.code == 0, ended.err
    exhaustive, roofline = (line.split() for line in ended.out.splitlines()[3:])
    assert exhaustive[2:8] == ["0", "0.00", "0.00-0.00"] + ["0.00"] * 3
    assert roofline[2] == "0"
    epochs.write_text("workload,batch_size,epochs\nproxy,8,30\nproxy,16,24\n")
    ended = edgetune("search", "evaluate", several, *words)
    assert_two_lines(ended, 2)
    assert "how many epochs batch size 32 takes is not known" in ended.err


def test_a_batch_size_that_missed_the_target_is_left_out(edgetune, tmp_path):
    epochs, several = tmp_path / "epochs.csv", table(tmp_path / "train.csv", sizes=(8, 16))
    epochs.write_text("workload,batch_size,epochs\nproxy,8,30\nproxy,16,\n")
    words = ("--family", "accuracy", "--convergence", str(epochs), "--strategies", "random:40")
    ended = edgetune("search", "evaluate", several, *words)
    assert ended.code == 0, ended.err
    assert "batch 16 is left out: its run missed the target" in ended.err
    assert ended.out.splitlines()[3].split()[8] == "20"  # points: those of batch 8


def test_epochs_of_another_network_are_no_stand_in_where_there_are_several(edgetune, train, tmp_path):
    files = []
    for name in ("a", "b"):
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text(f"workload,batch_size,epochs\n{name},16,24\n")
    words = ("--convergence", str(files[0]), "--convergence", str(files[1]))
    ended = edgetune("search", "evaluate", train, "--family", "accuracy", *words)
    assert_two_lines(ended, 2)
    assert "none of the convergence tables is of net" in ended.err


def test_a_table_without_power_is_refused_by_name(edgetune, train, tmp_path):
    bare = tmp_path / "bare.csv"
    lines = Path(train).read_text().splitlines()
    bare.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    ended = edgetune("search", "evaluate", str(bare))
    assert_two_lines(ended, 2)
    assert "bare.csv has no power figures" in ended.err


def test_tables_with_contradictory_knobs(edgetune, train, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(Path(train).read_text().replace(",mem_mhz", ",cpu_mhz"))
    ended = edgetune("search", "evaluate", train, str(other))
    assert_two_lines(ended, 2)
    assert "train.csv + " in ended.err
    assert "some points set cpu_mhz and others leave it as found" in ended.err


def test_both_tasks_need_a_family(edgetune, train, infer):
    ended = edgetune("search", "evaluate", train, infer)
    assert_two_lines(ended, 2)
    assert "--family train or infer" in ended.err


def test_changing_rates(edgetune, infer, tmp_path):
    rates, out = tmp_path / "rates.csv", tmp_path / "windows.parquet"
    rates.write_text("rate_per_s\n20\n40\n60\n")
    words = ("--family", "dynamic", "--arrivals", str(rates), "--strategies", "roofline,exhaustive", "-o", str(out))
    ended = edgetune("search", "evaluate", infer, *words)
    assert ended.code == 0, ended.err
    assert "24 windows with 20 to 60 requests per s, 2 h 00 m in all" in ended.err
    assert "40 minibatches and 5 s" in ended.err
    roofline, exhaustive = (line.split() for line in ended.out.splitlines()[3:])
    assert (roofline[1:3], exhaustive[1:8]) == (["100", "0"], ["100", "0", "0.00", "0.00-0.00", *["0.00"] * 3])
    run, _ = read(Evaluation, str(out)).runs
    assert run.arrival_rate_per_s.tolist()[:4] == [20, 40, 60, 20]
    assert run.measurement_s[0] > 0
    assert run.measurement_s[3:].tolist() == [0.0] * 21


def test_a_window_without_requests_is_no_problem(edgetune, infer, tmp_path):
    rates = tmp_path / "rates.csv"
    rates.write_text("rate_per_s\n20\n0\n0\n")
    words = ("--family", "dynamic", "--arrivals", str(rates), "--strategies", "exhaustive")
    ended = edgetune("search", "evaluate", infer, *words)
    assert "8 windows with 0 to 20 requests per s" in ended.err
    assert "8 of 8 windows are solvable" in ended.err
    assert ended.out.startswith("dynamic, 8 solvable problems")


@pytest.mark.parametrize(("words", "told"), [
    (("--scale", "0/s"), "above zero"),
    (("--scale", "60"), "--scale"),
    (("--sample", "3"), "every window is replayed"),
    (("--arrivals", "nowhere.csv"), "nowhere.csv does not exist"),
    (("--power-budget", "forty"), "--power-budget"),
])  # fmt: skip
def test_bad_traffic_is_two_lines(edgetune, infer, words, told):
    ended = edgetune("search", "evaluate", infer, "--family", "dynamic", *words)
    assert_two_lines(ended, 2)
    assert told in ended.err


def test_changing_rates_need_inference(edgetune, train):
    ended = edgetune("search", "evaluate", train, "--family", "dynamic")
    assert_two_lines(ended, 2)
    assert "no table has infer rows" in ended.err
