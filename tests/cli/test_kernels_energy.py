"""``edgetune schedule kernels energy``: the cheapest mode is found, said and written; and what is refused."""

import json

import pytest
from command_line import assert_two_lines

TASKS = """kind: kernel_tasks
version: 1
gpu: orin-agx
tasks:
- {name: urgent, network: small, priority: 1, arrivals: 'uniform:100/s', deadline: 4ms}
- {name: normal, network: large, arrivals: 'uniform:50/s'}
networks:
  small: {calls: [{kernel: a, grid: [64], block: [256], flop_per_block: 4e7, bytes_per_block: 64KiB}]}
  large: {calls: [{kernel: b, grid: [49, 4], block: [256], flop_per_block: 2e6, bytes_per_block: 64KiB}]}
"""
ENERGY = ("schedule", "kernels", "energy", "tasks.yaml", "--duration", "50ms", "--policy", "elastic")


@pytest.fixture(autouse=True)
def tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    return tmp_path


def test_slow_clocks_that_keep_the_deadline_are_chosen_and_a_tight_deadline_takes_faster_ones(edgetune, tasks):
    chosen = []
    for deadline in ("4ms", "0.8ms"):
        ended = edgetune(
            *ENERGY, "--modes", "grid:441", "--room", "100%", "--deadline", deadline, "-o", f"{deadline}.json"
        )
        assert ended.code == 0
        assert "SIMULATED" in ended.err
        assert "per best-effort request" in ended.out.replace("\n", " ")
        document = json.loads((tasks / f"{deadline}.json").read_text())
        assert document["simulated"] is True
        assert document["best"] in document["tried"]
        assert document["best"]["latency_s"] < {"4ms": 4e-3, "0.8ms": 0.8e-3}[deadline]
        assert len(document["tried"]) < document["combinations"]
        chosen.append(document["best"])
    assert chosen[0]["gpu_mhz"] < chosen[1]["gpu_mhz"]
    assert chosen[0]["energy_j"] < chosen[1]["energy_j"]
    assert chosen[0]["cpu_cores"] == chosen[1]["cpu_cores"] == 4


def test_impossible_deadlines_are_an_error_and_what_was_tried_is_kept(edgetune, tasks):
    ended = edgetune(*ENERGY, "--modes", "30w", "--room", "100%", "--deadline", "1us", "--quiet")
    assert ended.code == 3
    assert "error: no combination that was tried keeps the deadlines; the nearest has" in ended.err
    document = json.loads((tasks / "energy.json").read_text())
    assert document["best"] is None
    assert document["tried"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "twin:nano"), "twin"),
        (("--modes", "gpu_mhz=5"), "gpu_mhz"),
        (("--room", "0%"), "no room"),
        (("--policy", "best"), "best"),
        (("--deadline", "soon"), "soon"),
    ],
)
def test_unknown_words_are_refused(edgetune, words, said):
    ended = edgetune(*ENERGY, *words)
    assert_two_lines(ended, 2)
    assert said in ended.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("deadline: 4ms", "deadline: null", "has no deadline"),
        ("priority: 1, ", "", "no task is critical"),
        ("{name: normal,", "{name: normal, priority: 2, deadline: 1ms,", "no task is best-effort"),
    ],
)
def test_tasks_without_both_kinds_or_without_a_deadline_are_refused(edgetune, tasks, old, new, said):
    (tasks / "tasks.yaml").write_text(TASKS.replace(old, new))
    ended = edgetune(*ENERGY)
    assert ended.code == 2
    assert said in ended.err


def test_a_time_that_knows_no_clocks_is_refused_where_modes_are_compared(edgetune, tasks):
    (tasks / "tasks.yaml").write_text(TASKS.replace("flop_per_block: 2e6, bytes_per_block: 64KiB", "block_time: 30us"))
    ended = edgetune(*ENERGY)
    assert_two_lines(ended, 2)
    assert "kernel b has a block_time" in ended.err
    assert not (tasks / "energy.json").exists()


def test_a_trial_in_which_no_critical_request_comes_is_refused_with_a_duration_that_does(edgetune, tasks):
    (tasks / "tasks.yaml").write_text(TASKS.replace("uniform:100/s", "uniform:30/s"))
    words = (*ENERGY[:4], "--policy", "elastic", "--modes", "30w", "--room", "100%", "--duration")
    ended = edgetune(*words, "10ms")
    assert ended.code == 2
    assert "error: no critical request is answered in the 10 ms of a trial" in ended.err
    assert "--duration 0.1s" in ended.err
    assert edgetune(*words, "100ms").code == 0
