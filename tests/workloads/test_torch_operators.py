"""Every operator against ONNX Runtime, one small graph each."""

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads.torch_module import OnnxModule, with_trained
from edgetune.workloads.torch_operators import OPERATORS

GENERATOR = np.random.default_rng(0)


def floats(*shape):
    return GENERATOR.standard_normal(shape, dtype=np.float32)


def model_of(node, feed, weights, outputs=None, opset=17):
    """A graph of one node; what feeds it decides input types, the outputs are of any type."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()
    ]
    initial = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    results = [helper.make_tensor_value_info(n, t, None) for n, t in (outputs or {"y": TensorProto.FLOAT}).items()]
    graph = helper.make_graph([node], "g", inputs, results, initializer=initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def compare(op, feed, weights=None, *, result=TensorProto.FLOAT, opset=17, names=None, outputs=("y",), **attributes):
    """Run one node in both and compare; ``names`` orders the inputs where some are left out."""
    weights = weights or {}
    node = helper.make_node(op, names or [*feed, *weights], list(outputs), name="node", **attributes)
    wanted = {name: result for name in outputs if name}
    model = model_of(node, feed, weights, wanted, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    want = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
    with torch.no_grad():
        got = OnnxModule(model).eval()(*(torch.from_numpy(array) for array in feed.values()))
    for a, b in zip(want, got if isinstance(got, tuple) else (got,), strict=True):
        assert b.shape == a.shape
        assert b.numpy().dtype == a.dtype
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-4, atol=1e-5)


X = floats(2, 3, 5, 6)
PAIR = {"a": X, "b": floats(3, 1, 6)}
INT = TensorProto.INT64

CASES = {
    **{op: (op, {"x": X}) for op in ("Erf", "Identity", "Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu")},
    **{op: (op, PAIR) for op in ("Add", "Sub", "Mul", "Div")},
    **{op: (op, {"x": X}) for op in ("GlobalAveragePool", "Flatten", "Transpose", "Softmax", "HardSigmoid")},
    "Div integers": ("Div", {"a": np.array([7, -7]), "b": np.array([2, 2])}, {}, {"result": INT}),
    "HardSigmoid of PyTorch": ("HardSigmoid", {"x": X}, {}, {"alpha": 1 / 6, "beta": 0.5}),
    "Clip": ("Clip", {"x": X}, {"low": np.float32(-0.5), "high": np.float32(0.5)}),
    "Clip below": ("Clip", {"x": X}, {"low": np.float32(-0.5)}),
    "Clip of old": ("Clip", {"x": X}, {}, {"opset": 6, "min": -0.5, "max": 0.5}),
    "Softmax of old": ("Softmax", {"x": X}, {}, {"opset": 11, "axis": 2}),
    "Dropout": ("Dropout", {"x": X}, {"ratio": np.float32(0.3)}),
    "MatMul": ("MatMul", {"a": floats(2, 3, 4, 5)}, {"b": floats(5, 2)}),
    "Gemm": ("Gemm", {"a": floats(4, 3)}, {"b": floats(3, 5)}),
    "Gemm of all": (
        "Gemm",
        {"a": floats(3, 4)},
        {"b": floats(5, 3), "c": floats(5)},
        {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1},
    ),
    "BatchNormalization": (
        "BatchNormalization",
        {"x": X},
        {"w": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + 0.1},
        {"epsilon": 0.01},
    ),
    "LayerNormalization": ("LayerNormalization", {"x": X}, {"w": floats(5, 6), "b": floats(5, 6)}, {"axis": -2}),
    "LayerNormalization bare": ("LayerNormalization", {"x": X}, {"w": floats(6)}),
    "LRN": ("LRN", {"x": floats(2, 9, 4, 3)}, {}, {"size": 5}),
    "LRN of all": ("LRN", {"x": floats(2, 9, 4, 3)}, {}, {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0}),
    "Flatten all": ("Flatten", {"x": X}, {}, {"axis": 0}),
    "Reshape": ("Reshape", {"x": X}, {"shape": np.array([0, -1, 6])}),
    "Reshape at run time": ("Reshape", {"x": X, "shape": np.array([6, 30])}),
    "Transpose some": ("Transpose", {"x": X}, {}, {"perm": [0, 2, 3, 1]}),
    "Concat": ("Concat", {"a": X, "b": X}, {}, {"axis": -1}),
    "Split": ("Split", {"x": X}, {"s": np.array([1, 3, 1])}, {"axis": 2, "outputs": ("y", "z", "w")}),
    "Split equally": ("Split", {"x": X}, {}, {"axis": 3, "outputs": ("y", "z", "w")}),
    "Split of old": ("Split", {"x": X}, {}, {"opset": 11, "axis": 1, "split": [1, 2], "outputs": ("y", "z")}),
    "Slice": ("Slice", {"x": X}, {"s": np.array([1, -3]), "e": np.array([2**62, -1]), "a": np.array([2, 3])}),
    "Slice of all": ("Slice", {"x": X}, {"s": np.array([0, 1]), "e": np.array([1, 3])}),
    "Squeeze": ("Squeeze", {"x": floats(1, 3, 1)}, {"a": np.array([-1])}),
    "Squeeze all": ("Squeeze", {"x": floats(1, 3, 1)}),
    "Squeeze of old": ("Squeeze", {"x": floats(1, 3, 1)}, {}, {"opset": 11, "axes": [0]}),
    "Unsqueeze": ("Unsqueeze", {"x": X}, {"a": np.array([-1, 0])}),
    "Gather rows": ("Gather", {"t": floats(7, 4), "i": np.array([[0, -1], [3, 3]])}),
    "Gather within": ("Gather", {"t": X, "i": np.array([[0, -1], [3, 3]])}, {}, {"axis": 2}),
    "Gather one": ("Gather", {"t": X}, {"i": np.array(-2)}, {"axis": 3}),
    "Cast": ("Cast", {"x": X}, {}, {"to": INT, "result": INT}),
    "Shape in part": ("Shape", {"x": X}, {}, {"start": 1, "end": -1, "result": INT}),
    "ConstantOfShape": ("ConstantOfShape", {"s": np.array([2, 3])}),
    "ConstantOfShape of ones": (
        "ConstantOfShape",
        {"s": np.array([2])},
        {},
        {"value": numpy_helper.from_array(np.array([1])), "result": INT},
    ),
    "Expand": ("Expand", {"x": floats(3, 1)}, {"s": np.array([2, 1, 4])}),
    "Conv": ("Conv", {"x": X}, {"w": floats(4, 3, 3, 3), "b": floats(4)}),
    "Conv of one dimension": ("Conv", {"x": floats(2, 3, 9)}, {"w": floats(4, 3, 3)}, {"pads": [1, 1]}),
    "Conv of three dimensions": ("Conv", {"x": floats(1, 2, 4, 4, 4)}, {"w": floats(3, 2, 2, 2, 2)}),
    "MaxPool": ("MaxPool", {"x": X}, {}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "MaxPool unevenly padded": ("MaxPool", {"x": X}, {}, {"kernel_shape": [3, 3], "pads": [0, 0, 1, 2]}),
    "MaxPool with ceil": ("MaxPool", {"x": X}, {}, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
}


def test_every_operator_of_the_table_has_a_case():
    resized = {"Resize"}
    assert {case[0] for case in CASES.values()} | resized == set(OPERATORS)


@pytest.mark.parametrize("case", CASES)
def test_operator_answers_as_onnx_runtime_does(case):
    op, feed, weights, settings_ = (*CASES[case], {}, {})[:4] if len(CASES[case]) < 4 else CASES[case]
    compare(op, feed, weights, **settings_)


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ({"s": np.array([1, 1, 2, 3], np.float32)}, ["x", "", "s"]),
        ({"n": np.array([2, 3, 7, 4])}, ["x", "", "", "n"]),
    ],
)
def test_resize(weights, names):
    compare("Resize", {"x": X}, weights, names=names, **NEAREST)


@settings(deadline=None, max_examples=30)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    groups=st.sampled_from([1, 2, 4]),
)
def test_any_convolution(kernel, strides, dilations, pads, groups):
    settings_ = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    compare("Conv", {"x": floats(2, 4, 8, 9)}, {"w": floats(8, 4 // groups, *kernel)}, **settings_)


@settings(deadline=None, max_examples=30)
@given(start=st.integers(-12, 12), end=st.integers(-12, 12), step=st.integers(1, 3), axis=st.integers(-2, 1))
def test_any_slice(start, end, step, axis):
    weights = {name: np.array([number]) for name, number in zip("seat", (start, end, axis, step), strict=True)}
    compare("Slice", {"x": floats(7, 9)}, weights)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers(op, gates, biased, directions):
    weights = {"w": floats(directions, gates * 5, 3), "r": floats(directions, gates * 5, 5)}
    if biased:
        weights["b"] = floats(directions, 2 * gates * 5)
    settings_ = {"hidden_size": 5, "direction": "forward" if directions == 1 else "bidirectional"}
    if op == "GRU":
        settings_["linear_before_reset"] = 1
    outputs = ("y", "h", "c") if op == "LSTM" else ("y", "h")
    feed = {"x": floats(4, 2, 3)}
    compare(op, feed, weights, outputs=outputs, **settings_)
    compare(op, feed, weights, outputs=("", "h"), **settings_)
    if biased:
        states = {name: floats(directions, 2, 5) for name in (("i", "j") if op == "LSTM" else ("i",))}
        compare(op, feed | states, weights, names=["x", "w", "r", "b", "", *states], outputs=outputs, **settings_)
    node = helper.make_node(op, ["x", *weights], ["y"], **settings_)
    model = model_of(node, feed, weights)
    back = {t.name: numpy_helper.to_array(t) for t in with_trained(model, OnnxModule(model)).graph.initializer}
    assert all(np.array_equal(back[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    ("op", "settings_", "message"),
    [
        ("GRU", {}, "linear_before_reset 0"),
        ("GRU", {"linear_before_reset": 1, "direction": "reverse"}, "direction 'reverse'"),
        ("GRU", {"linear_before_reset": 1, "clip": 1.0}, "clip"),
    ],
)
def test_unusual_recurrent_layers_are_refused(op, settings_, message):
    weights = {"w": floats(1, 15, 3), "r": floats(1, 15, 5)}
    node = helper.make_node(op, ["x", *weights], ["y"], name="cell", hidden_size=5, **settings_)
    with pytest.raises(InputError, match=message):
        OnnxModule(model_of(node, {"x": floats(4, 2, 3)}, weights))


@pytest.mark.parametrize(
    ("op", "settings_", "outputs"),
    [
        ("MaxPool", {"kernel_shape": [2, 2]}, ("y", "indices")),
        ("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, ("y",)),
        ("AveragePool", {"kernel_shape": [3, 3]}, ("y",)),
    ],
)
def test_variants_that_pytorch_lacks_are_refused(op, settings_, outputs):
    node = helper.make_node(op, ["x"], outputs, name="node", **settings_)
    with pytest.raises(InputError, match=r"node 'node'"):
        OnnxModule(model_of(node, {"x": X}, {}, opset=19))


def test_dropout_drops_only_while_training():
    node = helper.make_node("Dropout", ["x", "ratio"], ["y"])
    module = OnnxModule(model_of(node, {"x": X}, {"ratio": np.float32(0.25)}))
    x = torch.ones(10_000)
    assert torch.equal(module.eval()(x), x)
    torch.manual_seed(0)
    kept = module.train()(x)
    assert float((kept == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
