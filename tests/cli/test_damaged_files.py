"""What the fuzzer once found stays found, and what would run for ever or fill memory is refused in two lines."""

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_two_lines

from benchmarks import fuzz
from edgetune.artifacts import io
from edgetune.artifacts.io import read_any

CASES = sorted(path.parent for path in Path(__file__).with_name("damaged").glob("*/command"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_once_failed_is_answered_or_refused_in_two_lines(edgetune_raw, tmp_path, monkeypatch, case):
    shutil.copytree(case, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    ended = edgetune_raw(*shlex.split((case / "command").read_text(encoding="utf-8")))
    assert fuzz.judged(ended.code, ended.out.encode(), ended.err.encode()) == []


@pytest.mark.slow  # what it found before is above
@pytest.mark.parametrize("seed", ["11", "12", "13"])
@pytest.mark.parametrize("only", ["", "<*.onnx>"])
def test_the_fuzzer_finds_nothing_in_these_inputs(seed, only):
    command = [sys.executable, "tests/benchmarks/fuzz.py", "--jobs", "1", "--seed", seed, "--inputs", "500"]
    words = [*command, "--only", only]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Timelines of some kB whose figure would take gigabytes

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("kind", "column"), [("kernel_timeline", "sm"), ("timeline", "worker")])
def test_a_lane_of_a_number_without_end_is_refused(edgetune, tmp_path, kind, column):
    artifact = read_any(str(next(GOLDEN.rglob(f"{kind}-v1.parquet"))))
    rows = [row if getattr(row, column) is None else replace(row, **{column: 2**62}) for row in artifact.rows]
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=tuple(rows)), file)
    ended = edgetune("show", str(file), "--plot", str(tmp_path / "x.svg"))
    assert_two_lines(ended, 2)
    assert "limit figure_lanes" in ended.err
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("view", ["latency", "timeline"])
def test_a_run_of_thousands_of_tenants_is_refused(edgetune, tmp_path, view):
    artifact = read_any(str(GOLDEN / "run-v1.parquet"))
    row = next(row for row in artifact.rows if row.event == "request" and row.status == "ok")
    rows = tuple(replace(row, tenant=f"t{number}", minibatch=number) for number in range(1500))
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=rows), file)
    ended = edgetune("show", str(file), "--plot", str(tmp_path / "x.svg"), "--view", view)
    assert_two_lines(ended, 2)
    assert "limit figure_panels" in ended.err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback of gc
def test_a_drawing_ends_within_its_time(edgetune, tmp_path):
    artifact = read_any(str(GOLDEN / "run-v1.parquet"))
    row = next(row for row in artifact.rows if row.event == "request" and row.status == "ok")
    rows = tuple(replace(row, deadline_s=row.deadline_s + 0.001 * number) for number in range(10_000))
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=rows), file)
    command = ["show", str(file), "--plot", str(tmp_path / "x.svg"), "--view", "timeline"]
    ended = edgetune("--raise-limit", "figure_seconds=1", *command)
    assert_two_lines(ended, 2)
    assert "limit figure_seconds" in ended.err
    assert not (tmp_path / "x.svg").exists()


# Scenarios of a few lines that would run for ever, or fill memory

JOBS = (
    "kind: jobs\nversion: 1\nmemory: 64MiB\nnetworks: {n: {costs: costs.csv}}\njobs: [{name: a, networks: [n], %s}]\n"
)
COSTS = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s\nn,fc,fc,1000,100,%s,0.001\n"
TASKS = (
    "kind: kernel_tasks\nversion: 1\ngpu: orin-agx\nduration: 1ms\ntasks: [{name: a, network: n, arrivals: '%s'}]\n"
    "networks: {n: {calls: [{kernel: k, grid: [64], block: [64], flop_per_block: %s}]}}\n"
)
BENCHMARK = "kind: kernel_tasks\nversion: 1\ntasks: [{name: a, network: n}]\nnetworks: {n: {mdtb: %s}}\n"


@pytest.fixture
def run(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(text, *, costs="0.001"):
        (tmp_path / "costs.csv").write_text(COSTS % costs)
        (tmp_path / "x.yaml").write_text(text)
        command = ["schedule", "run", "x.yaml", "--simulate"] if text.startswith("kind: jobs") else []
        return edgetune(*(command or ["schedule", "kernels", "simulate", "x.yaml"]), "-q")

    return invoke


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JOBS % "count: 1000000000", "limit requests"),
        (JOBS % "arrivals: periodic:1ns, count: 60000", "limit requests"),
        (JOBS % "arrivals: 'trace:/dev/zero'", "limit file_bytes"),
        (JOBS % "arrivals: [1e300s]", "too large to compute with"),
        (JOBS % "arrivals: [99999999999s]", "longer than three years"),
        (JOBS % "count: 2, deadline: 1e300h", "too large to compute with"),
        ((JOBS % "count: 2").replace("64MiB", "1e300GiB"), "too large to compute with"),
        (TASKS % ("closed:1000000000", "1e5"), "limit clients"),
        (TASKS % ("poisson:1e-300/s", "1e5"), "less than one request in three years"),
        (TASKS % ("uniform:1e12", "1e5"), "limit simulated_launches"),
        (TASKS % ("trace:/dev/zero", "1e5"), "limit file_bytes"),
        (TASKS % ("closed", "1e300"), "kernel k takes about"),
        (BENCHMARK % "resnet, sizes: {side: 1000000000}", "limit kernel_size"),
        (BENCHMARK % "lstm, sizes: {steps: 1000000000}", "limit kernel_size"),
    ],
)
def test_a_scenario_without_end_is_refused(run, text, words):
    ended = run(text)
    assert_two_lines(ended, 2)
    assert words in ended.err


def test_a_raised_limit_holds_for_one_command(edgetune, run, tmp_path):
    ended = run(JOBS % "count: 10")
    assert ended.code == 0, ended.err
    arguments = ["schedule", "run", "x.yaml", "--simulate", "-q", "--force"]
    refused = edgetune("--raise-limit", "requests=9", *arguments)
    assert_two_lines(refused, 2)
    assert "edgetune --raise-limit requests=10 COMMAND" in refused.err
    assert edgetune("--raise-limit", "requests=10", *arguments).code == 0
