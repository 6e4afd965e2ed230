"""A training step from the forward pass: which gradients exist, what they move, and the optimiser."""

from __future__ import annotations

from onnx import TensorProto
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpsTable

D = 4


def two_convolutions() -> OpsTable:
    nodes = [
        node("Conv", "x w1", "c1", name="first", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r", name="act"),
        node("Conv", "r w2 b2", "y", name="second", pads=[1, 1, 1, 1]),
    ]
    weights = {"w1": (4, 3, 3, 3), "w2": (5, 4, 3, 3), "b2": (5,)}
    return model_table(model(nodes, {"x": ("batch", 3, 8, 8)}, weights), "t", "train", 2)


def test_phases_come_in_order_and_backward_is_reversed() -> None:
    names = [row.name for row in two_convolutions().rows]
    assert names == [
        "first", "act", "second",
        "second/input_gradient", "second/weight_gradient", "act/backward", "first/weight_gradient",
        "w1/optimiser", "w2/optimiser", "b2/optimiser",
    ]  # fmt: skip


def test_each_operand_that_needs_a_gradient_costs_the_forward_products_again() -> None:
    rows = {row.name: row for row in two_convolutions().rows}
    x, c, y, w = 2 * 4 * 64, 2 * 4 * 64, 2 * 5 * 64, 5 * 4 * 9
    forward = rows["second"]
    assert forward.macs == y * 4 * 9
    to_input, to_weight = rows["second/input_gradient"], rows["second/weight_gradient"]
    assert to_input.macs == to_weight.macs == forward.macs
    assert (to_input.bytes_read, to_input.bytes_written) == (D * (y + w + 5), D * x)
    assert (to_weight.bytes_read, to_weight.bytes_written) == (D * (y + c), D * (w + 5))
    assert to_weight.flops_other == y  # the bias sums the output's gradient
    assert {to_input.phase, to_weight.phase} == {"backward"}


def test_the_first_layer_has_no_input_gradient() -> None:
    names = [row.name for row in two_convolutions().rows]
    assert "first/weight_gradient" in names
    assert "first/input_gradient" not in names


def test_an_elementwise_operator_goes_back_with_twice_the_work_and_half_more_bytes() -> None:
    rows = {row.name: row for row in two_convolutions().rows}
    forward, backward = rows["act"], rows["act/backward"]
    assert backward.flops == 2 * forward.flops
    assert backward.bytes_read + backward.bytes_written == 1.5 * (forward.bytes_read + forward.bytes_written)


def test_the_optimiser_passes_five_times_over_each_weight() -> None:
    rows = {row.name: row for row in two_convolutions().rows}
    row = rows["w2/optimiser"]
    assert (row.phase, row.op_class, row.flops) == ("optimiser", "optimiser", 4 * 180)
    assert row.bytes_read + row.bytes_written == 5 * D * 180


def test_a_product_of_two_activations_has_a_gradient_for_each() -> None:
    nodes = [
        node("MatMul", "x w", "q"),
        node("MatMul", "x v", "k"),
        node("MatMul", "q k", "y", name="scores"),
    ]
    proto = model(nodes, {"x": ("batch", 6, 6)}, {"w": (6, 6), "v": (6, 6)})
    rows = [row for row in model_table(proto, "t", "train", 2).rows if row.name.startswith("scores/")]
    assert len(rows) == 2
    assert all(row.macs == 2 * 6 * 6 * 6 for row in rows)
    assert all((row.bytes_read, row.bytes_written) == (D * 144, D * 72) for row in rows)


def test_attention_goes_back_in_one_kernel_of_twice_its_products() -> None:
    nodes = [node("MatMul", "x w", "q"), node("Attention", "q q q", "y", name="attention")]
    proto = model(nodes, {"x": ("batch", 4, 6, 8)}, {"w": (8, 8)}, opset=23)
    rows = {row.name: row for row in model_table(proto, "t", "train", 2).rows}
    forward, backward = rows["attention"], rows["attention/backward"]
    assert backward.macs == 2 * forward.macs == 2 * (2 * 2 * 4 * 6 * 6 * 8)
    assert backward.flops == 2 * forward.flops


def test_an_embedding_clears_and_fills_a_dense_gradient() -> None:
    nodes = [node("Gather", "table ids", "e", name="lookup"), node("MatMul", "e w", "y")]
    proto = model(nodes, {"ids": ("batch", 6)}, {"table": (100, 8), "w": (8, 3)}, dtype=TensorProto.INT64)
    rows = {row.name: row for row in model_table(proto, "t", "train", 1).rows}
    row = rows["lookup/backward"]
    assert row.bytes_written == D * (100 * 8 + 6 * 8)
    assert row.flops == 6 * 8


def test_recurrent_layers_walk_back_for_inputs_and_weights() -> None:
    nodes = [
        node("MatMul", "x e", "p"),
        node("LSTM", "p w r b", "y", hidden_size=7, name="lstm"),
    ]
    weights = {"e": (5, 5), "w": (1, 28, 5), "r": (1, 28, 7), "b": (1, 56)}
    rows = {row.name: row for row in model_table(model(nodes, {"x": (6, "batch", 5)}, weights), "t", "train", 2).rows}
    gradients = [row for name, row in rows.items() if name.startswith("lstm/")]
    assert len(gradients) == 2
    assert all(row.macs == rows["lstm"].macs for row in gradients)
