"""Add the golden file of a kind's present version: ``python tests/golden/add.py KIND`` (profile, trace, ...).

A golden file is written once, by the version that introduced the layout, and read by every later one: what people have
on their disks stays readable. This command refuses to touch a file that exists. After raising a kind's ``VERSION``:

1. adapt the sample below to the new layout and run this command;
2. add what the new file must read as to ``tests/artifacts/test_golden.py``, and leave what is there alone.
"""

import sys
from pathlib import Path

import numpy as np

from edgetune.artifacts import io
from edgetune.artifacts.convergence import Convergence, ConvergenceRow
from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.jobs import Job, Jobs, NetworkSource
from edgetune.artifacts.kernel_tasks import KernelBuffer, KernelCall, KernelNetwork, KernelTask, KernelTasks
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.kinds import current_version
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.plan import Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import PowerSample, Profile, ProfileRow
from edgetune.artifacts.roofline import KernelRun, Roof, Roofline
from edgetune.artifacts.run import Run as Interleaved
from edgetune.artifacts.run import RunRow
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.artifacts.trace import Trace, TraceRow


def _header(kind: str) -> Header:
    return Header(
        kind=kind,
        version=current_version(kind),
        created="2026-01-02T03:04:05Z",
        tool="edgetune 0.1.0",
        inputs={"workload": {"name": "resnet18", "sha256": "00ff" * 16}},
        conditions={"device": "twin:orin-agx", "simulated": True, "seed": 0},
        warnings=(DataWarning("too-few-power-samples", "measure for longer", {"power_samples": 3.0}),),
    )


def _profile() -> Profile:
    full = ProfileRow(
        "resnet18", "train", 16, 0.0712, 8, 1344.0, 726.75, 2133.0, 30.0, "twin:orin-agx", 28.9, 31.5, 2.05768, 0.0731,
        0.0709, 0.0715, 40, 2, 7, "twin: board input", 61.5, False, "ok", None, 12.5, "2026-01-02T03:04:05Z",
        (0.25, 0.125, 0.0712), (PowerSample(0.5, 28.8), PowerSample(1.5, 29.0)), 0.25, 48.5, 2,
    )  # fmt: skip
    failed = ProfileRow("resnet18", "train", 4096, None, gpu_mhz=726.75, status="failed", reason="out of memory")
    return Profile(_header("profile"), (full, failed))


def _trace() -> Trace:
    first = TraceRow(
        1, "resnet18", "train", 16, 8, 1344.0, 726.75, 2133.0, 30.0, "measured", 0.0712, 28.9, 224.7, True, 224.7,
        "the middle of the space", 0.07, 29.5, 0.001, 12.5,
    )  # fmt: skip
    return Trace(_header("trace"), (first, TraceRow(2, "resnet18", "train", 16, source="known", reason="failed")))


def _ops() -> OpsTable:
    row = OpRow(
        "conv1", "Conv", "conv", "forward", "modelled", ("1x3x224x224", "64x3x7x7"), ("1x64x112x112",), "float32",
        118013952, 236027904, 0, 639744, 3211264, 37632, 3, 64, 1, "compute",
    )  # fmt: skip
    return OpsTable(_header("ops"), "resnet18", "infer", 1, "fp32", 11689512, True, (row,))


def _plan() -> Plan:
    return Plan(
        _header("plan"),
        Problem("train", power_budget_w=30.0, margin=0.05),
        Configuration(Mode(8, 1344.0, 726.75, 2133.0), batch_size=16),
        PlanFigures(0.0712, 28.9, throughput_per_s=224.7),
        SearchSummary("gmd", 8, 0),
        PlanFigures(0.0709, 28.7),
    )


def _convergence() -> Convergence:
    reached = ConvergenceRow(
        "proxy:cnn", 32, 2.375, "shapes", 1, 0.9, "adam", 0.001, 19456, 0.9023, "reached", None, 12.5,
        "2026-01-02T03:04:05Z",
    )  # fmt: skip
    missed = ConvergenceRow(
        "proxy:cnn", 512, None, "shapes", 1, 0.9, "adam", 0.004, accuracy=0.71, status="missed", reason="0.71 at best"
    )
    return Convergence(_header("convergence"), (reached, missed))


