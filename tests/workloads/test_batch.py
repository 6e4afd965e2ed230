"""Which axis is the batch: decided from the graph, followed through it, and never the first one by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import Dims, model, node

from edgetune.errors import InputError
from edgetune.workflows.parse_options import choose_batch_sizes
from edgetune.workloads.batch import Batch
from edgetune.workloads.batch_check import check_batch, compare
from edgetune.workloads.onnx_file import batch_of, fix_dimensions, input_specs
from edgetune.workloads.resolve import resolve
from edgetune.workloads.shapes import known_shapes


def made(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.1


def points(first: Dims = (4096, 3)) -> onnx.ModelProto:
    """A point cloud without a batch: the largest over all points of each feature."""
    nodes = [
        node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b v", "c"),
        node("ReduceMax", "c", "y", axes=[0], keepdims=0, name="pool"),
    ]  # fmt: skip
    return model(nodes, {"x": first}, values={"w": made((3, 8)), "v": made((8, 16))})


def lstm(*names: str, x: Dims = (50, 1, 40)) -> onnx.ModelProto:
    """A recurrence along the first axis, with or without initial states as inputs."""
    states: dict[str, Dims] = {name: (1, 1, 16) for name in names}
    nodes = [node("LSTM", f"x w r _ _ {' '.join(names)}", "y h", hidden_size=16, name="lstm")]
    values = {"w": made((1, 64, 40)), "r": made((1, 64, 16))}
    return model(nodes, {"x": x, **states}, values=values, outputs=["y", "h"])


def attention_of_time_first() -> onnx.ModelProto:
    """As torch's MultiheadAttention does: batch and heads share an axis between two reshapes with fixed targets."""
    nodes = [
        node("Reshape", "x heads", "q"), node("Transpose", "q", "qt", perm=[1, 0, 2]),
        node("Transpose", "qt", "kt", perm=[0, 2, 1]), node("MatMul", "qt kt", "s"), node("Softmax", "s", "p"),
        node("MatMul", "p qt", "o"), node("Transpose", "o", "ot", perm=[1, 0, 2]), node("Reshape", "ot flat", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": (50, 1, 64)}, values={"heads": np.array([50, 4, 16]), "flat": np.array([50, 1, 64])})


def audio() -> onnx.ModelProto:
    nodes = [node("Unsqueeze", "x axes", "u"), node("Conv", "u w", "c", strides=[160], name="frames")]
    return model(
        [*nodes, node("Relu", "c", "y")],
        {"x": (16000,)},
        values={"axes": np.array([0, 1]), "w": made((8, 1, 400))},
    )


def detector(anchors: Dims = (64, 4)) -> onnx.ModelProto:
    nodes = [
        node("Conv", "image w", "c", strides=[8, 8]), node("Reshape", "c target", "f"), node("MatMul", "f v", "d"),
        node("Add", "d anchors", "boxes"),
    ]  # fmt: skip
    values = {"w": made((16, 3, 8, 8)), "target": np.array([1, 64, 16]), "v": made((16, 4))}
    return model(nodes, {"image": (1, 3, 64, 64), "anchors": anchors}, values=values)


def pointwise(first: Dims) -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], {"x": first})


def shapes_at(proto: onnx.ModelProto, batch_size: int) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape, _ in input_specs(fix_dimensions(proto, batch_size=batch_size))}


@pytest.mark.parametrize(
    ("proto", "axes", "exported"),
    [
        (points(), {}, 1),
        (audio(), {}, 1),
        (lstm(), {"x": 1}, 1),
        (lstm("h0", "c0"), {"x": 1, "h0": 1, "c0": 1}, 1),
        (lstm(x=(50, 3, 40)), {"x": 1}, 3),
        (attention_of_time_first(), {"x": 1}, 1),
        (detector(), {"image": 0}, 1),
        (pointwise((8, 3)), {"x": 0}, 8),
        (pointwise((8, 1, 28, 28)), {"x": 0}, 8),
        (model([node("Softmax", "x", "y", axis=0)], {"x": (8, 16)}), {}, 1),
        (model([node("CumSum", "x axis", "y")], {"x": (8, 16)}, values={"axis": np.array(0)}), {}, 1),
        (model([node("Transpose", "x", "t"), node("MatMul", "x t", "y")], {"x": (8, 16)}), {}, 1),
        (pointwise(("batch", 3)), {"x": 0}, None),
        (pointwise(("N", 3)), {"x": 0}, None),
        (pointwise(("s0", 3)), {"x": 0}, None),
        (pointwise((None, 3)), {"x": 0}, None),
    ],
)
def test_the_batch_is_what_samples_lie_along_independently(
    proto: onnx.ModelProto, axes: dict[str, int], exported: int | None
) -> None:
    found = batch_of(proto)
    assert (dict(found.axes), found.exported) == (axes, exported)


