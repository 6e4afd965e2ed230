"""Small inputs of an attack, each of which ended with 1 or had no end: every one is an answer, or two lines."""

import json
import subprocess
import sys

import onnx
import pytest
from chain_inputs import JOBS, TASKS, write_inputs
from command_line import assert_two_lines
from onnx import TensorProto, helper

DEEP, TRIPS, LARGEST = 30, 2**62, 2**63 - 1
TRACE = "trace:windows.csv:0.000001ms"
POINT = {"workload": "net", "task": "train", "batch_size": 1, "gpu_mhz": 300.0, "minibatch_s": 0.1, "power_w": 5.0}


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def loops(depth):
    """Return a loop in a loop, ``depth`` deep, each of 2**62 rounds."""
    inside = loops(depth - 1) if depth else helper.make_node("Relu", [f"v{depth}"], [f"o{depth - 1}"])
    inputs = [tensor(f"i{depth}", TensorProto.INT64, []), tensor(f"c{depth}", TensorProto.BOOL, [])]
    outputs = [tensor(f"d{depth}", TensorProto.BOOL, []), tensor(f"o{depth - 1}", TensorProto.FLOAT, [1])]
    nodes = [helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"]), inside]
    body = helper.make_graph(nodes, f"b{depth}", [*inputs, tensor(f"v{depth}", TensorProto.FLOAT, [1])], outputs)
    return helper.make_node("Loop", ["trips", "true", f"v{depth + 1}"], [f"o{depth}"], body=body)


def save(path, nodes, shape, output):
    constants = [helper.make_tensor("true", TensorProto.BOOL, [], [1]),
                 helper.make_tensor("trips", TensorProto.INT64, [], [TRIPS])]  # fmt: skip
    outer = tensor(f"v{DEEP + 1}", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [outer], [tensor(output, TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "windows.csv").write_text("rate_per_s\n1\n2\n")
    (tmp_path / "jobs.yaml").write_text(JOBS.replace("arrivals: batch, count: 3", f"arrivals: '{TRACE}'"))
    (tmp_path / "tasks.yaml").write_text(TASKS.replace("uniform:500/s", TRACE))
    save("loops.onnx", [loops(DEEP)], [1], f"o{DEEP}")
    save("wide.onnx", [helper.make_node("Relu", [f"v{DEEP + 1}"], ["y"])], [1, LARGEST], "y")
    for name, fields in {"faint": {"power_w": 1e-320}, "timeless": {"power_trace": [{"power_w": 5.0}] * 40}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": [{**POINT, **fields}]}))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("roofline ops wide.onnx -o ops.json", [2]),
        ("roofline ops loops.onnx -o ops.parquet", [2]),
        ("schedule run jobs.yaml --simulate", [2]),
        ("schedule kernels simulate tasks.yaml", [2]),
        (f"interleave plan.yaml --device twin:orin-agx --duration 1s --arrivals {TRACE}", [2]),
        ("device modes twin:orin-agx grid:1000000000", [0]),
        ("report faint.json -o page.html", [0, 2]),
        ("compare timeless.json timeless.json", [0, 2]),
        ("search faint.json --power-budget 1W", [0, 2, 3]),
    ],
)
def test_it_is_an_answer_or_two_lines(edgetune, folder, line, codes):
    ended = edgetune(*line.split())
    assert ended.code in codes, ended.err
    if ended.code:
        assert_two_lines(ended, ended.code)


def test_a_reader_that_leaves_ends_it_quietly(folder):
    line = f"set -o pipefail; {sys.executable} -m edgetune show table.csv | true"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert (ended.returncode in (0, 141), ended.stderr) == (True, b"")
