"""Each network of the zoo against published figures, as a graph, and the builder's shapes, which must be ONNX's."""

import csv
import hashlib
import math
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from edgetune.workloads import initial_weights, zoo
from edgetune.workloads.graph_builder import GraphBuilder, Value
from edgetune.workloads.initial_weights import BIASED, has_data, role_of

NAMES = list(zoo.NETWORKS)
TORCHVISION = Path(__file__).parents[2] / "../shared/data/torchvision/ops.csv"
LISTED = {
    "AlexNet": "alexnet",
    "MobileNet_V2": "mobilenet_v2",
    "MobileNet_V3_Large": "mobilenet_v3_large",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "SqueezeNet1_0": "squeezenet",
}


def at_batch(name: str, batch: int) -> onnx.ModelProto:
    model = zoo.weightless(name)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def shapes_of(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    values = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return values | {weight.name: tuple(weight.dims) for weight in graph.initializer}


def macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates, counted from the definition of each operator and from nothing of the package's."""
    shapes = shapes_of(model.graph)
    total = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            total += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type == "Gemm":
            total += math.prod(shapes[node.output[0]]) * shapes[node.input[1]][1]
        elif node.op_type == "MatMul":
            total += math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        elif node.op_type == "LSTM":
            sequence, batch, _ = shapes[node.input[0]]
            total += sequence * batch * sum(math.prod(shapes[name]) for name in node.input[1:3])
    return total


def count_parameters(model):
    """Return the elements of all weights without BatchNorm's running statistics, as frameworks count."""
    return sum(math.prod(t.dims) for t in model.graph.initializer if role_of(t) in ("parameter", "frozen"))


@pytest.mark.parametrize("name", NAMES)
def test_a_network_has_its_published_figures_inputs_and_shapes(name):
    network, model = zoo.NETWORKS[name], zoo.weightless(name)
    assert count_parameters(model) == network.parameters
    assert macs(at_batch(name, 1)) == pytest.approx(network.macs, rel=0.01)
    for value, item in zip(model.graph.input, network.inputs, strict=True):
        dims = value.type.tensor_type.shape.dim
        assert (value.name, dims[0].dim_param) == (item.name, "batch")
        assert tuple(dim.dim_value for dim in dims[1:]) == item.shape
        assert onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) == item.dtype
        assert (item.upper > 0) == (item.dtype == "int64")
    assert model.ByteSize() < 500_000
    assert not any(has_data(tensor) for tensor in model.graph.initializer)
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert {tensor.name for tensor in model.graph.initializer} <= {
        each for node in model.graph.node for each in node.input
    }
    assert all(role_of(tensor) for tensor in model.graph.initializer)
    graph = at_batch(name, 2).graph
    shapes = shapes_of(graph)
    for output in (each for node in graph.node for each in node.output):
        assert all(size > 0 for size in shapes[output]), output


@pytest.mark.skipif(not TORCHVISION.exists(), reason="torchvision's table is not beside the repository")
def test_table_agrees_with_torchvision():
    with TORCHVISION.open() as file:
        rows = [row for row in csv.DictReader(file) if row["model"] in LISTED]
    assert {row["model"] for row in rows} == set(LISTED)
    for row in rows:
        network = zoo.NETWORKS[LISTED[row["model"]]]
        assert network.macs == pytest.approx(float(row["gmacs_ops"]) * 1e9, rel=1e-3)
        assert row["num_params"] in ("", str(network.parameters))


def test_lstms_have_the_figures_that_their_studies_print():
    short, long = at_batch("lstm", 1), at_batch("lstm_wikitext", 1)
    decoder = next(t for t in short.graph.initializer if t.name == "embedding.weight")  # which it shares
    assert count_parameters(short) == count_parameters(long) == pytest.approx(8.6e6, rel=0.005)
    assert 4 * math.prod(decoder.dims) == pytest.approx(30_129_152, rel=0.001)
    recurrent = macs(short) - math.prod(decoder.dims)
    assert macs(short) + math.prod(decoder.dims) == pytest.approx(0.0234e9, rel=0.01)  # as Pagoda counts
    assert recurrent == 8 * 2 * 4 * 2 * 256 * 256
    assert 2 * macs(long) == pytest.approx(3.9e9, rel=0.005)


def digest(model: onnx.ModelProto) -> str:
    sha = hashlib.sha256()
    for tensor in model.graph.initializer:
        sha.update(tensor.raw_data)
    return sha.hexdigest()


def test_the_same_seed_gives_the_same_weights_in_another_process():
    here = digest(zoo.with_weights(zoo.weightless("squeezenet"), seed=5))
    script = (
        "import hashlib; from edgetune.workloads import zoo; sha = hashlib.sha256()\n"
        "for t in zoo.with_weights(zoo.weightless('squeezenet'), seed=5).graph.initializer: sha.update(t.raw_data)\n"
        "print(sha.hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there
    assert here != digest(zoo.with_weights(zoo.weightless("squeezenet"), seed=6))


def test_with_weights_leaves_its_argument_and_given_weights_alone():
    bare = zoo.weightless("squeezenet")
    bare.graph.initializer[0].raw_data = b"\0" * 4 * math.prod(bare.graph.initializer[0].dims)
    before = bare.SerializeToString()
    full = zoo.with_weights(bare)
    assert bare.SerializeToString() == before
    assert not numpy_helper.to_array(full.graph.initializer[0]).any()
    assert all(has_data(tensor) for tensor in full.graph.initializer)


@pytest.mark.parametrize(("batch_size", "first"), [(None, "batch"), (4, 4)])
def test_export_writes_a_valid_file(tmp_path, batch_size, first):
    path = tmp_path / "lstm.onnx"
    zoo.export("lstm", path, batch_size=batch_size)
    onnx.checker.check_model(str(path), full_check=True)
    dim = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0]
    assert (dim.dim_param or dim.dim_value) == first
    assert [file.name for file in tmp_path.iterdir()] == ["lstm.onnx"]


