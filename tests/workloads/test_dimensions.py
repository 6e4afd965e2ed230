"""Open dimensions are fixed or refused, never guessed; a fixed batch is changed where the graph allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_graphs import Dims, model, node

from edgetune.errors import InputError
from edgetune.workloads.initial_weights import has_data
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, input_specs
from edgetune.workloads.resolve import resolve
from edgetune.workloads.shapes import known_shapes

pytestmark = pytest.mark.usefixtures("children_here")


def relu(**inputs: Dims) -> onnx.ModelProto:
    return model([node("Relu", name, f"y_{name}") for name in inputs], inputs, outputs=[f"y_{name}" for name in inputs])


def shapes_of(proto: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape, _ in input_specs(proto)}


def resized(proto: onnx.ModelProto, folder: Path, batch_size: int) -> onnx.ModelProto:
    """A network in a file at a batch size, which runs confirm."""
    for weight in proto.graph.initializer:
        if not has_data(weight):
            drawn = np.random.default_rng(0).random(tuple(weight.dims), np.float32)
            weight.CopyFrom(onnx.numpy_helper.from_array(drawn, weight.name))
    onnx.save(proto, folder / "net.onnx")
    return fixed_model(resolve(str(folder / "net.onnx")), batch_size, {}, weights=False)


@pytest.mark.parametrize("first", ["N", "s0", None, -1])
def test_an_open_first_dimension_that_outputs_follow_is_the_batch(first: str | int | None, tmp_path: Path) -> None:
    assert shapes_of(resized(relu(x=(first, 3)), tmp_path, 5)) == {"x": (5, 3)}


def test_all_inputs_share_the_batch(tmp_path: Path) -> None:
    fixed = resized(relu(x=("b", 3), z=("b", 7), table=(2, 2)), tmp_path, 4)
    assert shapes_of(fixed) == {"x": (4, 3), "z": (4, 7), "table": (2, 2)}


def test_a_batch_called_so_is_found_in_second_place() -> None:
    fixed = fix_dimensions(relu(x=("sequence", "batch", 3)), batch_size=4, dimensions={"sequence": 9})
    assert shapes_of(fixed) == {"x": (9, 4, 3)}


@pytest.mark.parametrize("name", ["sequence", "x:1"])
def test_other_open_dimensions_are_fixed_by_symbol_or_by_place(name: str) -> None:
    assert shapes_of(fix_dimensions(relu(x=("batch", "sequence")), batch_size=2, dimensions={name: 128})) == {
        "x": (2, 128)
    }


def test_an_open_dimension_without_a_size_is_named_with_the_option() -> None:
    with pytest.raises(InputError, match=r"input 'x' has an open dimension 'sequence' \(axis 1\)") as caught:
        fix_dimensions(relu(x=("batch", "sequence")), batch_size=2)
    assert "--dim sequence=128" in caught.value.hint
    with pytest.raises(InputError, match=r"open dimension \(axis 1\)") as caught:
        fix_dimensions(relu(x=("batch", None)), batch_size=2)
    assert "--dim x:1=128" in caught.value.hint


def test_a_second_symbol_in_first_place_is_not_taken_for_the_batch() -> None:
    with pytest.raises(InputError, match="'z' has an open dimension 'boxes'"):
        fix_dimensions(relu(x=("batch", 3), z=("boxes", 4)), batch_size=2)


def test_names_that_are_no_open_dimension_are_refused() -> None:
    with pytest.raises(InputError, match="no open dimension 'sequense'") as caught:
        fix_dimensions(relu(x=("batch", "sequence")), batch_size=2, dimensions={"sequense": 8})
    assert "sequence" in caught.value.hint
    with pytest.raises(InputError, match="no open dimension 'h'"):
        fix_dimensions(relu(x=(1, 3)), batch_size=1, dimensions={"h": 8})


def test_a_batch_that_contradicts_the_dimensions_is_refused() -> None:
    with pytest.raises(InputError, match="'batch' is the batch: 8 contradicts batch size 2"):
        fix_dimensions(relu(x=("batch", 3)), batch_size=2, dimensions={"batch": 8})
    assert shapes_of(fix_dimensions(relu(x=("batch", 3)), batch_size=2, dimensions={"batch": 2})) == {"x": (2, 3)}


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_below_one_are_refused(size: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        fix_dimensions(relu(x=("batch", 3)), batch_size=size)
    with pytest.raises(InputError, match="at least 1"):
        fix_dimensions(relu(x=("batch", "s")), batch_size=1, dimensions={"s": size})


def test_a_dimension_of_size_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"size 0 \(axis 1\)"):
        fix_dimensions(relu(x=("batch", 0)), batch_size=1)


def test_a_scalar_input_has_no_dimension_to_fix() -> None:
    assert shapes_of(fix_dimensions(relu(x=("batch", 3), s=()), batch_size=2)) == {"x": (2, 3), "s": ()}


def test_an_input_without_a_rank_is_refused() -> None:
    proto = relu(x=("batch", 3))
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="'x' has no shape"):
        fix_dimensions(proto, batch_size=1)


def test_the_model_given_is_left_alone() -> None:
    proto = relu(x=("batch", 3))
    before = proto.SerializeToString()
    fix_dimensions(proto, batch_size=2)
    assert proto.SerializeToString() == before


def test_stored_symbolic_shapes_agree_with_the_inferred() -> None:
    nodes = [node("Relu", "x", "r"), node("Relu", "r", "y")]
    proto = model(nodes, {"x": ("batch", "s")})
    proto.graph.value_info.append(helper.make_tensor_value_info("r", 1, ["batch", "s"]))
    fixed = fix_dimensions(proto, batch_size=2, dimensions={"s": 7})
    assert known_shapes(fixed.graph)["r"] == known_shapes(fixed.graph)["y"] == (2, 7)


def test_functions_are_inlined() -> None:
    proto = model([node("Twice", "x", "y", domain="acme")], {"x": ("batch", 3)})
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["c"])]
    proto.functions.append(helper.make_function("acme", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)]))
    fixed = fix_dimensions(proto, batch_size=2)
    assert [n.op_type for n in fixed.graph.node] == ["Relu", "Relu"]
    assert known_shapes(fixed.graph)["y"] == (2, 3)


def classifier(batch: int, target: list[int], name: str = "flatten") -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w", "c"),
        node("Reshape", "c target", "f", name=name),
        node("MatMul", "f v", "y"),
    ]
    return model(
        nodes, {"x": (batch, 3, 6, 6)}, {"w": (4, 3, 3, 3), "v": (64, 10)}, values={"target": np.array(target)}
    )


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("target", [[0, 64], [-1, 64], [0, -1]])
def test_a_fixed_batch_is_changed(batch: int, target: list[int], tmp_path: Path) -> None:
    fixed = resized(classifier(batch, target), tmp_path, 5)
    assert known_shapes(fixed.graph)["y"] == (5, 10)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rest", [64, -1])
def test_a_reshape_with_the_batch_built_in_is_patched(batch: int, rest: int, tmp_path: Path) -> None:
    fixed = resized(classifier(batch, [batch, rest]), tmp_path, 5)
    assert known_shapes(fixed.graph)["y"] == (5, 10)


def test_the_same_batch_needs_no_change() -> None:
    assert known_shapes(fix_dimensions(classifier(2, [2, 64]), batch_size=2).graph)["y"] == (2, 10)


def test_a_shape_constant_used_for_a_weight_keeps_its_value(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", "b target", "bias"),
        node("Reshape", "x target", "f"),
        node("Add", "f bias", "y"),
    ]
    proto = model(nodes, {"x": (1, 2, 4)}, {"b": (8,)}, values={"target": np.array([1, 8])})
    shapes = known_shapes(resized(proto, tmp_path, 3).graph)
    assert (shapes["bias"], shapes["f"], shapes["y"]) == ((1, 8), (3, 8), (3, 8))


def test_a_reshape_that_cannot_be_patched_is_named(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x target", "y", name="merge")]
    proto = model(nodes, {"x": (2, 3, 4)}, values={"target": np.array([3, 8])})
    with pytest.raises(
        InputError, match=r"batch size 5.*node 'merge' \(Reshape\) does not run with one, two and three samples"
    ):
        resized(proto, tmp_path, 5)


def test_a_constant_of_the_old_batch_is_named(tmp_path: Path) -> None:
    nodes = [node("Concat", "token x", "y", axis=1, name="prepend")]
    proto = model(nodes, {"x": (2, 3, 4)}, {"token": (2, 1, 4)})
    with pytest.raises(InputError, match=r"node 'prepend' \(Concat\)"):
        resized(proto, tmp_path, 5)


def test_initial_states_of_the_old_batch_are_named(tmp_path: Path) -> None:
    nodes = [node("LSTM", "x w r _ _ h c", "y", hidden_size=5, name="lstm")]
    weights = {"w": (1, 20, 4), "r": (1, 20, 5), "h": (1, 2, 5), "c": (1, 2, 5)}
    # Sequence first: the batch is the second dimension, so the first that changes is no batch at all.
    proto = model([node("Transpose", "t", "x", perm=[1, 0, 2]), *nodes], {"t": (2, 3, 4)}, weights)
    with pytest.raises(InputError, match="'lstm'"):
        resized(proto, tmp_path, 5)
