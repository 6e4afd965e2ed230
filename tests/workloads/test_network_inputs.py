"""What a network is fed where nobody gives it: within its tables, as long as its sequences, never a size by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.network_inputs import InputFilling, fillings, random_inputs, read_inputs
from edgetune.workloads.onnx_file import fix_dimensions
from edgetune.workloads.workload import Batch


def network(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Any],
    weights: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    **kinds: int,
) -> onnx.ModelProto:
    """A network with inputs of other types than float where ``kinds`` names them."""
    proto = model(nodes, inputs, weights, values, opset=17)
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = kinds.get(value.name, TensorProto.FLOAT)
    return fix_dimensions(proto, batch_size=1)


def of_ids(nodes: list[onnx.NodeProto], **values: Any) -> InputFilling:
    proto = network(nodes, {"ids": (4, 6)}, {"table": (1000, 8)}, values, ids=TensorProto.INT64)
    (filling,) = fillings(proto)
    drawn = random_inputs(proto, seed=3)["ids"]
    assert filling.least is not None
    assert filling.most is not None
    assert filling.least <= drawn.min() <= drawn.max() <= filling.most
    return filling


@pytest.mark.parametrize(
    ("nodes", "values", "bounds"),
    [
        ([node("Gather", "table ids", "y")], {}, (0, 999)),
        ([node("Transpose", "ids", "t", perm=[1, 0]), node("Gather", "table t", "y")], {}, (0, 999)),
        ([node("Add", "ids two", "t"), node("Gather", "table t", "y")], {"two": np.array(2)}, (0, 997)),
        ([node("Sub", "ids two", "t"), node("Gather", "table t", "y")], {"two": np.array(2)}, (2, 1001)),
        ([node("Mul", "ids ten", "t"), node("Gather", "table t", "y")], {"ten": np.array(10)}, (0, 99)),
        ([node("Equal", "ids pad", "e"), node("Gather", "table ids", "y")], {"pad": np.array(1)}, (0, 999)),
        ([node("Mul", "ids ids", "t"), node("Gather", "table t", "y")], {}, (0, 1)),
        ([node("Cast", "ids", "y", to=TensorProto.FLOAT)], {}, (0, 1)),
        ([node("OneHot", "ids depth flags", "y")], {"depth": np.array(50), "flags": np.array([0, 1])}, (0, 49)),
    ],
)
def test_indices_stay_within_the_rows_that_they_look_up(
    nodes: list[onnx.NodeProto], values: dict[str, Any], bounds: tuple[int, int]
) -> None:
    filling = of_ids(nodes, **values)
    assert (filling.least, filling.most) == bounds


def test_indices_are_followed_into_the_body_of_control_flow() -> None:
    then, other = (
        helper.make_graph([node("Gather", "table ids", name)], name, [], [helper.make_tensor_value_info(name, 1, None)])
        for name in ("a", "b")
    )
    assert of_ids([node("If", "yes", "y", then_branch=then, else_branch=other)], yes=np.array(True)).most == 999


def test_the_table_is_reported() -> None:
    assert of_ids([node("Gather", "table ids", "y")]).values == "whole numbers from 0 to 999, the rows of 'table'"


def loop(*before: onnx.NodeProto, trips: str = "n", **values: Any) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Relu", "s", "t")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
        ],
    )
    nodes = [*before, node("Loop", f"{trips} yes x", "y", body=body, name="steps")]
    kinds = {"n": TensorProto.INT64, "yes": TensorProto.BOOL}
    return network(nodes, {"n": (), "yes": (), "x": (1, 4)}, None, values, **kinds)


def test_a_trip_count_is_never_made_up() -> None:
    with pytest.raises(InputError, match=r"input 'n' decides how much is computed \(Loop 'steps'\)") as refused:
        random_inputs(loop(), seed=0)
    assert "--inputs FILE.npz" in refused.value.hint


def test_a_trip_count_is_the_most_that_the_graph_allows() -> None:
    proto = loop(node("Min", "n most", "m"), trips="m", most=np.array(20))
    arrays = random_inputs(proto, seed=0)
    assert (arrays["n"], arrays["yes"]) == (20, True)
    assert [each.values for each in fillings(proto)][:2] == ["20, the most trips that the graph allows", "true"]


def test_sequences_have_their_full_length() -> None:
    nodes = [node("LSTM", "x w r _ lens", "y", hidden_size=4)]
    proto = network(nodes, {"x": (50, 2, 3), "lens": (2,)}, {"w": (1, 16, 3), "r": (1, 16, 4)}, lens=TensorProto.INT32)
    assert random_inputs(proto, seed=0)["lens"].tolist() == [50, 50]
    assert fillings(proto)[1].values == "50, the whole sequence"


@pytest.mark.parametrize(
    "nodes",
    [
        [node("TopK", "x k", "y i")],
        [node("Cast", "k", "c", to=TensorProto.INT64), node("TopK", "x c", "y i")],
        [node("Range", "zero last one", "y")],
        [node("ConstantOfShape", "k", "y")],
        [node("Slice", "x zeros k", "y")],
        [node("Reshape", "x k", "y")],
    ],
)
def test_a_size_is_never_made_up(nodes: list[onnx.NodeProto]) -> None:
    name = "last" if nodes[0].op_type == "Range" else "k"
    values = {"zero": np.array(0), "one": np.array(1), "zeros": np.array([0])}
    shape = () if name == "last" else (1,)
    with pytest.raises(InputError, match=f"input '{name}' decides how much is computed"):
        random_inputs(network(nodes, {"x": (1, 8), name: shape}, None, values, **{name: TensorProto.INT64}), seed=0)


def test_floats_and_masks_are_what_they_were() -> None:
    proto = network([node("Where", "mask x zero", "y")], {"x": (2, 3), "mask": (2, 3)}, None,
                    {"zero": np.float32(0)}, mask=TensorProto.BOOL)  # fmt: skip
    generator = np.random.default_rng(7)
    arrays = random_inputs(proto, seed=7)
    assert np.array_equal(arrays["x"], generator.random((2, 3), dtype=np.float32))
    assert np.array_equal(arrays["mask"], generator.integers(0, 2, (2, 3)).astype(bool))


def test_samples_of_a_file_lie_along_the_batch_axis(tmp_path: Any) -> None:
    proto = fix_dimensions(
        model([node("Relu", "x", "y")], {"x": (3, 1)}), batch_size=4, batch=Batch((("x", 1),), 1, "", "kept")
    )
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    fed = read_inputs(str(tmp_path / "in.npz"), proto, 4, {"x": 1})
    assert fed["x"].tolist() == [[1, 2, 1, 2], [3, 4, 3, 4], [5, 6, 5, 6]]
