"""The builder's own idea of shapes must be ONNX's, and its weights must weigh nothing."""

import math

import onnx
import pytest

from edgetune.workloads import initial_weights
from edgetune.workloads.graph_builder import GraphBuilder, Value
from edgetune.workloads.initial_weights import BIASED


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
