"""ONNX Runtime's own operators: shapes as ONNX Runtime finds them, costs as their parts', written out."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, model_table

from edgetune.artifacts.ops import OpRow

D = 4  # bytes of a float32
N, S, H, HEADS = 2, 6, 32, 4
SIZE = H // HEADS

UINT8, INT8 = np.uint8(3), np.int8(0)
SCALE = np.float32(0.1)
RNG = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def small(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def runtime(op: str, inputs: str, outputs: str, shapes: dict[str, Any], values: dict[str, Any], **more: Any) -> Any:
    """A model of one operator of ``com.microsoft``; an integer input is given as (type, shape)."""
    kinds = {name: TensorProto.FLOAT for name in shapes}
    plain = {}
    for name, shape in shapes.items():
        plain[name] = shape
        if shape and isinstance(shape[0], str) and shape[0].startswith("="):
            kinds[name], plain[name] = getattr(TensorProto, shape[0][1:]), shape[1:]
    out_type = more.pop("out_type", TensorProto.FLOAT)
    first = [name for name in outputs.split() if name != "_"]
    made = helper.make_node(
        op, ["" if i == "_" else i for i in inputs.split()], ["" if o == "_" else o for o in outputs.split()],
        name=op, domain="com.microsoft", **more,
    )  # fmt: skip
    proto = model([made], plain, values=values, outputs=first)
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = kinds[value.name]
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = out_type
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


TOKENS = {"x": (N, S, H)}
IMAGE = {"x": (N, 4, 8, 8)}
BYTES = {"x": ("=UINT8", N, 4, 8, 8)}
ZERO_POINTS = {"s": SCALE, "z": UINT8}
U8 = TensorProto.UINT8

MODELS = {
    "SkipLayerNormalization": runtime(
        "SkipLayerNormalization", "x k g b", "y _ _ t", {**TOKENS, "k": (N, S, H)}, {"g": weight(H), "b": weight(H)}
    ),
    "SkipSimplifiedLayerNormalization": runtime(
        "SkipSimplifiedLayerNormalization", "x k g", "y", {**TOKENS, "k": (N, S, H)}, {"g": weight(H)}
    ),
    "BiasGelu": runtime("BiasGelu", "x b", "y", TOKENS, {"b": weight(H)}),
    "FastGelu": runtime("FastGelu", "x b", "y", TOKENS, {"b": weight(H)}),
    "QuickGelu": runtime("QuickGelu", "x", "y", TOKENS, {}),
    "Gelu": runtime("Gelu", "x", "y", TOKENS, {}),
    "FusedConv": runtime(
        "FusedConv", "x w b", "y", IMAGE, {"w": weight(5, 4, 3, 3), "b": weight(5)}, activation="Relu"
    ),
    "FusedGemm": runtime(
        "FusedGemm", "x w b", "y", {"x": (N, H)}, {"w": weight(H, 7), "b": weight(7)}, activation="Relu"
    ),
    "FusedMatMul": runtime(
        "FusedMatMul", "x w", "y", {"x": (N, H, S)}, {"w": weight(7, H)}, transA=1, transB=1, alpha=2.0
    ),
    "MatMulNBits": runtime(
        "MatMulNBits", "x w s", "y", {"x": (N, S, 64)}, {"w": small(10, 2, 16), "s": weight(20)},
        K=64, N=10, bits=4, block_size=32,
    ),
    "QLinearAdd": runtime(
        "QLinearAdd", "x s z x s z s z", "y", BYTES, ZERO_POINTS, out_type=U8,
    ),
    "QLinearSigmoid": runtime("QLinearSigmoid", "x s z s z", "y", BYTES, ZERO_POINTS, out_type=U8),
    "QLinearConcat": runtime("QLinearConcat", "s z x s z x s z", "y", BYTES, ZERO_POINTS, axis=1, out_type=U8),
    "QLinearGlobalAveragePool": runtime(
        "QLinearGlobalAveragePool", "x s z s z", "y", BYTES, ZERO_POINTS, channels_last=0, out_type=U8
    ),
    "QLinearAveragePool": runtime(
        "QLinearAveragePool", "x s z s z", "y", BYTES, ZERO_POINTS, kernel_shape=[2, 2], strides=[2, 2], out_type=U8
    ),
    "QGemm": runtime(
        "QGemm", "x s z w s z _ s z", "y", {"x": ("=UINT8", N, H)}, {**ZERO_POINTS, "w": small(H, 7)}, out_type=U8
    ),
    "DynamicQuantizeMatMul": runtime(
        "DynamicQuantizeMatMul", "x w s", "y", TOKENS, {"w": small(H, 7), "s": SCALE}
    ),
    "MatMulIntegerToFloat": runtime(
        "MatMulIntegerToFloat", "x w s s", "y", {"x": ("=UINT8", N, S, H)}, {"w": small(H, 7), "s": SCALE}
    ),
    "Attention": runtime(
        "Attention", "x w b", "y", TOKENS, {"w": weight(H, 3 * H), "b": weight(3 * H)}, num_heads=HEADS
    ),
    "QAttention": runtime(
        "QAttention", "x w b s s _ z z", "y", {"x": ("=UINT8", N, S, H)},
        {**ZERO_POINTS, "w": small(H, 3 * H), "b": weight(3 * H)}, num_heads=HEADS,
    ),
    "MultiHeadAttention": runtime(
        "MultiHeadAttention", "x k k", "y", {**TOKENS, "k": (N, 9, H)}, {}, num_heads=HEADS
    ),
    "GroupQueryAttention": runtime(
        "GroupQueryAttention", "x k v pk pv len total", "y nk nv",
        {
            "x": (N, 1, H), "k": (N, 1, 2 * SIZE), "v": (N, 1, 2 * SIZE), "pk": (N, 2, 5, SIZE), "pv": (N, 2, 5, SIZE),
        },
        {"len": np.full(N, 5, np.int32), "total": np.array(6, np.int32)}, num_heads=HEADS, kv_num_heads=2,
    ),
    "EmbedLayerNormalization": runtime(
        "EmbedLayerNormalization", "ids _ words places _ g b", "y _", {"ids": ("=INT32", N, S)},
        {"words": weight(50, H), "places": weight(S, H), "g": weight(H), "b": weight(H)},
    ),
    "BiasSoftmax": runtime(
        "BiasSoftmax", "x b", "y", {"x": (N, S, H)}, {"b": weight(1, S, H)}, axis=2, is_inner_broadcast=0
    ),
}  # fmt: skip
MODELS["DynamicQuantizeLSTM"] = runtime(
    "DynamicQuantizeLSTM", "x w r b _ _ _ _ ws wz ws wz", "y h", {"x": (N, 3, 6)},
    {
        "w": small(1, 6, 28, dtype=np.int8), "r": small(1, 7, 28, dtype=np.int8), "b": weight(1, 56),
        "ws": weight(1), "wz": small(1, dtype=np.int8),
    },
    hidden_size=7,
)  # fmt: skip

ONLY_ON_A_GPU = ("BiasSoftmax",)
SAMPLES = {"DynamicQuantizeLSTM": 3}
"""Of models whose batch is not N: of a recurrence it is the second axis."""


@pytest.mark.parametrize("name", MODELS)
def test_every_one_is_modelled_and_has_the_shape_that_onnx_runtime_finds(name: str) -> None:
    ort = pytest.importorskip("onnxruntime")
    proto = MODELS[name]
    (row,) = model_table(proto, "t", "infer", SAMPLES.get(name, N)).rows
    assert row.ledger == "modelled"
    assert row.flops > 0
    if name in ONLY_ON_A_GPU:
        return
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}
    feeds = {i.name: small(*i.shape, dtype=types[i.type]) % 5 for i in session.get_inputs()}
    found = session.run(None, feeds)
    assert row.outputs[0] == "x".join(map(str, found[0].shape))
    assert row.dtype == str(found[0].dtype)


@pytest.mark.parametrize("name", MODELS)
def test_operators_that_read_its_output_are_costed(name: str) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(MODELS[name])
    proto.graph.node.append(helper.make_node("Transpose", ["y"], ["read"], name="reader"))
    del proto.graph.output[:]
    elem_type = MODELS[name].graph.output[0].type.tensor_type.elem_type
    proto.graph.output.append(helper.make_tensor_value_info("read", elem_type, None))
    assert model_table(proto, "t", "infer", SAMPLES.get(name, N)).rows[-1].bytes_written > 0


def row(name: str) -> OpRow:
    return model_table(MODELS[name], "t", "infer", SAMPLES.get(name, N)).rows[0]


def test_a_residual_norm_is_a_sum_and_a_norm_that_writes_both_where_asked() -> None:
    elements = N * S * H
    found = row("SkipLayerNormalization")
    assert (found.flops, found.bytes_written) == (8 * elements, D * 2 * elements)
    found = row("SkipSimplifiedLayerNormalization")
    assert (found.flops, found.bytes_written) == (5 * elements, D * elements)
    assert found.bytes_read == D * (2 * elements + H)


def test_a_fused_convolution_is_a_convolution_with_its_activation() -> None:
    outputs = N * 5 * 36
    assert (row("FusedConv").macs, row("FusedConv").flops_other) == (outputs * 36, 2 * outputs)
    assert row("FusedConv").bytes_written == D * outputs


def test_transposed_operands_are_strides() -> None:
    found = row("FusedMatMul")
    assert (found.macs, found.flops_other) == (N * S * 7 * H, N * S * 7)


def test_packed_weights_are_read_packed() -> None:
    found = row("MatMulNBits")
    assert found.macs == N * S * 64 * 10
    assert found.weight_bytes == 64 * 10 // 2 + 20 * D
    assert found.flops_other == 2 * 64 * 10


def test_quantised_products_have_the_products_of_floats() -> None:
    assert row("QGemm").macs == N * H * 7
    assert row("DynamicQuantizeMatMul").macs == row("MatMulIntegerToFloat").macs == N * S * H * 7
    assert row("QGemm").bytes_written == N * 7
    assert row("MatMulIntegerToFloat").bytes_written == D * N * S * 7


def test_a_quantised_lstm_has_the_products_of_an_lstm_and_a_quarter_of_its_weights() -> None:
    found = row("DynamicQuantizeLSTM")
    assert found.macs == N * 3 * 4 * 7 * (6 + 7)
    assert found.weight_bytes == 28 * 6 + N * 28 * 7 + D * 56
    assert found.outputs == (f"{N}x1x3x7", "1x3x7")


def scores_flops(pairs: int) -> int:
    return N * HEADS * pairs * 6  # softmax and scale


def test_packed_attention_projects_and_attends() -> None:
    found = row("Attention")
    assert found.macs == N * S * H * 3 * H + 2 * N * S * S * H
    assert found.flops_other == scores_flops(S * S) + N * S * 3 * H
    assert found.weight_bytes == D * (3 * H * H + 3 * H)
    assert row("QAttention").macs == found.macs


def test_cross_attention_is_queries_by_keys() -> None:
    found = row("MultiHeadAttention")
    assert (found.macs, found.flops_other) == (2 * N * S * 9 * H, scores_flops(S * 9))
    assert (found.bytes_read, found.bytes_written) == (D * N * H * (S + 9 + 9), D * N * S * H)


def test_grouped_query_attention_reads_its_cache_and_appends_to_it() -> None:
    found = row("GroupQueryAttention")
    assert (found.macs, found.flops_other) == (2 * N * 6 * H, scores_flops(6))
    new = D * N * 2 * 2 * SIZE  # a key and a value of two heads
    assert found.bytes_read == D * N * H + new + 5 * new
    assert found.bytes_written == D * N * H + new


def test_a_cache_that_is_a_buffer_is_taken_as_full() -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(MODELS["GroupQueryAttention"])
    for value in proto.graph.output[1:]:
        value.CopyFrom(helper.make_tensor_value_info(value.name, 1, [N, 2, 5, SIZE]))
    assert model_table(proto, "t", "infer", N).rows[0].macs == 2 * N * 5 * H


def test_packed_queries_take_their_head_size_from_the_cache() -> None:
    shapes = {"x": (N, 1, H + 4 * SIZE), "pk": (N, 2, 5, SIZE), "pv": (N, 2, 5, SIZE)}
    values = {"len": np.full(N, 5, np.int32), "total": np.array(6, np.int32)}
    packed = runtime(
        "GroupQueryAttention", "x _ _ pk pv len total", "y nk nv", shapes, values, num_heads=HEADS, kv_num_heads=2
    )
    found = model_table(packed, "t", "infer", N).rows[0]
    assert (found.outputs[0], found.macs) == (f"{N}x1x{H}", row("GroupQueryAttention").macs)
