"""``edgetune interleave``: from a plan or networks to a run, on the clock and for real."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from chain_inputs import small_network
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point
from edgetune.artifacts.run import Run, RunRow
from edgetune.cli.main import run
from edgetune.devices.host import open_host
from edgetune.errors import InputError
from edgetune.stages.interleave.simulated import Fault
from edgetune.stages.interleave.summary import summarise
from edgetune.workflows.interleave import turns
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.interleave.points import TenantMeasurements, measure_shared
from edgetune.workflows.interleave.tenants import TenantSpec, tenants_of_options, tenants_of_plan
from edgetune.workflows.interleave.turns import Turns
from edgetune.workflows.report.run import compared
from edgetune.workloads.resolve import resolve

TWIN = ("--device", "twin:orin-agx")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan for two networks on the twin: 40 requests per second, 300 ms, 30 W."""
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    pair = ("--kind", "train+infer", "--background", "zoo:resnet18", "--background-batch", "16")
    budgets = ("--power-budget", "30W", "--latency-budget", "300ms", "--arrival-rate", "40/s")
    offer = ("--batch-sizes", "1,4,8,16", "--modes", "grid:441")
    assert run(["search", "zoo:mobilenet_v2", *pair, *budgets, *offer, *TWIN, "-q", "-o", str(path)]) == 0
    return str(path)


@pytest.fixture
def network(tmp_path):
    """A folder with a network and a training file small enough for a test."""
    return small_network(tmp_path)


def live(*more):
    """Options of a short real run of the two."""
    pair = ("--infer", "small.onnx", "--train", "train.py", "--device", "host", "--batch-size", "2")
    return ("interleave", *pair, "--latency-budget", "2s", "--arrivals", "uniform:40", "--duration", "1s", *more)


def test_a_plan_runs_on_the_clock_as_the_equations_say(edgetune, plan, tmp_path):
    ended = edgetune("interleave", plan, *TWIN, "--duration", "60s", "-o", str(tmp_path / "run.parquet"), "--json")
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    answer = json.loads(ended.out)
    (summary,) = answer["engines"]
    (answered,), (trained,) = summary["answered"], summary["trained"]
    found = read(Run, str(tmp_path / "run.parquet"))
    assert found.header.simulated
    assert {row.engine for row in found.rows} == {"simulated"}
    requests = [row for row in found.rows if row.event == "request"]
    assert len(requests) == 60 * 40 - 1  # the last comes when time is up
    assert all(row.met for row in requests)
    assert answered["violations"] == 0
    assert [tenant["name"] for tenant in found.header.inputs["tenants"]] == ["mobilenet_v2", "resnet18"]
    explained = json.loads(edgetune("interleave", plan, *TWIN, "--json", "--explain").out)
    assert explained["cycle"]["throughput_per_s"] == pytest.approx(80.0)  # one minibatch of 16 every 8 / 40 s
    assert trained["samples_per_s"] >= 80.0
    assert answered["latency_peak_s"] <= 0.3


def test_a_pipe_from_search(shell, plan):
    ended = shell("interleave", "-", *TWIN, "--duration", "5s", stdin=Path(plan).read_bytes())
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    "more",
    [
        ("--arrivals", "uniform:-4"),
        ("--engine", "native"),
        ("--plot", "figure.jpg"),
        ("--power-budget", "30W,20W"),
        ("--arrivals", "-"),
    ],
)
def test_invalid_requests_are_refused(edgetune, plan, more):
    assert_two_lines(edgetune("interleave", plan, *TWIN, *more), 2)


@pytest.mark.parametrize("more", [("--arrivals", "uniform:400")])
def test_an_infeasible_rate_is_refused_with_the_nearest_feasible_one(edgetune, plan, more):
    ended = edgetune("interleave", plan, *TWIN, *more)
    assert ended.code == 3
    assert [line.partition(":")[0] for line in ended.lines[-2:]] == ["error", "hint"]


TENANTS = """
kind: tenants
version: 1
tenants:
- {name: camera, infer: zoo:mobilenet_v2, arrivals: 'uniform:10', latency_budget: 400ms, batch_size: 4}
- {name: sound, infer: zoo:lstm, arrivals: 'poisson:5', latency_budget: 300ms}
- {name: night, train: zoo:resnet18, batch_size: 8, weight: 2}
- {name: day, train: zoo:mobilenet_v2, batch_size: 8}
"""


