"""Where graphs are cut, what is refused, and how a prepared folder comes into being."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import model, node
from torch_exports import NETWORKS as EXPORTS
from torch_exports import export

from edgetune.artifacts.output_file import partial_folder
from edgetune.errors import InputError
from edgetune.workflows.schedule.networks import open_reference
from edgetune.workloads import zoo
from edgetune.workloads.network_inputs import random_inputs
from edgetune.workloads.partition.check import PrepareOptions, run_layers
from edgetune.workloads.partition.cut import _bounds
from edgetune.workloads.partition.optimised import LEVELS
from edgetune.workloads.partition.prepare import kept, prepare, write_contents
from edgetune.workloads.resolve import resolve

PLAIN = PrepareOptions(optimise="basic")


def matrix(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(0, 0.2, (rows, columns)).astype(np.float32)


def made(tmp_path, proto, options=PLAIN, name="net"):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    return prepare(resolve(str(path)), options, tmp_path / "made" / name)


def chain(*, outputs=("y",)):
    """Two fully connected layers with activations: 16 -> 32 -> 64."""
    nodes = [
        node("MatMul", "x w1", "a", name="first"),
        node("Relu", "a", "b"),
        node("MatMul", "b w2", "c", name="second"),
        node("Tanh", "c", "y"),
    ]
    return model(nodes, {"x": [1, 16]}, values={"w1": matrix(16, 32), "w2": matrix(32, 64)}, outputs=outputs)


def test_operators_without_weights_follow_the_one_with_weights(tmp_path):
    prepared = made(tmp_path, chain())
    first, second = prepared.layers
    assert (first.name, second.name) == ("first", "second")
    assert (first.kind, second.kind) == ("fc", "fc")
    assert (first.inputs, first.outputs, first.after) == (("x",), ("b",), ())
    assert (second.inputs, second.outputs, second.after) == (("b",), ("y",), (0,))
    assert (first.weight_bytes, second.weight_bytes) == (16 * 32 * 4, 32 * 64 * 4)
    assert (first.output_bytes, second.output_bytes) == (32 * 4, 64 * 4)
    assert (first.scratch_bytes, second.scratch_bytes) == (32 * 4, 64 * 4)  # what the activation reads
    assert prepared.input_bytes == 16 * 4
    assert prepared.weight_bytes == (16 * 32 + 32 * 64) * 4
    assert prepared.difference is not None
    assert prepared.difference < 1e-5


def test_a_branch_is_joined_where_its_last_input_is_made(tmp_path):
    nodes = [
        node("Conv", "x k1", "a", name="stem"),
        node("Conv", "a k2", "b", name="left"),
        node("Relu", "b", "c"),
        node("Conv", "a k3", "d", name="right"),
        node("Add", "c d", "e"),
        node("Sigmoid", "e", "y"),
    ]
    kernels = {f"k{i}": np.random.default_rng(i).normal(size=(32, 32, 1, 1)).astype(np.float32) for i in (1, 2, 3)}
    prepared = made(tmp_path, model(nodes, {"x": [1, 32, 4, 4]}, values=kernels, outputs=["y"]))
    stem, one, other = prepared.layers
    assert stem.name == "stem"
    assert {one.name, other.name} == {"left", "right"}  # ONNX Runtime orders branches as it likes
    assert [layer.after for layer in prepared.layers] == [(), (0,), (0, 1)]
    assert {layer.kind for layer in prepared.layers} == {"conv"}
    assert other.outputs == ("y",)


def test_a_shared_weight_is_stored_once_in_a_file_of_its_own(tmp_path):
    nodes = [node("MatMul", "x w", "a"), node("Tanh", "a", "b"), node("MatMul", "b w", "y")]
    prepared = made(tmp_path, model(nodes, {"x": [1, 32]}, values={"w": matrix(32, 32)}, outputs=["y"]))
    assert [[w.file for w in layer.weights] for layer in prepared.layers] == [["shared-000.weights"]] * 2
    assert [layer.weight_bytes for layer in prepared.layers] == [32 * 32 * 4] * 2
    assert prepared.weight_bytes == 32 * 32 * 4


def test_weights_are_aligned_and_hold_the_models_values(tmp_path):
    arrays = {"w1": matrix(16, 33), "bias": matrix(1, 33)[0], "w2": matrix(33, 64)}
    nodes = [node("Gemm", "x w1 bias", "a", name="g"), node("Relu", "a", "b"), node("MatMul", "b w2", "y")]
    prepared = made(tmp_path, model(nodes, {"x": [1, 16]}, values=arrays, outputs=["y"]))
    for weight in (weight for layer in prepared.layers for weight in layer.weights):
        assert weight.offset % 64 == 0
        stored = np.fromfile(prepared.folder / weight.file, weight.dtype, np.prod(weight.shape), offset=weight.offset)
        np.testing.assert_array_equal(stored.reshape(weight.shape), arrays[weight.input])


def branching(*, weighted):
    """An ``If`` between two products; with weights in its bodies, or reading them from around it."""
    bodies = {}
    for name in ("then_branch", "else_branch"):
        held = [numpy_helper.from_array(matrix(32, 32), f"{name}_w")] if weighted else []
        read = f"{name}_w" if weighted else "w2"
        bodies[name] = helper.make_graph(
            [helper.make_node("MatMul", ["a", read], [f"{name}_y"])], name, [],
            [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [1, 32])], held,
        )  # fmt: skip
    nodes = [
        node("MatMul", "x w1", "a", name="before"),
        node("ReduceSum", "a", "s", keepdims=0),
        node("Greater", "s zero", "positive"),
        node("If", "positive", "b", name="choose", **bodies),
        node("MatMul", "b w1", "y", name="after"),
    ]
    values = {"w1": matrix(32, 32), "zero": np.float32(0)} | ({} if weighted else {"w2": matrix(32, 32, 1)})
    return model(nodes, {"x": [1, 32]}, values=values, outputs=["y"])


def test_control_flow_without_weights_of_its_own_is_cut_around(tmp_path):
    prepared = made(tmp_path, branching(weighted=False))
    assert [layer.name for layer in prepared.layers] == ["before", "choose", "after"]
    assert [weight.input for weight in prepared.layers[1].weights] == ["w2"]
    assert prepared.difference is not None


def test_control_flow_that_holds_weights_is_refused_by_name_or_run_whole(tmp_path):
    with pytest.raises(InputError, match=r"'choose' \(If\) holds weights") as refused:
        made(tmp_path, branching(weighted=True))
    assert "--whole" in refused.value.hint
    assert not (tmp_path / "made" / "net").exists()
    prepared = made(tmp_path, branching(weighted=True), PrepareOptions(whole=True))
    assert len(prepared.layers) == 1
    assert prepared.difference is not None


def test_tensors_of_data_dependent_size_do_not_cross_layers(tmp_path):
    nodes = [
        node("MatMul", "x w1", "a", name="one"),
        node("NonZero", "a", "places"),
        node("Cast", "places", "numbers", to=1),
        node("MatMul", "a w2", "b", name="two"),
        node("ReduceSum", "numbers", "sum", keepdims=0),
        node("Mul", "b sum", "c"),
        node("MatMul", "c w3", "y", name="three"),
    ]
    weights = {name: matrix(32, 32, seed) for seed, name in enumerate(("w1", "w2", "w3"))}
    nodes.insert(4, node("Mul", "numbers b_sum", "scaled"))
    nodes.insert(4, node("ReduceMax", "b", "b_sum", keepdims=0))
    nodes[6] = node("ReduceSum", "scaled", "sum", keepdims=0)
    prepared = made(tmp_path, model(nodes, {"x": [1, 32]}, values=weights, outputs=["y"]))
    assert [layer.name for layer in prepared.layers] == ["one", "three"]
    assert prepared.layers[0].weight_bytes == 2 * 32 * 32 * 4
    assert prepared.layers[0].kind == "fc"


def test_an_output_whose_size_no_run_shows_is_refused_by_name(tmp_path):
    """Nobody can make up the input that says how large it is."""
    proto = model(
        [node("ConstantOfShape", "count", "made"), node("MatMul", "x w", "y")], {"x": [1, 32]},
        values={"w": matrix(32, 32)}, outputs=["y", "made"],
    )  # fmt: skip
    proto.graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, [1]))
    with pytest.raises(InputError, match="'made' depends on the data"):
        made(tmp_path, proto)


def test_weights_that_are_computed_from_others_are_computed_where_they_are_read(tmp_path):
    """Eight-bit weights: the layer holds those, and not four times as much."""
    nodes = []
    for read, index, made_ in (("x", 1, "a"), ("a", 2, "y")):
        nodes.append(node("DequantizeLinear", f"w{index} scale", f"d{index}"))
        nodes.append(node("MatMul", f"{read} d{index}", made_))
    weights = {f"w{i}": np.random.default_rng(i).integers(-127, 127, (64, 64)).astype(np.int8) for i in (1, 2)}
    proto = model(nodes, {"x": [1, 64]}, values={**weights, "scale": np.float32(0.01)}, outputs=["y"])
    prepared = made(tmp_path, proto)
    assert [layer.weight_bytes for layer in prepared.layers] == [64 * 64, 64 * 64]
    assert [layer.weights[0].dtype for layer in prepared.layers] == ["int8", "int8"]
    assert prepared.difference < 1e-5


def test_layers_that_compute_something_else_are_not_put_in_place(tmp_path, monkeypatch):
    from edgetune.workloads.partition import prepare

    write = prepare.write_weights

    def damaged(layers, stems, graph, folder):
        graph.weights["w1"] = graph.weights["w1"] * np.float32(1.01)
        return write(layers, stems, graph, folder)

    monkeypatch.setattr(prepare, "write_weights", damaged)
    with pytest.raises(InputError, match="do not compute what the whole network does"):
        made(tmp_path, chain())
    assert kept_files(tmp_path / "made") == set()


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [(), (60,), (1, 60), (1,), (2, 60), (2, 1)])
def test_split_products_equal_whole_ones(tmp_path, transposed, bias):
    w, x = matrix(48, 60), np.random.default_rng(2).random((2, 48), np.float32)
    values = {"w": w.T.copy() if transposed else w}
    if bias:
        values["b"] = np.random.default_rng(3).random(bias, np.float32)
    names = "x w b" if bias else "x w"
    proto = model([node("Gemm", names, "y", transB=transposed, alpha=0.5, beta=2.0)], {"x": [2, 48]}, values=values)
    prepared = made(tmp_path, proto, PrepareOptions(batch_size=2, optimise="basic", split_bytes=48 * 4 * 16))
    assert len(prepared.layers) == 4
    (found,) = run_layers(prepared, {"x": x})
    np.testing.assert_allclose(found, 0.5 * x @ w + 2.0 * values.get("b", np.float32(0)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("width", "share"), [(1, 0.01), (7, 0.3), (16, 0.5), (1000, 0.07), (4096, 0.2), (17, 0.9)])
def test_parts_cover_every_output_once_and_fit(width, share):
    row_bytes, total = 128, 128 * width
    bounds = _bounds(width, total, max(1, int(total * share)))
    assert [first for first, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
    assert bounds[-1][1] == width
    assert all((end - first) * row_bytes <= max(row_bytes, int(total * share)) for first, end in bounds)


def test_a_folder_is_kept_while_model_and_options_are_the_same(tmp_path):
    first = made(tmp_path, chain())
    workload = resolve(str(tmp_path / "net.onnx"))
    assert kept(workload, PLAIN, first.folder) == first
    assert kept(workload, PLAIN, tmp_path / "elsewhere") is None
    with pytest.raises(InputError, match="the batch size, split_bytes"):
        kept(workload, PrepareOptions(batch_size=2, optimise="basic", split_bytes=10), first.folder)
    (tmp_path / "net.onnx").write_bytes(chain(outputs=["b", "y"]).SerializeToString())
    with pytest.raises(InputError, match="otherwise: the model") as refused:
        kept(resolve(str(tmp_path / "net.onnx")), PLAIN, first.folder)
    assert "--fresh" in refused.value.hint


def test_a_comparison_beyond_the_memory_of_a_run_is_left_to_prepare(tmp_path):
    onnx.save(chain(), tmp_path / "net.onnx")
    said = []
    reporter = SimpleNamespace(info=said.append)
    words = {"folder": tmp_path / "made", "reporter": reporter, "make": True}
    for _ in range(2):
        found = open_reference(str(tmp_path / "net.onnx"), within_bytes=1000, **words)
        assert (found.compared, found.difference) == (False, None)
    assert [line.partition(" ")[0] for line in said] == ["preparing", "the", "the"]
    assert f"edgetune schedule prepare {tmp_path / 'net.onnx'} --batch-size 1 -o {tmp_path / 'made'}" in said[-1]
    found = kept(resolve(str(tmp_path / "net.onnx")), PrepareOptions(), tmp_path / "made" / "net")
    assert found.difference < 1e-4
    assert found.check_peak_bytes > found.weight_bytes
    assert kept_files(found.folder) == {MANIFEST, *found.files}
    assert open_reference(str(tmp_path / "net.onnx"), within_bytes=1000, **words) == found
    assert len(said) == 3


MANIFEST = "manifest.json"


def kept_files(folder):
    return {path.name for path in folder.iterdir()}


def test_killed_while_it_writes_nothing_is_in_place_and_the_next_run_succeeds(tmp_path):
    script = (
        "import os, signal; from pathlib import Path\n"
        "from edgetune.workloads.partition import prepare\n"
        "from edgetune.workloads.resolve import resolve\n"
        "prepare.write_weights = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "prepare.prepare(resolve('net.onnx'), prepare.PrepareOptions(optimise='basic'), Path('made/net'))\n"
    )
    (tmp_path / "net.onnx").write_bytes(chain().SerializeToString())
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "made" / "net").exists()
    assert made(tmp_path, chain()).layers
    assert kept_files(tmp_path / "made") == {"net"}


def test_folders_of_killed_processes_are_removed_and_those_in_use_stay(tmp_path):
    left = tmp_path / "made" / ".net.0123.partial"
    left.parent.mkdir()
    with partial_folder(left.parent, ".net.", ".partial") as (others, _):
        left.mkdir()
        made(tmp_path, chain())
        assert {path.name for path in (tmp_path / "made").iterdir()} == {"net", others.name}


LARGE = 10_000_000
"""Parameters above which a network takes more than a second: its weights are written three times."""
RELATIVE = 1e-4


def whole_outputs(prepared, feed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    path = str(prepared.folder / prepared.whole["external"])
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)


def assert_same_outputs(prepared, seed=1):
    """Compare with another seed than the one that preparing itself compares with."""
    model = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    feed = random_inputs(model, seed=seed)
    found, expected = run_layers(prepared, feed), whole_outputs(prepared, feed)
    assert len(found) == len(expected) == len(prepared.outputs)
    for got, want, tensor in zip(found, expected, prepared.outputs, strict=True):
        assert got.shape == want.shape == tensor.shape
        assert str(got.dtype) == tensor.dtype
        assert np.isfinite(want).all()
        assert np.abs(got - want).max() <= RELATIVE * np.abs(want).max()


def assert_valid_layers(prepared):
    for layer in prepared.layers:
        model = onnx.load(str(prepared.folder / layer.graph))
        onnx.checker.check_model(model)
        assert [value.name for value in model.graph.input] == [*layer.inputs, *(w.input for w in layer.weights)]
        assert [value.name for value in model.graph.output] == list(layer.outputs)
        assert sum(len(tensor.raw_data) for tensor in model.graph.initializer) < 64 * 1024


@pytest.mark.parametrize(
    "name",
    [pytest.param(row.name, marks=pytest.mark.slow if row.parameters > LARGE else ()) for row in zoo.NETWORKS.values()],
)
def test_networks_of_the_zoo(tmp_path, name):
    prepared = prepare(resolve(f"zoo:{name}"), PrepareOptions(), tmp_path / name)
    assert_valid_layers(prepared)
    assert_same_outputs(prepared)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", EXPORTS)
def test_networks_exported_from_pytorch(tmp_path, name, level):
    path = export(name, tmp_path / f"{name}.onnx")
    prepared = prepare(resolve(str(path)), PrepareOptions(optimise=level), tmp_path / "made")
    assert len(prepared.layers) > 1
    assert_valid_layers(prepared)
    assert_same_outputs(prepared)


WIDTH = 24
"""Of every tensor of a made-up graph; a square matrix of it takes 2304 bytes, so it is a weight and not a constant."""

JOINS = ("Add", "Mul", "Sub", "Max")
ALONE = ("Relu", "Tanh", "Neg", "Identity")


@st.composite
def graphs(draw):
    """A graph of up to twelve operators over one or two inputs; some share weights, some outputs are read on."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = [f"in{index}" for index in range(draw(st.integers(1, 2)))]
    inputs, weights, nodes = list(names), {}, []
    for index in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["weight", "weight", "shared", "join", "alone", "static"]))
        read, made = [draw(st.sampled_from(names))], f"t{index}"
        if kind in ("weight", "static") or (kind == "shared" and not weights):
            weights[f"w{index}"] = generator.normal(0, 0.2, (WIDTH, WIDTH)).astype(np.float32)
        if kind == "static":  # a weight that is computed from another
            nodes.append(helper.make_node("Exp", [f"w{index}"], [f"e{index}"]))
            nodes.append(helper.make_node("MatMul", [*read, f"e{index}"], [made]))
        elif kind in ("weight", "shared"):
            nodes.append(helper.make_node("MatMul", [*read, draw(st.sampled_from(list(weights)))], [made]))
        elif kind == "join":
            nodes.append(helper.make_node(draw(st.sampled_from(JOINS)), [*read, draw(st.sampled_from(names))], [made]))
        else:
            nodes.append(helper.make_node(draw(st.sampled_from(ALONE)), read, [made]))
        names.append(made)
    last = names[-1]
    wanted = draw(st.sets(st.sampled_from([name for name in names if name not in inputs]), max_size=2)) | {last}
    shape = [2, WIDTH]
    graph = helper.make_graph(
        nodes, "made-up", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in sorted(wanted)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=graphs(), split=st.sampled_from([None, 1100]))
def test_any_small_graph(tmp_path, model, split):
    path = tmp_path / "made-up.onnx"
    path.write_bytes(model.SerializeToString())
    options = PrepareOptions(split_bytes=split)
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    prepared = write_contents(folder, resolve(str(path), ()), options, {}, check_within_bytes=0)  # compared below
    assert_valid_layers(prepared)
    feed = random_inputs(model, seed=1)
    for got, want in zip(run_layers(prepared, feed), whole_outputs(prepared, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=RELATIVE, atol=1e-5 * max(1.0, float(np.abs(want).max())))