def _evaluation() -> Evaluation:
    shared = ("infer", "infer.parquet", "resnet18", None, "gmd", 11, 0)
    unknown = np.full(3, np.nan)
    run = EvaluationRun(
        *shared, np.array([0, 7, 9]), np.array([10.0, 25.0, 30.0]), np.array([0.05, 0.1, 0.2]), np.full(3, 60.0),
        np.array([False, True, True]), np.array([False, True, False]), np.array([False, False, True]),
        np.array([np.nan, 0.025, np.nan]), np.array([0, 11, 11]), np.array([0.0, 0.01, 0.02]), unknown,
        np.array([np.nan, 3, np.nan]), np.array([np.nan, 7, np.nan]),
    )  # fmt: skip
    other = EvaluationRun(
        "dynamic", "infer.parquet", "resnet18", "lstm", "nn-predicted", None, 1, np.array([3]), np.array([np.nan]),
        np.array([np.nan]), np.array([np.nan]), np.array([True]), np.array([True]), np.array([False]), np.array([0.5]),
        np.array([4]), np.array([0.25]), np.array([12.5]), unknown[:1], unknown[:1],
    )  # fmt: skip
    return Evaluation(_header("evaluation"), (run, other))


def _roofline() -> Roofline:
    full, low = Mode(12, 2201.6, 1300.5, 3199.0), Mode(12, 2201.6, 726.75, 2133.0)
    measured = Roof(full, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12, 0.05e-12, 2.5e-12, 0.0125)
    inferred = Roof(low, "fp32", 8.5e12, 103.9e9, measured=False)
    runs = (
        KernelRun("idle", 0, "fp32", full, 0.0, 0.0, 10.0, 17.9),
        KernelRun("matmul", 8192, "fp32", full, 1099511627776.0, 805306368.0, 0.0748, 74.625),
        KernelRun("relu", 16384, "fp32", low, 268435456.0, 2147483648.0, 0.0207),
    )
    return Roofline(_header("roofline"), "twin:orin-agx", (measured, inferred), runs)


def _run() -> Interleaved:
    answered = RunRow(
        "managed", "request", 0.0625, "resnet18", 1, 0.015625, 0.03125, 0.115625, True, 0, 8, 5,
    )  # fmt: skip
    left = RunRow(
        "managed", "request", 10.0, "resnet18", 1, 9.96875, deadline_s=10.06875, met=False, batch_size=8,
        status="abandoned", reason="the run ended before it was answered",
    )  # fmt: skip
    trained = RunRow(
        "managed", "train", 0.25, "mobilenet", 1, started_s=0.0625, minibatch=0, batch_size=16, samples=16, loss=2.25
    )
    mode = RunRow(
        "managed", "mode", 0.5, turn=1, reason="31.5 W is over 30 W", power_budget_w=30.0, cpu_cores=8, cpu_mhz=1344.0,
        gpu_mhz=726.75, mem_mhz=2133.0, power_limit_w=40.0,
    )  # fmt: skip
    power = RunRow("managed", "power", 0.75, turn=1, power_w=28.5, power_budget_w=30.0)
    return Interleaved(_header("run"), (answered, left, trained, mode, power))


def _timeline() -> Timeline:
    load = TimelineRow(
        "load", "reuse", 0.0625, 1, "faces", request=0, layer="conv1", layer_index=0, worker=1, copy="faces",
        started_s=0.03125, bytes=37632, held_bytes=640000, resident_bytes=54525952, swap_bytes=4096, major_faults=3,
        limit_hits=2,
    )  # fmt: skip
    execute = TimelineRow(
        "execute", "reuse", 0.125, 1, "faces", "photos", 0, "conv1", 0, 0, "faces", started_s=0.0625, bytes=602112,
        held_bytes=640000, status="failed", reason="conv1.weights is truncated",
    )  # fmt: skip
    unload = TimelineRow("unload", "reuse", 0.125, 1, "faces", layer="conv1", layer_index=0, copy="faces", bytes=37632)
    answered = TimelineRow(
        "request", "reuse", 0.25, 1, "faces", "photos", 1, arrived_s=0.015625, started_s=0.03125, deadline_s=2.015625,
        met=True,
    )  # fmt: skip
    less = TimelineRow("budget", "reuse", 0.5, 1, budget_bytes=268435456, reason="others need memory")
    return Timeline(_header("timeline"), (load, execute, unload, answered, less))


def _jobs() -> Jobs:
    networks = (NetworkSource("faces", "zoo:alexnet"), NetworkSource("made", costs="costs.parquet", network="tiny"))
    photos = Job("photos", ("faces", "made"), "normal:2s,0.5s", count=150, choose="uniform", deadline_s=2.5)
    late = Job("late", ("made",), (0.0, 0.5, 2.0), after=("photos",))
    busy = Job("busy", ("faces",), "poisson", intensity=0.8, count=10)
    return Jobs(_header("jobs"), networks, (photos, late, busy), 512 * 2**20, 3, "masa", 7)


