"""Models of unknown origin: external weights stay inside the model's folder, or are refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import model, node

from edgetune import limits
from edgetune.errors import InputError
from edgetune.workflows.parse_options import choose_batch_sizes
from edgetune.workloads.observed import Feed, observe
from edgetune.workloads.onnx_file import load_model, parse_model
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def save_external(folder: Path, location: str = "net.data") -> Path:
    """Save a model whose weight is in ``net.data`` beside it, then say it is at ``location``."""
    folder.mkdir(exist_ok=True)
    proto = model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, values={"w": WEIGHT})
    path = folder / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data", size_threshold=0)
    proto = onnx.load(path, load_external_data=False)
    (entry,) = (item for item in proto.graph.initializer[0].external_data if item.key == "location")
    entry.value = location
    path.write_bytes(proto.SerializeToString())
    return path


def load(path: Path, weights: bool = True) -> onnx.ModelProto:
    return load_model(Workload(str(path), path.stem, "onnx", path, ""), weights=weights)


def test_without_weights_they_are_checked_and_not_read(tmp_path: Path) -> None:
    proto = load(save_external(tmp_path), weights=False)
    assert not proto.graph.initializer[0].raw_data


def test_a_subfolder_is_inside(tmp_path: Path) -> None:
    path = save_external(tmp_path, "weights/net.data")
    (tmp_path / "weights").mkdir()
    (tmp_path / "net.data").rename(tmp_path / "weights" / "net.data")
    assert load(path).graph.initializer[0].raw_data


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("location", ["../secret", "sub/../../secret", "ABSOLUTE"])
def test_outside_the_folder_is_refused(tmp_path: Path, location: str, weights: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 1000)
    location = str(secret) if location == "ABSOLUTE" else location
    path = save_external(tmp_path / "model", location)
    with pytest.raises(InputError, match="outside the model's folder") as caught:
        load(path, weights)
    assert "'w'" in caught.value.message
    assert location in caught.value.message


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"\0" * 1000)
    path = save_external(tmp_path / "model", "link" if linked == "file" else "link/secret")
    (tmp_path / "model" / "link").symlink_to(outside / "secret" if linked == "file" else outside)
    with pytest.raises(InputError, match="outside the model's folder"):
        load(path)


def test_a_missing_external_file_is_named_already_by_resolve(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "net.data").unlink()
    with pytest.raises(InputError, match=r"'w' are missing: .*net\.data"):
        resolve(str(path))


def test_a_length_too_small_for_the_shape_does_not_hide_a_short_file(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for item in proto.graph.initializer[0].external_data:
        if item.key == "length":
            item.value = "4"
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "net.data").write_bytes(b"\0" * 10)
    with pytest.raises(InputError, match="48 are needed"):
        load(path)


@pytest.mark.parametrize(("key", "value"), [("offset", "-4"), ("length", "many"), ("location", "")])
def test_malformed_entries(tmp_path: Path, key: str, value: str) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for item in proto.graph.initializer[0].external_data:
        if item.key == key:
            item.value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="no valid location, offset or length"):
        load(path)


def test_external_tensors_in_attributes_and_branches_are_checked(tmp_path: Path) -> None:
    hidden = onnx.TensorProto(name="hidden", dims=[2], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    hidden.external_data.add(key="location", value="../secret")
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["z"], value=hidden)],
        "b",
        [],
        [onnx.helper.make_tensor_value_info("z", 1, [2])],
    )
    proto = model(
        [node("If", "flag", "y", then_branch=branch, else_branch=branch)], {"x": (1,)}, values={"flag": np.array(True)}
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="'hidden' lie outside"):
        load(path)


_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]


def _value(name: str, shape: tuple[int, ...] | None = (1, 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _saved(path: Path, nodes: list[onnx.NodeProto], weights: Any = (), functions: Any = (), inputs: Any = None) -> str:
    graph = helper.make_graph(nodes, "g", inputs or [_value("x")], [_value("y", None)], list(weights))
    model = helper.make_model(graph, functions=list(functions), opset_imports=_OPSETS, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return str(path)


def _function(name: str, *calls: str) -> onnx.FunctionProto:
    tensors = ["a", *(f"c{number}" for number in range(1, len(calls))), "b"]
    nodes = [
        helper.make_node(
            call, [tensors[number]], [tensors[number + 1]], domain="f" if call in "fgh" or call[0] == "f" else ""
        )
        for number, call in enumerate(calls)
    ]
    return helper.make_function("f", name, ["a"], ["b"], nodes, _OPSETS)


def _call(name: str) -> onnx.NodeProto:
    return helper.make_node(name, ["x"], ["y"], domain="f")


def _whole(name: str, value: object) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def test_functions_that_double_are_counted_before_they_are_inlined(tmp_path):
    functions = [_function("f0", "Relu"), *(_function(f"f{n}", f"f{n - 1}", f"f{n - 1}") for n in range(1, 40))]
    path = _saved(tmp_path / "m.onnx", [_call("f39")], functions=functions)
    with pytest.raises(InputError, match="549,755,813,888 operators, more than the limit onnx_nodes"):
        load_model(resolve(path), weights=False)


@pytest.mark.parametrize("functions", [{"f": ["f"]}, {"f": ["g"], "g": ["Relu", "f"]}])
def test_functions_that_call_themselves_are_an_input_error(tmp_path, functions):
    made = [_function(name, *calls) for name, calls in functions.items()]
    path = _saved(tmp_path / "m.onnx", [_call("f")], functions=made)
    with pytest.raises(InputError, match=r"functions that call themselves: [fg] calls"):
        parse_model(Path(path))


def test_operators_of_bodies_count(tmp_path):
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])] * 3, "b", [], [_value("z")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    path = _saved(tmp_path / "m.onnx", [node], [numpy_helper.from_array(np.array(True), "c")])
    with limits.limited(onnx_nodes=6), pytest.raises(InputError, match="has 7 operators"):
        parse_model(Path(path))


def test_inputs_are_limited(tmp_path):
    names = [f"x{number}" for number in range(1001)]
    node = helper.make_node("Concat", names, ["y"], axis=0)
    path = _saved(tmp_path / "m.onnx", [node], inputs=[_value(name) for name in names])
    with pytest.raises(InputError, match="1,001 inputs or outputs, more than the limit onnx_inputs"):
        parse_model(Path(path))


def _range() -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    nodes = [helper.make_node("Range", ["a", "b", "d"], ["k"]), helper.make_node("Cast", ["k"], ["y"], to=1)]
    return nodes, [_whole("a", 0), _whole("b", 10**12), _whole("d", 1)]


def _doubled() -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    nodes = [helper.make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(40)]
    return [*nodes, helper.make_node("Expand", ["x", "k40"], ["y"])], [_whole("k0", [2])]


@pytest.mark.parametrize("make", [_range, _doubled])
def test_values_that_shapes_follow_are_limited(tmp_path, make):
    """In a process of its own: what is bounded is the memory of all of its threads, and the tests have others."""
    path = _saved(tmp_path / "m.onnx", *make())
    command = [sys.executable, "-m", "edgetune", "--raise-limit", "shape_bytes=32MiB", "roofline", "ops", path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "limit shape_bytes" in ended.stderr


def test_weights_that_share_a_part_of_a_file_are_read_so_often_and_no_more(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(10**6))
    weights = []
    for number in range(200):
        weight = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[250_000])
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        weights.append(weight)
    path = _saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], weights)
    with pytest.raises(InputError, match="200,000,000 bytes of weights, more than the limit weight_bytes"):
        load_model(resolve(path), weights=True)


_UNKNOWN = [
    helper.make_node("NonZero", ["x"], ["n"]),
    helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
    helper.make_node("ReduceSum", ["f"], ["r"], keepdims=0),
]
"""Operators whose shapes a run alone shows."""


def test_a_run_for_shapes_is_bounded_in_memory(tmp_path):
    nodes = [*_UNKNOWN, helper.make_node("Expand", ["x", "s"], ["k"]), helper.make_node("Add", ["k", "r"], ["y"])]
    path = _saved(tmp_path / "m.onnx", nodes, [_whole("s", [10**9, 4])])
    _, failed = observe(resolve(path), batch_size=1, dimensions={}, feed=Feed())
    assert failed is not None
    assert "limit observe_bytes" in failed


def test_a_run_for_shapes_is_bounded_in_time(tmp_path):
    value = helper.make_tensor_value_info
    ends = [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), _value("v")]
    size = helper.make_tensor("size", TensorProto.INT64, [1], [4_000_000])
    steps = [  # slow ones: each leaves a record in memory, and the limit is on the time
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Constant", [], ["size"], value=size),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0),
        helper.make_node("Add", ["v", "zero"], ["w"]),
    ]
    body = helper.make_graph(steps, "b", ends, [value("on", TensorProto.BOOL, []), _value("w")])
    nodes = [
        *_UNKNOWN,
        helper.make_node("Loop", ["t", "", "x"], ["k"], body=body),
        helper.make_node("Add", ["k", "r"], ["y"]),
    ]
    path = _saved(tmp_path / "m.onnx", nodes, [_whole("t", 10**12)])
    with limits.limited(observe_seconds=1):
        _, failed = observe(resolve(path), batch_size=1, dimensions={}, feed=Feed())
    assert failed is not None
    assert "limit observe_seconds" in failed


def test_weights_that_operators_make_are_counted_before_they_are_made(tmp_path):
    """A shape of 16 bytes makes 4 GB of weights, which the optimiser would fold."""
    shape = _whole("shape", [4, 1 << 28])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"]),
        helper.make_node("Neg", ["w"], ["v"]),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    path = _saved(tmp_path / "m.onnx", nodes, [shape])
    with pytest.raises(InputError, match=r"8,589,934,592 bytes of constants made by operators, .* constant_bytes"):
        prepare(resolve(path), PrepareOptions(), tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()


def test_an_input_of_gigabytes_is_refused_before_it_is_made(tmp_path):
    path = _saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], inputs=[_value("x", (1, 1 << 28))])
    with pytest.raises(InputError, match="1,073,741,824 bytes of inputs for a sample, more than the limit input_bytes"):
        prepare(resolve(path), PrepareOptions(), tmp_path / "prepared")


def _nested(depth: int) -> onnx.NodeProto:
    """Return an ``If`` whose two branches are such nodes of one less depth; a ``Relu`` without depth."""
    if depth == 0:
        return helper.make_node("Relu", ["x"], ["y"])
    branch = helper.make_graph([_nested(depth - 1)], "b", [], [_value("y", None)])
    return helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)


@pytest.mark.parametrize(
    ("nodes", "weights", "words"),
    [
        ([_nested(7)], [], r"1,538 operators in bodies, times their depth, more than the limit onnx_nesting"),
        ([_nested(0)], [_whole(f"w{n}", []) for n in range(1001)], r"1,001 initialisers, more than .* onnx_weights"),
    ],
)
def test_bodies_in_bodies_and_weights_are_counted(tmp_path, nodes, weights, words):
    inputs = [_value("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    path = _saved(tmp_path / "m.onnx", nodes, weights, inputs=inputs)
    with limits.limited(onnx_nesting=1537, onnx_weights=1000), pytest.raises(InputError, match=words):
        load_model(resolve(path), weights=False)


def test_a_batch_that_is_built_in_counts_as_one_sample_unless_it_is_asked_for(tmp_path):
    inputs = [_value("x", (10_000, 3, 64, 64))]
    workload = resolve(_saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], inputs=inputs))
    with pytest.raises(InputError, match="491,520,000 bytes of inputs for a sample, more than the limit input_bytes"):
        choose_batch_sizes(workload, ())
    assert choose_batch_sizes(workload, (10_000,))[0] == (10_000,)
    with limits.limited(observe_bytes=200 << 20):
        seen, why = observe(workload, 10_000, {}, Feed())
    assert not seen
    assert "limit observe_bytes" in str(why)
