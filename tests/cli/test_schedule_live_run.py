"""``edgetune schedule run`` for real, on a network small enough for a test, within the accounts of the runtime."""

import json
import re

import numpy as np
import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts import io
from edgetune.artifacts.timeline import Timeline
from edgetune.workloads.prepared import open_prepared

JOBS = """kind: jobs
version: 1
memory: 256MiB
networks: {one: tiny.onnx, two: {model: tiny.onnx, inputs: sample.npz}}
jobs:
- {name: batch, networks: [one, two], count: 2}
"""
RUN = ("schedule", "run", "jobs.yaml", "--prepared", "prepared", "--limit", "accounted", "-o", "t.parquet")


def tiny(path):
    """Two fully connected layers of 16 kB."""
    weights = [numpy_helper.from_array(np.full((64, 64), 1 / 64, np.float32), name) for name in ("v", "w")]
    nodes = [
        helper.make_node("Gemm", ["x", "v"], ["y"], name="first"),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
        helper.make_node("Gemm", ["z", "w"], ["answer"], name="last"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "answer")]
    graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny(tmp_path / "tiny.onnx")
    np.savez(tmp_path / "sample.npz", x=np.ones((1, 64), np.float32))
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


def test_networks_are_prepared_once_and_run(edgetune, folder):
    ended = edgetune(*RUN, "--policy", "bulk,reuse")
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.out + ended.err
    assert ended.err.splitlines() == ["preparing tiny.onnx in prepared/tiny", "bulk", "reuse", "wrote t.parquet"]
    timeline = io.read(Timeline, "t.parquet")
    told = timeline.header.conditions
    assert (told["simulated"], told["enforced_by"], told["device"]) == (False, "accounted", "host")
    rows = [row for row in timeline.rows if row.policy == "reuse"]
    assert sum(row.event == "request" and row.status == "ok" for row in rows) == 4
    assert len({row.layer for row in rows if row.event == "execute" and row.network == "one"}) == 2
    assert all(row.resident_bytes > 0 for row in rows if row.event == "execute")
    assert rows[-1].event == "memory"
    assert rows[-1].peak_bytes > 0
    again = edgetune(*RUN, "--json", "--quiet")
    assert "preparing" not in again.err
    assert json.loads(again.out)["policies"][0]["memory"]["peak_bytes"] > 0


def test_a_dry_run_runs_no_handler(edgetune, folder):
    (folder / "handler.py").write_text("open('ran', 'w')\ndef inputs(request, arrays):\n    return None\n")
    (folder / "jobs.yaml").write_text(JOBS.replace("one: tiny.onnx", "one: {model: tiny.onnx, handler: handler.py}"))
    assert edgetune(*RUN, "--dry-run").code == 0
    assert not (folder / "ran").exists()
    assert edgetune(*RUN).code in (0, 2, 5)
    assert (folder / "ran").exists(), "the run does"


def test_a_dry_run_counts_what_the_runtime_takes_and_refuses_what_the_run_would(edgetune, folder):
    told = edgetune(*RUN, "--dry-run")
    assert told.code == 0, told.err
    assert not (folder / "t.parquet").exists()
    dry, real = (edgetune(*RUN, "--memory", "24MiB", *more) for more in (["--dry-run", "--quiet"], ["--quiet"]))
    for ended in (dry, real):
        assert_two_lines(ended, 3)
    enough = re.search(r"smallest budget .* is (\d+MiB)", dry.lines[1])[1]
    for more in (["--dry-run"], []):
        ended = edgetune(*RUN, "--memory", enough, *more)
        assert ended.code == 0, ended.err


def test_the_optimum_is_planned_before_the_clock_starts(edgetune, folder):
    pytest.importorskip("ortools")
    refused = edgetune(*RUN, "--policy", "reuse,optimum", "--quiet")
    assert_two_lines(refused, 2)
    assert edgetune("schedule", "profile", "prepared", "-o", "costs.parquet", "--repeats", "1", "--quiet").code == 0
    words = (*RUN, "--costs", "costs.parquet", "--policy", "optimum,reuse", "--turns", "4", "--time-limit", "100ms")
    ended = edgetune(*words)
    assert ended.code == 0, ended.err
    timeline = io.read(Timeline, "t.parquet")
    plans = [turn["plan"] for turn in timeline.header.conditions["policies"]["optimum"]]
    assert len(plans) == 4
    assert all(0 < plan["bound_s"] <= plan["value_s"] < plan["took_s"] for plan in plans)
    assert plans[0]["bound_s"] == plans[2]["bound_s"] != plans[3]["bound_s"], "durations of three turns are known then"
    first_s = [min(r.started_s for r in timeline.rows if r.event == "load" and r.turn == turn) for turn in range(4)]
    assert max(first_s) < min(plan["took_s"] for plan in plans), "nobody thinks while the clock runs"


