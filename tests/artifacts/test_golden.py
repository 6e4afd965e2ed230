"""Files of every version ever written stay readable; ``tests/golden/add.py`` adds one, none is ever written again."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.convergence import Convergence
from edgetune.artifacts.evaluation import Evaluation
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.jobs import Job, Jobs, NetworkSource
from edgetune.artifacts.kernel_tasks import KernelBuffer, KernelCall, KernelNetwork, KernelTask, KernelTasks
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.kinds import KINDS, current_version
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.plan import Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import PowerSample
from edgetune.artifacts.roofline import KernelRun, Roof, Roofline
from edgetune.artifacts.run import Run, RunRow
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.artifacts.trace import Trace
from edgetune.errors import InputError

_GOLDEN = Path(__file__).parents[1] / "golden"


def _assert_header(header: Header, kind: str, version: int = 1) -> None:
    assert (header.kind, header.version) == (kind, version)
    assert (header.created, header.tool) == ("2026-01-02T03:04:05Z", "edgetune 0.1.0")
    assert header.inputs == {"workload": {"name": "resnet18", "sha256": "00ff" * 16}}
    assert header.conditions == {"device": "twin:orin-agx", "simulated": True, "seed": 0}
    assert header.warnings == (DataWarning("too-few-power-samples", "measure for longer", {"power_samples": 3.0}),)
    assert header.simulated


@pytest.mark.parametrize("kind", KINDS)
def test_every_version_of_every_kind_has_a_golden_file(kind: str) -> None:
    found = {path.name.partition(".")[0] for path in _GOLDEN.glob(f"{kind}-v*")}
    assert found == {f"{kind}-v{version}" for version in range(1, current_version(kind) + 1)}


def test_profile_v1() -> None:
    profile = io.read_profile(str(_GOLDEN / "profile-v1.parquet"))
    _assert_header(profile.header, "profile")
    full, failed = profile.rows
    assert (full.workload, full.task, full.batch_size, full.minibatch_s) == ("resnet18", "train", 16, 0.0712)
    assert full.mode == Mode(8, 1344.0, 726.75, 2133.0, 30.0)
    assert (full.device, full.power_w, full.power_peak_w, full.energy_j) == ("twin:orin-agx", 28.9, 31.5, 2.05768)
    assert (full.minibatch_p95_s, full.minibatch_ci95_low_s, full.minibatch_ci95_high_s) == (0.0731, 0.0709, 0.0715)
    assert (full.minibatches, full.warmups, full.power_samples) == (40, 2, 7)
    assert (full.power_source, full.temp_max_c, full.throttled) == ("twin: board input", 61.5, False)
    assert (full.status, full.reason, full.duration_s, full.started) == ("ok", None, 12.5, "2026-01-02T03:04:05Z")
    assert full.times_s == (0.25, 0.125, 0.0712)
    assert full.power_trace == (PowerSample(0.5, 28.8), PowerSample(1.5, 29.0))
    assert (failed.batch_size, failed.minibatch_s, failed.mode) == (4096, None, Mode(gpu_mhz=726.75))
    assert (failed.status, failed.reason, failed.times_s) == ("failed", "out of memory", None)


def test_profile_v2() -> None:
    old = io.read_profile(str(_GOLDEN / "profile-v1.parquet"))
    profile = io.read_profile(str(_GOLDEN / "profile-v2.parquet"))
    _assert_header(profile.header, "profile", 2)
    full, failed = profile.rows
    assert (full.power_from_s, full.temp_start_c, full.round) == (0.25, 48.5, 2)
    assert (failed.power_from_s, failed.temp_start_c, failed.round) == (None, None, None)
    assert replace(full, power_from_s=None, temp_start_c=None, round=None) == old.rows[0]
    assert failed == old.rows[1]


def test_trace_v1() -> None:
    trace = io.read(Trace, str(_GOLDEN / "trace-v1.parquet"))
    _assert_header(trace.header, "trace")
    first, second = trace.rows
    assert (first.step, first.workload, first.task, first.batch_size) == (1, "resnet18", "train", 16)
    assert (first.cpu_cores, first.cpu_mhz, first.gpu_mhz) == (8, 1344.0, 726.75)
    assert (first.mem_mhz, first.power_limit_w, first.source) == (2133.0, 30.0, "measured")
    assert (first.minibatch_s, first.power_w, first.objective, first.best) == (0.0712, 28.9, 224.7, 224.7)
    assert (first.feasible, first.reason) == (True, "the middle of the space")
    assert (first.predicted_minibatch_s, first.predicted_power_w) == (0.07, 29.5)
    assert (first.strategy_s, first.measurement_s) == (0.001, 12.5)
    assert (second.step, second.source, second.feasible, second.reason) == (2, "known", None, "failed")


def test_ops_v1() -> None:
    table = io.read(OpsTable, str(_GOLDEN / "ops-v1.parquet"))
    _assert_header(table.header, "ops")
    assert (table.workload, table.task, table.batch_size, table.precision) == ("resnet18", "infer", 1, "fp32")
    assert (table.parameters, table.loads_images) == (11689512, True)
    (row,) = table.rows
    assert (row.name, row.op, row.op_class, row.phase, row.ledger) == ("conv1", "Conv", "conv", "forward", "modelled")
    assert (row.inputs, row.outputs, row.dtype) == (("1x3x224x224", "64x3x7x7"), ("1x64x112x112",), "float32")
    assert (row.macs, row.flops, row.flops_other) == (118013952, 236027904, 0)
    assert (row.bytes_read, row.bytes_written, row.weight_bytes) == (639744, 3211264, 37632)
    assert (row.channels_in, row.channels_out, row.kernels, row.bound) == (3, 64, 1, "compute")


def test_plan_v1() -> None:
    plan = io.read(Plan, str(_GOLDEN / "plan-v1.yaml"))
    _assert_header(plan.header, "plan")
    assert plan.problem == Problem("train", power_budget_w=30.0, margin=0.05)
    assert plan.configuration == Configuration(Mode(8, 1344.0, 726.75, 2133.0), batch_size=16)
    assert plan.measured == PlanFigures(0.0712, 28.9, throughput_per_s=224.7)
    assert plan.search == SearchSummary("gmd", 8, 0, 0)
    assert plan.predicted == PlanFigures(0.0709, 28.7)


def test_roofline_v1() -> None:
    roofline = io.read(Roofline, str(_GOLDEN / "roofline-v1.yaml"))
    _assert_header(roofline.header, "roofline")
    full, low = Mode(12, 2201.6, 1300.5, 3199.0), Mode(12, 2201.6, 726.75, 2133.0)
    assert roofline.device == "twin:orin-agx"
    assert roofline.roofs == (
        Roof(full, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12, 0.05e-12, 2.5e-12, 0.0125),
        Roof(low, "fp32", 8.5e12, 103.9e9, measured=False),
    )
    assert roofline.runs == (
        KernelRun("idle", 0, "fp32", full, 0.0, 0.0, 10.0, 17.9),
        KernelRun("matmul", 8192, "fp32", full, 1099511627776.0, 805306368.0, 0.0748, 74.625),
        KernelRun("relu", 16384, "fp32", low, 268435456.0, 2147483648.0, 0.0207),
    )


def test_convergence_v1() -> None:
    table = io.read(Convergence, str(_GOLDEN / "convergence-v1.parquet"))
    _assert_header(table.header, "convergence")
    reached, missed = table.rows
    assert (reached.workload, reached.dataset, reached.batch_size, reached.seed) == ("proxy:cnn", "shapes", 32, 1)
    assert (reached.target_accuracy, reached.epochs, reached.samples) == (0.9, 2.375, 19456)
    assert (reached.optimizer, reached.learning_rate, reached.accuracy) == ("adam", 0.001, 0.9023)
    assert (reached.status, reached.reached, reached.reason) == ("reached", True, None)
    assert (reached.duration_s, reached.started) == (12.5, "2026-01-02T03:04:05Z")
    assert (missed.batch_size, missed.epochs, missed.samples, missed.accuracy) == (512, None, None, 0.71)
    assert (missed.status, missed.reached, missed.reason) == ("missed", False, "0.71 at best")


def test_evaluation_v1() -> None:
    evaluation = io.read(Evaluation, str(_GOLDEN / "evaluation-v1.parquet"))
    _assert_header(evaluation.header, "evaluation")
    first, second = evaluation.runs
    assert (first.family, first.table, first.workload, first.background) == ("infer", "infer.parquet", "resnet18", None)
    assert (first.strategy, first.max_points, first.seed, first.contender) == ("gmd", 11, 0, "gmd:11")
    assert (first.problem.tolist(), first.points.tolist()) == ([0, 7, 9], [0, 11, 11])
    assert (first.power_budget_w.tolist(), first.latency_budget_s.tolist()) == ([10, 25, 30], [0.05, 0.1, 0.2])
    assert (first.arrival_rate_per_s.tolist(), first.strategy_s.tolist()) == ([60, 60, 60], [0, 0.01, 0.02])
    assert (first.solvable.tolist(), first.solved.tolist()) == ([False, True, True], [False, True, False])
    assert (first.violated.tolist(), first.excess[1]) == ([False, False, True], 0.025)
    assert all(map(math.isnan, [first.excess[0], first.excess[2], *first.measurement_s]))
    assert (second.label, second.contender, second.seed) == ("lstm+resnet18", "nn-predicted", 1)
    assert (second.problem.tolist(), second.measurement_s.tolist()) == ([3], [12.5])
    assert math.isnan(second.power_budget_w[0])


def test_run_v1() -> None:
    run = io.read(Run, str(_GOLDEN / "run-v1.parquet"))
    _assert_header(run.header, "run")
    answered, left, trained, mode, power = run.rows
    assert (answered.engine, answered.event, answered.tenant, answered.turn) == ("managed", "request", "resnet18", 1)
    assert (answered.arrived_s, answered.started_s, answered.finished_s) == (0.015625, 0.03125, 0.0625)
    assert (answered.deadline_s, answered.met, answered.status) == (0.115625, True, "ok")
    assert (answered.minibatch, answered.batch_size, answered.samples) == (0, 8, 5)
    assert (left.status, left.reason) == ("abandoned", "the run ended before it was answered")
    assert (left.started_s, left.minibatch, left.samples, left.met) == (None, None, None, False)
    assert (trained.event, trained.tenant, trained.samples, trained.loss) == ("train", "mobilenet", 16, 2.25)
    assert mode == RunRow(
        "managed", "mode", 0.5, turn=1, reason="31.5 W is over 30 W", power_budget_w=30.0, cpu_cores=8, cpu_mhz=1344.0,
        gpu_mhz=726.75, mem_mhz=2133.0, power_limit_w=40.0,
    )  # fmt: skip
    assert (power.power_w, power.power_budget_w, power.tenant, power.loss) == (28.5, 30.0, None, None)


def test_timeline_v1() -> None:
    timeline = io.read(Timeline, str(_GOLDEN / "timeline-v1.parquet"))
    _assert_header(timeline.header, "timeline")
    load, execute, unload, answered, less = timeline.rows
    assert load == TimelineRow(
        "load", "reuse", 0.0625, 1, "faces", None, 0, "conv1", 0, 1, "faces", None, 0.03125, None, None, 37632, 640000,
        None, 54525952, 4096, 3, 2, "ok", None,
    )  # fmt: skip
    assert (execute.event, execute.status, execute.reason) == ("execute", "failed", "conv1.weights is truncated")
    assert (execute.bytes, execute.held_bytes, execute.resident_bytes) == (602112, 640000, None)
    assert (unload.event, unload.bytes, unload.worker, unload.request) == ("unload", 37632, None, None)
    assert (answered.job, answered.request, answered.arrived_s, answered.deadline_s) == (
        "photos",
        1,
        0.015625,
        2.015625,
    )
    assert answered.met is True
    assert (less.event, less.budget_bytes, less.network) == ("budget", 268435456, None)


def test_jobs_v1() -> None:
    jobs = io.read(Jobs, str(_GOLDEN / "jobs-v1.yaml"))
    _assert_header(jobs.header, "jobs")
    assert jobs.networks == (
        NetworkSource("faces", "zoo:alexnet"),
        NetworkSource("made", costs="costs.parquet", network="tiny"),
    )
    assert jobs.jobs == (
        Job("photos", ("faces", "made"), "normal:2s,0.5s", None, 150, "uniform", 2.5),
        Job("late", ("made",), (0.0, 0.5, 2.0), after=("photos",)),
        Job("busy", ("faces",), "poisson", 0.8, 10),
    )
    assert (jobs.memory_bytes, jobs.workers, jobs.policy, jobs.seed) == (536870912, 3, "masa", 7)


def test_layer_costs_v1() -> None:
    costs = io.read(LayerCosts, str(_GOLDEN / "layer_costs-v1.parquet"))
    _assert_header(costs.header, "layer_costs")
    first, add, lost, whole = costs.rows
    assert first == LayerCostRow(
        "faces", "conv1", "conv", 139776, 1161600, 0.00025, 0.0125, 0, (), 2048, 618348, 1310720, 0.001, 0.0002, 0.0003,
        0.0009, 0.0011, 0.012, 0.013, (0.0005, 0.00025), (0.001,), (0.0125, 0.0125), 1, 0, 0, "ok", None,
        "layers", None, 540672, 0.015, None, 0.0004,
    )  # fmt: skip
    assert (whole.form, whole.resident_bytes, whole.cold_execute_s, whole.unload_s) == (
        "default",
        300000,
        0.125,
        0.03125,
    )
    assert (whole.cold_execute_samples_s, whole.unload_samples_s) == ((0.125,), (0.03125, 0.03125))
    assert (whole.unload_s, whole.unload_warmups) == (0.03125, 1)
    assert (add.index, add.after, add.load_s, add.peak_bytes, add.cold_load_s) == (1, (0,), 0.0, None, None)
    assert (add.status, add.reason, add.execute_samples_s) == ("ok", "from storage: not measured", ())
    assert (lost.after, lost.load_s, lost.execute_s, lost.status) == ((0, 1), None, None, "failed")


@pytest.mark.parametrize("read", [io.read_any, lambda file: io.read(KernelTimeline, file)])
def test_a_kind_that_is_gone_is_refused_with_what_replaces_it(read) -> None:
    with pytest.raises(InputError, match="is an elastic table of an earlier version") as error:
        read(str(Path(__file__).with_name("gone") / "elastic_table-v1.parquet"))
    assert "edgetune schedule kernels shrink" in error.value.hint


def test_kernel_timeline_v1() -> None:
    timeline = io.read(KernelTimeline, str(_GOLDEN / "kernel_timeline-v1.parquet"))
    _assert_header(timeline.header, "kernel_timeline")
    piece, failed, answered, left, stay = timeline.rows
    assert piece == KernelTimelineRow(
        "launch", "elastic", 0.0625, 1, "sort", 3, 17, 2, "merge", 8, 16, 4, True, 4, 64, None, None, 0.03125, 0.046875,
    )  # fmt: skip
    assert (failed.kernel, failed.elastic, failed.started_s) == ("split", False, None)
    assert (failed.status, failed.reason) == ("failed", "out of resources")
    assert (answered.policy, answered.task, answered.arrived_s, answered.met) == ("solo", "detect", 0.125, True)
    assert (left.deadline_s, left.met, left.status) == (0.6875, False, "abandoned")
    assert (stay.event, stay.launch, stay.sm, stay.blocks, stay.started_s) == ("residency", 17, 15, 2, 0.046875)


def test_kernel_tasks_v1() -> None:
    tasks = io.read(KernelTasks, str(_GOLDEN / "kernel_tasks-v1.yaml"))
    _assert_header(tasks.header, "kernel_tasks")
    assert tasks.tasks == (
        KernelTask("detect", "mdtb:alexnet", 2, "uniform:10/s", 0.05),
        KernelTask("sort", "mine"),
        KernelTask("listen", "small", 1, "poisson:2.5/s"),
    )
    split = KernelCall("split", (49, 4, 1), (16, 16, 1), 2048, ("data", {"int": 49}), 1e6, 65536.0, None, 40, 1024)
    merge = KernelCall("merge", (7, 1, 1), (128, 1, 1), block_time_s=2e-05)
    buffers = (KernelBuffer("data", (49, 1024), "float32", "input"), KernelBuffer("out", (7,), role="output"))
    assert tasks.networks == (
        KernelNetwork("mine", None, {}, "sort.cu", (split, merge), buffers),
        KernelNetwork("small", "lstm", {"steps": 4}),
    )
    assert (tasks.gpu, tasks.policy, tasks.duration_s, tasks.seed) == ("orin-nano", "multistream", 0.5, 7)
