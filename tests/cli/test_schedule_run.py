"""``edgetune schedule run --simulate``: jobs in, a timeline and its figures out; and what is refused."""

import json
import signal
from random import Random

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.artifacts.timeline import Timeline
from edgetune.cli.screen import SIMULATED
from edgetune.stages.schedule.policies.policy import FirstComeFirstServed

COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s
faces,conv1,conv,1000000,100000,0.010,0.020
faces,fc6,fc,30000000,1000,0.300,0.010
age,conv1,conv,2000000,100000,0.020,0.030
age,fc6,fc,10000000,1000,0.100,0.010
"""
JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: COSTS}, old: {costs: COSTS, network: age}}
jobs:
- {name: photos, networks: [faces, old], arrivals: normal, intensity: 0.8, count: 10, deadline: 1s}
- {name: late, networks: [old], after: [photos]}
"""
JOBS_OF_ONE = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.parquet}}
jobs: [{name: photos, networks: [faces], arrivals: batch, count: 2}]
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "costs.csv").write_text(COSTS)

    def write(text=JOBS):
        (tmp_path / "jobs.yaml").write_text(text.replace("COSTS", "costs.csv"))
        return "jobs.yaml"

    return write


def measured_costs(path):
    """A table as edgetune schedule profile writes it: with what the process takes."""
    told = {"machine": {"base_bytes": 20 << 20}, "usable_cores": 2}
    layer = LayerCostRow("faces", "fc", "fc", 8 << 20, 1000, 0.1, 0.1, sessions_bytes=1 << 20)
    path.write_bytes(LayerCosts(Header.new("layer_costs", 1, conditions=told), (layer,)).to_bytes())


def simulate(edgetune, file, *more):
    return edgetune("schedule", "run", file, "--simulate", "-o", "t.parquet", *more)


def test_process_memory_is_simulated_if_measured(edgetune, jobs, tmp_path):
    measured_costs(tmp_path / "costs.parquet")
    file = jobs(JOBS_OF_ONE)
    answer = json.loads(simulate(edgetune, file, "--policy", "bulk,masa", "--json").out)
    whole, layers = answer["policies"]
    assert whole["responses"]["longest_s"] == pytest.approx(2 * 0.2, abs=0.01), "put together from its layers"
    assert layers["memory"]["budget_bytes"] == (64 - 21 - 8) << 20
    assert layers["memory"]["peak_bytes"] == (21 + 8 << 20) + 1000, "both use the same weights"
    for more in ([], ["--dry-run"]):
        ended = simulate(edgetune, file, "--memory", "29MiB", *more)
        assert ended.code == 3
        assert simulate(edgetune, file, "--memory", "39MiB", *more).code == 0


def test_policies_are_compared_and_every_event_is_written(edgetune, jobs, tmp_path):
    ended = simulate(edgetune, jobs(), "--policy", "bulk,masa,reuse", "--turns", "2")
    assert ended.code == 0
    assert ended.err.startswith("SIMULATED")
    assert ended.err.splitlines()[1:] == [
        "bulk, turn 1", "masa, turn 1", "reuse, turn 1", "reuse, turn 2", "masa, turn 2", "bulk, turn 2",
        "wrote t.parquet",
    ]  # fmt: skip
    lines = [line.split() for line in ended.out.splitlines()]
    assert [line[:2] for line in lines[1:4]] == [["bulk", "42/42"], ["masa", "42/42"], ["reuse", "42/42"]]
    timeline = io.read(Timeline, "t.parquet")
    assert timeline.header.simulated
    assert timeline.header.conditions["limit_bytes"] == 64 * 2**20
    assert [each["name"] for each in timeline.header.inputs["networks"]] == ["faces", "old"]
    requests = [row for row in timeline.rows if row.event == "request"]
    assert len(requests) == 3 * 2 * 21
    arrivals = {
        (policy, turn): [
            row.arrived_s
            for row in sorted(requests, key=lambda row: row.request)
            if (row.policy, row.turn) == (policy, turn)
        ]
        for policy in ("bulk", "masa", "reuse")
        for turn in (0, 1)
    }
    assert arrivals["bulk", 0] == arrivals["reuse", 0] != arrivals["bulk", 1] == arrivals["reuse", 1]
    late = [row for row in requests if row.job == "late"]
    for each in late:
        same = [row for row in requests if (row.policy, row.turn, row.job) == (each.policy, each.turn, "photos")]
        assert each.started_s >= max(row.finished_s for row in same)


def test_a_dry_run_says_what_would_run(edgetune, jobs, tmp_path):
    ended = simulate(edgetune, jobs(), "--dry-run", "--policy", "bulk,reuse", "--turns", "3")
    assert (ended.code, ended.out) == (0, "")
    assert not (tmp_path / "t.parquet").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("network: age", "network: aeg"),
        ("{costs: COSTS}", "zoo:alexnet"),
        ("memory: 64MiB", "memory: 8MiB"),
        ("memory: 64MiB\n", ""),
    ],
)
def test_a_file_that_cannot_be_run_is_two_lines(edgetune, jobs, old, new):
    assert old in JOBS
    assert simulate(edgetune, jobs(JOBS.replace(old, new))).code in (2, 3)


@pytest.mark.parametrize(
    "more",
    [
        ["--policy", "mase"],
        ["--policy", "fcfs:code"],
        ["--memory", "1e9TiB"],
        ["--limit", "jail"],
        ["--view", "gantt"],
        ["--plot", "t.parquet"],
        ["-o", "costs.csv"],
    ],
)
def test_options_that_make_no_sense_are_two_lines(edgetune, jobs, tmp_path, more):
    ended = edgetune("schedule", "run", jobs(), "--simulate", "-o", "t.parquet", *more)
    assert_two_lines(ended, 2)
    assert not (tmp_path / "t.parquet").exists()


def test_costs_that_are_not_here_are_found_beside_the_jobs(edgetune, jobs, tmp_path, monkeypatch):
    jobs()
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    assert simulate(edgetune, "../jobs.yaml").code == 0
    (here / "costs.csv").write_text(COSTS.replace("faces", "others"))
    ended = simulate(edgetune, "../jobs.yaml")  # a file of that name here comes first
    assert_two_lines(ended, 2)


ODD = (
    "", " ", "trace:", "trace", "trace:@60/s", "-", ":", "~", "0", "-1", "nan", "1e999s", "live", "list", "batch:3",
    "closed:", "closed:0", "normal:", "normal:1s,", "uniform:1-", "\0", "x" * 300, None, True, 0, -1, 0.5, 10**30, [],
    {}, [[]], ["0s"], {"a": 1},
)  # fmt: skip
WHOLE = {
    "kind": "jobs", "version": 1, "memory": "64MiB", "workers": 2, "policy": "reuse", "seed": 1,
    "networks": {"faces": {"costs": "costs.csv", "network": "faces", "model": None, "inputs": None}},
    "jobs": [
        {
            "name": "photos", "networks": ["faces"], "arrivals": "batch", "intensity": None, "count": 2,
            "choose": "all", "deadline": "1s", "after": [],
        }
    ],
}  # fmt: skip


@pytest.mark.parametrize("drawn", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["drawn", "all"])
@pytest.mark.parametrize("key", [*WHOLE, *WHOLE["networks"]["faces"], *WHOLE["jobs"][0]])
def test_no_word_of_a_file_of_jobs_is_an_unexpected_error(edgetune_raw, jobs, tmp_path, key, drawn):
    jobs()
    for odd in Random(key).sample(ODD, 6) if drawn else ODD:
        for arrivals in ("batch", "normal") if key in WHOLE["jobs"][0] else ("batch",):
            network, job = ({**part} for part in (WHOLE["networks"]["faces"], WHOLE["jobs"][0]))
            job |= {"arrivals": arrivals, "intensity": 0.5 if arrivals == "normal" else None}
            whole = {**WHOLE, "networks": {"faces": network}, "jobs": [job]}
            next(part for part in (whole, network, job) if key in part)[key] = odd
            for part in (network, job):
                for name in [name for name, value in part.items() if value is None and name != key]:
                    del part[name]
            (tmp_path / "jobs.json").write_text(json.dumps(whole))
            ended = simulate(edgetune_raw, "jobs.json", "--json", "--force")
            assert ended.code in (0, 2, 3), (odd, arrivals, ended.err)
            assert ended.code == 0 or len(ended.err.removeprefix(f"{SIMULATED}\n").splitlines()) == 2, ended.err


STOPPING_COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s
faces,conv1,conv,1000000,100000,0.010,0.020
faces,fc6,fc,30000000,1000,0.300,0.010
"""
STOPPING_JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: periodic:100ms, count: 1000}]
"""


def test_a_signal_ends_a_simulation_between_events_and_what_there_was_is_written(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "costs.csv").write_text(STOPPING_COSTS)
    (tmp_path / "jobs.yaml").write_text(STOPPING_JOBS)
    real, asked = FirstComeFirstServed.choose, []

    def interrupted(self, view):
        asked.append(view.now_ns)
        if len(asked) == 20:
            signal.raise_signal(signal.SIGINT)
        return real(self, view)

    monkeypatch.setattr(FirstComeFirstServed, "choose", interrupted)
    ended = edgetune("schedule", "run", "jobs.yaml", "--simulate", "--policy", "fcfs,bulk", "-o", "t.parquet")
    assert ended.code == 128 + signal.SIGINT
    assert len(asked) < 30
    rows = io.read(Timeline, "t.parquet").rows
    assert {row.policy for row in rows} == {"fcfs"}
    assert {row.reason for row in rows if row.status == "abandoned"} == {"the run was stopped"}