def made_by_another_runtime(folder):
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["runtime"]["onnxruntime"] = "0.1"
    manifest.write_text(json.dumps(document))


def test_networks_of_another_runtime_are_prepared_again_only_in_the_cache(edgetune, folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    cached = folder / "cache/edgetune/prepared/tiny"
    dry_run = ("schedule", "run", "jobs.yaml", "--dry-run")
    assert edgetune(*dry_run).err.startswith(f"preparing tiny.onnx in {cached}\none: 2 layers")
    made_by_another_runtime(cached)
    said = edgetune(*dry_run).err.splitlines()[0]
    assert said.startswith(f"preparing tiny.onnx in {cached} again: {cached} was prepared with ONNX Runtime 0.1, this")
    assert "preparing" not in edgetune(*dry_run).err
    assert edgetune(*RUN).code == 0
    made_by_another_runtime(folder / "prepared/tiny")
    ended = edgetune(*RUN, "--quiet")
    assert_two_lines(ended, 2)


@pytest.mark.parametrize("column", [4])
def test_costs_of_layers_of_other_sizes_are_refused(edgetune, folder, column):
    """As of the same network at another batch size."""
    rows = [["network", "layer", "kind", "weight_bytes", "output_bytes", "load_s", "execute_s"]]
    assert edgetune("schedule", "prepare", "tiny.onnx", "--quiet").code == 0
    for layer in open_prepared(folder / "prepared/tiny").layers:
        rows.append(["tiny", layer.name, layer.kind, str(layer.weight_bytes), str(layer.output_bytes), "0.1", "0.1"])
    (folder / "costs.csv").write_text("\n".join(map(",".join, rows)))
    assert edgetune(*RUN, "--costs", "costs.csv", "--dry-run").code == 0
    rows[-1][column] = "8"
    (folder / "costs.csv").write_text("\n".join(map(",".join, rows)))
    ended = edgetune(*RUN, "--costs", "costs.csv")
    assert_two_lines(ended, 2)


def test_a_line_is_an_arrival(shell, folder):
    text = JOBS.replace("count: 2", "arrivals: live, count: 2, deadline: 60s")
    (folder / "jobs.yaml").write_text(text)
    ended = shell(*RUN, stdin=b"first\nsecond\nthird\n")
    assert ended.code == 0, ended.err
    requests = [row for row in io.read(Timeline, "t.parquet").rows if row.event == "request"]
    assert [(row.job, row.status, row.met) for row in requests] == [("batch", "ok", True)] * 4


def test_a_control_group_that_was_asked_for_and_cannot_be_made_is_two_lines(edgetune, folder, monkeypatch):
    from edgetune.stages.schedule import live_run
    from edgetune.stages.schedule.cgroups import MemoryLimit

    monkeypatch.setattr(live_run, "make_limit", lambda *_, **__: MemoryLimit("no folder may be made"))
    assert edgetune(*RUN).code == 0  # prepared now
    ended = edgetune(*RUN[:-4], "--limit", "cgroup", "-o", "u.parquet", "--quiet")
    assert_two_lines(ended, 4)
    ended = edgetune(*RUN[:-4], "--limit", "auto", "-o", "u.parquet")
    assert ended.code == 0


def test_a_run_that_was_killed_keeps_its_rows_and_says_so(edgetune, folder, monkeypatch):
    from edgetune.errors import PartialError
    from edgetune.stages.schedule import live_run

    real = live_run.LiveRun.records

    def killed(self):
        for number, record in enumerate(real(self)):
            if self._options.policy == "masa" and number == 6:
                raise PartialError("the kernel killed the process", "give it more memory")
            yield record

    monkeypatch.setattr(live_run.LiveRun, "records", killed)
    ended = edgetune(*RUN, "--policy", "masa,reuse")
    assert ended.code == 5
    timeline = io.read(Timeline, "t.parquet")
    requests = [row for row in timeline.rows if row.event == "request"]
    assert sum(row.policy == "reuse" and row.status == "ok" for row in requests) == 4
    of_masa = [row for row in requests if row.policy == "masa"]
    assert len(of_masa) == 4
    assert {row.reason for row in of_masa if row.status == "failed"} == {"the kernel killed the process"}
