"""``edgetune search evaluate`` on small tables."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_two_lines

from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode
from edgetune.workflows.report.evaluation import answer, evaluation_section

HEAD = "device,workload,task,batch_size,gpu_mhz,mem_mhz,minibatch_s,power_w"


def table(path: Path, workload: str = "net", task: str = "train", *, device: str = "board", sizes=(16,)) -> str:
    lines = [HEAD]
    for size in sizes:
        for gpu in (300, 500, 700, 900, 1100):
            for mem in (600, 1600, 2100, 3200):
                time_s = 4 * (size**0.8 / gpu + 0.2 / mem) / (1 if task == "train" else 3)
                power_w = 8 + (gpu / 400) ** 2 + mem / 600
                lines.append(f"{device},{workload},{task},{size},{gpu},{mem},{time_s},{power_w}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
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


def test_a_simulated_table_says_so(edgetune, tmp_path):
    simulated = table(tmp_path / "twin.csv", "resnet18", device="twin:orin-agx")
    ended = edgetune("search", "evaluate", simulated, "--strategies", "random:9")
    assert ended.out.startswith("SIMULATED")
    answer = edgetune("search", "evaluate", simulated, "--strategies", "random:9", "--json", "-q")
    assert answer.err.startswith("SIMULATED")


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
    "strategy": ("--strategies", "rofline"),
    "grid of others": ("--grid", "fulcrum"),
    "sample": ("--sample", "10", "--all"),
    "partner": ("--family", "train+infer"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_input_is_two_lines(edgetune, train, words):
    ended = edgetune("search", "evaluate", train, *words)
    assert_two_lines(ended, 2)


def test_changing_rates(edgetune, infer, tmp_path):
    rates, out = tmp_path / "rates.csv", tmp_path / "windows.parquet"
    rates.write_text("rate_per_s\n20\n40\n60\n")
    words = ("--family", "dynamic", "--arrivals", str(rates), "--strategies", "roofline,exhaustive", "-o", str(out))
    ended = edgetune("search", "evaluate", infer, *words)
    assert ended.code == 0, ended.err
    roofline, exhaustive = (line.split() for line in ended.out.splitlines()[3:])
    assert (roofline[1:3], exhaustive[1:8]) == (["100", "0"], ["100", "0", "0.00", "0.00-0.00", *["0.00"] * 3])
    run, _ = read(Evaluation, str(out)).runs
    assert run.arrival_rate_per_s.tolist()[:4] == [20, 40, 60, 20]
    assert run.measurement_s[0] > 0
    assert run.measurement_s[3:].tolist() == [0.0] * 21


def show_evaluation(evaluation, by="strategy"):
    evaluation_section(evaluation, TextSection(), by)


def run(
    count: int, unsolved: int, excess: float = 0.0, *, workload: str = "net", strategy: str = "gmd"
) -> EvaluationRun:
    solved = np.arange(count) >= unsolved
    nothing = np.full(count, math.nan)
    return EvaluationRun(
        "infer", "t.csv", workload, None, strategy, None, 0, np.arange(count), nothing, nothing, nothing,
        np.full(count, True), solved, np.full(count, False), np.where(solved, excess, math.nan), np.full(count, 10),
        np.full(count, 0.0123), nothing, np.where(solved, 3.0, math.nan), np.where(solved, 7.0, math.nan),
    )  # fmt: skip


def evaluation(*runs: EvaluationRun) -> Evaluation:
    return Evaluation(Header.new("evaluation", 1, conditions={"family": "infer"}), runs)


def test_the_interval_of_the_mean_is_that_of_problems_drawn_anew(capsys):
    one = run(400, 0)
    mixed = replace(one, excess=np.repeat([0.0, 0.1], 200))
    show_evaluation(evaluation(mixed))
    interval, *others = capsys.readouterr().out.splitlines()[3].split()[4:8]
    low, high = map(float, interval.split("-"))
    # The mean of 400 problems, each 0 or 10 %, has a standard error of 0.25 %.
    assert (low, high) == (pytest.approx(4.51, abs=0.06), pytest.approx(5.49, abs=0.06))
    assert others == ["10.00"] * 3
    # A second seed with the same answers says nothing new.
    show_evaluation(evaluation(mixed, replace(mixed, seed=1)))
    assert capsys.readouterr().out.splitlines()[3].split()[4] == interval


def test_missing_figures_are_null_in_json():
    (result,) = answer(evaluation(run(3, 3)))["results"]
    assert (result["strategy"], result["solved"], result["solvable"]) == ("gmd", 0, 3)
    assert result["mean"] is result["p99"] is result["worst"] is result["measurement_s"] is None
    assert result["mean_low"] is result["mean_high"] is result["points_to_1_percent"] is None
