"""Every formula against its closed form, written out."""

from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpRow

D = 4  # bytes of a float32


def only_row(proto: onnx.ModelProto, batch_size: int = 1, precision: str = "fp32") -> OpRow:
    rows = [r for r in model_table(proto, "test", "infer", batch_size, precision=precision).rows if r.ledger != "zero"]
    assert len(rows) == 1
    return rows[0]


def conv(  # noqa: PLR0917
    n: int, c_in: int, c_out: int, group: int, k: int, size: int, bias: bool, op: str = "Conv"
) -> OpRow:
    weight = (c_out, c_in // group, k, k) if op == "Conv" else (c_in, c_out // group, k, k)
    weights = {"w": weight} | ({"b": (c_out,)} if bias else {})
    proto = model(
        [node(op, "x w b" if bias else "x w", "y", group=group, kernel_shape=[k, k])],
        {"x": ["batch", c_in, size, size]},
        weights,
    )
    return only_row(proto, n)


def element_row(op: str, *, inputs: int = 1, shape: tuple[int, ...] = (3, 5), **attributes: Any) -> OpRow:
    names = [f"x{i}" for i in range(inputs)]
    return only_row(model([node(op, " ".join(names), "y", **attributes)], {name: ("batch", *shape) for name in names}))


@pytest.mark.parametrize("bias", [False, True])
def test_convolution_is_the_closed_form(bias: bool) -> None:
    row = conv(2, 6, 8, 2, 3, 10, bias)
    n, c_in, c_out, g, k, h_in, h_out = 2, 6, 8, 2, 3, 10, 8
    assert row.flops == n * c_out * h_out * h_out * (2 * c_in // g * k * k + bias)
    moved = n * c_in * h_in**2 + c_out * c_in // g * k * k + c_out * bias + n * c_out * h_out**2
    assert row.bytes_read + row.bytes_written == D * moved
    assert row.weight_bytes == D * (c_out * c_in // g * k * k + c_out * bias)
    assert (row.op_class, row.channels_in, row.channels_out, row.kernels) == ("conv", 3, 8, 1)


def test_depthwise_is_a_class_of_its_own_and_a_single_channel_is_not() -> None:
    row = conv(1, 8, 8, 8, 3, 10, False)
    assert (row.op_class, row.channels_in, row.macs) == ("depthwise", 1, 8 * 8 * 8 * 9)
    assert conv(1, 1, 8, 1, 3, 10, False).op_class == "conv"


def test_transposed_convolution_scatters_every_input_through_the_kernel() -> None:
    row = conv(2, 6, 8, 2, 3, 10, True, "ConvTranspose")
    h_out = 12
    assert row.macs == 2 * 6 * 10 * 10 * (8 // 2) * 3 * 3
    assert row.flops_other == 2 * 8 * h_out * h_out
    assert (row.channels_in, row.channels_out) == (3, 8)
    assert row.bytes_written == D * 2 * 8 * h_out * h_out


@settings(deadline=None, max_examples=15)
@given(group=st.sampled_from([1, 2, 4]), scale=st.integers(1, 3), k=st.integers(1, 3), n=st.integers(1, 4))
def test_groups_divide_the_work_and_the_weights(group: int, scale: int, k: int, n: int) -> None:
    plain, grouped = conv(n, 8 * scale, 16, 1, k, 7, False), conv(n, 8 * scale, 16, group, k, 7, False)
    assert plain.macs == group * grouped.macs
    assert plain.weight_bytes == group * grouped.weight_bytes
    assert grouped.bytes_written == plain.bytes_written


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_ignores_transposes_and_counts_its_bias(trans_a: int, trans_b: int) -> None:
    m, k, n = 3, 5, 7
    proto = model(
        [node("Gemm", "a b c", "y", transA=trans_a, transB=trans_b)],
        {"a": (k, m) if trans_a else (m, k)},
        {"b": (n, k) if trans_b else (k, n), "c": (n,)},
    )
    row = only_row(proto, 1 if trans_a else m)  # transposed, the first axis is contracted and no batch
    assert (row.macs, row.flops_other, row.flops) == (m * n * k, m * n, 2 * m * n * k + m * n)
    assert row.bytes_read == D * (m * k + k * n + n)
    assert row.bytes_written == D * m * n
    assert (row.channels_in, row.channels_out) == (k, n)


@pytest.mark.parametrize(
    ("a", "b", "macs"),
    [
        (("batch", 3, 5), (5, 7), 2 * 3 * 5 * 7),
        (("batch", 4, 3, 5), ("batch", 1, 5, 7), 2 * 4 * 3 * 5 * 7),
        (("batch", 5), (5,), 2 * 5),
        (("batch", 1, 3, 5), (6, 5, 7), 2 * 6 * 3 * 5 * 7),
    ],
)
def test_matmul_broadcasts(a: tuple[Any, ...], b: tuple[Any, ...], macs: int) -> None:
    weights = {"b": b} if "batch" not in b else {}
    inputs = {"a": a} if weights else {"a": a, "b": b}
    row = only_row(model([node("MatMul", "a b", "y")], inputs, weights), 2)
    assert (row.macs, row.flops_other, row.op_class) == (macs, 0, "gemm")


def test_einsum_broadcasts_what_the_dots_stand_for() -> None:
    inputs = {"a": (2, 3, 4, 5), "b": (1, 3, 5, 6)}
    row = only_row(model([node("Einsum", "a b", "y", equation="...ij,...jk->...ik")], inputs), 2)
    assert row.macs == 2 * 3 * 4 * 5 * 6


@pytest.mark.parametrize(("op", "gates", "unit_flops"), [("LSTM", 4, 26), ("GRU", 3, 18), ("RNN", 1, 5)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers_read_recurrent_weights_every_step(
    op: str, gates: int, unit_flops: int, directions: int
) -> None:
    t, n, i, h, d = 6, 2, 5, 7, directions
    proto = model(
        [node(op, "x w r b", "y", hidden_size=h, direction="bidirectional" if d == 2 else "forward")],
        {"x": [t, "batch", i]},
        {"w": (d, gates * h, i), "r": (d, gates * h, h), "b": (d, 2 * gates * h)},
    )
    row = only_row(proto, n)
    assert row.macs == d * t * n * gates * h * (i + h)
    assert row.flops_other == d * t * n * h * (3 * gates + unit_flops)
    assert row.weight_bytes == D * d * (gates * h * i + 2 * gates * h + t * gates * h * h)
    projection = D * d * t * n * gates * h
    assert row.bytes_read == D * t * n * i + row.weight_bytes + projection
    assert row.bytes_written == D * d * t * n * h + projection
    assert row.kernels == d * (1 + 2 * t)
    assert row.op_class == "rnn"


@pytest.mark.parametrize(
    ("op", "per_element"),
    [("Relu", 1), ("LeakyRelu", 2), ("Sigmoid", 4), ("Tanh", 5), ("HardSigmoid", 4), ("HardSwish", 5), ("Erf", 17)],
)
def test_activations(op: str, per_element: int) -> None:
    row = element_row(op)
    assert (row.macs, row.flops, row.flops_other) == (0, per_element * 15, per_element * 15)
    assert (row.bytes_read, row.bytes_written, row.op_class) == (D * 15, D * 15, "elementwise")


def test_a_broadcast_input_is_read_once() -> None:
    row = only_row(model([node("Add", "x b", "y")], {"x": ("batch", 4, 6)}, {"b": (6,)}), 3)
    assert (row.flops, row.bytes_read, row.bytes_written) == (72, D * (72 + 6), D * 72)


def test_variadic_sum_and_mean() -> None:
    assert element_row("Sum", inputs=3).flops == 2 * 15
    assert element_row("Mean", inputs=3).flops == 3 * 15


def test_batch_norm_takes_statistics_in_training_only() -> None:
    proto = model(
        [node("BatchNormalization", "x s b m v", "y")], {"x": ("batch", 4, 6, 6)}, {name: (4,) for name in "sbmv"}
    )
    elements = 2 * 4 * 36
    row = only_row(proto, 2)
    assert (row.flops, row.bytes_read, row.bytes_written) == (2 * elements, D * (elements + 16), D * elements)
    training = model_table(proto, "test", "train", 2).rows[0]
    assert (training.flops, training.bytes_read) == (6 * elements, D * (2 * elements + 16))


def test_local_response_norm_grows_with_its_size() -> None:
    assert element_row("LRN", shape=(4, 6, 6), size=5).flops == 9 * 144


@pytest.mark.parametrize(
    ("op", "flops"), [("ReduceSum", 20), ("ReduceMax", 20), ("ReduceMean", 20 + 5), ("ReduceL2", 40 + 5)]
)
def test_reductions(op: str, flops: int) -> None:
    attributes = {"axes": [2]} if op != "ReduceSum" else {}
    values = {"axes": [2]} if op == "ReduceSum" else {}
    names = "x axes" if values else "x"
    row = only_row(model([node(op, names, "y", keepdims=0, **attributes)], {"x": ("batch", 5, 4)}, values=values))
    assert (row.flops, row.bytes_read, row.bytes_written, row.op_class) == (flops, D * 20, D * 5, "reduction")


def test_pooling() -> None:
    row = element_row("MaxPool", shape=(2, 6, 6), kernel_shape=[3, 3])
    assert (row.flops, row.bytes_read, row.bytes_written) == (9 * 32, D * 72, D * 32)
    assert element_row("AveragePool", shape=(2, 6, 6), kernel_shape=[3, 3]).flops == 10 * 32
    assert element_row("GlobalAveragePool", shape=(2, 6, 6)).flops == 72 + 2


def test_gather_reads_only_the_rows_gathered() -> None:
    proto = model(
        [node("Gather", "table ids", "y")], {"ids": ("batch", 6)}, {"table": (1000, 8)}, dtype=TensorProto.INT64
    )
    row = only_row(proto, 2)
    assert row.weight_bytes == D * 12 * 8
    assert (row.bytes_read, row.bytes_written, row.flops) == (D * 96 + 8 * 12, D * 96, 0)
    assert row.op_class == "gather"


def test_copies_move_bytes_and_do_no_work() -> None:
    row = element_row("Transpose", perm=[0, 2, 1])
    assert (row.flops, row.bytes_read, row.bytes_written, row.op_class) == (0, D * 15, D * 15, "copy")
    row = element_row("Concat", inputs=2, axis=1)
    assert (row.bytes_read, row.bytes_written, row.kernels) == (D * 30, D * 30, 1)


def test_a_slice_moves_only_what_it_keeps() -> None:
    values = {"start": [0], "end": [2], "axis": [1]}
    row = only_row(model([node("Slice", "x start end axis", "y")], {"x": ("batch", 5, 3)}, values=values))
    assert (row.bytes_read, row.bytes_written, row.kernels) == (D * 6, D * 6, 0)


@pytest.mark.parametrize(("mode", "per_output"), [("nearest", 0), ("linear", 7), ("cubic", 31)])
def test_resize_weighs_its_neighbours(mode: str, per_output: int) -> None:
    import numpy as np

    values = {"scales": np.array([1, 1, 2, 2], np.float32)}
    row = only_row(model([node("Resize", "x _ scales", "y", mode=mode)], {"x": ("batch", 3, 4, 4)}, values=values))
    assert row.flops == per_output * 3 * 64
    assert (row.bytes_read, row.bytes_written) == (D * 48, D * 192)


@pytest.mark.parametrize("op", ["Identity", "Flatten", "Dropout"])
def test_views_are_zero_by_definition(op: str) -> None:
    row = model_table(model([node(op, "x", "y")], {"x": ("batch", 3, 4)}), "t", "infer", 1).rows[0]
    assert (row.ledger, row.flops, row.bytes_read, row.kernels) == ("zero", 0, 0, 0)


def test_dropout_drops_in_training() -> None:
    row = model_table(model([node("Dropout", "x", "y")], {"x": ("batch", 3, 4)}), "t", "train", 1).rows[0]
    assert (row.flops, row.bytes_written) == (36, D * 12 + 12)


def test_quantised_convolution_requantises_each_output() -> None:
    import numpy as np

    scalars = {name: np.float32(0.1) for name in ("xs", "ws", "ys")} | {
        name: np.uint8(0) for name in ("xz", "wz", "yz")
    }
    proto = model(
        [node("QLinearConv", "x xs xz w ws wz ys yz", "y")],
        {"x": ("batch", 3, 8, 8)},
        {"w": (4, 3, 3, 3)},
        scalars,
        dtype=TensorProto.UINT8,
        weight_dtype=TensorProto.UINT8,
    )
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    row = only_row(proto)
    assert (row.macs, row.flops_other) == (4 * 36 * 27, 3 * 4 * 36)
    assert (row.bytes_written, row.dtype) == (4 * 36, "uint8")


@pytest.mark.parametrize(("precision", "item_bytes"), [("fp32", 4), ("tf32", 4), ("fp16", 2), ("bf16", 2), ("int8", 1)])
def test_precision_sets_the_bytes_and_not_the_work(precision: str, item_bytes: int) -> None:
    proto = model([node("MatMul", "x w", "y")], {"x": ("batch", 8)}, {"w": (8, 4)})
    row = only_row(proto, 2, precision)
    assert row.bytes_read + row.bytes_written == item_bytes * (16 + 32 + 8)
    assert row.macs == 64
