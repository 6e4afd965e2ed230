"""Networks that are ordinary, in files that are not: old and new versions, and ways of storing a graph."""

from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from foreign.network import ForeignNetwork, integers, network

VERSIONS = (
    (3, 7), (3, 8), (4, 9), (5, 10), (6, 11), (7, 12), (7, 13), (7, 14),
    (8, 15), (8, 16), (8, 17), (8, 18), (9, 19), (9, 20), (10, 21), (10, 22),
)  # fmt: skip
"""Of the intermediate representation and of the operator set, as exporters paired them."""

VERSIONED = """net (float["batch",3,16,16] image) => (float["batch",10] y) {
    a = Conv <pads = [1,1,1,1], strides = [2,2]> (image, w)
    b = Relu(a)
    p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b)
    shape = Shape(p)
    batch = Gather(shape, zero)
    b1 = %s
    rest = Constant <value = int64[1] {128}> ()
    flat = Concat <axis = 0> (b1, rest)
    d = Reshape(p, flat)
    y = Gemm(d, f, bias)
}"""


def versioned(ir, opset):
    """A small network with the arithmetic on shapes that exporters leave behind ``view``."""
    unsqueeze = "Unsqueeze(batch, axes)" if opset >= 13 else "Unsqueeze <axes = [0]> (batch)"
    axes = {"axes": integers(0)} if opset >= 13 else {}
    model = network(
        VERSIONED % unsqueeze, opset=opset, ir=ir, w=(8, 3, 3, 3), f=(128, 10), bias=(10,),
        zero=np.array(0, np.int64), **axes,
    )  # fmt: skip
    return listed(model) if ir < 4 else model


def listed(model):
    """List weights as inputs, as version 3 demands."""
    for weight in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    return model


def weights_as_inputs():
    return listed(versioned(8, 17))


def default_value():
    """An input with a default: whoever runs the network may leave it out."""
    model = network(
        """net (float["batch",16] x, float[1] gain) => (float["batch",8] y) { a = MatMul(x, w) y = Mul(a, gain) }""",
        w=(16, 8),
    )  # fmt: skip
    model.graph.initializer.append(numpy_helper.from_array(np.array([2.0], np.float32), "gain"))
    return model


def unread_input():
    return network(
        """net (float["batch",16] x, float["batch",3] unread) => (float["batch",8] y) { y = MatMul(x, w) }""", w=(16, 8)
    )


def input_is_output():
    return network(
        """net (float["batch",16] x) => (float["batch",16] same, float["batch",8] y) {
            same = Identity(x) y = MatMul(x, w)
        }""",
        w=(16, 8),
    )  # fmt: skip


def large_weights():
    return network("""net (float["batch",256] x) => (float["batch",64] y) { a = MatMul(x, w) y = Relu(a) }""",
                   w=(256, 64))  # fmt: skip


def fixed_large_weights():
    return network("""net (float[2,256] x) => (float[2,64] y) { a = MatMul(x, w) y = Relu(a) }""", w=(256, 64))


def save_external(model, path):
    onnx.save(model, path, save_as_external_data=True, location=f"{path.stem}.weights", size_threshold=0)


def local_functions():
    return network(
        """net (float["batch",64] x) => (float["batch",32] y) { h = acme.Dense(x, w1) y = acme.Dense(h, w2) }
        <domain: "acme", opset_import: ["" : 17]>
        Dense (a, b) => (c) { m = MatMul(a, b) c = Relu(m) }""",
        w1=(64, 64), w2=(64, 32),
    )  # fmt: skip


def constant_nodes():
    """No initializer: weights are Constant nodes, as some converters write."""
    model = network("""net (float["batch",64] x) => (float["batch",32] y) { y = MatMul(x, w) }""")
    array = (np.random.default_rng(0).standard_normal((64, 32)) * 0.1).astype(np.float32)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(array)))
    return model


def constant_output():
    """Anchors that are made from constants alone, beside what depends on the input."""
    return network(
        """net (float["batch",16] x) => (float["batch",8] y, float[100] anchors) {
            y = MatMul(x, w) i = Range(zero, many, one) anchors = Cast <to = 1> (i)
        }""",
        w=(16, 8), zero=np.array(0, np.int64), many=np.array(100, np.int64), one=np.array(1, np.int64),
    )  # fmt: skip


def no_output_shapes():
    model = versioned(8, 17)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def nameless_output_batch():
    model = versioned(8, 17)
    model.graph.output[0].type.tensor_type.shape.dim[0].Clear()
    return model


def stale_value_info():
    """Shapes of tensors inside, stored for a batch of 4, that no longer are true."""
    model = network("""net (float[1,16] x) => (float[1,8] y) { a = MatMul(x, w) b = Relu(a) y = Tanh(b) }""", w=(16, 8))
    for name in ("a", "b"):
        model.graph.value_info.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 8]))
    return model


def colons():
    model = network("""net (float["batch","features"] x) => (float["batch",8] y) { y = MatMul(x, w) }""", w=(16, 8))
    for names in (model.graph.node[0].input,):
        names[0] = "serving/x:0"
    model.graph.input[0].name = "serving/x:0"
    return model


ROW = ForeignNetwork
SIXTEEN = {"x": (1, 16)}
NETWORKS = (
    *(
        ROW(f"ir{ir}_opset{opset}", f"IR version {ir}, opset {opset}, a Reshape by arithmetic on shapes",
            partial(versioned, ir, opset), {"image": (1, 3, 16, 16)}, {"image": 0}, 64 * 8 * 27 + 1280)
        for ir, opset in VERSIONS
    ),
    ROW("weights_as_inputs", "weights are listed as inputs in IR 8", weights_as_inputs,
        {"image": (1, 3, 16, 16)}, {"image": 0}, 64 * 8 * 27 + 1280),
    ROW("default_value", "an input has a default value", default_value, SIXTEEN, {"x": 0}, 128),
    ROW("unread_input", "no operator reads an input", unread_input, {"x": (1, 16), "unread": (1, 3)},
        {"x": 0, "unread": 0}, 128),
    ROW("input_is_output", "an output is the input", input_is_output, SIXTEEN, {"x": 0}, 128),
    ROW("external_data", "weights in a file beside it", large_weights, {"x": (1, 256)}, {"x": 0}, 256 * 64,
        save=save_external),
    ROW("external_data_fixed", "the same, exported for two samples", fixed_large_weights, {"x": (2, 256)}, {"x": 0},
        2 * 256 * 64, save=save_external),
    ROW("local_functions", "a function of the model's own", local_functions, {"x": (1, 64)}, {"x": 0},
        64 * 64 + 64 * 32),
    ROW("constant_nodes", "weights are Constant nodes", constant_nodes, {"x": (1, 64)}, {"x": 0}, 2048),
    ROW("constant_output", "an output depends on no input", constant_output, SIXTEEN, {"x": 0}, 128),
    ROW("no_output_shapes", "outputs without a shape", no_output_shapes, {"image": (1, 3, 16, 16)}, {"image": 0},
        64 * 8 * 27 + 1280),
    ROW("nameless_output_batch", "an output whose batch has no size and no name", nameless_output_batch,
        {"image": (1, 3, 16, 16)}, {"image": 0}, 64 * 8 * 27 + 1280),
    ROW("stale_value_info", "shapes inside are symbolic, those of inputs fixed", stale_value_info, SIXTEEN, {"x": 0},
        128),
    ROW("names_with_colons", "an input's name has a slash and a colon", colons, {"serving/x:0": (1, 16)},
        {"serving/x:0": 0}, 128, {"features": 16}),
)  # fmt: skip
