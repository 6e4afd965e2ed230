"""From graph to rows: activation chains, names, the ledger, parameters, and shapes that are not known."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import ledger
from edgetune.errors import InputError
from edgetune.workloads.costs.node import GraphTensor, OperatorNode
from edgetune.workloads.costs.walk import cost_nodes
from edgetune.workloads.onnx_file import parse_model

X = {"x": ("batch", 3, 4)}
ROOT2, HALF, ONE = np.float32(2**0.5), np.float32(0.5), np.float32(1)


def ops(nodes: list[onnx.NodeProto], **values: object) -> list[str]:
    rows = model_table(model(nodes, X, values=values), "t", "infer", 1).rows
    return [row.op for row in rows]


def test_sigmoid_times_its_input_is_one_silu_that_reads_and_writes_once() -> None:
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")]
    (row,) = model_table(model(nodes, X), "t", "infer", 2).rows
    assert (row.op, row.kernels, row.flops) == ("Silu", 1, 5 * 24)
    assert (row.bytes_read, row.bytes_written) == (4 * 24, 4 * 24)


def test_hard_sigmoid_times_its_input_is_a_hard_swish() -> None:
    assert ops([node("HardSigmoid", "x", "s"), node("Mul", "s x", "y")]) == ["HardSwish"]


def test_a_sigmoid_that_something_else_reads_is_not_collapsed() -> None:
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "x s", "m"), node("Add", "m s", "y")]
    assert ops(nodes) == ["Sigmoid", "Mul", "Add"]


@pytest.mark.parametrize(
    "nodes",
    [
        [
            node("Div", "x root2", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"),
            node("Mul", "x a", "m"), node("Mul", "m half", "y"),
        ],
        [
            node("Div", "x root2", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"),
            node("Mul", "x half", "h"), node("Mul", "h a", "y"),
        ],
    ],
    ids=["halved-after", "halved-before"],
)  # fmt: skip
def test_the_erf_chain_is_one_gelu(nodes: list[onnx.NodeProto]) -> None:
    proto = model(nodes, X, values={"root2": ROOT2, "half": HALF, "one": ONE})
    (row,) = model_table(proto, "t", "infer", 1).rows
    assert (row.op, row.kernels, row.flops) == ("Gelu", 1, 21 * 12)
    assert (row.bytes_read, row.bytes_written) == (48, 48)


def test_an_unknown_operator_is_in_the_ledger_and_in_the_warnings() -> None:
    proto = model([node("Relu", "x", "r"), node("Warp", "r", "y", domain="acme")], X)
    table = model_table(proto, "t", "infer", 1)
    assert [(row.ledger, row.flops) for row in table.rows] == [("modelled", 12), ("unmodelled", 0)]
    assert [entry.share for entry in ledger(table)] == [0.5, 0.0, 0.5]
    (caution,) = table.header.warnings
    assert (caution.code, caution.numbers["nodes"]) == ("unmodelled-operators", 1)
    assert "Warp" in caution.advice


def test_an_operator_of_another_domain_is_not_mistaken_for_its_namesake() -> None:
    (row,) = model_table(model([node("Relu", "x", "y", domain="acme")], X), "t", "infer", 1).rows
    assert row.ledger == "unmodelled"


def test_behind_an_unknown_operator_the_missing_shape_is_named() -> None:
    proto = model([node("Warp", "x", "warped", domain="acme"), node("Relu", "warped", "y")], X)
    table = model_table(proto, "t", "infer", 1)
    assert [row.ledger for row in table.rows] == ["unmodelled", "unmodelled"]
    assert "tensor 'warped'" in table.header.warnings[0].advice


def test_a_shape_that_depends_on_the_data_is_unmodelled_and_never_one() -> None:
    nodes = [node("NonZero", "x", "found"), node("Cast", "found", "y", to=1), node("Relu", "x", "z")]
    table = model_table(model(nodes, X, outputs=["y", "z"]), "t", "infer", 1)
    assert [row.ledger for row in table.rows] == ["unmodelled", "unmodelled", "modelled"]
    assert [caution.code for caution in table.header.warnings] == ["unknown-shapes", "unmodelled-operators"]
    assert "'found'" in table.header.warnings[0].advice
    with pytest.raises(InputError, match="no open dimension 'found:1'"):  # a run says it
        model_table(model(nodes, X, outputs=["y", "z"]), "t", "infer", 1, dimensions={"found:1": 5})


def test_arithmetic_on_shapes_costs_nothing_and_is_followed() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("ConstantOfShape", "one", "rest", value=helper.make_tensor("v", 7, [1], [12])),
        node("Mul", "rest rest_scale", "rest2"),
        node("Concat", "n1 rest2", "target", axis=0),
        node("Reshape", "x target", "flat"),
        node("Relu", "flat", "y"),
    ]
    values = {"zero": np.array(0), "axes": [0], "one": [1], "rest_scale": [1]}
    rows = model_table(model(nodes, X, values=values), "t", "infer", 5).rows
    assert [row.op for row in rows if row.ledger == "modelled"] == ["Relu"]
    assert rows[-1].outputs == ("5x12",)


def test_work_on_weights_alone_is_done_before_the_network_runs() -> None:
    nodes = [node("Transpose", "w", "wt", perm=[1, 0]), node("MatMul", "x wt", "y")]
    rows = model_table(model(nodes, X, {"w": (5, 4)}), "t", "infer", 1).rows
    assert [row.ledger for row in rows] == ["zero", "modelled"]
    assert rows[1].weight_bytes == 4 * 20


def test_parameters_leave_out_running_statistics_and_constants() -> None:
    nodes = [
        node("Conv", "x w b", "c"),
        node("BatchNormalization", "c s t m v", "n"),
        node("Mul", "n half", "h"),
        node("Reshape", "h target", "y"),
    ]
    weights = {"w": (4, 3, 3, 3), "b": (4,), "s": (4,), "t": (4,), "m": (4,), "v": (4,)}
    values = {"half": HALF, "target": [0, -1]}
    proto = model(nodes, {"x": ("batch", 3, 8, 8)}, weights, values)
    assert model_table(proto, "t", "infer", 1).parameters == 4 * 27 + 4 + 8


def test_a_sparse_weight_counts_with_all_of_its_elements() -> None:
    proto = model([node("MatMul", "x w", "y")], X)
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, (2,), [1.0, 2.0])
    places = helper.make_tensor("places", onnx.TensorProto.INT64, (2,), [0, 7])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, (4, 5)))
    assert model_table(proto, "t", "infer", 1).parameters == 20


@pytest.mark.parametrize("folded", [False, True])
def test_weights_that_the_graph_makes_are_counted(folded: bool) -> None:
    """As in the light networks of the onnx package; through a Transpose they are the same weights."""
    one = helper.make_tensor("", onnx.TensorProto.FLOAT, (1,), [0.5])
    made = [node("ConstantOfShape", "sizes", "w", value=one)]
    if folded:
        made = [node("ConstantOfShape", "turned", "u", value=one), node("Transpose", "u", "w")]
    nodes = [*made, node("MatMul", "x w", "a"), node("MatMul", "b w", "c"), node("Concat", "a c", "y", axis=0)]
    proto = model(nodes, X, {"b": (3, 4)}, {"sizes": [4, 5], "turned": [5, 4]})
    assert model_table(proto, "t", "infer", 1).parameters == 12 + 20


def test_a_shape_of_terabytes_is_not_worked_out() -> None:
    nodes = [
        node("ConstantOfShape", "many", "filled", value=helper.make_tensor("v", 7, [1], [2])),
        node("Reshape", "x filled", "r"),
        node("Relu", "r", "y"),
    ]
    table = model_table(model(nodes, X, values={"many": [10**13]}), "t", "infer", 1)
    assert table.rows[-1].ledger == "unmodelled"


@pytest.mark.parametrize(
    "bad",
    [
        node("Conv", "x", "y", kernel_shape=[3, 3]),
        node("MatMul", "x", "y"),
        node("Gather", "x", "y"),
        node("LSTM", "x", "y"),
        node("Einsum", "x x", "y", equation="ab,bc->ac"),
    ],
    ids=lambda bad: bad.op_type,
)
def test_a_node_without_its_inputs_is_named(bad: onnx.NodeProto) -> None:
    proto = model([bad], X)
    proto.graph.output[0].type.tensor_type.shape.dim.add(dim_value=3)
    with pytest.raises(InputError) as caught:
        model_table(proto, "t", "infer", 1)
    assert "\n" not in caught.value.message + caught.value.hint


def damaged_base() -> bytes:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "f"),
        node("Gemm", "f w", "g"),
        node("LSTM", "q u r", "o", hidden_size=2),
    ]
    weights = {"w": (12, 3), "u": (1, 8, 3), "r": (1, 8, 2)}
    values = {"zero": np.array(0), "axes": [0], "rest": [12]}
    inputs = {"x": ("batch", 3, 4), "q": (2, "batch", 3)}
    return model(nodes, inputs, weights, values, outputs=["g", "o"]).SerializeToString()


@settings(deadline=None, max_examples=150)
@given(damage=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_model_is_costed_or_refused_in_two_lines(
    damage: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(damaged_base())
    for place, value in damage:
        content[place % len(content)] = value
    path = tmp_path_factory.mktemp("damaged") / "net.onnx"
    path.write_bytes(bytes(content))
    refusal = ""
    try:
        model_table(parse_model(path), "t", "train", 3)
    except InputError as error:
        refusal = error.message + error.hint
    assert "\n" not in refusal


def test_totals_add_up_and_conditions_are_recorded() -> None:
    proto = model([node("MatMul", "x w", "a"), node("Relu", "a", "y")], {"x": ("batch", "seq", 4)}, {"w": (4, 4)})
    table = model_table(proto, "net", "infer", 2, dimensions={"seq": 3})
    assert table.macs == 2 * 3 * 16
    assert table.flops == 2 * table.macs + 24
    assert table.bytes_moved == 4 * (24 + 16 + 24) + 4 * 48
    assert table.header.conditions["dimensions"] == {"seq": 3}


def test_no_operator_costs_less_than_nothing() -> None:
    """The frames of a signal shorter than the kernel: what a network cut along its first axis once came to."""
    sizes = {"x": (1, 1, 4), "w": (8, 1, 10), "y": (1, 8, -6)}
    x, w, y = (GraphTensor(name, shape, "float32", 4) for name, shape in sizes.items())
    conv = OperatorNode("frames", "Conv", (x, w), (y,), {})
    with pytest.raises(InputError, match=r"operator 'frames' \(Conv\) would cost -\d+: .*1x8x-6"):
        cost_nodes([conv])


def test_a_reshape_that_cannot_run_at_this_size_is_refused() -> None:
    """An exporter that writes the traced batch into a reshape and still calls the batch open."""
    proto = model([node("Reshape", "x s", "y")], {"x": ("batch", 8, 8)}, values={"s": [1, 64]})
    assert model_table(proto, "net", "infer", 1).flops == 0
    with pytest.raises(InputError, match=r"has a shape built in, 1x64, and gets 4x8x8"):
        model_table(proto, "net", "infer", 4)


def test_sizes_that_the_file_states_for_results_do_not_count_at_another_batch() -> None:
    """A file with inferred shapes whose inputs were given an open batch afterwards, by hand or by a tool."""
    proto = model([node("MatMul", "x w", "a"), node("MatMul", "a w", "y")], {"x": ("batch", 4)}, {"w": (4, 4)})
    proto.graph.value_info.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [1, 4]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4]))
    assert model_table(proto, "net", "infer", 8).macs == 8 * 2 * 16


def test_sizes_that_the_file_states_count_where_nothing_else_tells_them() -> None:
    own = node("Mystery", "x", "a")
    own.domain = "acme"
    proto = model([own, node("MatMul", "a w", "y")], {"x": ("batch", 4)}, {"w": (4, 4)})
    proto.graph.value_info.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["batch", 4]))
    assert model_table(proto, "net", "infer", 8).macs == 8 * 16