@pytest.mark.parametrize("proto", [points(), audio(), lstm(), lstm("h0", "c0"), detector(), pointwise((8, 3))])
def test_a_network_is_left_as_exported_at_the_exported_batch(proto: onnx.ModelProto) -> None:
    declared = {name: shape for name, shape, _ in input_specs(proto)}
    assert shapes_at(proto, batch_of(proto).exported or 1) == declared


@pytest.mark.parametrize("name", ["frames", "seq", "sequence_length", "time", "num_points", "height", "tokens", "L"])
def test_a_symbol_of_a_length_is_no_batch(name: str) -> None:
    with pytest.raises(InputError, match=rf"'x' has an open dimension '{name}' \(axis 0\)") as refused:
        fix_dimensions(pointwise((name, 3)), batch_size=1)
    assert f"--dim {name}=128" in refused.value.hint
    assert "--batch-axis x=0" in refused.value.hint
    fixed = fix_dimensions(pointwise((name, 3)), batch_size=4, batch_axes=(("x", 0),))
    assert known_shapes(fixed.graph)["y"] == (4, 3)


@pytest.mark.parametrize("name", ["N", "s0", None])
def test_an_open_axis_that_an_operator_combines_is_no_batch(name: str | None) -> None:
    with pytest.raises(InputError, match="'x' has an open dimension"):
        fix_dimensions(points((name, 3)), batch_size=1)


def test_the_open_axis_that_is_not_time_is_the_batch() -> None:
    found = batch_of(lstm(x=("s1", "s0", 40)), dimensions={"s1": 50})
    assert dict(found.axes) == {"x": 1}
    fixed = fix_dimensions(lstm(x=("s1", "s0", 40)), batch_size=3, dimensions={"s1": 50})
    assert known_shapes(fixed.graph)["h"] == (1, 3, 16)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (points(), r"no axis of 'x' is a batch; node 'pool' \(ReduceMax\) combines what lies along axis 0 of 'x'"),
        (audio(), r"no axis of 'x' is a batch; node 'frames' \(Conv\)"),
    ],
)
def test_another_batch_size_without_a_batch_is_refused_with_the_input(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fix_dimensions(proto, batch_size=4)


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (lstm(), {"x": (50, 4, 40)}),
        (lstm("h0", "c0"), {"x": (50, 4, 40), "h0": (1, 4, 16), "c0": (1, 4, 16)}),
        (attention_of_time_first(), {"x": (50, 4, 64)}),
        (detector(), {"image": (4, 3, 64, 64), "anchors": (64, 4)}),
        (pointwise((8, 3)), {"x": (4, 3)}),
    ],
)
def test_another_batch_size_changes_the_batch_axes_alone(
    proto: onnx.ModelProto, expected: dict[str, tuple[int, ...]]
) -> None:
    assert shapes_at(proto, 4) == expected


def test_batch_axes_may_be_said() -> None:
    found = batch_of(pointwise((8, 16)), batch_axes=(("x", 1),))
    assert (dict(found.axes), found.exported) == ({"x": 1}, 16)
    assert batch_of(pointwise((8, 16)), batch_axes=()).exported == 1
    with pytest.raises(InputError, match=r"exported with batch 50 and .* axis 0 of 'x'.*'lstm' \(LSTM\) combines"):
        fix_dimensions(lstm(), batch_size=2, batch_axes=(("x", 0),))


