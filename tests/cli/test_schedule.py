"""``edgetune schedule prepare`` and ``profile``: folders and tables of layer costs, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts.io import read
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.stages.schedule.costs import networks_of
from edgetune.workloads.prepared import open_prepared


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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


@pytest.fixture(autouse=True)
def in_a_folder_with_a_tiny_network(tmp_path, monkeypatch):
    """Two layers, in the folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="last"),
    ]
    shapes = {"w1": (16, 32), "w2": (32, 64)}
    weights = [numpy_helper.from_array(np.full(shape, 0.25, np.float32), name) for name, shape in shapes.items()]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 16), ("y", 64)))
    graph = helper.make_graph(nodes, "tiny", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "tiny.onnx")


def test_a_model_becomes_a_table_from_which_it_can_be_simulated(edgetune, tmp_path):
    ended = edgetune("schedule", "profile", "tiny.onnx", "--repeats", "6", "-o", "costs.parquet")
    assert (ended.code, ended.out) == (0, "")
    assert [line.split()[0] for line in ended.err.splitlines()[-3:]] == ["network", "tiny", "tiny"]
    costs = read(LayerCosts, "costs.parquet")
    assert [row.weight_bytes for row in costs.rows] == [4 * 16 * 32, 4 * 32 * 64]
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


@pytest.mark.parametrize("words", [["empty"], ["one/tiny", "two/tiny"]])
def test_invalid_requests_are_refused(edgetune, tmp_path, words):
    (tmp_path / "empty").mkdir()
    for folder in ("one", "two"):
        edgetune("schedule", "prepare", "tiny.onnx", "-o", folder, "--quiet")
    ended = edgetune("schedule", "profile", *words)
    assert_two_lines(ended, 2)
