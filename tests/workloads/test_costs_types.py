"""Element types: each tensor in its own, each operator beneath the roof of what it computes in."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, model_table, node

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.placement import place
from edgetune.workloads import zoo
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

X = {"x": ("batch", 8, 16, 16)}
MACS = 8 * 8 * 9 * 16 * 16
HALF, BRAIN, DOUBLE = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE


def convolution(dtype: int) -> onnx.ModelProto:
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
    proto = model(nodes, X, {"w": (8, 8, 3, 3)}, dtype=dtype, weight_dtype=dtype, opset=22)
    proto.graph.output[0].type.tensor_type.elem_type = dtype
    return proto


@pytest.mark.parametrize(
    ("dtype", "name", "size"), [(1, "fp32", 4), (HALF, "fp16", 2), (BRAIN, "bf16", 2), (DOUBLE, "fp64", 8)]
)
def test_a_network_is_costed_in_the_type_of_its_tensors(dtype: int, name: str, size: int) -> None:
    table = model_table(convolution(dtype), "t", "infer", 1)
    conv = table.rows[0]
    assert (table.precision, conv.precision, conv.macs) == (name, name, MACS)
    assert conv.weight_bytes == size * 8 * 8 * 9
    assert table.bytes_moved == size * (8 * 8 * 9 + 4 * 8 * 256)


@pytest.mark.parametrize("dtype", [1, HALF])
def test_precision_is_what_the_device_is_asked_to_compute_in(dtype: int) -> None:
    tables = [model_table(convolution(dtype), "t", "infer", 1, precision=name) for name in ("fp16", "fp32")]
    assert [table.precision for table in tables] == ["fp16", "fp32"]
    assert 2 * tables[0].bytes_moved == tables[1].bytes_moved


@pytest.mark.parametrize("zero_points", [False, True])
def test_scales_of_blocks_are_read_with_the_weights(zero_points: bool) -> None:
    inputs = "w scales zeros" if zero_points else "w scales"
    nodes = [node("DequantizeLinear", inputs, "wide", axis=0, block_size=32), node("MatMul", "x wide", "y")]
    proto = model(nodes, {"x": ("batch", 64)}, values={"scales": np.full((2, 32), 0.05, np.float32)}, opset=21)
    stored = {"w": (64, 32), **({"zeros": (2, 32)} if zero_points else {})}
    for name, shape in stored.items():
        values = np.zeros(shape, np.int8).ravel().tolist()
        proto.graph.initializer.append(helper.make_tensor(name, TensorProto.INT4, shape, values))
    table = model_table(proto, "t", "infer", 1)
    assert sum(row.weight_bytes for row in table.rows) == 64 * 32 // 2 + 4 * 64 + (32 if zero_points else 0)
    assert table.parameters == 64 * 32


def test_packed_weights_take_half_a_byte_and_their_scales() -> None:
    nodes = [node("DequantizeLinear", "w s", "ww", axis=0), node("MatMul", "x ww", "y")]
    proto = model(nodes, {"x": ("batch", 64)}, {"w": (64, 32)}, {"s": np.ones(64, np.float32)}, opset=21)
    proto.graph.initializer[0].data_type = TensorProto.INT4
    product = model_table(proto, "t", "infer", 1).rows[-1]
    assert (product.op, product.precision, product.weight_bytes) == ("MatMul", "fp32", 64 * 32 // 2 + 4 * 64)


def mixed() -> onnx.ModelProto:
    """A product in half precision and one in single."""
    nodes = [node("MatMul", "x v", "h"), node("Cast", "h", "f", to=1), node("MatMul", "f w", "y")]
    proto = model(nodes, {"x": ("batch", 64)}, {"v": (64, 64), "w": (64, 256)}, dtype=HALF)
    proto.graph.initializer[0].data_type = HALF
    return proto


def test_each_operator_is_placed_beneath_the_roof_of_its_type() -> None:
    table = model_table(mixed(), "t", "infer", 1)
    single, half = Roof(Mode(), "fp32", 1e9, 1e12), Roof(Mode(), "fp16", 4e9, 1e12)
    placed = place(table, single, others=[half])
    assert [row.precision for row in placed.rows] == ["fp16", "fp32", "fp32"]
    assert placed.rows[0].seconds == pytest.approx(2 * 64 * 64 / 4e9)
    assert placed.rows[2].seconds == pytest.approx(2 * 64 * 256 / 1e9)
    assert placed.roof_s == pytest.approx(2 * 64 * 64 / 4e9 + 2 * 64 * 256 / 1e9)
    alone = place(table, single)
    assert alone.rows[0].seconds == pytest.approx(2 * 64 * 64 / 1e9)


def test_energy_of_each_type_is_its_own() -> None:
    table = model_table(mixed(), "t", "infer", 1)
    single = Roof(Mode(), "fp32", 1e9, 1e12, static_w=1.0, flop_j=4e-12, byte_j=1e-12)
    half = replace(single, precision="fp16", flop_j=1e-12)
    placed = place(table, single, others=[half])
    flops_j = 4e-12 * 2 * 64 * 256 + 1e-12 * 2 * 64 * 64
    assert placed.roof_j == pytest.approx(flops_j + 1e-12 * table.bytes_moved + placed.roof_s)


QUANTISED = {"s": np.float32(0.1), "z": np.int8(0)}


def quantised(*, behind: bool = True, activation: bool = True) -> onnx.ModelProto:
    """A convolution of 8-bit values and weights as quantisation tools write it."""
    nodes = [node("DequantizeLinear", "x s z", "xf"), node("DequantizeLinear", "w s z", "wf")]
    nodes += [node("Conv", "xf wf", "c", pads=[1, 1, 1, 1], name="conv")]
    nodes += [node("Relu", "c", "r")] if activation else []
    last = "r" if activation else "c"
    nodes += [node("QuantizeLinear", f"{last} s z", "y")] if behind else [node("Exp", last, "y")]
    proto = model(nodes, X, {"w": (8, 8, 3, 3)}, QUANTISED, dtype=TensorProto.INT8, weight_dtype=TensorProto.INT8)
    if behind:
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    return proto


@pytest.mark.parametrize("activation", [True, False])
def test_between_quantisation_nodes_runs_an_8_bit_kernel(activation: bool) -> None:
    table = model_table(quantised(activation=activation), "t", "infer", 1)
    (conv,) = [row for row in table.rows if row.ledger == "modelled"]
    assert (conv.name, conv.op, conv.precision, conv.macs) == ("conv", "QLinearConv", "int8", MACS)
    assert (conv.bytes_read, conv.bytes_written) == (8 * 256 + 8 * 8 * 9 + 3 * 5, 8 * 256)
    assert (table.precision, table.header.conditions["quantised_operators"]) == ("int8", 1)


def test_without_rounding_behind_it_a_convolution_stays_one_of_floats() -> None:
    table = model_table(quantised(behind=False), "t", "infer", 1)
    conv = next(row for row in table.rows if row.name == "conv")
    assert (conv.op, conv.precision) == ("Conv", "fp32")
    assert "quantised_operators" not in table.header.conditions


def test_a_dequantised_value_that_others_read_is_still_made() -> None:
    proto = quantised()
    proto.graph.node.append(node("Sigmoid", "xf", "z2"))
    proto.graph.output.append(helper.make_tensor_value_info("z2", 1, None))
    ops = [row.op for row in model_table(proto, "t", "infer", 1).rows if row.ledger == "modelled"]
    assert ops == ["DequantizeLinear", "QLinearConv", "Sigmoid"]


def test_products_are_replaced_as_onnx_runtime_does(tmp_path) -> None:
    """The kernels in ONNX Runtime's own optimised graph are those that are counted; on any CPU with unsigned values."""
    import onnxruntime as ort

    nodes = []
    for name, x, scale in (("a", "x", "s"), ("b", "v", "s")):
        nodes.append(node("DequantizeLinear", f"{x} {scale} z", name))
    nodes += [
        node("MatMul", "a b", "m"),
        node("QuantizeLinear", "m s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("Transpose", "d", "t"),
        node("QuantizeLinear", "t s z", "tq"),
        node("DequantizeLinear", "tq s z", "td"),
        node("DequantizeLinear", "u s z", "uf"),
        node("MatMul", "td uf", "y"),
    ]
    values = {"s": np.float32(0.1), "z": np.uint8(9), "v": np.ones((64, 32), np.uint8), "u": np.ones((1, 16), np.uint8)}
    proto = model(nodes, {"x": (1, 64)}, values=values, dtype=TensorProto.UINT8)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    theirs = [each.op_type for each in onnx.load(tmp_path / "o.onnx").graph.node]
    ours = [row.op for row in model_table(proto, "t", "infer", 1).rows if row.ledger == "modelled"]
    assert ours == theirs


TORCHVISION = Path(__file__).parents[2] / "../shared/data/torchvision/ops.csv"
TORCHVISION_NAMES = {
    "MobileNet_V3_Large": "mobilenet_v3_large",
    "MobileNet_V2": "mobilenet_v2",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "AlexNet": "alexnet",
    "SqueezeNet1_0": "squeezenet",
}


def table(name: str, task: str = "infer", batch_size: int = 1, precision: str = "fp32") -> OpsTable:
    return operator_table(resolve(f"zoo:{name}"), task, batch_size, precision=precision)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_every_operator_of_the_zoo_is_modelled(name: str) -> None:
    assert all(row.ledger != "unmodelled" for row in table(name).rows)
    assert not table(name).header.warnings


# Pagoda (arXiv:2509.20189), table 4: analytical FLOP per inference at batch 1; of its LSTM see test_zoo.py.
@pytest.mark.parametrize(
    ("name", "gflop", "tolerance"),
    [
        ("resnet50", 8.23, 0.01),
        ("yolov8n", 8.84, 0.01),
        ("mobilenet_v3_large", 0.46, 0.02),  # printed with two digits
        ("bert_large", 79.14, 0.01),
    ],
)
def test_flop_match_the_published(name: str, gflop: float, tolerance: float) -> None:
    assert table(name).flops / 1e9 == pytest.approx(gflop, rel=tolerance)


# The same table's bytes. Its convention is not printed, so these hold an order of size, not a definition.
@pytest.mark.parametrize(
    ("name", "megabytes", "tolerance"),
    [
        ("resnet50", 425.80, 0.02),
        ("yolov8n", 539.35, 0.05),
        ("mobilenet_v3_large", 138.27, 0.05),
        ("lstm", 34.48, 1.0),  # recurrent weights read at each of 8 steps here, once there
        ("bert_large", 2601.01, 0.25),  # GELU and attention scaling counted node by node there
    ],
)
def test_bytes_are_near_the_published(name: str, megabytes: float, tolerance: float) -> None:
    assert table(name).bytes_moved / 1e6 == pytest.approx(megabytes, rel=tolerance)


@pytest.mark.skipif(not TORCHVISION.exists(), reason="the shared torchvision table is not here")
def test_macs_and_parameters_match_torchvision() -> None:
    with TORCHVISION.open() as stream:
        published = {
            TORCHVISION_NAMES[row["model"]]: (float(row["gmacs_ops"]), int(row["num_params"]))
            for row in csv.DictReader(stream)
            if row["model"] in TORCHVISION_NAMES and row["num_params"]
        }
    assert len(published) >= 4
    for name, (gmacs, parameters) in published.items():
        assert table(name).macs / 1e9 == pytest.approx(gmacs, rel=0.01), name
        assert table(name).parameters == pytest.approx(parameters, rel=0.01), name


def test_rows_never_write_less_than_their_outputs_say() -> None:
    for row in table("mobilenet_v3_large").rows:
        if row.ledger == "modelled":
            outputs = 0
            for shape in row.outputs:
                size = 4
                for part in shape.split("x"):
                    size *= int(part)
                outputs += size
            assert row.bytes_written >= outputs, row.name
