"""Scenarios of a few lines that would run for ever, or fill memory, are refused in two lines."""

import pytest
from command_line import assert_two_lines

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


def test_a_layer_that_takes_for_ever_is_refused(run):
    ended = run(JOBS % "count: 2", costs="1e300")
    assert_two_lines(ended, 2)
    assert "load_s is 1e+300" in ended.err


def test_a_raised_limit_holds_for_one_command(edgetune, run, tmp_path):
    ended = run(JOBS % "count: 10")
    assert ended.code == 0, ended.err
    arguments = ["schedule", "run", "x.yaml", "--simulate", "-q", "--force"]
    refused = edgetune("--raise-limit", "requests=9", *arguments)
    assert_two_lines(refused, 2)
    assert "edgetune --raise-limit requests=10 COMMAND" in refused.err
    assert edgetune("--raise-limit", "requests=10", *arguments).code == 0