def test_four_tenants_from_a_file(edgetune, tmp_path):
    (tmp_path / "tenants.yaml").write_text(TENANTS)
    told = ("--duration", "60s", "-o", str(tmp_path / "run.parquet"), "--json")
    ended = edgetune("interleave", str(tmp_path / "tenants.yaml"), *TWIN, *told)
    assert ended.code == 0, ended.err
    (summary,) = json.loads(ended.out)["engines"]
    assert {each["tenant"]: each["violations"] for each in summary["answered"]} == {"camera": 0, "sound": 0}
    rows = [row for row in read(Run, str(tmp_path / "run.parquet")).rows if row.event == "train"]
    day_s, night_s = (sum(row.finished_s - row.started_s for row in rows if row.tenant == t) for t in ("day", "night"))
    assert night_s / day_s == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 7"),
        ("weight: 2", "wieght: 2"),
        ("latency_budget: 400ms, ", ""),
        ("batch_size: 8, weight: 2", "checkpoint: tenants.yaml"),
    ],
)
def test_a_bad_file_of_tenants(edgetune, tmp_path, monkeypatch, *, old, new):
    assert old in TENANTS
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenants.yaml").write_text(TENANTS.replace(old, new))
    ended = edgetune("interleave", "tenants.yaml", *TWIN)
    assert_two_lines(ended, 2)


@pytest.mark.parametrize("more", [("--engine", "managed,native")])
def test_standard_input_is_for_one_turn_in_real_time(edgetune, network, monkeypatch, more):
    monkeypatch.chdir(network)
    ended = edgetune(*live("--arrivals", "-", *more))
    assert_two_lines(ended, 2)


def test_turns_before_a_failed_engine_are_kept(edgetune, plan, tmp_path, monkeypatch):
    runs = Turns._one

    def fails(turns, engine, turn):
        if turn:
            raise InputError("the engine broke", "mend it")
        runs(turns, engine, turn)

    monkeypatch.setattr(Turns, "_one", fails)
    path = tmp_path / "run.parquet"
    ended = edgetune("interleave", plan, *TWIN, "--duration", "5s", "--turns", "2", "-o", str(path))
    assert ended.code == 2
    assert {row.turn for row in read(Run, str(path)).rows} == {0}


def test_requests_arrive_once_all_is_ready(edgetune, network, monkeypatch):
    opens = turns.power_watcher

    def slowly(*given, **more):
        time.sleep(0.5)
        return opens(*given, **more)

    monkeypatch.chdir(network)
    monkeypatch.setattr(turns, "power_watcher", slowly)
    options = ("--engine", "native", "--arrivals", "closed:2", "--best-effort", "-o", "run.parquet")
    ended = edgetune(*live(*options))
    assert ended.code == 0, ended.err
    requests = [row for row in read(Run, "run.parquet").rows if row.event == "request"]
    assert [row.arrived_s for row in requests[:2]] == [0.0, 0.0]
    assert requests[0].finished_s < 0.3


@pytest.mark.slow  # a minute of five live engines, which other programs on the machine make longer
def test_every_engine_for_real(shell, network):
    several = "managed,native,streams,simulated,simulated-native"
    engines = ("--engine", several, "-o", "run.parquet", "--checkpoint", "state.txt")
    ended = shell(*live(*engines))
    assert ended.code == 0, ended.err
    found = read(Run, str(network / "run.parquet"))
    for engine in several.split(","):
        rows = [row for row in found.rows if row.engine == engine]
        requests = [row for row in rows if row.event == "request"]
        assert len(requests) == 39, engine
        assert {row.status for row in requests} == {"ok"}
        assert sum(row.event == "train" for row in rows) > 5
    managed = [row for row in found.rows if row.engine == "managed" and row.started_s is not None]
    spans = sorted({(row.started_s, row.finished_s) for row in managed})
    assert all(after[0] >= before[1] for before, after in itertools.pairwise(spans))  # one at a time
    assert [row.loss for row in managed if row.event == "train"][-1] > 0
    assert not found.header.simulated
    trained = sum(row.event == "train" for row in managed)
    assert trained <= int((network / "state.txt").read_text(encoding="utf-8")) < trained + 10


def test_a_tenant_that_is_lost_ends_alone_and_the_command_with_5(edgetune, plan, tmp_path, monkeypatch):
    crashes = Fault("the process ended", lost=True)
    device = partial(turns.SimulatedDevice, fault=lambda of: crashes if (of.task, of.number) == ("train", 3) else None)
    monkeypatch.setattr(turns, "SimulatedDevice", device)
    ended = edgetune("interleave", plan, *TWIN, "--duration", "5s", "-o", str(tmp_path / "run.parquet"))
    assert ended.code == 5, ended.err
    found = read(Run, str(tmp_path / "run.parquet"))
    assert {row.status for row in found.rows if row.event == "request"} == {"ok"}
    assert [row.status for row in found.rows if row.event == "train"][:4] == ["ok", "ok", "ok", "failed"]
    assert [warning.code for warning in found.header.warnings] == ["tenant-lost"]


