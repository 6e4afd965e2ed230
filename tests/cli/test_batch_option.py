"""The batch on the command line: told, recorded, set with --batch-axis, and refused where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts import io

HOST = ("--task", "infer", "--device", "host", "--minibatches", "3")


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def written(name, nodes, inputs, weights, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        [helper.make_node(op, names.split(), [made], **attributes) for op, names, made, attributes in nodes],
        name,
        [helper.make_tensor_value_info(each, kind, shape) for each, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, each) for each, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{name}.onnx")
    return Path(f"{name}.onnx").name


def weights(*shape):
    return np.full(shape, 0.01, np.float32)


def points():
    nodes = [
        ("MatMul", "x w", "a", {}), ("Relu", "a", "b", {}), ("MatMul", "b v", "c", {}),
        ("ReduceMax", "c", "y", {"axes": [0], "keepdims": 0, "name": "pool"}),
    ]  # fmt: skip
    return written("points", nodes, {"x": [4096, 3]}, {"w": weights(3, 64), "v": weights(64, 32)})


def recurrent():
    nodes = [("LSTM", "x w r", "y", {"hidden_size": 16, "name": "lstm"})]
    return written("lstm", nodes, {"x": [50, 1, 40]}, {"w": weights(1, 64, 40), "r": weights(1, 64, 16)})


def test_a_network_without_a_batch_is_measured_as_exported(edgetune):
    ended = edgetune("profile", points(), *HOST, "-o", "p.parquet")
    assert ended.code == 0, ended.err
    assert "points: no batch axis, measured as exported, one run a minibatch" in ended.err
    header = io.read_profile("p.parquet").header
    assert header.inputs["workload"]["batch"] == {
        "axes": {}, "exported": 1, "why": "node 'pool' (ReduceMax) combines what lies along axis 0 of 'x'"
    }  # fmt: skip
    assert header.conditions["fed"] == [
        {"name": "x", "dtype": "float32", "shape": [4096, 3], "values": "uniform in [0, 1)"}
    ]
    assert [row.batch_size for row in io.read_profile("p.parquet").rows] == [1]


@pytest.mark.parametrize("command", [("profile", "-b", "4", *HOST), ("schedule", "prepare", "-b", "4")])  # fmt: skip
def test_another_batch_size_is_refused_where_there_is_no_batch(edgetune, command):
    words = command[:1] if command[0] == "profile" else command[:2]
    ended = edgetune(*words, points(), *command[len(words) :])
    assert_two_lines(ended, 2)


def test_the_batch_of_a_recurrence_is_its_second_axis(edgetune):
    ended = edgetune("profile", recurrent(), *HOST, "-b", "1,4", "-o", "p.parquet", "--verbose")
    assert "lstm: batch axis 1, exported for 1, measured at 1, 4" in ended.err
    assert io.read_profile("p.parquet").header.inputs["workload"]["batch"]["axes"] == {"x": 1}


def test_the_batch_axis_belongs_to_the_request(edgetune):
    network = written("relu", [("Relu", "x", "y", {})], {"x": [8, 16]}, {})
    first = edgetune("profile", network, *HOST, "-o", "p.parquet")
    assert "batch axis 0, exported for 8, measured at 8" in first.err
    again = edgetune("profile", network, *HOST, "-o", "p.parquet", "--batch-axis", "none")
    assert again.code == 2
    assert "no batch axis, measured as exported" in again.err
    fresh = edgetune("profile", network, *HOST, "-o", "p.parquet", "--batch-axis", "x=1", "--fresh")
    assert "batch axis 1, exported for 16, measured at 16" in fresh.err
    assert io.read_profile("p.parquet").header.inputs["workload"]["batch_axis"] == "x=1"
