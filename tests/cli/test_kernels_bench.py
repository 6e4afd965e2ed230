"""``edgetune schedule kernels bench`` on the model of a GPU, and on a fake of CUDA's driver."""

import json

import pytest
from command_line import assert_two_lines

from edgetune.stages.elastic.cuda import gpu_session
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu

SHORT = ("schedule", "kernels", "bench", "A", "--turns", "1", "--duration", "5ms")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where files that nobody named are written


def test_assumptions_are_told(edgetune):
    words = ("--policy", "multistream", "--assume", "decision=45us", "--json")
    ended = edgetune(*SHORT, *words)
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["model"]["decision_s"] == pytest.approx(45e-6)


def test_a_part_of_the_multiprocessors_for_the_normal_network(edgetune):
    words = ("--policy", "sequential,multistream", "--json")
    whole, part = (json.loads(edgetune(*SHORT, *words, *more).out) for more in ((), ("--normal-sms", "4")))
    assert (whole["workloads"][0]["normal_sms"], part["workloads"][0]["normal_sms"]) == (None, 4)
    rates = [[each["normal_per_s"] for each in document["workloads"][0]["policies"]] for document in (whole, part)]
    assert rates[0][0] == rates[1][0], "sequential, which the others are compared with, stays as it is"
    assert rates[0][1] != rates[1][1]


def test_json_says_that_it_is_simulated_and_goes_to_a_file_too(edgetune, tmp_path):
    file = tmp_path / "bench.json"
    words = ("--gpu", "orin-nano", "--policy", "sequential", "--duration", "30ms")
    ended = edgetune(*SHORT, *words, "--json", "--quiet", "-o", str(file))
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["simulated"] is True
    assert document["device"] == "orin-nano"
    assert "no caches" in document["model"]["note"]
    (figures,) = document["workloads"]
    assert (figures["workload"], figures["turns"]) == ("A", 1)
    (policy,) = figures["policies"]
    assert policy["throughput_x"]["value"] == 1.0
    assert policy["p50_x"]["value"] > 1.0  # it waits for cifarnet
    assert {each["device"] for each in figures["published"]} == {"rtx-2060", "xavier"}
    assert json.loads(file.read_text(encoding="utf-8")) == document


def test_a_stopped_benchmark_keeps_finished_workloads(edgetune, tmp_path, monkeypatch):
    from edgetune.stages.elastic import bench as module

    real, asked = module.bench, []

    def bench(workload, *arguments, **options):
        asked.append(workload.name)
        if workload.name == "B":
            raise KeyboardInterrupt
        return real(workload, *arguments, **options)

    monkeypatch.setattr(module, "bench", bench)
    file = tmp_path / "bench.json"
    ended = edgetune(*SHORT, "B", "C", "--policy", "sequential", "-o", str(file))
    assert ended.code == 130, ended.err
    assert asked == ["A", "B"]
    assert [each["workload"] for each in json.loads(file.read_text(encoding="utf-8"))["workloads"]] == ["A"]


@pytest.mark.parametrize(
    "words",
    [
        ["E"],
        ["--policy", "fifo"],
        ["--gpu", "orin"],
        ["B", "--duration", "9999h"],
        ["--duration", "soon"],
        ["--sms", "16"],
        ["--device", "nvidia:0", "--assume", "host=1us"],
        ["--device", "host"],
        ["D", "--duration", "50ms", "--policy", "sequential"],
        ["LGSVL", "--load", "40%"],
    ],
)
def test_bad_input(edgetune, words):
    ended = edgetune("schedule", "kernels", "bench", "--quiet", *words)
    assert_two_lines(ended, 2)


@pytest.mark.slow  # real kernels are compiled by the real compiler
def test_on_a_gpu_that_is_a_fake(edgetune, monkeypatch):
    clock, opened = FakeClock(), gpu_session.open_gpu_session
    given = {
        "module": FakeCuda([FakeCudaGpu(sm_count=132)], clock, version=13000),
        "now_ns": clock.now_ns,
        "sleep_s": clock.sleep_s,
    }
    monkeypatch.setattr(gpu_session, "open_gpu_session", lambda index, **options: opened(index, **{**options, **given}))
    words = ("--device", "nvidia:0", "--sms", "16", "--policy", "sequential,elastic", "--duration", "20ms", "--json")
    ended = edgetune(*SHORT, *words)
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.err
    document = json.loads(ended.out)
    assert (document["simulated"], document["gpu"]["sm_count"]) == (False, 16)
    assert [policy["policy"] for policy in document["workloads"][0]["policies"]] == ["sequential", "elastic"]
