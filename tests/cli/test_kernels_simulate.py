"""``edgetune schedule kernels simulate``: tasks in, a timeline and its figures out; and what is refused."""

import itertools
import json
import re
import signal

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.elastic_table import KIND, VERSION, ElasticRow, ElasticTable
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline
from edgetune.errors import DeviceError
from edgetune.stages.elastic.policies.multistream import MultiStream, Solo
from edgetune.workflows.kernels import plan

TASKS = """kind: kernel_tasks
version: 1
gpu: orin-nano
policy: multistream
duration: 20ms
tasks:
- {name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}
- {name: normal, network: large}
networks:
  small:
    calls:
    - {kernel: a, grid: [6], block: [256], block_time: 60us}
    - {kernel: b, grid: [3], block: [128], block_time: 40us}
  large: {calls: [{kernel: c, grid: [49, 4], block: [256], flop_per_block: 2e6, bytes_per_block: 64KiB}]}
"""
SIMULATE = ("schedule", "kernels", "simulate", "tasks.yaml")


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    return tmp_path


def test_policies_are_compared_beside_the_critical_task_alone(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--policy", "sequential,multistream,elastic", "-o", "k.parquet")
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    lines = ended.out.splitlines()
    assert lines[0].split()[:3] == ["policy", "task", "done"]
    assert [line.split()[:2] for line in lines[1:7]] == [
        [policy, task] for policy in ("sequential", "multistream", "elastic") for task in ("urgent", "normal")
    ]
    assert lines[0].index("note") <= 80  # what is in the way of it goes below
    assert "critical: urgent (priority 1); x solo: times what it takes alone" in lines
    assert "elastic beside sequential: answers x" in ended.out
    assert re.search(
        r"^launches: sequential \d+, multistream \d+, elastic \d+ \(\d+ of elastic forms\)$", ended.out, re.M
    )
    assert "simulated (model): 8 multiprocessors of orin-nano" in ended.out
    timeline = io.read(KernelTimeline, "k.parquet")
    told = timeline.header.conditions
    assert (told["simulated"], told["device"], told["gpu"]["sm_count"], told["duration_s"]) == (
        True, "orin-nano", 8, 0.02,
    )  # fmt: skip
    assert "no caches" in told["model"]["note"]
    assert {row.policy for row in timeline.rows} == {"solo", "sequential", "multistream", "elastic"}
    assert {row.event for row in timeline.rows} == {"launch", "request", "residency"}
    assert {row.task for row in timeline.rows if row.policy == "solo"} == {"urgent"}
    assert any(row.elastic for row in timeline.rows if row.policy == "elastic")
    assert {row.sm for row in timeline.rows if row.event == "residency"} == set(range(8))


def test_options_go_before_the_file_and_the_same_seed_gives_the_same_rows(edgetune, tasks):
    (tasks / "tasks.yaml").write_text(TASKS.replace("uniform:500/s", "poisson:500/s"))
    rows = []
    for seed in ("1", "1", "2"):
        ended = edgetune(*SIMULATE, "--gpu", "xavier", "--duration", "10ms", "--seed", seed, "-o", "k.parquet", "-q")
        assert (ended.code, ended.out) == (0, "")
        timeline = io.read(KernelTimeline, "k.parquet")
        assert timeline.header.conditions["device"] == "xavier"
        rows.append(timeline.rows)
    assert rows[0] == rows[1] != rows[2]


def test_assumptions_change_the_result_and_are_recorded(edgetune, tasks):
    latencies_s = []
    for words in (("launch=0,host=0,gap=0s",), ("launch=50us", "host=50us", "gap=50us", "bandwidth=100%,turn=1us")):
        options = [word for each in words for word in ("--assume", each)]
        assert edgetune(*SIMULATE, *options, "-o", "k.parquet").code == 0
        timeline = io.read(KernelTimeline, "k.parquet")
        alone = [row for row in timeline.rows if row.policy == "solo" and row.event == "request"]
        latencies_s.append(alone[0].finished_s - alone[0].arrived_s)
    assert latencies_s[0] == pytest.approx(100e-6)  # 60 us, and 40 us behind it
    assert latencies_s[1] == pytest.approx((50 + 50 + 60 + 50 + 40) * 1e-6)
    told = timeline.header.conditions
    numbers = [
        told["gpu"]["launch_s"],
        told["model"]["host_s"],
        told["model"]["turn_s"],
        told["model"]["bandwidth_sms"],
    ]
    assert numbers == pytest.approx([5e-5, 5e-5, 1e-6, 1.0])
    assert told["gpu"]["source"].endswith("launch_s: --assume")


def test_figures_for_machines_are_one_document(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--json")
    assert ended.code == 0
    told = json.loads(ended.out)
    (policy,) = told["policies"]
    urgent = policy["tasks"][0]
    assert (policy["policy"], urgent["task"], urgent["priority"]) == ("multistream", "urgent", 1)
    assert urgent["p50_x"] >= 1
    assert (tasks / "kernels.parquet").exists()


def test_in_a_pipe_the_timeline_is_the_output(shell, tmp_path):
    (tmp_path / "tasks.yaml").write_text(TASKS)
    ended = shell(*SIMULATE, "-o", "-", "--plot", "g.svg", "--view", "gantt:multistream@0s-5ms")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("PAR1")
    assert "multistream" in ended.err
    assert (tmp_path / "g.svg").read_text().startswith("<?xml")


def test_a_dry_run_describes_the_runs_and_runs_nothing(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--dry-run")
    assert ended.code == 0
    assert "urgent: small, 2 kernels of 3 to 6 blocks; uniform:500/s; critical, priority 1, due after 1 ms" in ended.err
    assert "normal: large, 1 kernel of 196 blocks; closed; best effort" in ended.err
    assert "orin-nano, 8 multiprocessors, 20 ms: multistream; 1 critical task alone before" in ended.err
    assert not (tasks / "kernels.parquet").exists()


def test_timelines_and_tasks_are_shown_and_drawn(edgetune, tasks):
    edgetune(*SIMULATE, "-o", "k.parquet")
    shown = edgetune("show", "k.parquet")
    assert shown.code == 0
    assert "SIMULATED" in shown.out
    assert "multistream" in shown.out
    assert json.loads(edgetune("show", "k.parquet", "--json").out)["policies"][0]["policy"] == "multistream"
    assert edgetune("show", "k.parquet", "--plot", "g.svg").code == 0
    again = edgetune("show", "tasks.yaml")
    assert io.from_bytes(again.out.encode(), kind="kernel_tasks", name="again").tasks[0].name == "urgent"


@pytest.mark.parametrize(
    ("edit", "options", "why"),
    [
        (("", ""), ("--policy", "elastik"), "there is no policy 'elastik'"),
        (("", ""), ("--policy", ""), "--policy: there is no policy ''"),
        (("", ""), ("--gpu", ""), "--gpu: there is no GPU ''"),
        (("", ""), ("--policy", "elastic,elastic"), "--policy: elastic,elastic names a policy twice"),
        (("", ""), ("--gpu", "orin"), "there is no GPU 'orin'"),
        (("", ""), ("--duration", "soon"), "--duration is not a quantity"),
        (("", ""), ("--assume", "host"), "'host' has no value"),
        (("", ""), ("--assume", "hosts=1us"), "unknown assumption: 'hosts'"),
        (("", ""), ("--assume", "host=1"), "host has no unit"),
        (("", ""), ("--assume", "bandwidth=0%"), "no multiprocessor would draw anything"),
        (("", ""), ("--assume", "saturating=many"), "saturating is 'many'"),
        (("", ""), ("-o", "tasks.yaml"), "tasks.yaml is an input of this command, and would be lost"),
        (("", ""), ("--view", "gantt"), "--plot is not given"),
        (("", ""), ("--plot", "g.svg", "--view", "responses"), "has no figure 'responses'"),
        (("", ""), ("--plot", "g.svg", "--view", "gantt:elastic"), "--view: policy 'elastic' does not run"),
        (("", ""), ("--plot", "g.svg", "--view", "gantt@1s-2s"), "--view begins at 1 s, and requests come for 20 ms"),
        (("gpu: orin-nano", "gpu: orin"), (), "tasks.yaml: there is no GPU 'orin'"),
        (("policy: multistream", "policy: fifo"), (), "tasks.yaml: there is no policy 'fifo'"),
        (("block_time: 40us", "registers: 32"), (), "task urgent, network small: the time of kernel b is unknown"),
        (("uniform:500/s", "often"), (), "tasks.yaml: task urgent: unknown arrivals 'often'"),
        (("network: large", "network: 'mdtb:alexnot'"), (), "task normal: there is no network 'alexnot'"),
        (("[128]", "[2048]"), (), "no block of kernel b fits on orin-nano: it has 2048 threads, and there are 1024"),
        (("[128]", "[128], shared: 4MiB"), (), "takes 4 MiB of shared memory, and there are 163 KiB at most"),
        (("[128]", "[128], registers: 400"), (), "threads take 400 registers each, and there are 255 at most"),
        (("[128]", "[1024], registers: 80"), (), "multiprocessor has 65536 registers and room for 1536 threads"),
        (("uniform:500/s", "uniform:1000000000/s"), (), "uniform:1000000000/s, 2 kernels, 20 ms) come to about 8e+07"),
        (("", ""), ("--duration", "100h"), "more than the limit simulated_launches allows (60,000)"),
        (("kind: kernel_tasks", "kind: jobs"), (), "is a file of jobs, not a file of kernel tasks"),
    ],
)
def test_invalid_simulations_are_refused_in_two_lines(edgetune, tasks, edit, options, why):
    (tasks / "tasks.yaml").write_text(TASKS.replace(*edit))
    ended = edgetune(*SIMULATE, *options)
    assert_two_lines(ended, 2)
    assert why in ended.err


def test_pieces_that_were_kept_are_the_ones_launched_beside_critical_kernels(edgetune, tasks):
    gpu = {"name": "orin-nano", "sm_count": 8, "threads_per_sm": 1536}
    rows = [
        ElasticRow("c", "c__grid", (49, 4, 1), (256, 1, 1), 0, 5, 1, 256, "kept", None, left, 1024, 0, 1, 1.0)
        for left in range(8)
    ]
    header = Header.new(KIND, VERSION, inputs={}, conditions={"gpu": gpu})
    (tasks / "kept.parquet").write_bytes(ElasticTable(header, tuple(rows)).to_bytes())
    slow = ("--assume", "launch=160us")  # or they would be shortened
    options = ("--policy", "elastic", "--quiet", *slow, "-o")
    assert edgetune(*SIMULATE, *options, "without.parquet").code == 0
    ended = edgetune(*SIMULATE, *options, "with.parquet", "--kept", "kept.parquet")
    assert ended.code == 0, ended.err
    shapes = {
        name: {
            (row.count, row.blocks)
            for row in io.read(KernelTimeline, name).rows
            if row.elastic and row.task == "normal"
        }
        for name in ("without.parquet", "with.parquet")
    }
    assert (5, 1) in shapes["with.parquet"] - shapes["without.parquet"]
    assert io.read(KernelTimeline, "with.parquet").header.inputs["kept"] == ["kept.parquet"]


def test_pieces_that_nothing_looks_up_are_reported(edgetune, tasks):
    gpu = {"name": "orin-nano", "sm_count": 8, "threads_per_sm": 1536}
    row = ElasticRow("c", "c__grid", (48, 4, 1), (256, 1, 1), 0, 5, 1, 256, "kept", None, 0, 1024, 0, 1, 1.0)
    table = ElasticTable(Header.new(KIND, VERSION, inputs={}, conditions={"gpu": gpu}), (row,))
    (tasks / "kept.parquet").write_bytes(table.to_bytes())
    words = ("--kept", "kept.parquet", "--dry-run")
    assert "--kept is not used: only the policy elastic" in edgetune(*SIMULATE, *words).err
    assert "kept.parquet is not used: it has no kernel" in edgetune(*SIMULATE, *words, "--policy", "elastic").err
    (tasks / "tasks.yaml").write_text(TASKS.replace("[49, 4]", "[48, 4]"))
    assert "not used" not in edgetune(*SIMULATE, *words, "--policy", "elastic").err


def test_a_task_without_requests_has_a_row(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--duration", "1ms", "-o", "k.parquet")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[1].split() == [
        "multistream", "urgent", "0/0", "-", "-", "-", "-", "-", "-", "no", "request", "came",
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["solo", "multistream"])
def test_a_stopped_simulation_lists_finished_and_missing_runs(edgetune, tasks, monkeypatch, policy):
    decides, asked = (Solo if policy == "solo" else MultiStream), itertools.count()
    decide = decides.decide

    def stopped_in_the_middle(self, view):
        if next(asked) == 9:
            signal.raise_signal(signal.SIGTERM)
        return decide(self, view)

    monkeypatch.setattr(decides, "decide", stopped_in_the_middle)
    ended = edgetune(*SIMULATE, "--policy", "sequential,multistream,elastic", "-o", "k.parquet")
    assert ended.code == 143
    found = {row.policy for row in io.read(KernelTimeline, "k.parquet").rows}
    if policy == "solo":
        assert found == {"solo"}
        assert "stopped in: urgent alone; not run: sequential, multistream, elastic" in ended.err
        assert re.match(r"no policy ran, .*; requests answered: [1-5] of urgent alone$", ended.out)
    else:
        assert found == {"solo", "sequential", "multistream"}
        assert "stopped in: multistream; not run: elastic" in ended.err
        assert "multistream beside sequential" in ended.out


def test_pieces_kept_for_another_gpu_are_refused(edgetune, tasks):
    header = Header.new(KIND, VERSION, inputs={}, conditions={"gpu": {"sm_count": 16, "threads_per_sm": 1536}})
    row = ElasticRow("c", "c__grid", (49, 4, 1), (256, 1, 1), 0, 5, 1, 256, "kept", None, 0, 1024, 0, 1, 1.0)
    (tasks / "kept.parquet").write_bytes(ElasticTable(header, (row,)).to_bytes())
    ended = edgetune(*SIMULATE, "--kept", "kept.parquet")
    assert_two_lines(ended, 2)
    assert "kept.parquet is for 16 multiprocessors" in ended.err


def _with_source(tasks, source):
    text = TASKS.replace("large: {calls:", "large: {source: large.cu, calls:")
    (tasks / "tasks.yaml").write_text(text)
    (tasks / "large.cu").write_text(source)


def test_a_kernel_that_cannot_be_elastic_is_launched_whole_as_on_a_gpu(edgetune, tasks):
    waits = "if (blockIdx.x) while (((volatile float *)x)[blockIdx.x - 1] == 0) ;"
    for body, forms in (("", True), (waits, False)):
        _with_source(tasks, f"__global__ void c(float *x) {{ {body} x[blockIdx.x] = 1; }}\n")
        ended = edgetune(*SIMULATE, "--policy", "elastic", "-o", "k.parquet")
        assert ended.code == 0, ended.err
        assert ("of elastic forms" in ended.out) is forms
        assert ("task normal: c is launched whole, as it cannot be elastic: a loop waits" in ended.err) is not forms


def test_a_kernel_that_a_source_lacks_is_refused(edgetune, tasks):
    _with_source(tasks, "__global__ void cc(float *x) { x[blockIdx.x] = 1; }\n")
    ended = edgetune(*SIMULATE)
    assert_two_lines(ended, 2)
    assert "tasks.yaml: task normal, network large: its source has no kernel 'c'" in ended.err


def test_without_the_parser_kernels_are_taken_to_be_elastic_and_that_is_said(edgetune, tasks, monkeypatch):
    def missing(*_, **__):
        raise DeviceError("tree-sitter is not installed", "install it")

    monkeypatch.setattr(plan, "transform", missing)
    _with_source(tasks, "__global__ void cc(float *x) { x[blockIdx.x] = 1; }\n")
    ended = edgetune(*SIMULATE, "--policy", "elastic", "-o", "k.parquet")
    assert ended.code == 0
    assert "all kernels of large are taken to be elastic: tree-sitter is not installed; install it" in ended.err