@pytest.mark.parametrize(
    ("axes", "message"),
    [((("z", 0),), "no input 'z'"), ((("x", 3),), "no axis 3"), ((("image", 0), ("anchors", 0)), "one batch")],
)
def test_axes_that_there_are_not_are_refused(axes: tuple[tuple[str, int], ...], message: str) -> None:
    proto = detector() if "image" in dict(axes) else lstm()
    with pytest.raises(InputError, match=message):
        batch_of(proto, batch_axes=axes)


def test_the_batch_says_what_it_is() -> None:
    assert str(batch_of(lstm())) == "batch axis 1, exported for 1"
    assert str(batch_of(pointwise(("batch", 3)))) == "batch axis 0, open"
    assert str(batch_of(points())) == "no batch axis"
    assert str(Batch((("x", 0), ("h", 1)), 2, "")) == "batch axis 0 of 'x' and axis 1 of 'h', exported for 2"


def saved(proto: onnx.ModelProto, folder: Path) -> str:
    onnx.save(proto, folder / "net.onnx")
    return str(folder / "net.onnx")


def sums_through_a_loop() -> onnx.ModelProto:
    """Outputs follow axis 0 and cost grows with it, but a loop, which nobody follows, adds the mean of all samples."""
    body = helper.make_graph(
        [
            node("ReduceMean", "x", "m", axes=[0, 1], keepdims=1), node("Add", "s m", "s1"),
            node("Identity", "go", "again"),
        ],
        "b",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s1", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [node("Loop", "trips yes x", "y", body=body, name="loop")]
    return model(nodes, {"x": (1, 16)}, values={"trips": np.array(3), "yes": np.array(True)})


def checked(proto: onnx.ModelProto, folder: Path, size: int, axes: tuple[tuple[str, int], ...] | None = None) -> None:
    check_batch(resolve(saved(proto, folder), axes), [size], "infer", dimensions={}, inputs=None, seed=0)


@pytest.mark.parametrize("proto", [lstm(), lstm("h0", "c0"), attention_of_time_first(), detector(), pointwise((8, 3))])
def test_the_answers_of_a_batch_are_those_of_its_parts(proto: onnx.ModelProto, tmp_path: Path) -> None:
    assert compare(resolve(saved(proto, tmp_path)), batch_of(proto).exported or 1, {}, None, 0) == {"same": True}
    checked(proto, tmp_path, 5)


def test_a_batch_whose_answers_depend_on_each_other_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"axis 0 of 'x'.*output 'y' of a batch is not that of its parts"):
        checked(sums_through_a_loop(), tmp_path, 4)


def test_a_batch_along_which_the_cost_does_not_grow_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "crops w", "c"), node("ReduceMean", "c", "d", axes=[0, 2, 3], keepdims=0),
        node("Add", "bias d", "y"),
    ]  # fmt: skip
    proto = model(nodes, {"bias": (1, 16), "crops": (2, 3, 8, 8)}, values={"w": made((16, 3, 3, 3))})
    with pytest.raises(InputError, match="2 times the batch would take 1 times the floating-point operations"):
        checked(proto, tmp_path, 4)


def test_an_open_batch_that_no_output_follows_is_said(tmp_path: Path) -> None:
    """The first sample alone is computed: four times the throughput that there is, at a batch of 4."""
    first = [node("Gather", "x zero", "a", axis=0), node("MatMul", "a w", "y")]
    proto = model(first, {"x": ("batch", 4)}, {}, {"w": np.ones((4, 4), np.float32), "zero": np.array([0])})
    alike = model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, {}, {"w": np.ones((4, 4), np.float32)})
    onnx.save(proto, tmp_path / "first.onnx")
    onnx.save(alike, tmp_path / "alike.onnx")
    sizes, note = choose_batch_sizes(resolve(str(tmp_path / "first.onnx")), (1, 4), task="infer")
    assert sizes == (1, 4)
    assert "a minibatch of 4 may not be 4 answers" in (note or "")
    assert choose_batch_sizes(resolve(str(tmp_path / "first.onnx")), (1,), task="infer")[1] is None
    assert choose_batch_sizes(resolve(str(tmp_path / "alike.onnx")), (1, 4), task="infer")[1] is None
