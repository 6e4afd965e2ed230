"""Networks that are easily counted, fed or run wrongly, each with its right figure or the error that refuses it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, model_table, node

from edgetune.errors import InputError
from edgetune.workloads import torch_check
from edgetune.workloads.costs.ops_table import time_warnings
from edgetune.workloads.onnx_file import fix_dimensions
from edgetune.workloads.ort_session import open_session
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.resolve import resolve
from edgetune.workloads.torch_operators import OPERATORS
from edgetune.workloads.workload import Batch, RunOptions, Workload

FFT = 5 * (16 * 4096) * 12 // 2
"""16 real transforms of 4096 values: 5 n log2 n each, halved."""
STATISTICS = {name: (8,) for name in "sbmv"}
VOLUME = {"x": (1, 4, 16, 16, 16), "g": (1, 16, 16, 16, 3)}


def saved(folder: Path, proto: onnx.ModelProto) -> Workload:
    onnx.save(proto, folder / "net.onnx")
    return resolve(str(folder / "net.onnx"))


def dft(names: str, opset: int, shape: tuple[int, ...] = (1, 4096, 16, 1), **values: Any) -> onnx.ModelProto:
    return model([node("DFT", names, "y")], {"x": shape}, None, values, opset=opset)


@pytest.mark.parametrize(
    ("proto", "flops"),
    [
        (dft("x _ axis", 20, axis=np.array(1)), FFT),
        (dft("x", 17), FFT),
        (dft("x", 20, (1, 16, 4096, 1)), FFT),
        (dft("x n", 20, (1, 16, 4, 1), n=np.array(4096)), FFT),
        (dft("x n", 20, (1, 16, 4096, 2), n=np.array(4096)), 2 * FFT),
        (model([node("BatchNormalization", "x s b m v", "y")], {"x": (4, 8, 16, 16)}, STATISTICS), 2 * 8192),
        (
            model(
                [node("BatchNormalization", "x s b m v", "y p q", training_mode=1)], {"x": (4, 8, 16, 16)}, STATISTICS
            ),
            6 * 8192,
        ),
        (model([node("GridSample", "x g", "y", mode="linear")], VOLUME, opset=20), (15 * 4 + 12) * 4096),
        (model([node("GridSample", "x g", "y", mode="nearest")], VOLUME, opset=20), 12 * 4096),
        (
            model(
                [
                    node("SequenceConstruct", "a a", "s"),
                    node("ConcatFromSequence", "s", "c", axis=0),
                    node("Add", "x c", "y"),
                ],
                {"x": (1, 4)}, None, {"a": np.ones(2, np.float32)},
            ),
            4,
        ),
        (
            model(
                [
                    node("Shape", "x", "s", start=2),
                    node("SplitToSequence", "s", "p", axis=0),
                    node("SequenceAt", "p first", "h"),
                    node("Concat", "ones h", "to", axis=0),
                    node("ConstantOfShape", "to", "z"),
                    node("Add", "x z", "y"),
                ],
                {"x": (1, 3, 8)}, None, {"first": np.array(0), "ones": np.array([1, 3])},
            ),
            24,
        ),
    ],
)  # fmt: skip
def test_the_operations_are(proto: onnx.ModelProto, flops: int) -> None:
    table = model_table(proto, "net", "infer", proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value)
    assert (table.flops, [row.op for row in table.rows if row.ledger == "unmodelled"]) == (flops, [])


def loops(depth: int) -> onnx.GraphProto:
    def value(name: str, kind: int, dims: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(f"{name}{depth}", kind, dims)

    inner = [node("Add", "s0 s0", "o0")]
    if depth:
        inner = [node("Loop", f"trips _ s{depth}", f"o{depth}", body=loops(depth - 1))]
    ends = [value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4])]
    return helper.make_graph(
        [*inner, node("Identity", f"c{depth}", f"d{depth}")], "body", [value("i", TensorProto.INT64, []), *ends],
        [value("d", TensorProto.BOOL, []), value("o", TensorProto.FLOAT, [4])],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("proto", "operator"),
    [
        (model([node("MatMul", "a b", "y")], {"a": (1, 2**62), "b": (2**62, 2**62)}), "MatMul"),
        (model([node("Relu", "x", "y")], {"x": (1, 2**63 - 1)}), "Relu"),
        (model([node("Loop", "trips _ x", "y", body=loops(2))], {"x": (4,)}, None, {"trips": np.array(2**62)}), "Add"),
    ],
)
def test_counts_beyond_64_bits_are_refused(proto: onnx.ModelProto, operator: str) -> None:
    with pytest.raises(InputError, match=rf"more than 2\^63 - 1 \w+, most of them in .*\({operator}\)"):
        model_table(proto, "net", "infer", 1)


def test_a_batch_of_several_names_is_one_hint() -> None:
    proto = model([node("Add", "a b", "y")], {"a": ("unk__1", 8), "b": ("unk__2", 8)})
    with pytest.raises(InputError) as refused:
        fix_dimensions(proto, batch_size=2)
    assert refused.value.hint.endswith("--batch-axis a=0 --batch-axis b=0")
    fixed = fix_dimensions(proto, batch_size=2, batch=Batch((("a", 0), ("b", 0)), None, ""))
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in fixed.graph.input] == [2, 2]


def test_a_layer_without_a_name_whose_first_output_is_left_out_is_prepared(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    ones = {"w": np.ones((1, 96, 16), np.float32), "r": np.ones((1, 96, 32), np.float32)}
    gru = node("GRU", "x w r", "unused last", hidden_size=32)
    gru.output[0] = ""
    proto = model([gru], {"x": (12, 1, 16)}, None, ones, outputs=["last"])
    np.savez(tmp_path / "x.npz", x=np.ones((12, 1, 16), np.float32))
    np.savez(tmp_path / "other.npz", z=np.ones((12, 1, 16), np.float32))
    workload = saved(tmp_path, proto)
    done = prepare(workload, PrepareOptions(inputs=str(tmp_path / "x.npz")), tmp_path / "out")
    assert ([layer.name for layer in done.layers], done.difference is not None) == (["last"], True)
    with pytest.raises(InputError, match="lacks x"):
        prepare(workload, PrepareOptions(inputs=str(tmp_path / "other.npz")), tmp_path / "other")


def test_an_operator_of_a_custom_library_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    proto = model([helper.make_node("Frob", ["x"], ["y"], domain="acme")], {"x": (1, 4)})
    with pytest.raises(InputError, match=r"operator Frob is of a custom library \(acme\)") as refused:
        open_session(saved(tmp_path, proto), 1, RunOptions())
    assert "edgetune profile --" in refused.value.hint


@pytest.mark.parametrize(
    ("proto", "codes"),
    [
        (model([node("Relu", "x", "y")], {"x": (1, 8)}), []),
        (model([node("NonZero", "x", "y")], {"x": (1, 8)}), ["time-of-data"]),
        (
            model([node("ReduceSum", "x", "s"), node("Cast", "s", "k", to=TensorProto.INT64),
                   node("Reshape", "k one", "n"), node("TopK", "x n", "y i")], {"x": (1, 8)}, None,
                  {"one": np.array([1])}),
            ["time-of-data"],
        ),
        (
            model([node("BatchNormalization", "x s b m v", "y p q", training_mode=1)], {"x": (4, 8, 2, 2)}, STATISTICS),
            ["training-mode"],
        ),
    ],
)  # fmt: skip
def test_the_time_depends_on(tmp_path: Path, proto: onnx.ModelProto, codes: list[str]) -> None:
    assert [each.code for each in time_warnings(saved(tmp_path, proto), "infer", 1, {})] == codes


def test_an_operator_that_pytorch_computes_otherwise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    proto = model([node("Transpose", "x", "y")], {"x": (1, 4, 3)})
    command = {"workload": saved(tmp_path, proto).plain(), "batch_size": 1, "dimensions": {}, "seed": 0}
    assert torch_check.compare(command) == {"wrong": None}
    monkeypatch.setitem(OPERATORS, "Transpose", lambda _: lambda x: x[0])
    assert torch_check.compare(command) == {"wrong": "output 'y'"}
