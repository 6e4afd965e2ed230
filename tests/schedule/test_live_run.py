"""A run for real: a process under a memory limit, on files that are what was prepared."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import live_networks
import psutil
import pytest

from edgetune.errors import InfeasibleError, PartialError
from edgetune.stages.schedule import worker
from edgetune.stages.schedule.cgroups import make_limit
from edgetune.stages.schedule.live_run import LiveNetwork, LiveOptions, LiveRun
from edgetune.stages.schedule.policies import POLICIES
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.stages.schedule.tasks import BudgetRecord, Record, RequestRecord, TaskRecord
from edgetune.units import NS
from edgetune.workloads.prepared import Prepared

MIB = 1 << 20
LIMIT = 128 * MIB


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    return live_networks.prepared_in(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> RunInputs:
    return RunInputs(tmp_path_factory.mktemp("samples"))


def of(prepared: dict[str, Prepared], *names: str) -> list[LiveNetwork]:
    return [LiveNetwork(live_networks.network(prepared[name]), prepared[name]) for name in names]


def outcomes(records: Sequence[Record]) -> dict[int, str]:
    return {record.request.number: record.outcome for record in records if isinstance(record, RequestRecord)}


def test_a_run_stays_within_its_limit(prepared: dict[str, Prepared], inputs: RunInputs) -> None:
    requests = [Request(n, ("branchy", "wide")[n % 2], n * NS // 100, (n + 500) * NS // 100) for n in range(6)]
    run = LiveRun(of(prepared, "branchy", "wide"), requests, LiveOptions("reuse", LIMIT), inputs)
    records = list(run.records())
    figures = run.figures
    assert outcomes(records) == dict.fromkeys(range(6), "ok")
    assert figures.budget_bytes is not None
    assert figures.base_bytes is not None
    assert figures.base_bytes + figures.budget_bytes < LIMIT
    tasks = [record for record in records if isinstance(record, TaskRecord)]
    assert {task.kind for task in tasks} == {"load", "execute", "unload"}
    assert all(task.resident_bytes for task in tasks)
    assert isinstance(records[0], BudgetRecord)
    if figures.enforced_by != "accounted":
        assert figures.group.peak_bytes is not None
        assert 16 * MIB < figures.group.peak_bytes <= LIMIT
        assert figures.group.kills == 0
    else:
        assert figures.not_enforced_for


def test_whole_networks_run_and_only_the_runtime_keeps_the_limit_by_default(
    prepared: dict[str, Prepared], inputs: RunInputs
) -> None:
    options = LiveOptions("bulk", LIMIT, form="external", enforce=False)
    run = LiveRun(of(prepared, "wide"), [Request(0, "wide", 0)], options, inputs)
    records = list(run.records())
    assert [r.kind for r in records if isinstance(r, TaskRecord)] == ["load", "execute", "unload"]
    assert run.figures.enforced_by == "accounted"


def test_a_process_killed_at_its_limit_is_reported_as_such_and_rows_are_kept(
    prepared: dict[str, Prepared], inputs: RunInputs
) -> None:
    """ONNX Runtime copies the weights of a whole network, for which there is no room."""
    requests = [Request(0, "branchy", 0), Request(1, "wide", NS)]
    options = LiveOptions("bulk", 72 * MIB, form="default", swap_bytes=0)
    run = LiveRun(of(prepared, "branchy", "wide"), requests, options, inputs)
    with make_limit(LIMIT) as limit:
        if limit.enforced == "accounted":
            pytest.skip(f"no control group can be made here: {limit.reason}")
    records: list[Record] = []
    with pytest.raises(PartialError, match="the kernel killed the process at 72 MiB"):
        records.extend(run.records())
    assert outcomes(records) == {0: "ok"}
    assert run.figures.group.kills == 1


def test_a_run_that_is_stopped_finishes_what_runs_and_gives_up_the_rest(
    prepared: dict[str, Prepared], inputs: RunInputs
) -> None:
    requests = [Request(n, "wide", 0) for n in range(1000)]
    run = LiveRun(of(prepared, "wide"), requests, LiveOptions("linear", LIMIT), inputs)
    records = []
    for record in run.records():
        records.append(record)
        if isinstance(record, RequestRecord):
            run.stop()
    assert outcomes(records)[0] == "ok"
    assert {*outcomes(records).values()} == {"ok", "abandoned"}
    assert len(outcomes(records)) == 1000


def test_a_process_that_crashes_keeps_its_rows_and_leaves_no_group(
    prepared: dict[str, Prepared], inputs: RunInputs
) -> None:
    requests = [Request(0, "branchy", 0), Request(1, "branchy", 60 * NS)]
    run = LiveRun(of(prepared, "branchy"), requests, LiveOptions("reuse", LIMIT), inputs)
    records: list[Record] = []

    def watched() -> Iterator[Record]:
        for record in run.records():
            yield record
            if isinstance(record, RequestRecord):
                assert run._child is not None
                os.kill(run._child.pid, signal.SIGBUS)

    with pytest.raises(PartialError, match="the run ended early: the workload crashed: SIGBUS") as raised:
        records.extend(watched())
    assert raised.value.hint.startswith("a file of weights was cut short, or its storage failed, while it was in use")
    assert outcomes(records) == {0: "ok"}
    groups = Path("/sys/fs/cgroup").rglob(f"edgetune-{os.getpid()}-*")
    assert list(groups) == []


@pytest.mark.parametrize("enforce", [False, True])
def test_a_budget_below_the_hungriest_layer_names_the_smallest_that_works(
    prepared: dict[str, Prepared], inputs: RunInputs, enforce: bool
) -> None:
    options = LiveOptions("linear", LIMIT, enforce=enforce)
    ample = LiveRun(of(prepared, "wide"), [Request(0, "wide", 0)], options, inputs)
    list(ample.records())
    if enforce and ample.figures.enforced_by == "accounted":
        pytest.skip(f"no control group can be made here: {ample.figures.not_enforced_for}")
    assert ample.figures.base_bytes is not None
    options = replace(options, limit_bytes=ample.figures.base_bytes + 12 * MIB)  # a layer has 16
    run = LiveRun(of(prepared, "wide"), [Request(0, "wide", 0)], options, inputs)
    with pytest.raises(InfeasibleError, match="network wide needs") as refused:
        list(run.records())
    smallest_bytes = int(refused.value.hint.removesuffix("MiB").split()[-1]) * MIB
    options = replace(options, limit_bytes=smallest_bytes)
    run = LiveRun(of(prepared, "wide"), [Request(0, "wide", 0)], options, inputs)
    assert outcomes(list(run.records())) == {0: "ok"}
    if enforce and not on_tmpfs(prepared["wide"].folder):  # whose pages count where they were written
        assert run.figures.group.peak_bytes is not None
        assert smallest_bytes <= 1.1 * run.figures.group.peak_bytes, "little more than the kernel counts is asked for"


def on_tmpfs(path: Path) -> bool:
    mounts = [each for each in psutil.disk_partitions(all=True) if path.is_relative_to(each.mountpoint)]
    return max(mounts, key=lambda each: len(each.mountpoint)).fstype == "tmpfs"


HEAVY = (
    "importlib.metadata", "email", "csv", "zipfile", "pydantic", "yaml", "typer", "rich", "scipy", "pyarrow", "onnx",
    "psutil", "torch", "ortools", "edgetune.artifacts.header", "edgetune.stages.schedule.best_schedule",
    "edgetune.stages.schedule.simulation",
)  # fmt: skip


def test_a_ready_worker_has_imported_nothing_heavy():
    """All that its file imports, at its head and while it runs, and every policy."""
    imported = re.findall(r"from (edgetune\S+) import|import (onnxruntime)", Path(worker.__file__).read_text())
    modules = [name or other for name, other in imported]
    assert {"onnxruntime", "edgetune.stages.schedule.live", "edgetune.stages.schedule.loop"} <= set(modules)
    program = (
        f"import sys, importlib\nfor name in {modules}: importlib.import_module(name)\n"
        f"from edgetune.stages.schedule.policies import POLICIES\nfor name in {list(POLICIES)}: POLICIES[name]\n"
        f"before = set(sys.modules)\nimport numpy, onnxruntime\n"
        f"print(*(set({list(HEAVY)}) & before))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == []
