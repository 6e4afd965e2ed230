"""``edgetune schedule prepare`` and ``profile``, and ``run`` for real, within the accounts of the runtime."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts import io
from edgetune.artifacts.io import read
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.artifacts.timeline import Timeline
from edgetune.cli.main import run as main
from edgetune.stages.schedule.costs import networks_of
from edgetune.workloads.prepared import open_prepared


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


@pytest.fixture(autouse=True)
def in_a_folder_with_a_tiny_network(tmp_path, monkeypatch):
    """The folder in which commands run, and their cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tiny(tmp_path / "tiny.onnx")


def test_networks_are_prepared_once(edgetune, tmp_path):
    first = edgetune("schedule", "prepare", "zoo:squeezenet", "zoo:mobilenet_v2")
    assert first.code == 0
    assert [line.split()[0] for line in first.out.splitlines()] == ["network", "squeezenet", "mobilenet_v2"]
    assert first.lines[1] == "wrote prepared/squeezenet"
    written = (tmp_path / "prepared/squeezenet/manifest.json").stat().st_mtime_ns
    again = edgetune("schedule", "prepare", "zoo:squeezenet", "--json")
    assert again.lines == ["kept prepared/squeezenet"]
    (row,) = json.loads(again.out)
    assert (row["network"], row["layers"]) == ("squeezenet", 26)
    assert row["largest_layer_bytes"] <= row["least_budget_bytes"] < row["weight_bytes"] * 2
    assert row["difference"] < 1e-4
    assert (tmp_path / "prepared/squeezenet/manifest.json").stat().st_mtime_ns == written
    edgetune("schedule", "prepare", "zoo:squeezenet", "--fresh", "--quiet")
    assert (tmp_path / "prepared/squeezenet/manifest.json").stat().st_mtime_ns > written


def test_options_reach_the_folder(edgetune, tmp_path):
    words = ("--batch-size", "2", "--split", "1MiB", "--optimise", "basic", "-o", "elsewhere", "--quiet")
    ended = edgetune("schedule", "prepare", "zoo:squeezenet", *words)
    assert (ended.code, ended.err) == (0, "")
    prepared = open_prepared(tmp_path / "elsewhere" / "squeezenet")
    assert prepared.batch_size == 2
    assert prepared.options == {"dimensions": {}, "optimise": "basic", "split_bytes": 1 << 20, "whole": False}


def test_a_damaged_folder_is_written_again_only_when_asked(edgetune, tmp_path):
    edgetune("schedule", "prepare", "zoo:squeezenet", "--quiet")
    weights = next((tmp_path / "prepared/squeezenet").glob("000-*.weights"))
    weights.unlink()
    ended = edgetune("schedule", "prepare", "zoo:squeezenet", "--quiet")
    assert_two_lines(ended, 2)
    assert weights.name in ended.lines[0]
    assert edgetune("schedule", "prepare", "zoo:squeezenet", "--quiet", "--fresh").code == 0
    assert weights.exists()


def test_a_dry_run_writes_nothing(edgetune, tmp_path):
    ended = edgetune("schedule", "prepare", "zoo:alexnet", "zoo:bert_large", "--dry-run", "--json")
    alexnet, bert = json.loads(ended.out)
    assert alexnet["weight_bytes"] == 61_100_840 * 4
    assert alexnet["disk_bytes"] == 3 * alexnet["weight_bytes"]
    assert bert["folder"] == "prepared/bert_large"
    assert not (tmp_path / "prepared").exists()


def open_dimension(tmp_path):
    shape = ["batch", "length"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())


REFUSED = {
    "one name twice": ("zoo:squeezenet", "zoo:squeezenet"),
    "split and whole": ("zoo:squeezenet", "--split", "1MiB", "--whole"),
    "a file in the way": ("zoo:squeezenet", "-o", "net.onnx"),
    "an open dimension": ("net.onnx",),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_networks_that_cannot_be_prepared_are_two_lines(edgetune, tmp_path, words):
    open_dimension(tmp_path)
    ended = edgetune("schedule", "prepare", *words, "--quiet")
    assert_two_lines(ended, 2)
    assert not any(path.name.startswith(".") for path in tmp_path.rglob("*"))


def test_a_model_becomes_a_table_from_which_it_can_be_simulated(edgetune, tmp_path):
    ended = edgetune("schedule", "profile", "tiny.onnx", "--repeats", "6", "-o", "costs.parquet")
    assert (ended.code, ended.out) == (0, "")
    assert [line.split()[0] for line in ended.err.splitlines()[-3:]] == ["network", "tiny", "tiny"]
    costs = read(LayerCosts, "costs.parquet")
    assert [row.weight_bytes for row in costs.rows] == 2 * [4 * 64 * 64]
    (listed,) = costs.header.inputs["networks"]
    assert (listed["name"], listed["reference"], listed["batch_size"]) == ("tiny", "tiny.onnx", 1)
    assert (costs.header.simulated, costs.header.conditions["threads"]) == (False, 1)
    assert networks_of(costs)["tiny"].service_s > 0
    assert (tmp_path / "cache/edgetune/prepared/tiny/manifest.json").exists()


def test_a_folder_of_prepared_networks_is_measured_whole(edgetune):
    shutil.copy("tiny.onnx", "twin.onnx")
    edgetune("schedule", "prepare", "tiny.onnx", "twin.onnx", "-o", "here")
    ended = edgetune("schedule", "profile", "here", "--repeats", "6", "--json", "--quiet")
    answer = json.loads(ended.out)
    assert (ended.code, ended.err, answer["file"]) == (0, "", "costs.parquet")
    assert [(row["network"], row["index"]) for row in answer["rows"]] == [
        ("tiny", 0), ("tiny", 1), ("twin", 0), ("twin", 1),
    ]  # fmt: skip
    assert not any(key.endswith("_samples_s") for row in answer["rows"] for key in row)


def test_layers_that_fail_are_rows_and_the_exit_code(edgetune):
    edgetune("schedule", "prepare", "tiny.onnx", "-o", "here", "--quiet")
    weights = Path("here/tiny/001-last.weights")
    weights.write_bytes(bytes(weights.stat().st_size))
    ended = edgetune("schedule", "profile", "here", "-o", "costs.parquet")
    assert ended.code == 5
    assert {row.status for row in read(LayerCosts, "costs.parquet").rows} == {"failed"}
    assert "failed" in edgetune("show", "costs.parquet").out


# A real run, on a network small enough for a test

JOBS = """kind: jobs
version: 1
memory: 256MiB
networks: {one: tiny.onnx, two: {model: tiny.onnx, inputs: sample.npz}}
jobs:
- {name: batch, networks: [one, two], count: 2}
"""
RUN = ("schedule", "run", "jobs.yaml", "--prepared", "prepared", "--limit", "accounted", "-o", "t.parquet")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A folder with the network, prepared."""
    made = tmp_path_factory.mktemp("ready")
    tiny(made / "tiny.onnx")
    np.savez(made / "sample.npz", x=np.ones((1, 64), np.float32))
    (made / "jobs.yaml").write_text(JOBS)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(made)
        assert main(["schedule", "prepare", "tiny.onnx", "--quiet"]) == 0
    return made


@pytest.fixture
def folder(ready, tmp_path):
    shutil.copytree(ready, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_networks_are_prepared_once_and_run(edgetune, folder):
    shutil.rmtree("prepared")
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


def test_the_optimum_is_simulated_only(edgetune, folder):
    assert_two_lines(edgetune(*RUN, "--policy", "reuse,optimum", "--quiet"), 2)


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


def test_costs_of_layers_of_other_sizes_are_refused(edgetune, folder):
    """As of the same network at another batch size."""
    rows = [["network", "layer", "kind", "weight_bytes", "output_bytes", "load_s", "execute_s"]]
    for layer in open_prepared(folder / "prepared/tiny").layers:
        rows.append(["tiny", layer.name, layer.kind, str(layer.weight_bytes), str(layer.output_bytes), "0.1", "0.1"])
    (folder / "costs.csv").write_text("\n".join(map(",".join, rows)))
    assert edgetune(*RUN, "--costs", "costs.csv", "--dry-run").code == 0
    rows[-1][4] = "8"
    (folder / "costs.csv").write_text("\n".join(map(",".join, rows)))
    ended = edgetune(*RUN, "--costs", "costs.csv")
    assert_two_lines(ended, 2)


def test_a_control_group_that_was_asked_for_and_cannot_be_made_is_two_lines(edgetune, folder, monkeypatch):
    from edgetune.stages.schedule import live_run
    from edgetune.stages.schedule.cgroups import MemoryLimit

    monkeypatch.setattr(live_run, "make_limit", lambda *_, **__: MemoryLimit("no folder may be made"))
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
