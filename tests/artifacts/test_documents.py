"""Documents (plans, problems, rooflines, jobs, kernel tasks): what is written reads back, what cannot be is refused."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.jobs import Job, Jobs, NetworkSource
from edgetune.artifacts.kernel_tasks import KernelBuffer, KernelCall, KernelNetwork, KernelTask
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem, problem_of, read_problem
from edgetune.artifacts.roofline import KernelRun, Roof, Roofline
from edgetune.errors import InputError
from edgetune.units import MOST_S

_PLAN = Plan(
    header=Header("plan", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", {"workload": {"name": "resnet18"}}, {"seed": 0}),
    problem=Problem("train", power_budget_w=30.0),
    configuration=Configuration(Mode(8, 1344.0, 727.5, 2133.0), batch_size=16),
    measured=PlanFigures(0.0712, 28.9),
    search=SearchSummary("roofline", 8, 0),
    predicted=PlanFigures(1e-05, 28.7),
)
_FULL, _LOW = Mode(12, 2201.6, 1300.5, 3199.0), Mode(12, 2201.6, 726.75, 2133.0)
_ROOFLINE = Roofline(
    Header("roofline", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", {}, {"device": "twin:orin-agx"}),
    "twin:orin-agx",
    (
        Roof(_FULL, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12, 5e-14, 2.5e-12, 0.0125),
        Roof(_LOW, "fp32", 8.5e12, 103.9e9, measured=False),
    ),
    (
        KernelRun("idle", 0, "fp32", _FULL, 0.0, 0.0, 10.0, 17.9),
        KernelRun("matmul", 8192, "fp32", _FULL, 1099511627776.0, 805306368.0, 0.0748, 74.625),
        KernelRun("relu", 16384, "fp32", _LOW, 268435456.0, 2147483648.0, 0.0207),
    ),
)
_TEXTS = {
    "plan": """\
kind: plan
version: 1
created: '2026-01-02T03:04:05Z'
tool: edgetune 0.1.0
inputs:
  workload: {name: resnet18}
conditions:
  seed: 0
warnings: []
problem: {kind: train, power_budget_w: 30.0}
configuration:
  mode: {cpu_cores: 8, cpu_mhz: 1344, gpu_mhz: 727.5, mem_mhz: 2133}
  batch_size: 16
measured: {minibatch_s: 0.0712, power_w: 28.9}
predicted: {minibatch_s: 1.0e-05, power_w: 28.7}
search: {strategy: roofline, points_measured: 8, seed: 0, known_points: 0}
""",
    "roofline": """\
kind: roofline
version: 1
created: '2026-01-02T03:04:05Z'
tool: edgetune 0.1.0
inputs: {}
conditions:
  device: twin:orin-agx
warnings: []
device: twin:orin-agx
roofs:
- mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 1300.5, mem_mhz: 3199}
  precision: fp32
  flops_per_s: 14700000000000
  bytes_per_s: 164400000000
  static_w: 17.9
  flop_j: 3.86e-12
  byte_j: 1.414e-10
  flop_j_error: 5.0e-14
  byte_j_error: 2.5e-12
  residual_share: 0.0125
  measured: true
- mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 726.75, mem_mhz: 2133}
  precision: fp32
  flops_per_s: 8500000000000
  bytes_per_s: 103900000000
  measured: false
runs:
  columns: [kernel, size, precision, flops, bytes_moved, seconds, power_w]
  modes:
  - mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 1300.5, mem_mhz: 3199}
    rows:
    - [idle, 0, fp32, 0, 0, 10, 17.9]
    - [matmul, 8192, fp32, 1099511627776, 805306368, 0.0748, 74.625]
  - mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 726.75, mem_mhz: 2133}
    rows:
    - [relu, 16384, fp32, 268435456, 2147483648, 0.0207, null]
""",
    "jobs": """\
kind: jobs
version: 1
memory: 1.5MiB
networks: {faces: 'zoo:alexnet', age: models/age.onnx}
jobs:
- {name: photos, networks: [faces, age], deadline: 80ms}
""",
    "kernel_tasks": """\
