"""Attention, detection heads, sampling, signals and quantised weights against their closed forms, written out.

The fused view: what joins its producer, what must not, and exactly the bytes that lie between saved.

A network with its operators given: the table is taken as it is, and only for what it is a table of.
"""

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_graphs import model, model_table, node

from edgetune.artifacts import io
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.errors import InputError
from edgetune.workloads import zoo
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve, with_ops

D = 4  # bytes of a float32
N, Q, K, HEADS, KV, SIZE = 2, 6, 9, 4, 2, 8


def rows(proto: onnx.ModelProto, batch_size: int = N, **dimensions: int) -> list[OpRow]:
    table = model_table(proto, "t", "infer", batch_size, dimensions=dimensions)
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


def suppression() -> onnx.ModelProto:
    values = {"most": np.array([50]), "overlap": np.array([0.5], np.float32)}
    inputs = {"boxes": ("batch", 1000, 4), "scores": ("batch", 3, 1000)}
    proto = model([node("NonMaxSuppression", "boxes scores most overlap", "selected")], inputs, values=values)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return proto


def test_suppressing_boxes_waits_for_the_number_that_is_left() -> None:
    assert [row.ledger for row in rows(suppression())] == ["unmodelled"]
    (row,) = rows(suppression(), **{"selected:0": 60})
    assert row.flops == N * 3 * 1000 * 10 + 16 * 60 * 1000
    assert row.bytes_written == 8 * 60 * 3


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


def test_batch_norm_behind_an_activation_is_work_and_no_traffic() -> None:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("BatchNormalization", "r s b m v", "y")]
    one, fused = both(nodes, WEIGHTS | NORM)
    assert single(fused).flops == one.flops
    assert one.bytes_moved - fused.bytes_moved == 4 * D * INNER


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


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_the_zoo_keeps_its_products_and_moves_less(name: str) -> None:
    workload = resolve(f"zoo:{name}")
    one, fused = (operator_table(workload, "infer", 4, fused=flag) for flag in (False, True))
    assert fused.macs == one.macs
    assert fused.flops <= one.flops
    assert fused.bytes_moved < one.bytes_moved or "lstm" in name  # which have no element-wise operator
    assert all(row.bytes_read >= 0 and row.bytes_written >= 0 for row in fused.rows)


@pytest.fixture(scope="module")
def table():
    return operator_table(resolve("zoo:squeezenet"), "train", 4)


@pytest.fixture
def file(tmp_path, table):
    path = tmp_path / "ops.parquet"
    io.write(table, path)
    return str(path)


def test_the_table_stands_in_for_the_graph(file, table):
    workload = with_ops("zoo:squeezenet", file)
    assert (workload.kind, workload.name, workload.sha256) == ("zoo", "squeezenet", resolve("zoo:squeezenet").sha256)
    assert operator_table(workload, "train", 4) == io.read(OpsTable, file)
    assert operator_table(workload, "train", 4).rows == table.rows


def test_a_changed_table_is_what_counts(tmp_path, file, table):
    other = tmp_path / "other.parquet"
    io.write(dataclasses.replace(table, rows=table.rows[:3]), other)
    first, second = with_ops("zoo:squeezenet", file), with_ops("zoo:squeezenet", str(other))
    assert len(operator_table(second, "train", 4).rows) == 3
    assert first != second


@pytest.mark.parametrize(
    ("task", "size", "precision", "option"),
    [
        ("infer", 4, "fp32", "--task train"),
        ("train", 8, "fp32", "--batch-sizes 4"),
        ("train", 4, "fp16", "--precision fp32"),
    ],
)
def test_a_table_is_for_one_task_batch_size_and_precision(file, task, size, precision, option):
    with pytest.raises(InputError, match="the table is for squeezenet train, batch size 4, fp32") as caught:
        operator_table(with_ops("zoo:squeezenet", file), task, size, precision=precision)
    assert caught.value.hint.startswith(f"{option}, or ")