def test_importing_the_zoo_loads_nothing_heavy():
    script = "import sys; import edgetune.workloads.zoo; print(sorted({'onnx', 'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def inferred_shapes(model: onnx.ModelProto, batch: int = 2) -> dict[str, tuple[int, ...]]:
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in (*fixed.graph.input, *fixed.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = batch * int(dim.dim_param.partition("*")[2] or 1)
    graph = onnx.shape_inference.infer_shapes(fixed, check_type=True, strict_mode=True, data_prop=True).graph
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.output)
    }


def expected(value: Value, batch: int = 2) -> tuple[int, ...]:
    return tuple(s if isinstance(s, int) else batch * int(s.partition("*")[2] or 1) for s in value.shape)


def everything(graph: GraphBuilder) -> dict[str, Value]:
    """One of each layer; every value made is returned."""
    image = graph.input("image", ("batch", 3, 17, 16))
    tokens = graph.input("tokens", ("batch", 5), "int64")
    made: list[Value] = []

    def keep(value: Value) -> Value:
        made.append(value)
        return value

    x = keep(graph.conv("conv", image, 8, kernel=3, stride=2, weights=BIASED))
    x = keep(graph.batch_norm("norm", x))
    x = keep(graph.conv("depthwise", x, 8, kernel=5, groups=8, padding=1))
    for name in ("relu", "relu6", "hard_swish", "hard_sigmoid", "sigmoid", "tanh", "silu", "gelu", "softmax"):
        keep(getattr(graph, name)(f"act.{name}", x))
    keep(graph.max_pool("pool", x, kernel=3, stride=2, padding=1))
    keep(graph.max_pool("pool_ceil", x, kernel=2, stride=2, ceil=True))
    keep(graph.upsample("up", x, 2))
    left, right = graph.split("split", x, [3, 5], axis=1)
    keep(graph.concat("concat", [keep(left), keep(right), x], axis=1))
    pooled = keep(graph.global_average_pool("gap", x))
    keep(graph.binary("Mul", "scale", x, pooled))
    flat = keep(graph.flatten("flat", pooled))
    keep(graph.add("plus_one", graph.dropout("drop", graph.linear("fc", flat, 6), 0.1), 1.0))
    words = keep(graph.embedding("table", tokens, 11, 8))
    words = keep(graph.layer_norm("layer_norm", words))
    first = keep(graph.select("first", words, 0, axis=1))
    keep(graph.unsqueeze("more", first, (1, 2)))
    keep(graph.squeeze("less", graph.unsqueeze("one_more", first, (1,)), axis=1))
    keep(graph.slice("cut", words, ("batch", 2, 8), start=1, end=3, axis=1))
    steps, last = graph.lstm("lstm", keep(graph.transpose("swap", words, (1, 0, 2))), 4)
    keep(steps)
    keep(last)
    heads = keep(graph.reshape("heads", keep(graph.reshape("rows", words, (-1, 8))), (-1, 5, 2, 4)))
    keep(graph.matmul("scores", heads, keep(graph.transpose("keys", heads, (0, 1, 3, 2)))))
    keep(graph.to_float("as_float", tokens))
    return {value.name: value for value in made}


def test_every_layer_has_the_shape_that_onnx_infers():
    graph = GraphBuilder("everything")
    values = everything(graph)
    model = graph.model(values)
    shapes = inferred_shapes(model)
    assert {name: shapes[name] for name in values} == {name: expected(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        (("batch", 6), (-1, 2), ("batch*3", 2)),
        (("batch*3", 2), (-1, 6), ("batch", 6)),
        (("batch*3", 2), (-1, 3, 2), ("batch", 3, 2)),
        (("batch", 4, 6), (0, 2, -1), ("batch", 2, 12)),
        (("batch", 4, 6), (0, 24), ("batch", 24)),
        ((4, 6), (-1,), (24,)),
    ],
)
def test_reshape_follows_the_batch(old, new, result):
    graph = GraphBuilder("reshape")
    assert graph.reshape("r", graph.input("x", old), new).shape == result


def test_recipes_are_the_published_formulas():
    assert initial_weights.kaiming_normal((64, 3, 7, 7)) == f"normal {math.sqrt(2 / (64 * 49))!r}"
    assert initial_weights.kaiming_uniform((64, 3, 7, 7)) == f"uniform {math.sqrt(6 / (3 * 49))!r}"
    assert initial_weights.fan_in_uniform((10, 25)) == "uniform 0.2"


CODE = """
import importlib, pkgutil, sys
import edgetune.workloads as workloads
sys.modules.update(dict.fromkeys(("torch", "onnxruntime")))
for module in pkgutil.walk_packages(workloads.__path__, "edgetune.workloads."):
    if "torch_" not in module.name or module.name.endswith("torch_required"):
        importlib.import_module(module.name)
"""


def test_only_torch_modules_need_torch():
    subprocess.run([sys.executable, "-c", CODE], check=True)