SCRIPT = """
import argparse, time, edgetune
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
size = parser.parse_args().batch_size
while True:
    time.sleep(0.005 * size)
    edgetune.step()
"""


def test_a_script_as_it_is_trains_step_by_step(edgetune, network, monkeypatch):
    monkeypatch.chdir(network)
    (network / "train.py").write_text(SCRIPT)
    ended = edgetune(*live("-o", "run.parquet"))
    assert ended.code == 0, ended.err
    rows = read(Run, str(network / "run.parquet")).rows
    trained = [row for row in rows if row.event == "train"]
    assert trained
    assert {row.status for row in trained} == {"ok"}
    assert min(row.finished_s - row.started_s for row in trained) >= 0.02
    assert {row.status for row in rows if row.event == "request"} == {"ok"}


@pytest.mark.parametrize("options", [("--engine", "streams"), ("--train-batch-size", "8")])
def test_a_script_that_cannot_run_so_is_refused_before_anything_is_measured(edgetune, network, monkeypatch, options):
    monkeypatch.chdir(network)
    (network / "train.py").write_text("open('ran', 'w')\n")
    ended = edgetune(*live(*options, "-o", "run.parquet"))
    assert_two_lines(ended, 2)
    assert not (network / "ran").exists()


def test_a_signal_ends_a_run_in_order(network):
    command = [sys.executable, "-m", "edgetune", *live("--duration", "60s", "-o", "run.parquet")]
    started = subprocess.Popen(command, cwd=network, stderr=subprocess.PIPE, env=os.environ, text=True)
    for line in started.stderr:
        if line.startswith("managed"):
            break
    time.sleep(2.0)  # loads and runs a little: the row count below does not depend on how much
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "wrote run.parquet" in err
    rows = read(Run, str(network / "run.parquet")).rows
    assert {row.status for row in rows} <= {"ok", "abandoned"}


