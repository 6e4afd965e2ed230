"""Layers run one after another compute what the whole network does: the zoo, PyTorch's exports, any small graph."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from torch_exports import NETWORKS as EXPORTS
from torch_exports import export

from edgetune.workloads import zoo
from edgetune.workloads.network_inputs import random_inputs
from edgetune.workloads.partition.check import PrepareOptions, run_layers
from edgetune.workloads.partition.optimised import LEVELS
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.resolve import resolve

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


@pytest.mark.parametrize("name", ["residual", "shared-weights", "two-outputs", "encoder", "perceptron", "attention"])
def test_split_layers_compute_the_same(tmp_path, name):
    path = export(name, tmp_path / f"{name}.onnx")
    unsplit = prepare(resolve(str(path)), PrepareOptions(), tmp_path / "unsplit")
    prepared = prepare(resolve(str(path)), PrepareOptions(split_bytes=1100), tmp_path / "split")
    assert len(prepared.layers) > len(unsplit.layers)
    assert_valid_layers(prepared)
    assert_same_outputs(prepared)


def test_another_batch_size(tmp_path):
    prepared = prepare(resolve("zoo:squeezenet"), PrepareOptions(batch_size=3), tmp_path / "made")
    assert prepared.inputs[0].shape == (3, 3, 224, 224)
    assert prepared.input_bytes == 3 * 3 * 224 * 224 * 4
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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=graphs(), split=st.sampled_from([None, 1100]))
def test_any_small_graph(tmp_path, model, split):
    path = tmp_path / "made-up.onnx"
    path.write_bytes(model.SerializeToString())
    options = PrepareOptions(batch_size=2, split_bytes=split)
    prepared = prepare(resolve(str(path)), options, tmp_path / "made")
    assert_valid_layers(prepared)
    feed = random_inputs(model, seed=1)
    for got, want in zip(run_layers(prepared, feed), whole_outputs(prepared, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=RELATIVE, atol=1e-5 * max(1.0, float(np.abs(want).max())))
