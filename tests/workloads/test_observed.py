"""Shapes, trip counts and branches that the graph does not tell: one run of the network shows them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import model, node

from edgetune.artifacts.ops import OpsTable
from edgetune.errors import DeviceError
from edgetune.workloads import observed
from edgetune.workloads.costs import operator_table
from edgetune.workloads.observed import Feed
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.resolve import resolve

LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[batch, 4] x) => (float[batch, 4] y) <float[4, 4] w, int64 most, float limit>
{
  true = Constant <value = bool {1}> ()
  y = Loop (most, true, x) <body = body (int64 i, bool on, float[batch, 4] state) => (bool go, float[batch, 4] next)
  {
    next = MatMul (state, w)
    sum = ReduceSum <keepdims = 0> (next)
    go = Less (sum, limit)
  }>
}
"""


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    onnx.save(proto, path)
    return path


def parsed(text: str, folder: Path, **weights: object) -> Path:
    proto = onnx.parser.parse_model(text)
    for name, value in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return saved(proto, folder)


def table_of(path: Path, **options: object) -> OpsTable:
    return operator_table(resolve(str(path)), "infer", 1, **options)


def codes(table: OpsTable) -> list[str]:
    return [caution.code for caution in table.header.warnings]


def fed(folder: Path, **arrays: object) -> Feed:
    path = folder / f"{len(list(folder.iterdir()))}.npz"
    np.savez(path, **{name: np.asarray(value, np.float32) for name, value in arrays.items()})
    return Feed(str(path))


@pytest.mark.parametrize("values", [[1, 0, 1, 1], [0, 0, 0, 1]])
def test_sizes_that_depend_on_the_data_are_those_of_the_inputs(tmp_path: Path, values: list[int]) -> None:
    nodes = [node("NonZero", "x", "found"), node("Cast", "found", "c", to=1), node("MatMul", "c c2", "y")]
    nodes.insert(2, node("Transpose", "c", "c2", perm=[1, 0]))
    path = saved(model(nodes, {"x": ("batch", 4)}), tmp_path)
    table = table_of(path, feed=fed(tmp_path, x=[values]))
    assert table.macs == 2 * sum(values) * 2
    assert codes(table) == ["shapes-of-a-run"]


@pytest.mark.parametrize(("limit", "trips"), [(1000.0, 7), (10.0, 2), (0.0, 1)])
def test_a_loop_turns_as_often_as_in_the_run(tmp_path: Path, limit: float, trips: int) -> None:
    path = parsed(LOOP, tmp_path, w=2 * np.eye(4, dtype=np.float32), most=np.int64(7), limit=np.float32(limit))
    table = table_of(path, feed=fed(tmp_path, x=[[1, 1, 0.5, 0.5]]))  # doubled each time: 6, 12, 24 ...
    assert table.macs == trips * 16


def test_a_constant_loop_needs_no_run(tmp_path: Path) -> None:
    text = LOOP.replace("sum = ReduceSum <keepdims = 0> (next)", "").replace("Less (sum, limit)", "Identity (on)")
    text = text.replace(", float limit", "")
    table = table_of(parsed(text, tmp_path, w=np.eye(4, dtype=np.float32), most=np.int64(7)))
    assert table.macs == 7 * 16
    assert codes(table) == []


def test_the_branch_that_is_taken_counts(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[batch, 4] x) => (float[batch, 4] y) <float[4, 4] w, float[4, 64] wide, float[64, 4] back>
    {
      sum = ReduceSum <keepdims = 0> (x)
      flag = Cast <to = 9> (sum)
      y = If (flag) <then_branch = then () => (float[batch, 4] t) { t = MatMul (x, w) },
                     else_branch = other () => (float[batch, 4] e) { h = MatMul (x, wide)  e = MatMul (h, back) }>
    }
    """
    weights = {"w": np.ones((4, 4), "f"), "wide": np.ones((4, 64), "f"), "back": np.ones((64, 4), "f")}
    path = parsed(text, tmp_path, **weights)
    assert table_of(path, feed=fed(tmp_path, x=[[1, 0, 0, 0]])).macs == 16
    assert table_of(path, feed=fed(tmp_path, x=[[0, 0, 0, 0]])).macs == 2 * 4 * 64


def test_a_loop_in_a_loop_and_a_state_that_grows(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[batch, 4] x) => (float[rows, 4] y) <float[4, 4] w, int64 outer, int64 inner>
    {
      true = Constant <value = bool {1}> ()
      y = Loop (outer, true, x) <body = body (int64 i, bool on, float[rows, 4] state) => (bool go, float[more, 4] next)
      {
        go = Identity (on)
        m = Loop (inner, on, state) <body = inside (int64 j, bool a, float[n, 4] s) => (bool b, float[n, 4] z)
        {
          b = Identity (a)
          z = MatMul (s, w)
        }>
        next = Concat <axis = 0> (m, x)
      }>
    }
    """
    path = parsed(text, tmp_path, w=np.eye(4, dtype=np.float32), outer=np.int64(5), inner=np.int64(3))
    table = table_of(path)
    assert table.macs == 3 * (1 + 2 + 3 + 4 + 5) * 16
    assert table.rows[-1].outputs == ("4x4",)  # the mean of 2, 3, 4, 5 and 6 rows


def test_without_onnx_runtime_the_extra_that_has_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutRuntime:
        def __init__(self, module: str) -> None:
            assert module == "edgetune.workloads.observe_worker:Observer"

        def ask(self, command: object, *, deadline_s: float) -> dict[str, object]:
            raise DeviceError("inference needs ONNX Runtime: no module", "pip install 'edgetune[ort]'")

        def close(self) -> None: ...

    monkeypatch.setattr(observed, "Child", WithoutRuntime)
    nodes = [node("NonZero", "x", "found"), node("Cast", "found", "y", to=1), node("Relu", "x", "z")]
    table = table_of(saved(model(nodes, {"x": ("batch", 3)}, outputs=["y", "z"]), tmp_path))
    assert [row.ledger for row in table.rows] == ["unmodelled", "unmodelled", "modelled"]
    assert "edgetune[ort]" in table.header.warnings[0].advice


def test_outputs_of_unknown_size_are_prepared_with_that_of_a_run(tmp_path: Path) -> None:
    rows = np.linspace(-1, 1, 16 * 8, dtype=np.float32).reshape(16, 8)
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("NonZero", "r", "y")]
    proto = model(nodes, {"x": ("batch", 16)}, values={"w": rows})
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    made = prepare(resolve(str(saved(proto, tmp_path))), PrepareOptions(optimise="basic"), tmp_path / "made")
    (output,) = made.outputs
    assert output.shape[0] == 2
    assert 0 < output.shape[1] <= 8
    assert made.layers[-1].output_bytes == 8 * 2 * output.shape[1]
    assert made.difference == 0
    declared = onnx.load(made.folder / made.layers[-1].graph).graph.output[0].type.tensor_type.shape.dim[1]
    assert not declared.HasField("dim_value"), "other data makes another size"
