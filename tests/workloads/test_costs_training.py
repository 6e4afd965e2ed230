"""A training step from the forward pass: which gradients exist, what they move, and the optimiser."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
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
    nodes = [node("MatMul", "x w", "q"), node("MatMul", "x v", "k"), node("MatMul", "q k", "y", name="scores")]
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
    nodes = [node("MatMul", "x e", "p"), node("LSTM", "p w r b", "y", hidden_size=7, name="lstm")]
    weights = {"e": (5, 5), "w": (1, 28, 5), "r": (1, 28, 7), "b": (1, 56)}
    rows = {row.name: row for row in model_table(model(nodes, {"x": (6, "batch", 5)}, weights), "t", "train", 2).rows}
    gradients = [row for name, row in rows.items() if name.startswith("lstm/")]
    assert len(gradients) == 2
    assert all(row.macs == rows["lstm"].macs for row in gradients)


X = {"x": ("batch", 3, 4)}


def graph(nodes: list[onnx.NodeProto], inputs: dict[str, int], outputs: list[str]) -> onnx.GraphProto:
    """A body: input names with element types, output names; none has a shape."""

    def value(name: str, elem_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, elem_type, None)

    typed = [value(name, elem_type) for name, elem_type in inputs.items()]
    return helper.make_graph(nodes, "body", typed, [value(n, inputs.get(n, TensorProto.FLOAT)) for n in outputs])


def costs(table: OpsTable) -> list[tuple[str, str, int]]:
    return [(row.name, row.ledger, row.flops) for row in table.rows]


RELU = graph([node("Relu", "x", "r")], {}, ["r"])
TANH = graph([node("Tanh", "x", "t")], {}, ["t"])
NOTHING = graph([node("Identity", "x", "i")], {}, ["i"])


def branching(**values: object) -> onnx.ModelProto:
    chosen = node("If", "flag", "c", name="choice", then_branch=RELU, else_branch=TANH)
    inputs = dict(X) if "flag" in values else {**X, "flag": ()}
    proto = model([chosen, node("Relu", "c", "y", name="after")], inputs, values=values)
    for value in proto.graph.input:
        if value.name == "flag":
            value.type.tensor_type.elem_type = TensorProto.BOOL
    return proto


@pytest.mark.parametrize(("flag", "inner", "flops"), [(True, "Relu_0", 24), (False, "Tanh_0", 5 * 24)])
def test_a_constant_condition_chooses_the_branch(flag: bool, inner: str, flops: int) -> None:
    table = model_table(branching(flag=np.array(flag)), "t", "infer", 2)
    assert costs(table) == [("choice", "zero", 0), (f"choice/{inner}", "modelled", flops), ("after", "modelled", 24)]


def test_the_dearer_of_two_possible_branches_counts() -> None:
    assert costs(model_table(branching(), "t", "infer", 2))[1] == ("choice/Tanh_0", "modelled", 5 * 24)


def test_a_condition_made_of_shapes_is_a_constant() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "d"),
        node("Equal", "d three", "flag"),
        node("If", "flag", "y", then_branch=RELU, else_branch=TANH),
    ]
    table = model_table(model(nodes, X, values={"one": np.array(1), "three": np.array(3)}), "t", "infer", 2)
    assert [row.op for row in table.rows if row.ledger == "modelled"] == ["Relu"]


def test_branches_of_different_shapes_are_followed_when_the_condition_is_known() -> None:
    squeezed = graph([node("Squeeze", "x axes", "s")], {}, ["s"])
    nodes = [node("If", "flag", "c", then_branch=squeezed, else_branch=NOTHING), node("Relu", "c", "y")]
    values = {"flag": np.array(True), "axes": [1]}
    table = model_table(model(nodes, {"x": ("batch", 1, 4)}, values=values), "t", "infer", 2)
    assert table.rows[-1].outputs == ("2x4",)
    proto = model(nodes, {"x": ("batch", 1, 4), "flag": ()}, values={"axes": [1]})
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    table = model_table(proto, "t", "infer", 2)
    assert table.rows[-1].ledger == "unmodelled"
    cautions = {caution.code: caution.advice for caution in table.header.warnings}
    assert "'c'" in cautions["unknown-shapes"]


def looping(trips: object, inner: list[onnx.NodeProto] | None = None) -> onnx.ModelProto:
    body = graph(
        inner or [node("MatMul", "state w", "next"), node("Identity", "go", "still"), node("Relu", "next", "slice")],
        {"i": TensorProto.INT64, "go": TensorProto.BOOL, "state": TensorProto.FLOAT},
        ["still", "next", "slice"],
    )
    body.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    nodes = [node("Loop", "trips true x", "last slices", name="loop", body=body), node("Relu", "slices", "y")]
    inputs = dict(X) if trips is not None else {**X, "trips": ()}
    values = {"true": np.array(True)} | ({"trips": np.array(trips)} if trips is not None else {})
    proto = model(nodes, inputs, {"w": (4, 4)}, values, outputs=["y", "last"])
    for value in proto.graph.input:
        if value.name == "trips":
            value.type.tensor_type.elem_type = TensorProto.INT64
    return proto


def test_a_loop_costs_its_body_as_often_as_it_runs_and_reads_weights_each_time() -> None:
    rows = {row.name: row for row in model_table(looping(7), "t", "infer", 2).rows}
    product = rows["loop/MatMul_0"]
    assert (product.macs, product.kernels) == (7 * 2 * 3 * 4 * 4, 7)
    assert product.weight_bytes == 7 * 4 * 16
    assert rows["loop/Relu_2"].flops == 7 * 24
    assert rows["Relu_1"].outputs == ("7x2x3x4",)  # the slices of all runs
    assert rows["loop"].ledger == "zero"


def test_a_loop_of_unknown_length_is_unmodelled_and_never_run_once() -> None:
    proto = looping(None)
    proto.graph.output.pop(0)
    del proto.graph.node[1]
    proto.graph.output[0].type.tensor_type.shape.dim.add(dim_value=2)
    (row,) = model_table(proto, "t", "infer", 2).rows
    assert (row.op, row.ledger) == ("Loop", "unmodelled")


def test_loops_inside_loops_multiply() -> None:
    inner = graph(
        [node("Identity", "go2", "still2"), node("Relu", "s2", "n2")],
        {"j": TensorProto.INT64, "go2": TensorProto.BOOL, "s2": TensorProto.FLOAT},
        ["still2", "n2"],
    )
    inner.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    nodes = [
        node("Loop", "trips true state", "next", name="inner", body=inner),
        node("Identity", "go", "still"),
        node("Relu", "next", "slice"),
    ]
    rows = {row.name: row for row in model_table(looping(5, nodes), "t", "infer", 2).rows}
    assert rows["loop/inner/Relu_1"].flops == 5 * 5 * 24


def test_a_scan_runs_once_per_slice() -> None:
    body = graph(
        [node("Add", "sum part", "next"), node("Sigmoid", "next", "out")],
        {"sum": TensorProto.FLOAT, "part": TensorProto.FLOAT},
        ["next", "out"],
    )
    scan = node("Scan", "start x", "last y", name="scan", body=body, num_scan_inputs=1, scan_input_axes=[1])
    proto = model([scan], {"start": ("batch", 4), "x": ("batch", 3, 4)}, outputs=["y"])
    rows = {row.name: row for row in model_table(proto, "t", "infer", 2).rows}
    assert rows["scan/Add_0"].flops == 3 * 8
    assert rows["scan/Sigmoid_1"].flops == 3 * 4 * 8


def test_a_body_that_does_not_fit_its_node_is_unmodelled() -> None:
    body = graph([node("Relu", "a", "b")], {"a": TensorProto.FLOAT}, ["b"])
    nodes = [node("Loop", "trips true x", "last", body=body)]
    proto = model(nodes, X, values={"trips": np.array(3), "true": np.array(True)})
    (row,) = model_table(proto, "t", "infer", 2).rows
    assert row.ledger == "unmodelled"
