"""``edgetune schedule prepare``: what people see, and what is refused."""

import json

import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper

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


def test_other_options_do_not_replace_what_is_there(edgetune, tmp_path):
    edgetune("schedule", "prepare", "zoo:squeezenet", "--whole", "--quiet")
    ended = edgetune("schedule", "prepare", "zoo:squeezenet", "--quiet")
    assert_two_lines(ended, 2)
    assert len(open_prepared(tmp_path / "prepared" / "squeezenet").layers) == 1


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
    assert list(tmp_path.iterdir()) == []


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