def test_requests_from_standard_input(shell, network):
    (network / "handler.py").write_text(
        "import numpy as np\n"
        "def inputs(request, line):\n"
        "    return {'x': np.full(64, float(line), dtype=np.float32)}\n"
        "def outputs(request, line, results):\n"
        "    print('answered', line)\n"
        "    open('answers.txt', 'a').write(f'{line} {results[\"y\"][0]:.4f}\\n')\n"
    )
    words = ("--infer", "small.onnx", "--handler", "handler.py", "--device", "host", "--batch-size", "2")
    ended = shell(
        "interleave", *words, "--latency-budget", "2s", "--arrivals", "-", "--duration", "30s", "--verbose",
        "-o", "run.parquet",
        stdin=b"1\n2\nnonsense\n3\n",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    rows = [row for row in read(Run, str(network / "run.parquet")).rows if row.event == "request"]
    assert [row.status for row in rows] == ["ok", "ok", "failed", "ok"]
    assert "nonsense" in rows[2].reason
    answers = dict(line.split() for line in (network / "answers.txt").read_text(encoding="utf-8").splitlines())
    assert {word: float(value) for word, value in answers.items()} == pytest.approx(
        {"1": 0.4096, "2": 0.8192, "3": 1.2288}, rel=1e-3
    )


# While rates and power budgets change

PAIR = ("interleave", "--device", "twin:orin-agx", "--infer", "zoo:mobilenet_v2", "--train", "zoo:resnet18", "-q")
MODES = "cpu_cores=4,cpu_mhz=1651.2,mem_mhz=3199,gpu_mhz=318.75:1300.5:4"


def rows_of(path, event):
    return [row for row in io.read(Run, str(path)).rows if row.event == event]


def test_a_budget_cut_in_the_middle_is_met_within_three_sensor_periods_and_held(edgetune, tmp_path):
    file = tmp_path / "run.parquet"
    ended = edgetune(
        *PAIR, "--arrivals", "uniform:30", "--latency-budget", "400ms", "--adapt", "--power-budget", "30W,20W@60s",
        "--modes", MODES, "--duration", "2m", "-o", str(file),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    power = rows_of(file, "power")
    period_s = power[1].finished_s - power[0].finished_s
    after = [row for row in power if row.finished_s > 60.0 + 3 * period_s]
    assert len(after) > 50
    assert max(row.power_w for row in after) <= 20.0
    assert {row.power_budget_w for row in after} == {20.0}
    assert max(row.power_w for row in power if row.finished_s <= 60.0) > 20.0
    assert sum(not row.met for row in rows_of(file, "request")) <= 1


# What is said of a run


def request(engine, k, wait_s, tenant="mobilenet"):
    due_s = k + 0.1
    return RunRow(engine, "request", k + wait_s, tenant, 0, float(k), float(k), due_s, k + wait_s <= due_s, k, 1, 1)


def step(engine, k, samples=16, tenant="resnet18"):
    row = RunRow(engine, "train", k + 0.9, tenant, started_s=k + 0.5, minibatch=k, batch_size=16, samples=samples)
    return replace(row, loss=2.0)


def run_of(rows, *, simulated=False):
    return Run(Header.new("run", 1, conditions={"device": "host", "simulated": simulated}), tuple(rows))


@pytest.fixture
def both():
    rows = [request(engine, k, wait_s) for engine, wait_s in (("managed", 0.05), ("native", 0.2)) for k in range(5)]
    rows += [step("managed", k) for k in range(4)] + [step("native", k) for k in range(5)]
    return run_of(rows)


def test_engines_are_compared_with_native_at_any_position(both):
    (line,) = compared(summarise(both))
    assert line.startswith("managed beside native: 0 violations instead of 5, p99 50% of the budget instead of 200%")
    assert compared(summarise(run_of([step("managed", 0)]))) == []
    first, second = compared(summarise(run_of([step("streams", 0), step("managed", 0, 8), step("simulated", 0, 32)])))
    assert first == "managed beside streams: trains 0.50 times as fast"
    assert second == "simulated beside streams: trains 2.00 times as fast"


# Minibatches measured while the tenants take turns

JOB = """
import os, time

def make(batch_size):
    def step():
        if batch_size == 8:
            os._exit(3)
        time.sleep(batch_size * 0.001)
    step.save = step.load = lambda path: None
    return step
"""


def test_a_batch_size_that_crashes_leaves_the_others_to_be_measured(tmp_path):
    tenants, points = [], {}
    for name, sizes in (("a", (4, 8, 2)), ("b", (4,))):
        path = tmp_path / f"{name}.py"
        path.write_text(JOB)
        tenants.append(TenantMeasurements(TenantSpec(name, "train", str(path)), resolve(str(path))))
        points[name] = [Point(tenants[-1].workload.name, "train", size, Mode()) for size in sizes]
    device = open_host()
    rows = measure_shared(device, tenants, points, seed=0)
    assert [(row.batch_size, row.status) for row in rows["a"]] == [(4, "ok"), (8, "failed"), (2, "ok")]
    assert "exit code 3" in rows["a"][1].reason
    assert [row.status for row in rows["b"]] == ["ok"]
    assert rows["a"][0].minibatch_s > rows["a"][2].minibatch_s > 0.002


# A plan is run as it is: it names its files, and nothing that it knows is measured again

ANSWERS = ("--latency-budget", "2s", "--arrival-rate", "40/s")
SIZES = ("--batch-sizes", "1,2", "--device", "host")
WORKLOADS_PAIR = ("--kind", "train+infer", "--background", "train.py", "--background-batch", "4")
RUN = ("--duration", "500ms", "-o", "run.parquet")
NEVER_AGAIN = "nothing is measured again"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a network, a training file, and plans made of them live: of one, and of both."""
    from edgetune.cli.main import run

    made = small_network(tmp_path_factory.mktemp("planned"))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(made)
        assert run(["search", "small.onnx", "--task", "infer", *SIZES, *ANSWERS, "-q", "-o", "one.yaml"]) == 0
        assert run(["search", "small.onnx", *WORKLOADS_PAIR, *SIZES, *ANSWERS, "-q", "-o", "both.yaml"]) == 0
    return made


@pytest.fixture
def there(folder, tmp_path, monkeypatch):
    """The folder as the working directory."""
    monkeypatch.chdir(folder)
    return folder


def measured_again(err):
    return "measuring" in err or "measured small" in err or "measured train" in err


def test_a_live_plan_names_each_file_as_given_and_absolute_with_its_hash(folder):
    plan = yaml.safe_load((folder / "both.yaml").read_text(encoding="utf-8"))
    for role, file, name in (("workload", "small.onnx", "small"), ("background", "train.py", "train")):
        path = folder / file
        expected = {"name": name, "reference": file, "path": str(path), "sha256": resolve(str(path)).sha256}
        if role == "workload":
            expected["batch"] = {"axes": {"x": 0}, "exported": None, "why": "its symbol is 'batch'"}
        assert plan["inputs"][role] == expected


@pytest.mark.parametrize("plan", ["both.yaml"])
def test_a_live_plan_runs_as_it_is_and_measures_nothing_again(edgetune, there, plan):
    ended = edgetune("interleave", plan, *RUN)
    assert ended.code == 0, ended.err
    assert NEVER_AGAIN in ended.err
    assert not measured_again(ended.err)
    run = read(Run, "run.parquet")
    assert {row.status for row in run.rows if row.event == "request"} == {"ok"}
    assert run.header.conditions["device"] == "host"
    assert run.header.inputs["tenants"][0]["path"] == str(there / "small.onnx")


def test_only_what_the_plan_does_not_know_is_measured(edgetune, there):
    ended = edgetune("interleave", "one.yaml", "--train", "train.py", "--train-batch-size", "4", *RUN)
    assert ended.code == 0, ended.err
    assert "measuring 1 point, " in ended.err
    assert "measured train train batch 4" in ended.err
    assert "measured small" not in ended.err


def test_two_inference_tables_make_a_plan_that_runs_both(edgetune, there):
    shutil.copy("small.onnx", "second.onnx")
    for file, sizes in (("small", "1,2"), ("second", "4")):
        words = ("--task", "infer", "--batch-sizes", sizes, "--device", "host", "--fresh", "-o", f"{file}.parquet")
        assert edgetune("profile", f"{file}.onnx", *words).code == 0
    tables = ("small.parquet", "second.parquet", "--kind", "infer+infer", "--background", "second")
    assert edgetune("search", *tables, *ANSWERS, "-q", "-o", "answers.yaml").code == 0
    assert {role: each.planned.path for role, each in tenants_of_plan(read(Plan, "answers.yaml")).items()} == {
        "infer": str(there / "small.onnx"), "background": str(there / "second.onnx"),
    }  # fmt: skip
    ended = edgetune("interleave", "answers.yaml", *RUN)
    assert ended.code == 0, ended.err
    assert NEVER_AGAIN in ended.err
    run = read(Run, "run.parquet")
    behind = [row for row in run.rows if row.event == "train"]
    assert {(row.tenant, row.samples, row.status) for row in behind} == {("second", 4, "ok")}
    assert {row.tenant for row in run.rows if row.event == "request"} == {"small"}
    refused = edgetune("interleave", "answers.yaml", "--adapt", *RUN)
    assert_two_lines(refused, 2)


@pytest.mark.parametrize(
    "change", [lambda path: path.write_text(path.read_text(encoding="utf-8") + "\n"), lambda path: path.unlink()]
)
def test_a_file_that_changed_or_moved_is_refused(edgetune, folder, tmp_path, monkeypatch, *, change):
    for name in ("small.onnx", "train.py"):
        shutil.copy(folder / name, tmp_path)
    plan = (folder / "both.yaml").read_text(encoding="utf-8").replace(str(folder), str(tmp_path))
    (tmp_path / "both.yaml").write_text(plan)
    monkeypatch.chdir(tmp_path)
    change(tmp_path / "train.py")
    ended = edgetune("interleave", "both.yaml", *RUN)
    assert_two_lines(ended, 2)


def test_dimensions_and_inputs_of_the_plan_are_those_of_the_run(there, tmp_path):
    document = yaml.safe_load((there / "one.yaml").read_text(encoding="utf-8"))
    samples = tmp_path / "samples.npz"
    samples.touch()
    document["inputs"]["workload"] |= {"dimensions": {"sequence": 128}, "inputs": str(samples), "precision": "fp16"}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    (tenant,) = tenants_of_options(InterleaveOptions(), read(Plan, str(tmp_path / "plan.yaml")))
    assert (dict(tenant.dimensions), tenant.inputs, tenant.precision) == ({"sequence": 128}, str(samples), "fp16")


@pytest.mark.parametrize("value", [7, {"name": "small", "dimensions": "n"}])
def test_a_plan_whose_inputs_make_no_sense_is_refused(there, value, tmp_path):
    document = yaml.safe_load((there / "one.yaml").read_text(encoding="utf-8"))
    document["inputs"]["workload"] = value
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=r"inputs\.workload"):
        tenants_of_options(InterleaveOptions(), read(Plan, str(tmp_path / "plan.yaml")))