kind: kernel_tasks
version: 1
gpu: xavier
duration: 500ms
tasks:
- {name: detect, network: 'mdtb:alexnet', priority: 1, arrivals: 'uniform:10/s', deadline: 50ms}
- {name: sort, network: mine}
- {name: listen, network: short}
networks:
  short: {mdtb: lstm, sizes: {steps: 4}}
  mine:
    source: sort.cu
    buffers: {data: [49, 1024], out: {shape: [7], role: output}}
    calls:
    - {kernel: split, grid: [49, 4], block: [16, 16], shared: 2KiB, arguments: [data, {int: 49}], flop_per_block: 1e6,
       bytes_per_block: 64KiB, registers: 40}
    - {kernel: merge, grid: [7], block: [128], block_time: 20us}
""",
}


def _read(kind: str, text: str | None = None) -> Any:
    return io.from_bytes((text or _TEXTS[kind]).encode(), kind=kind, name=f"{kind}.yaml")


@pytest.mark.parametrize("document", [_PLAN, _ROOFLINE], ids=["plan", "roofline"])
def test_the_layout_is_the_documented_one(document: Plan | Roofline) -> None:
    kind = document.header.kind
    assert document.to_bytes().decode() == _TEXTS[kind]
    assert _read(kind) == document
    assert _read(kind, json.dumps(yaml.safe_load(_TEXTS[kind]))) == document  # JSON is YAML too


def test_a_short_plan_with_numpy_numbers_and_an_unquoted_date_is_one() -> None:
    plan = replace(_PLAN, measured=PlanFigures(np.float64(0.0712), np.float64(28.9)))  # type: ignore[arg-type]
    assert plan.to_bytes().decode() == _TEXTS["plan"]
    text = _TEXTS["plan"].replace("'", "").replace("30.0", "3e1")
    assert _read("plan", text) == _PLAN
    short = _read("plan", "kind: plan\nversion: 1\n" + text[text.index("problem") :])
    assert replace(short, header=_PLAN.header) == _PLAN
    assert (short.header.created, short.header.inputs) == ("unknown", {})


def test_jobs_have_quantities_and_defaults() -> None:
    jobs = _read("jobs")
    assert jobs.networks == (NetworkSource("faces", "zoo:alexnet"), NetworkSource("age", "models/age.onnx"))
    assert jobs.jobs == (Job("photos", ("faces", "age"), deadline_s=0.08),)
    assert (jobs.memory_bytes, jobs.workers, jobs.policy, jobs.seed) == (1.5 * 2**20, 2, "reuse", 0)


def test_kernel_tasks_have_quantities_and_read_back() -> None:
    tasks = _read("kernel_tasks")
    assert (tasks.gpu, tasks.policy, tasks.duration_s, tasks.seed) == ("xavier", "elastic", 0.5, 0)
    assert tasks.tasks == (
        KernelTask("detect", "mdtb:alexnet", 1, "uniform:10/s", 0.05),
        KernelTask("sort", "mine"),
        KernelTask("listen", "short"),
    )
    split = KernelCall("split", (49, 4), (16, 16), 2048, ("data", {"int": 49}), 1e6, 65536.0, registers=40)
    merge = KernelCall("merge", (7,), (128,), block_time_s=20 * 1e-6)
    buffers = (KernelBuffer("data", (49, 1024)), KernelBuffer("out", (7,), role="output"))
    assert tasks.networks == (
        KernelNetwork("short", "lstm", {"steps": 4}),
        KernelNetwork("mine", source="sort.cu", calls=(split, merge), buffers=buffers),
    )
    assert io.from_bytes(tasks.to_bytes(), kind="kernel_tasks", name="again.yaml") == tasks
    assert io.from_bytes(tasks.to_bytes("json"), kind="kernel_tasks", name="again.json") == tasks


@pytest.mark.parametrize(
    ("kind", "old", "new", "message", "hint"),
    [
        ("plan", "power_budget_w", "power_budget", "unknown key 'problem.power_budget'", "mean power_budget_w?"),
        ("plan", "power_w: 28.9", "power_w: 28.9, power_w: 1", "line 14: the key 'power_w' is given twice", "unique"),
        ("plan", "30.0", ".nan", "problem.power_budget_w is nan", "finite"),
        ("plan", "30.0", "30.0, margin: 1.5", "problem.margin is 1.5", "between 0 and 1"),
        ("plan", "batch_size: 16", "batch_size: 16.5", "configuration.batch_size is 16.5", "integer"),
        ("plan", "kind: train", "kind: learn", "problem.kind is 'learn'", "must be 'train'"),
        ("plan", "{kind: train, ", "{", "has no problem.kind", "edgetune search"),
        ("plan", "search: {", "search: {points: {", "line 17", "correct the line"),
        ("plan", "batch_size: 16", "batch_size: &a 16\n  x: *a", "aliases are not used here", "correct the line"),
        ("plan", "tool: edgetune 0.1.0", "tool: !!python/name:os.system x", "tags are not used", "correct the"),
        ("roofline", "static_w", "static_wat", "unknown key 'roofs.0.static_wat'", "did you mean static_w?"),
        ("roofline", "power_w]", "power_x]", "unknown key 'runs.columns.power_x'", "did you mean power_w?"),
        ("roofline", "device: twin:orin-agx\nroofs", "roofs", "roofline.yaml has no device", "see a file"),
        ("roofline", ", 0.0748, 74.625]", ", 0.0748]", "a row of runs has 6 values for 7 columns", "write null"),
        ("roofline", "726.75, mem_mhz: 2133}\n  precision", "1300.5, mem_mhz: 3199}\n  precision", "2 roofs", "one"),
        ("roofline", "  flop_j: 3.86e-12\n", "", "has no flop_j", "give static_w, flop_j, byte_j together"),
        ("roofline", "kind: roofline", "kind: plan", "roofline.yaml is a plan, not a roofline", "edgetune roofline"),
        ("jobs", "age: models", "faces: models", "'faces' is given twice", ""),
        ("jobs", "[faces, age]", "[faces, agee]", "'agee'", "did you mean age?"),
        ("jobs", "[faces, age]", "[faces, faces]", "names faces twice", ""),
        ("jobs", "[faces, age]", "[]", "photos names no networks", ""),
        ("jobs", "80ms}", "80ms, after: [photo]}", "waits for an unknown job, 'photo'", "did you mean photos?"),
        ("jobs", "80ms}", "80ms}\n- {name: photos, networks: [age]}", "two jobs are called photos", ""),
        ("jobs", "80ms}", "80ms, arrivals: [0s, 2s, 1s]}", "an arrival at 1 s follows one at 2 s", ""),
        ("jobs", "80ms}", "80ms, arrivals: []}", "arrivals is empty", ""),
        ("jobs", "80ms}", "80ms, arrivals: [1s], count: 2}", "count is 2, and 1 arrivals are listed", ""),
        ("jobs", "80ms", "80", "jobs.photos.deadline is 80", "with its unit, e.g. 80ms"),
        ("jobs", "80ms}", "80ms, choose: uniform:3}", "of 2 networks", "uniform:1-2"),
        ("jobs", "models/age.onnx", "{costs: c.parquet, netwrok: n}", "'networks.age.netwrok'", "mean network?"),
        ("jobs", "models/age.onnx", "{inputs: x.npz}", "network age has neither a model nor costs", ""),
        ("jobs", "models/age.onnx", "{model: m.onnx, network: n}", "age has a model, and 'n'", "leave network out"),
        ("jobs", "models/age.onnx", "{costs: c.parquet, inputs: h.npz}", "is simulated only", ""),
        ("jobs", "{faces: 'zoo:alexnet', age: models/age.onnx}", "{}", "names no networks", ""),
        ("jobs", "{faces: 'zoo:alexnet', age: models/age.onnx}", "[faces]", "networks is ['faces']", "mapping"),
        ("jobs", "name: photos", "name: no", "jobs.0.name is False", "quote a name such as 'no'"),
        ("kernel_tasks", "name: sort", "name: detect", "two tasks are called detect", ""),
        ("kernel_tasks", "network: mine", "network: mime", "names an unknown network, 'mime'", "mine"),
        ("kernel_tasks", "grid: [7]", "grid: [0]", "networks.mine.calls.1.grid.0 is 0", ""),
        ("kernel_tasks", "block: [128]", "blok: [128]", "unknown key 'networks.mine.calls.1.blok'", "block?"),
        ("kernel_tasks", "{int: 49}", "{short: 49}", "unknown argument", "int"),
        ("kernel_tasks", "[data, {int", "[date, {int", "unknown argument 'date'", "data"),
        ("kernel_tasks", "data: [49, 1024]", "data: [49, 0]", "networks.mine.buffers.data.shape.1 is 0", ""),
        ("kernel_tasks", "short: {mdtb: lstm, ", "short: {", "neither mdtb nor calls", ""),
        ("kernel_tasks", "sizes: {steps: 4}", "source: a.cu", "of the benchmark, and has a source", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_mended(kind: str, old: str, new: str, message: str, hint: str) -> None:
    assert old in _TEXTS[kind]
    with pytest.raises(InputError) as caught:
        _read(kind, _TEXTS[kind].replace(old, new, 1))
    assert caught.value.message.startswith(f"{kind}.yaml")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_circle_of_jobs_is_told_in_full() -> None:
    jobs = "".join(f"- {{name: {name}, networks: [faces], after: [{after}]}}\n" for name, after in ("ab", "bc", "ca"))
    with pytest.raises(InputError, match="jobs wait for each other") as caught:
        _read("jobs", _TEXTS["jobs"] + jobs)
    assert all(f"{name} is after" in caught.value.message for name in "abc")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- kind: plan\n", "it holds list"),
        ("version: 1\n", "there is no `kind`"),
        ("kind: plan\nversion: 1\n---\nkind: plan\n", "expected a single document"),
        ("kind: plan\n\tversion: 1\n", "line 2"),
        ("kind: " + "[" * 5000, "nested too deeply"),
        ("kind: plan\x07\n", "not valid YAML"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        _read("plan", text)
    assert words in caught.value.message


def test_a_problem_is_read_alone_or_in_a_plan(tmp_path: Any) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text("kind: train+infer\npower_budget_w: 30\nlatency_budget_s: 0.5\nbackground: resnet18\n")
    expected = Problem("train+infer", 30.0, 0.5, background="resnet18")
    assert read_problem(str(path)) == expected
    path.write_text(f"kind: plan\nproblem: {{{', '.join(path.read_text().splitlines())}}}\n")
    assert read_problem(str(path)) == expected
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        read_problem(str(path))
    for epochs in ({8: 12.5, 16: 10}, [[8, 12.5], [16, 10]]):
        found = problem_of({"kind": "accuracy", "epochs_to_target": epochs}, name="it")
        assert found.epochs_to_target == ((8, 12.5), (16, 10.0))
    with pytest.raises(InputError, match="unknown key 'power_budget'"):
        problem_of({"kind": "train", "power_budget": 30}, name="it")


_figure = st.none() | st.floats(min_value=1e-9, max_value=1e9)
_count = st.none() | st.integers(1, 10**6)
_positive = st.floats(min_value=1e-15, max_value=1e18)
_unsigned = st.just(0.0) | _positive
_mode = st.builds(Mode, st.none() | st.integers(1, 64), *[st.none() | st.floats(1.0, 1e5)] * 4)


@settings(deadline=None, max_examples=60)
@given(
    problem=st.builds(
        Problem,
        st.sampled_from(["train", "infer", "train+infer", "infer+infer", "accuracy"]),
        _figure,
        _figure,
        _figure,
        st.sampled_from([None, "throughput", "latency", "energy", "energy-delay", "time"]),
        st.floats(0, 1),
        st.none() | st.text(max_size=8),
        _count,
        st.lists(st.tuples(st.integers(1, 512), st.floats(0.1, 1e3)), max_size=3).map(tuple),
    ),
    mode=_mode,
    batch_size=_count,
    measured=st.builds(PlanFigures, _figure, _figure, _figure, _figure, _figure),
    name=st.text(max_size=20),
)
@example(_PLAN.problem, Mode(), None, PlanFigures(), "0E0")
@example(_PLAN.problem, Mode(), None, PlanFigures(), "a\x85b")
def test_any_plan_reads_back(
    problem: Problem, mode: Mode, batch_size: int | None, measured: PlanFigures, name: str
) -> None:
    inputs, conditions = {"workload": {"name": name}}, {name: [1, None, {"a": name}]}
    header = replace(_PLAN.header, inputs=inputs, conditions=conditions, warnings=(DataWarning("a", name, {"n": 3.0}),))
    plan = Plan(header, problem, Configuration(mode, batch_size), measured, SearchSummary(name, 1, 0), measured)
    assert io.from_bytes(plan.to_bytes(), kind="plan", name="it") == plan


@settings(deadline=None, max_examples=40)
@given(
    modes=st.lists(_mode, min_size=1, max_size=3, unique=True),
    peaks=st.tuples(_positive, _positive),
    energy=st.tuples(st.none(), st.none(), st.none()) | st.tuples(_unsigned, _unsigned, _unsigned),
    measured=st.booleans(),
    runs=st.lists(
        st.builds(
            KernelRun, st.sampled_from(["idle", "matmul"]), st.integers(0, 2**16), st.sampled_from(["fp32", "tf32"]),
            _mode, _unsigned, _unsigned, _positive, st.none() | _positive,
        ),
        max_size=5,
    ),
)  # fmt: skip
def test_any_roofline_reads_back(
    modes: list[Mode], peaks: tuple[float, float], energy: Any, measured: bool, runs: list[KernelRun]
) -> None:
    roofs = tuple(Roof(mode, "fp32", *peaks, *energy, measured=measured) for mode in modes)
    whole = Roofline(_ROOFLINE.header, "any device", roofs, tuple(runs))
    assert _read("roofline", whole.to_bytes().decode()) == whole


_name = st.text("abcdef-_ :[]{}#'\"é", min_size=1, max_size=8)
_time = st.floats(1e-9, MOST_S)


@st.composite
def _jobs(draw: st.DrawFn) -> Jobs:
    known = draw(st.lists(_name, min_size=1, max_size=3, unique=True))
    modelled = st.builds(NetworkSource, st.sampled_from(known), _name, st.none() | _name)
    costed = st.builds(NetworkSource, st.sampled_from(known), costs=_name, network=st.none() | _name)
    sources = [replace(draw(modelled | costed), name=name) for name in known]
    jobs: list[Job] = []
    for name in draw(st.lists(_name, min_size=1, max_size=3, unique=True)):
        times_s = tuple(sorted(draw(st.lists(st.floats(0, 1e6).filter(lambda t: t == 0 or t > 1e-9), max_size=3))))
        jobs.append(
            Job(
                name,
                tuple(draw(st.lists(st.sampled_from(known), min_size=1, unique=True))),
                times_s or draw(_name),
                draw(st.none() | _time),
                None if times_s else draw(st.none() | st.integers(1, 10**6)),
                draw(st.sampled_from(["all", "uniform"])),
                draw(st.none() | _time),
                tuple(draw(st.lists(st.sampled_from([job.name for job in jobs] or [""]), unique=True)) if jobs else ()),
            )
        )
    header = Header("jobs", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0")
    memory = draw(st.none() | st.integers(1, 2**45))
    return Jobs(
        header, tuple(sources), tuple(jobs), memory, draw(st.integers(1, 64)), draw(_name), draw(st.integers(0))
    )


@given(_jobs())
@settings(max_examples=50, deadline=None)
def test_any_jobs_read_back(jobs: Jobs) -> None:
    assert io.from_bytes(jobs.to_bytes(), kind="jobs", name="it") == jobs
