"""Small real networks, prepared: what the tests of the runtime run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve

WIDE = 2048
"""The wide network's first layer has a matrix of 16 MiB."""


def weight(name: str, *shape: int, seed: int = 0) -> onnx.TensorProto:
    generator = np.random.default_rng([seed, *name.encode()])
    values = generator.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))
    return numpy_helper.from_array(values, name)


def value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def branchy(path: Path, seed: int = 0) -> None:
    """An image and a bias go in, a sum over two branches and its maximum come out."""
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], name="first", **conv),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="left", **conv),
        helper.make_node("Conv", ["b", "w2"], ["d"], name="right", **conv),
        helper.make_node("Add", ["c", "d"], ["e"], name="join"),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], name="pool"),
        helper.make_node("Flatten", ["f"], ["g"], name="flat"),
        helper.make_node("Gemm", ["g", "w3"], ["h"], name="last"),
        helper.make_node("Add", ["h", "shift"], ["scores"], name="shifted"),
        helper.make_node("ReduceMax", ["e"], ["peak"], name="peak", keepdims=0),
    ]
    weights = [weight("w0", 16, 3, 3, 3, seed=seed), weight("w1", 16, 16, 3, 3), weight("w2", 16, 16, 3, 3)]
    _save(path, nodes, [*weights, weight("w3", 16, 10)], [value("image", 1, 3, 16, 16), value("shift", 1, 10)],
          [value("scores", 1, 10), value("peak")])  # fmt: skip


def wide(path: Path) -> None:
    """Three fully connected layers, the first two of 16 MiB."""
    nodes = [
        helper.make_node("Gemm", ["x", "v0"], ["y0"], name="one"),
        helper.make_node("Relu", ["y0"], ["z0"], name="relu one"),
        helper.make_node("Gemm", ["z0", "v1"], ["y1"], name="two"),
        helper.make_node("Relu", ["y1"], ["z1"], name="relu two"),
        helper.make_node("Gemm", ["z1", "v2"], ["answer"], name="three"),
    ]
    weights = [weight("v0", WIDE, WIDE), weight("v1", WIDE, WIDE), weight("v2", WIDE, 10)]
    _save(path, nodes, weights, [value("x", 1, WIDE)], [value("answer", 1, 10)])


def tied(path: Path) -> None:
    """Two layers that read one matrix of 4 KiB."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="one"),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="two"),
    ]
    _save(path, nodes, [weight("w", 32, 32)], [value("x", 1, 32)], [value("y", 1, 32)])


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> None:
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def prepared_in(folder: Path) -> dict[str, Prepared]:
    """Return both networks, prepared."""
    made = {}
    for name, write in (("branchy", branchy), ("wide", wide)):
        write(folder / f"{name}.onnx")
        made[name] = prepare(resolve(str(folder / f"{name}.onnx")), PrepareOptions(), folder / name)
    return made


def network(prepared: Prepared) -> LayeredNetwork:
    """Return a network as the loop sees it, with times that nobody measured."""
    seen = network_of(prepared)
    return replace(seen, layers=tuple(replace(layer, load_s=0.001, execute_s=0.001) for layer in seen.layers))


def networks(prepared: Mapping[str, Prepared]) -> dict[str, LayeredNetwork]:
    return {name: network(each) for name, each in prepared.items()}
