"""Which axis is the batch: what a symbol says, or what runs confirm, and never the first one by itself."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import Dims, model, node

from edgetune.errors import DeviceError, InputError
from edgetune.workflows.parse_options import choose_batch_sizes
from edgetune.workloads import observed
from edgetune.workloads.initial_weights import has_data
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, input_specs, network_batch
from edgetune.workloads.resolve import resolve
from edgetune.workloads.shapes import known_shapes
from edgetune.workloads.workload import Axes, Batch, Workload

pytestmark = pytest.mark.usefixtures("children_here")


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
        [*nodes, node("Relu", "c", "y")], {"x": (16000,)}, values={"axes": np.array([0, 1]), "w": made((8, 1, 400))}
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


def saved(proto: onnx.ModelProto, folder: Path, axes: Axes | None = None) -> Workload:
    onnx.save(proto, folder / "net.onnx")
    return resolve(str(folder / "net.onnx"), axes)


def shapes_at(workload: Workload, batch_size: int) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape, _ in input_specs(fixed_model(workload, batch_size, {}, weights=False))}


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


def mean_of_batch(*last: onnx.NodeProto) -> onnx.ModelProto:
    """Statistics of each batch, as of a file exported for training."""
    nodes = [
        node("ReduceMean", "x", "m", axes=[0], keepdims=1, name="statistics"), node("Sub", "x m", "d"),
        node("MatMul", "d w", "h" if last else "y"),
    ]  # fmt: skip
    return model([*nodes, *last], {"x": (4, 16)}, values={"w": made((16, 8))})


def gated() -> onnx.ModelProto:
    """Samples see each other once a value exceeds a threshold."""
    nodes = [
        node("ReduceMax", "x", "m", keepdims=1, name="largest"), node("Sub", "m limit", "s"), node("Relu", "s", "r"),
        node("Add", "x r", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": (4, 16)}, values={"limit": np.float32(1000)})


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
        (mean_of_batch(), {}, 1),
        (mean_of_batch(node("ArgMax", "h", "y", axis=1)), {}, 1),
        (gated(), {}, 1),
        (model([node("Softmax", "x", "y", axis=0)], {"x": (1, 16)}), {}, 1),
        (model([node("Softmax", "x", "y", axis=0)], {"x": (8, 16)}), {"x": 1}, 16),
        (model([node("CumSum", "x axis", "y")], {"x": (8, 16)}, values={"axis": np.array(0)}), {"x": 1}, 16),
        (model([node("Transpose", "x", "t"), node("MatMul", "x t", "y")], {"x": (8, 16)}), {}, 1),
        (pointwise(("batch", 3)), {"x": 0}, None),
        (pointwise(("N", 3)), {"x": 0}, None),
        (pointwise(("s0", 3)), {"x": 0}, None),
        (pointwise((None, 3)), {"x": 0}, None),
        (model([node("Add", "a b", "y")], {"a": ("unk__1", 8), "b": ("unk__2", 8)}), {"a": 0, "b": 0}, None),
    ],
)
def test_the_batch_is_what_samples_lie_along_independently(
    proto: onnx.ModelProto, axes: dict[str, int], exported: int | None, tmp_path: Path
) -> None:
    found = network_batch(saved(proto, tmp_path), {}, 5)
    assert (dict(found.axes), found.exported) == (axes, exported)


def test_another_size_than_that_of_a_file_for_one_is_what_runs_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_runtime(module: str) -> None:
        raise DeviceError("inference needs ONNX Runtime", "")

    monkeypatch.setattr(observed, "Child", without_runtime)
    image = saved(pointwise((1, 3, 8, 8)), tmp_path)
    assert shapes_at(image, 1) == {"x": (1, 3, 8, 8)}
    assert choose_batch_sizes(image, ()) == ((1,), "net: measured as exported, one run a minibatch")
    with pytest.raises(
        InputError, match="no axis of 'x' is a batch; it cannot be told, because inference needs ONNX Runtime"
    ):
        choose_batch_sizes(image, (4,))
    named = saved(pointwise(("batch", 3)), tmp_path)
    assert shapes_at(named, 4) == {"x": (4, 3)}


@pytest.mark.parametrize("name", ["frames", "seq", "sequence_length", "time", "num_points", "height", "tokens", "L"])
def test_a_symbol_of_a_length_is_no_batch(name: str) -> None:
    with pytest.raises(InputError, match=rf"'x' has an open dimension '{name}' \(axis 0\)") as refused:
        fix_dimensions(pointwise((name, 3)), batch_size=1)
    assert f"--dim {name}=128" in refused.value.hint
    assert "--batch-axis x=0" in refused.value.hint
    fixed = fix_dimensions(pointwise((name, 3)), batch_size=4, batch=Batch((("x", 0),), None, ""))
    assert known_shapes(fixed.graph)["y"] == (4, 3)


@pytest.mark.parametrize("name", ["N", "s0", None])
def test_an_open_axis_that_an_operator_combines_is_no_batch(name: str | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'x' has an open dimension"):
        network_batch(saved(points((name, 3)), tmp_path), {})


def test_the_open_axis_that_is_not_time_is_the_batch(tmp_path: Path) -> None:
    workload = saved(lstm(x=("s1", "s0", 40)), tmp_path)
    assert dict(network_batch(workload, {"s1": 50}).axes) == {"x": 1}
    fixed = fixed_model(workload, 3, {"s1": 50}, weights=False)
    assert known_shapes(fixed.graph)["h"] == (1, 3, 16)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (points(), r"no axis of 'x' is a batch; node 'pool' \(ReduceMax\) combines what lies along axis 0 of 'x'"),
        (audio(), r"no axis of 'x' is a batch; node 'frames' \(Conv\)"),
        (mean_of_batch(), r"node 'statistics' \(ReduceMean\) combines what lies along axis 0 of 'x'"),
        (sums_through_a_loop(), r"no axis of 'x' is a batch; node 'loop' \(Loop\) combines"),
        (gated(), r"node 'largest' \(ReduceMax\) combines"),
    ],
)
def test_another_batch_size_without_a_batch_is_refused_with_the_operator(
    proto: onnx.ModelProto, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        choose_batch_sizes(saved(proto, tmp_path), (5,))


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
    proto: onnx.ModelProto, expected: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    assert shapes_at(saved(proto, tmp_path), 4) == expected


def test_batch_axes_may_be_said(tmp_path: Path) -> None:
    found = network_batch(saved(pointwise((8, 16)), tmp_path, (("x", 1),)), {})
    assert (dict(found.axes), found.exported) == ({"x": 1}, 16)
    assert network_batch(saved(pointwise((8, 16)), tmp_path, ()), {}).exported == 1
    with pytest.raises(InputError, match=r"exported with batch 50 and .* axis 0 of 'x'.*'lstm' \(LSTM\) combines"):
        fixed_model(saved(lstm(), tmp_path, (("x", 0),)), 2, {}, weights=False)


@pytest.mark.parametrize(
    ("axes", "message"),
    [((("z", 0),), "no input 'z'"), ((("x", 3),), "no axis 3"), ((("image", 0), ("anchors", 0)), "one batch")],
)
def test_axes_that_there_are_not_are_refused(axes: Axes, message: str, tmp_path: Path) -> None:
    proto = detector() if "image" in dict(axes) else lstm()
    with pytest.raises(InputError, match=message):
        network_batch(saved(proto, tmp_path, axes), {})


def test_a_batch_of_which_no_other_size_runs_is_counted_and_kept(tmp_path: Path) -> None:
    nodes = [node("Expand", "start size", "s"), node("Concat", "s x", "c", axis=1), node("MatMul", "c w", "y")]
    values = {"start": made((1, 2)), "size": np.array([4, 2]), "w": made((18, 8))}
    workload = saved(model(nodes, {"x": (4, 16)}, values=values), tmp_path)
    assert network_batch(workload, {}).exported == 4
    with pytest.raises(InputError, match=r"exported with batch 4 and .* 8 along axis 0 of 'x': node .*\(Concat\)"):
        choose_batch_sizes(workload, (8,))


def test_a_batch_along_which_the_cost_does_not_grow_is_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", "w v", "big"), node("MatMul", "big u", "p"), node("Add", "x p", "y")]
    values = {"w": made((64, 64)), "v": made((64, 64)), "u": made((64, 1))}
    nodes.insert(2, node("ReduceMean", "p", "one", keepdims=1))
    nodes[-1] = node("Add", "x one", "y")
    proto = model([node("Mul", "k w", "kw"), node("MatMul", "kw v", "big"), *nodes[1:]],
                  {"x": (2, 16), "k": ()}, values=values)  # fmt: skip
    with pytest.raises(InputError, match=r"twice the samples along axis 0 of 'x' take 1\S* times the floating-point"):
        choose_batch_sizes(saved(proto, tmp_path), (4,))


def test_an_open_batch_that_no_output_follows_is_said(tmp_path: Path) -> None:
    """The first sample alone is computed: four times the throughput that there is, at a batch of 4."""
    first = [node("Gather", "x zero", "a", axis=0), node("MatMul", "a w", "y")]
    proto = model(first, {"x": ("batch", 4)}, {}, {"w": np.ones((4, 4), np.float32), "zero": np.array([0])})
    alike = model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, {}, {"w": np.ones((4, 4), np.float32)})
    onnx.save(proto, tmp_path / "first.onnx")
    onnx.save(alike, tmp_path / "alike.onnx")
    sizes, note = choose_batch_sizes(resolve(str(tmp_path / "first.onnx")), (1, 4))
    assert sizes == (1, 4)
    assert "a minibatch of 4 may not be 4 answers" in (note or "")
    assert choose_batch_sizes(resolve(str(tmp_path / "first.onnx")), (1,))[1] is None
    assert choose_batch_sizes(resolve(str(tmp_path / "alike.onnx")), (1, 4))[1] is None


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


def test_functions_are_inlined() -> None:
    proto = model([node("Twice", "x", "y", domain="acme")], {"x": ("batch", 3)})
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["c"])]
    proto.functions.append(helper.make_function("acme", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)]))
    fixed = fix_dimensions(proto, batch_size=2)
    assert [n.op_type for n in fixed.graph.node] == ["Relu", "Relu"]
    assert known_shapes(fixed.graph)["y"] == (2, 3)


def classifier(batch: int, target: list[int], name: str = "flatten") -> onnx.ModelProto:
    nodes = [node("Conv", "x w", "c"), node("Reshape", "c target", "f", name=name), node("MatMul", "f v", "y")]
    return model(
        nodes, {"x": (batch, 3, 6, 6)}, {"w": (4, 3, 3, 3), "v": (64, 10)}, values={"target": np.array(target)}
    )


@pytest.mark.parametrize(("batch", "target"), [(1, [0, 64]), (2, [-1, 64]), (2, [0, -1]), (3, [3, 64]), (3, [3, -1])])
def test_a_fixed_batch_is_changed_also_where_a_reshape_has_it_built_in(
    batch: int, target: list[int], tmp_path: Path
) -> None:
    fixed = resized(classifier(batch, target), tmp_path, 5)
    assert known_shapes(fixed.graph)["y"] == (5, 10)


def test_a_reshape_that_cannot_be_patched_is_named(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x target", "y", name="merge")]
    proto = model(nodes, {"x": (2, 3, 4)}, values={"target": np.array([3, 8])})
    with pytest.raises(
        InputError, match=r"batch size 5.*node 'merge' \(Reshape\) does not run with one, two and three samples"
    ):
        resized(proto, tmp_path, 5)
