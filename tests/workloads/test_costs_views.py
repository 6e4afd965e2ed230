"""The fused and the eager view: what joins its producer, which parts are kernels, and the bytes between, exactly."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.errors import InputError
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

D = 4  # bytes of a float32
N, C, K, SIDE = 2, 4, 5, 8
X = {"x": ("batch", C, SIDE, SIDE)}
WEIGHTS = {"w": (K, C, 3, 3)}
NORM = {name: (K,) for name in "sbmv"}
INNER = N * K * 36  # elements of the convolution's result


def both(nodes: list[onnx.NodeProto], weights: dict[str, tuple[int, ...]], **more: object) -> tuple[OpsTable, OpsTable]:
    proto = model(nodes, X, weights, **more)  # type: ignore[arg-type]
    one, fused = (model_table(proto, "t", "infer", N, view=view) for view in (None, "fused"))
    return one, fused


def ops(table: OpsTable) -> list[str]:
    return [row.op for row in table.rows]


def single(table: OpsTable) -> OpRow:
    (row,) = table.rows
    return row


def test_an_activation_joins_its_convolution_and_saves_two_passes() -> None:
    one, fused = both([node("Conv", "x w", "c", name="conv"), node("Relu", "c", "y")], WEIGHTS)
    row = single(fused)
    assert (row.name, row.op, row.op_class, row.kernels) == ("conv", "Conv+Relu", "conv", 1)
    assert fused.flops == one.flops
    assert one.bytes_moved - fused.bytes_moved == 2 * D * INNER
    assert fused.header.conditions["unfused"] == {"bytes_moved": one.bytes_moved, "kernels": 2}


def test_batch_norm_becomes_weights_and_leaves_a_bias() -> None:
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "n"), node("Relu", "n", "y")]
    one, fused = both(nodes, WEIGHTS | NORM)
    row = single(fused)
    assert row.op == "Conv+BatchNormalization+Relu"
    assert one.flops - fused.flops == INNER  # a scale and a shift were two, the bias is one
    assert one.bytes_moved - fused.bytes_moved == 4 * D * INNER + 3 * D * K
    assert row.weight_bytes == D * (K * C * 9 + K)


def test_a_convolution_with_a_bias_takes_batch_norm_for_nothing() -> None:
    nodes = [node("Conv", "x w b0", "c"), node("BatchNormalization", "c s b m v", "y")]
    _, fused = both(nodes, WEIGHTS | NORM | {"b0": (K,)})
    alone = model_table(model(nodes[:1], X, WEIGHTS | {"b0": (K,)}), "t", "infer", N)
    assert (fused.flops, fused.bytes_moved) == (alone.flops, alone.bytes_moved)


def test_a_residual_joins_the_later_product_and_still_reads_the_other() -> None:
    nodes = [
        node("Conv", "x w", "a", name="first"),
        node("Conv", "x u", "b", name="second"),
        node("Add", "a b", "s"),
        node("Relu", "s", "y"),
    ]
    one, fused = both(nodes, WEIGHTS | {"u": (K, C, 3, 3)})
    assert [(row.name, row.op) for row in fused.rows] == [("first", "Conv"), ("second", "Conv+Add+Relu")]
    assert one.bytes_moved - fused.bytes_moved == 4 * D * INNER


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Sigmoid", "c", "y")], ["r", "y"]),
        ([node("Conv", "x w", "c"), node("Relu", "c", "y")], ["c", "y"]),
        ([node("MaxPool", "x", "c", kernel_shape=[3, 3]), node("Relu", "c", "y")], ["y"]),
        ([node("Conv", "x w", "c"), node("Softmax", "c", "y")], ["y"]),
    ],
    ids=["two readers", "an output", "a pooling", "no element-wise operator"],
)
def test_tensors_with_other_readers_or_producers_are_not_fused(nodes: list[onnx.NodeProto], outputs: list[str]) -> None:
    one, fused = both(nodes, WEIGHTS, outputs=outputs)
    assert ops(fused) == ops(one)
    assert fused.bytes_moved == one.bytes_moved


def test_a_tensor_that_is_spread_is_written_first() -> None:
    nodes = [
        node("GlobalAveragePool", "x", "p"),
        node("Conv", "p w", "gate", name="squeeze"),
        node("Sigmoid", "gate", "g"),
        node("Mul", "x g", "y"),
    ]
    _, fused = both(nodes, {"w": (C, C, 1, 1)})
    assert ops(fused) == ["GlobalAveragePool", "Conv+Sigmoid", "Mul"]


def test_quantisation_nodes_leave_a_product_of_quantised_values() -> None:
    nodes = [
        node("DequantizeLinear", "x s z", "xw"),
        node("DequantizeLinear", "w s", "ww"),
        node("Conv", "xw ww", "c", name="conv"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r s z", "q"),
        node("DequantizeLinear", "q s z", "y2"),
        node("MaxPool", "y2", "y", kernel_shape=[2, 2], name="pool"),
    ]
    proto = model(nodes, X, WEIGHTS, {"s": np.float32(0.1), "z": np.int8(0)}, dtype=TensorProto.INT8)
    proto.graph.initializer[0].data_type = TensorProto.INT8
    one, fused = (model_table(proto, "t", "infer", N, view=view) for view in (None, "fused"))
    rows = {row.name: row for row in fused.rows if row.ledger == "modelled"}
    assert list(rows) == ["conv", "pool"]
    scales = 3 * D + 2  # of the two operands and of the result; the weights have no zero point
    assert rows["conv"].op == "QLinearConv"
    assert rows["conv"].bytes_read == N * C * SIDE * SIDE + K * C * 9 + scales
    assert rows["conv"].bytes_written == INNER
    assert rows["pool"].bytes_read == INNER
    assert fused.flops == one.flops


def test_a_dequantised_tensor_that_is_split_stays_wide() -> None:
    nodes = [node("DequantizeLinear", "x s", "xw"), node("Split", "xw", "a y", axis=1, num_outputs=2)]
    proto = model(nodes, X, values={"s": np.float32(0.1)}, dtype=TensorProto.INT8, opset=18)
    assert ops(model_table(proto, "t", "infer", N, view="fused")) == ["DequantizeLinear", "Split"]


@settings(deadline=None, max_examples=20)
@given(chain=st.lists(st.sampled_from(["Relu", "Sigmoid", "Tanh", "Exp", "Neg"]), min_size=1, max_size=6))
def test_a_chain_of_any_length_saves_two_passes_each(chain: list[str]) -> None:
    nodes = [node("Conv", "x w", "t0")]
    nodes += [node(op, f"t{i}", f"t{i + 1}") for i, op in enumerate(chain)]
    one, fused = both(nodes, WEIGHTS)
    assert single(fused).op == "+".join(["Conv", *chain])
    assert fused.flops == one.flops
    assert one.bytes_moved - fused.bytes_moved == 2 * D * INNER * len(chain)


def beside_eager(nodes, inputs, weights=None, opset=24) -> tuple[OpsTable, OpsTable]:
    proto = model(nodes, inputs, weights, opset=opset)
    whole, eager = (model_table(proto, "t", "infer", N, view=view) for view in (None, "eager"))
    assert [row.name for row in whole.rows] == [row.name for row in eager.rows]
    assert whole.flops == eager.flops
    assert eager.header.conditions["unfused"]["bytes_moved"] == whole.bytes_moved
    return whole, eager


@pytest.mark.parametrize(
    ("op", "more", "kernels"), [("Gelu", 9, 5), ("Swish", 3, 2), ("HardSwish", 3, 2), ("Mish", 5, 3), ("Relu", 0, 1)]
)
def test_an_activation_of_several_kernels_passes_its_tensor_between_them(op: str, more: int, kernels: int) -> None:
    whole, eager = beside_eager([node(op, "x", "y")], {"x": ("batch", 100)})
    assert eager.bytes_moved - whole.bytes_moved == more * D * N * 100
    assert eager.rows[0].kernels == kernels


@pytest.mark.parametrize("masked", [False, True])
def test_the_scores_of_attention_go_to_memory(masked: bool) -> None:
    heads, tokens, size = 3, 16, 8
    shape = ("batch", heads, tokens, size)
    inputs = {"q": shape, "k": shape, "v": shape} | ({"m": (tokens, tokens)} if masked else {})
    whole, eager = beside_eager([node("Attention", "q k v m" if masked else "q k v", "y")], inputs)
    steps = 3 + masked  # product, scale, (mask,) softmax: each written, and read by the next
    assert eager.bytes_moved - whole.bytes_moved == 2 * steps * D * N * heads * tokens**2
    assert eager.rows[0].kernels == 1 + steps


def test_each_gate_of_an_lstm_goes_to_memory() -> None:
    steps, inputs, units = 5, 6, 7
    weights = {"w": (1, 4 * units, inputs), "r": (1, 4 * units, units), "b": (1, 8 * units)}
    whole, eager = beside_eager(
        [node("LSTM", "x w r b", "y", hidden_size=units)], {"x": (steps, "batch", inputs)}, weights, 14
    )
    # per step: the product written; read and joined; two biases; activated; then five kernels of the state
    reads = 4 + 2 * 4 + 4 + (2 + 2 + 2 + 1 + 2)
    writes = 4 + 4 + 2 * 4 + 4 + (5 - 1)
    assert eager.bytes_moved - whole.bytes_moved == (reads + writes) * D * steps * N * units
    assert eager.rows[0].kernels - whole.rows[0].kernels == steps * (2 + 4 + 5)


def test_berts_bytes_beside_the_study() -> None:
    """Pagoda (2025): 89.999925 GB at batch 64. It reads the constants of GELU as whole tensors, three passes more."""
    bert = resolve("zoo:bert_large")
    whole, eager = (operator_table(bert, "infer", 64, eager=flag) for flag in (False, True))
    assert whole.bytes_moved == pytest.approx(53.1e9, rel=0.002)
    constants = 3 * sum(row.bytes_written // 5 for row in eager.rows if row.op == "Gelu")
    assert eager.bytes_moved + constants == pytest.approx(89.999925e9, rel=0.03)


def test_a_view_joins_or_takes_apart() -> None:
    bert = resolve("zoo:bert_base")
    with pytest.raises(InputError, match="--fused"):
        operator_table(bert, "infer", 1, fused=True, eager=True)
    with pytest.raises(InputError, match="--eager is of inference"):
        operator_table(bert, "train", 1, eager=True)
