"""Attention, detection heads, sampling, signals and quantised weights against their closed forms, written out."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpRow
from edgetune.workloads.costs.node import GraphTensor, OperatorNode
from edgetune.workloads.costs.table import cost_of

D = 4  # bytes of a float32
N, Q, K, HEADS, KV, SIZE = 2, 6, 9, 4, 2, 8


def rows(proto: onnx.ModelProto, batch_size: int = N) -> list[OpRow]:
    table = model_table(proto, "t", "infer", batch_size)
    return [row for row in table.rows if row.ledger != "zero"]


def attention(names: str = "q k v", outputs: str = "y", past: int = 0, opset: int = 23, **attributes: Any) -> OpRow:
    shapes: dict[str, Any] = {"q": (N, HEADS, Q, SIZE), "k": (N, KV, K, SIZE), "v": (N, KV, K, SIZE)}
    if past:
        shapes |= {"pk": (N, KV, past, SIZE), "pv": (N, KV, past, SIZE)}
    if "mask" in names:
        shapes["mask"] = (Q, K + past)
    proto = model([node("Attention", names, outputs, **attributes)], shapes, outputs=outputs.split(), opset=opset)
    (row,) = rows(proto)
    return row


def test_attention_reads_its_operands_once_and_keeps_its_scores_to_itself() -> None:
    row = attention()
    assert (row.macs, row.flops_other) == (N * HEADS * Q * K * 2 * SIZE, N * HEADS * Q * K * 6)
    assert row.bytes_read == D * N * SIZE * (HEADS * Q + 2 * KV * K)
    assert row.bytes_written == D * N * SIZE * HEADS * Q
    assert (row.kernels, row.op_class) == (1, "gemm")


def test_attention_adds_a_mask_and_leaves_out_what_causality_hides() -> None:
    assert attention("q k v mask").flops_other == N * HEADS * Q * K * 7
    pairs = Q * (Q + 1) // 2
    assert attention(is_causal=1).macs == N * HEADS * pairs * 2 * SIZE
    window = sum(min(i, 3) for i in range(1, Q + 1))
    assert attention(is_causal=1, left_window_size=2, opset=25).macs == N * HEADS * window * 2 * SIZE


def test_attention_appends_to_its_cache() -> None:
    row = attention("q k v _ pk pv", "y nk nv", past=5)
    key = D * N * KV * SIZE
    assert row.macs == N * HEADS * Q * (K + 5) * 2 * SIZE
    assert row.bytes_read == D * N * SIZE * HEADS * Q + 2 * key * (K + 5)
    assert row.bytes_written == D * N * SIZE * HEADS * Q + 2 * key * K


def test_attention_of_packed_heads_is_the_same() -> None:
    shapes = {"q": (N, Q, HEADS * SIZE), "k": (N, K, KV * SIZE), "v": (N, K, KV * SIZE)}
    proto = model([node("Attention", "q k v", "y", q_num_heads=HEADS, kv_num_heads=KV)], shapes, opset=23)
    (row,) = rows(proto)
    apart = attention()
    assert (row.macs, row.bytes_read, row.bytes_written) == (apart.macs, apart.bytes_read, apart.bytes_written)


def test_rotating_reads_the_angles_of_its_positions_only() -> None:
    values = {"cos": np.zeros((4096, SIZE // 2), np.float32), "sin": np.zeros((4096, SIZE // 2), np.float32)}
    proto = model(
        [node("RotaryEmbedding", "x cos sin ids", "y")],
        {"x": (N, HEADS, Q, SIZE), "ids": (N, Q)},
        values=values,
        opset=23,
    )
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    (row,) = rows(proto)
    elements = N * HEADS * Q * SIZE
    assert (row.flops, row.bytes_written) == (3 * elements, D * elements)
    assert row.bytes_read == D * elements + 2 * D * N * Q * SIZE // 2 + 8 * N * Q


def test_a_cache_updated_in_place_moves_what_is_new() -> None:
    shapes = {"cache": (N, KV, 4096, SIZE), "new": (N, KV, 1, SIZE)}
    (row,) = rows(model([node("TensorScatter", "cache new", "y")], shapes, opset=24))
    assert row.bytes_read == row.bytes_written == D * N * KV * SIZE


def test_the_largest_k_take_a_heap() -> None:
    values = {"k": np.array([100])}
    proto = model([node("TopK", "x k", "y i")], {"x": (N, 8000)}, values=values)
    (row,) = rows(proto)
    assert row.flops == N * 8000 * 7
    assert (row.bytes_read, row.bytes_written) == (D * N * 8000, (D + 8) * N * 100)


SUPPRESSED = {"boxes": (1000, 4), "scores": (3, 1000)}


def suppression() -> onnx.ModelProto:
    values = {"most": np.array([50]), "overlap": np.array([0.5], np.float32)}
    inputs = {name: ("batch", *shape) for name, shape in SUPPRESSED.items()}
    proto = model([node("NonMaxSuppression", "boxes scores most overlap", "selected")], inputs, values=values)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return proto


def test_suppressing_boxes_waits_for_the_number_that_is_left() -> None:
    assert [row.ledger for row in rows(suppression())] == ["unmodelled"]
    boxes, scores = (GraphTensor(name, (N, *shape), "float32", D) for name, shape in SUPPRESSED.items())
    selected = GraphTensor("selected", (60, 3), "int64", 8)
    cost = cost_of(OperatorNode("n", "NonMaxSuppression", (boxes, scores), (selected,)))
    assert cost.flops_other == N * 3 * 1000 * 10 + 16 * 60 * 1000
    assert cost.bytes_written == 8 * 60 * 3


def test_regions_are_sampled_bilinearly() -> None:
    inputs: dict[str, Any] = {"x": (1, 8, 32, 32), "rois": (20, 4), "index": (20,)}
    proto = model([node("RoiAlign", "x rois index", "y", output_height=7, output_width=7, sampling_ratio=2)], inputs)
    proto.graph.input[2].type.tensor_type.elem_type = TensorProto.INT64
    (row,) = rows(proto, 1)
    assert row.flops == 20 * 8 * 49 * 4 * 8
    assert row.bytes_read == D * 8 * 32 * 32 + D * 80 + 8 * 20


@pytest.mark.parametrize(("mode", "per_value"), [("linear", 7), ("nearest", 0), ("cubic", 31)])
def test_a_warped_image(mode: str, per_value: int) -> None:
    inputs = {"x": (N, 3, 8, 8), "grid": (N, 5, 5, 2)}
    (row,) = rows(model([node("GridSample", "x grid", "y", mode=mode)], inputs, opset=20))
    assert row.flops == N * (3 * 25 * per_value + 25 * 8)


def test_deformable_convolution_samples_and_multiplies() -> None:
    inputs = {"x": (N, 4, 8, 8), "offset": (N, 18, 6, 6)}
    (row,) = rows(model([node("DeformConv", "x w offset", "y")], inputs, {"w": (5, 4, 3, 3)}, opset=19))
    assert row.macs == N * 5 * 36 * 4 * 9
    assert row.flops_other == N * 36 * 4 * 9 * 7


def test_a_fourier_transform_of_frames() -> None:
    values = {"step": np.array(160), "window": np.zeros(512, np.float32)}
    proto = model([node("STFT", "x step window", "y")], {"x": ("batch", 16000, 1)}, values=values)
    (row,) = rows(proto)
    frames = N * ((16000 - 512) // 160 + 1)
    assert row.flops == 5 * frames * 512 * 9 // 2 + frames * 512
    assert row.bytes_read == D * (N * 16000 + 512)


def test_losses() -> None:
    inputs: dict[str, Any] = {"x": (N, 10), "labels": (N,)}
    for op, flops in (("SoftmaxCrossEntropyLoss", 5 * 10 * N + 2 * N), ("NegativeLogLikelihoodLoss", N)):
        proto = model([node(op, "x labels", "y")], inputs)
        proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
        (row,) = rows(proto, 1)  # a mean over the samples: they are no batch that could be another
        assert row.flops == flops


def packed(elem_type: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    return onnx.TensorProto(name="w", dims=shape, data_type=elem_type)


@pytest.mark.parametrize(
    ("elem_type", "weight_bytes"),
    [(TensorProto.INT8, 1000), (TensorProto.INT4, 500), (TensorProto.UINT4, 500), (TensorProto.FLOAT8E4M3FN, 1000)],
)
def test_a_weight_stored_quantised_is_read_so(elem_type: int, weight_bytes: int) -> None:
    nodes = [node("DequantizeLinear", "w scale", "wide"), node("MatMul", "x wide", "y")]
    proto = model(nodes, {"x": (N, 40)}, values={"scale": np.float32(0.1)}, opset=21)
    proto.graph.initializer.append(packed(elem_type, (40, 25)))
    (row,) = rows(proto)
    assert row.weight_bytes == weight_bytes
    assert row.bytes_read == weight_bytes + D * N * 40
    assert model_table(proto, "t", "infer", N).rows[0].ledger == "zero"


def test_an_activation_that_is_dequantised_is_written_wide() -> None:
    proto = model([node("DequantizeLinear", "x scale", "y")], {"x": (N, 40)}, values={"scale": np.float32(0.1)})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    (row,) = rows(proto)
    assert (row.bytes_read, row.bytes_written) == (N * 40 + 4, D * N * 40)


@pytest.mark.parametrize("opset", [11, 13, 17, 20, 23, 26])
def test_opsets_from_11_to_the_newest(opset: int) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        node("Conv", "x w", "c"),
        node("Clip", "c low high", "r"),
        node("Resize", "r roi scales", "u", mode="nearest"),
        node("Softmax", "u", "y", axis=1),
    ]
    values = {"low": np.float32(0), "high": np.float32(6), "roi": np.zeros(0, np.float32), "scales": scales}
    found = rows(model(nodes, {"x": (N, 3, 8, 8)}, {"w": (4, 3, 3, 3)}, values, opset=opset))
    assert [row.op for row in found] == ["Conv", "Clip", "Resize", "Softmax"]
    assert found[0].macs == N * 4 * 36 * 27
    assert found[3].outputs == (f"{N}x4x12x12",)


def test_a_model_over_two_gigabytes_is_costed_without_its_weights(tmp_path: Any) -> None:
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.resolve import resolve

    side, layers = 16384, 3  # a gigabyte each, in a file with a hole
    nodes = [node("MatMul", f"h{i} w{i}", f"h{i + 1}") for i in range(layers)]
    proto = model(nodes, {"h0": ("batch", side)}, {f"w{i}": (side, side) for i in range(layers)})
    size_bytes = D * side * side
    for index, tensor in enumerate(proto.graph.initializer):
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", index * size_bytes), ("length", size_bytes)):
            tensor.external_data.append(onnx.StringStringEntryProto(key=key, value=str(value)))
    onnx.save(proto, tmp_path / "large.onnx")
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(layers * size_bytes)
    table = operator_table(resolve(str(tmp_path / "large.onnx")), "infer", 1)
    assert sum(row.weight_bytes for row in table.rows) == layers * size_bytes > 2**31
    assert table.macs == layers * side * side


def test_a_body_may_hold_what_is_unknown() -> None:
    body = helper.make_graph(
        [node("Warp", "x", "r", domain="acme")], "b", [], [helper.make_tensor_value_info("r", 1, [N, 4])]
    )
    proto = model(
        [node("If", "flag", "y", then_branch=body, else_branch=body)], {"x": (N, 4)}, values={"flag": np.array(True)}
    )
    (row,) = rows(proto, 1)
    assert (row.op, row.ledger) == ("Warp", "unmodelled")