def _layer_costs() -> LayerCosts:
    first = LayerCostRow(
        "faces", "conv1", "conv", 139776, 1161600, 0.00025, 0.0125, 0, (), 2048, 618348, 1310720, 0.001, 0.0002, 0.0003,
        0.0009, 0.0011, 0.012, 0.013, (0.0005, 0.00025), (0.001,), (0.0125, 0.0125), 1, 0, 0,
        sessions_bytes=540672, first_execute_s=0.015, unload_s=0.0004,
    )  # fmt: skip
    sum_ = LayerCostRow("faces", "add", "other", 0, 1161600, 0.0, 0.0005, 1, (0,), reason="from storage: not measured")
    lost = LayerCostRow("faces", "fc", "fc", 4096, 4, None, None, 2, (0, 1), status="failed", reason="out of memory")
    whole = LayerCostRow(
        "faces", "faces", "other", 143872, 4, 0.5, 0.0625, 0, (), 0, 618348, 400000, 0.75, load_samples_s=(0.5,),
        form="default", resident_bytes=300000, cold_execute_s=0.125, unload_s=0.03125, cold_execute_samples_s=(0.125,),
        unload_samples_s=(0.03125, 0.03125), unload_warmups=1,
    )  # fmt: skip
    return LayerCosts(_header("layer_costs"), (first, sum_, lost, whole))


def _kernel_timeline() -> KernelTimeline:
    piece = KernelTimelineRow(
        "launch", "elastic", 0.0625, 1, "sort", 3, 17, 2, "merge", 8, 16, 4, True, 4, 64, launched_s=0.03125,
        started_s=0.046875,
    )  # fmt: skip
    failed = KernelTimelineRow(
        "launch", "elastic", 0.125, 1, "sort", 4, 18, 0, "split", 0, 49, 1, False, 49, 256, launched_s=0.0625,
        status="failed", reason="out of resources",
    )  # fmt: skip
    answered = KernelTimelineRow(
        "request", "solo", 0.25, 0, "detect", 1, arrived_s=0.125, started_s=0.15625, deadline_s=0.375, met=True
    )
    left = KernelTimelineRow(
        "request", "elastic", 0.5, 1, "detect", 2, arrived_s=0.4375, deadline_s=0.6875, met=False, status="abandoned",
        reason="the run ended before it was answered",
    )  # fmt: skip
    stay = KernelTimelineRow("residency", "elastic", 0.0625, 1, "sort", launch=17, blocks=2, sm=15, started_s=0.046875)
    return KernelTimeline(_header("kernel_timeline"), (piece, failed, answered, left, stay))


def _kernel_tasks() -> KernelTasks:
    calls = (
        KernelCall("split", (49, 4, 1), (16, 16, 1), 2048, ("data", {"int": 49}), 1e6, 65536.0, None, 40, 1024),
        KernelCall("merge", (7, 1, 1), (128, 1, 1), block_time_s=2e-05),
    )
    buffers = (KernelBuffer("data", (49, 1024), "float32", "input"), KernelBuffer("out", (7,), role="output"))
    networks = (
        KernelNetwork("mine", None, {}, "sort.cu", calls, buffers),
        KernelNetwork("small", "lstm", {"steps": 4}),
    )
    detect = KernelTask("detect", "mdtb:alexnet", 2, "uniform:10/s", 0.05)
    tasks = (detect, KernelTask("sort", "mine"), KernelTask("listen", "small", 1, "poisson:2.5/s"))
    return KernelTasks(_header("kernel_tasks"), tasks, networks, "orin-nano", "multistream", 0.5, 7)


SAMPLES = {
    "profile": _profile,
    "trace": _trace,
    "ops": _ops,
    "plan": _plan,
    "convergence": _convergence,
    "evaluation": _evaluation,
    "roofline": _roofline,
    "run": _run,
    "timeline": _timeline,
    "jobs": _jobs,
    "layer_costs": _layer_costs,
    "kernel_timeline": _kernel_timeline,
    "kernel_tasks": _kernel_tasks,
}


def main(kinds: list[str]) -> int:
    if not kinds or not set(kinds) <= set(SAMPLES):
        print(f"usage: add.py {'|'.join(SAMPLES)}", file=sys.stderr)
        return 2
    for kind in kinds:
        suffix = "yaml" if kind in ("plan", "roofline", "jobs", "kernel_tasks") else "parquet"
        path = Path(__file__).parent / f"{kind}-v{current_version(kind)}.{suffix}"
        if path.exists():
            print(f"{path} exists: a golden file is never written again", file=sys.stderr)
            return 1
        io.write(SAMPLES[kind](), path)
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
