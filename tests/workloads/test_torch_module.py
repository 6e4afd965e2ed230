"""ONNX graphs in PyTorch: the same answers as ONNX Runtime, and weights that train.

Every operator against ONNX Runtime, one small graph each.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads import zoo
from edgetune.workloads.torch_module import OnnxModule, trainer, with_trained
from edgetune.workloads.torch_operators import OPERATORS


def graph_of(nodes, inputs, outputs, weights=(), *, functions=()):
    """A model from nodes; inputs and outputs are name to (type, shape)."""
    infos = [[helper.make_tensor_value_info(n, t, s) for n, (t, s) in group.items()] for group in (inputs, outputs)]
    initial = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", *infos, initializer=initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, functions=functions)


def ort_run(model, feed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def torch_run(module, feed):
    with torch.no_grad():
        result = module(*(torch.from_numpy(array) for array in feed.values()))
    return [value.numpy() for value in (result if isinstance(result, tuple) else (result,))]


def feed_for(name, batch, seed=0):
    generator = np.random.default_rng(seed)
    return {
        item.name: generator.integers(0, item.upper, (batch, *item.shape))
        if item.upper
        else generator.standard_normal((batch, *item.shape), dtype=np.float32)
        for item in zoo.NETWORKS[name].inputs
    }


@pytest.mark.parametrize(
    "name",
    [
        *("resnet18", "mobilenet_v3_large", "mobilenet_v2", "squeezenet", "lstm", "yolov8n", "googlenet"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("alexnet", "resnet50", "bert_base", "agenet", "scenenet", "tinyyolo", "emotionnet")
        ),
    ],
)
def test_module_answers_as_onnx_runtime_does_at_any_batch(name):
    model = zoo.with_weights(zoo.weightless(name))
    onnx.checker.check_model(model)
    module = OnnxModule(model).eval()
    for batch in (1, 3):
        feed = feed_for(name, batch)
        for want, got in zip(ort_run(model, feed), torch_run(module, feed), strict=True):
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= 2e-5 * want.std() + 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("name", "batch", "steps"),
    [
        ("lstm", 4, 4),
        ("mobilenet_v3_large", 2, 4),
        ("resnet18", 2, 3),
        pytest.param("yolov8n", 1, 4, marks=pytest.mark.slow),
        pytest.param("squeezenet", 2, 8, marks=pytest.mark.slow),
        pytest.param("mobilenet_v2", 2, 4, marks=pytest.mark.slow),
        pytest.param("resnet50", 2, 4, marks=pytest.mark.slow),
        pytest.param("alexnet", 2, 8, marks=pytest.mark.slow),
        pytest.param("gendernet", 2, 8, marks=pytest.mark.slow),
        pytest.param("googlenet", 2, 4, marks=pytest.mark.slow),
        pytest.param("tinyyolo", 2, 4, marks=pytest.mark.slow),
        pytest.param("bert_base", 1, 3, marks=pytest.mark.slow),
    ],
)
def test_loss_falls(name, batch, steps):
    step = trainer(zoo.weightless(name), batch).step
    losses = [step() for _ in range(steps)]
    assert all(np.isfinite(losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["lstm", "mobilenet_v3_large"])
def test_gradients_reach_every_parameter(name):
    module = OnnxModule(zoo.with_weights(zoo.weightless(name))).train()
    feed = feed_for(name, 2)
    module(*(torch.from_numpy(array) for array in feed.values())).square().sum().backward()
    silent = [key for key, weight in module.named_parameters() if weight.grad is None or not weight.grad.any()]
    # A bias in front of BatchNorm cannot matter, but none of these networks has one.
    assert silent == []
    assert sum(weight.numel() for weight in module.parameters()) == zoo.NETWORKS[name].parameters


def test_state_dict_reads_as_torchvision_names_it():
    keys = set(OnnxModule(zoo.with_weights(zoo.weightless("resnet18"))).state_dict())
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.weight"} <= keys
    assert not any("." not in key for key in keys)


def test_batch_norm_follows_the_data_only_while_training():
    model = zoo.with_weights(zoo.weightless("mobilenet_v3_large"))
    module = OnnxModule(model)
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        module.eval()(images)
        assert not module.state_dict()["features.0.1.running_mean"].any()
        module.train()(images)
    state = module.state_dict()
    before = torch.nn.functional.conv2d(images, state["features.0.0.weight"], stride=2, padding=1)
    torch.testing.assert_close(state["features.0.1.running_mean"], 0.01 * before.mean((0, 2, 3)))


def test_a_trained_network_goes_back_into_its_graph():
    model = zoo.with_weights(zoo.weightless("lstm"))
    module = OnnxModule(model).train()
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    feed = feed_for("lstm", 2)
    module(torch.from_numpy(feed["tokens"])).square().sum().backward()
    optimiser.step()
    trained = with_trained(model, module)
    onnx.checker.check_model(trained, full_check=True)
    np.testing.assert_allclose(ort_run(trained, feed)[0], torch_run(module.eval(), feed)[0], atol=1e-5)
    assert np.abs(ort_run(model, feed)[0] - ort_run(trained, feed)[0]).max() > 1e-3
    assert trained.metadata_props == model.metadata_props


def test_inner_values_can_be_asked_for_and_the_rest_is_left_out():
    model = zoo.with_weights(zoo.weightless("yolov8n"))
    whole, backbone = OnnxModule(model), OnnxModule(model, ["model.9.concat"])
    assert sum(p.numel() for p in backbone.parameters()) < sum(p.numel() for p in whole.parameters())
    with pytest.raises(InputError, match="no value 'nothing'"):
        OnnxModule(model, ["nothing"])


FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def two_layers(last="Softmax", classes=4):
    generator = np.random.default_rng(0)
    weights = {
        "onnx::w.1": generator.standard_normal((5, 8), dtype=np.float32),
        "b": np.zeros(8, np.float32),
        "train": generator.standard_normal((8, classes), dtype=np.float32),
        "half": np.float32(0.5),
        "shape": np.array([-1, 8]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::w.1"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["r"]),
        helper.make_node("Mul", ["r", "half"], ["h"]),
        helper.make_node("MatMul", ["h", "train"], ["o"]),
        helper.make_node(last, ["o"], ["y"]),
    ]
    return graph_of(nodes, {"x": (FLOAT, ["batch", 5])}, {"y": (FLOAT, ["batch", classes])}, weights)


def test_the_trained_parameters_of_a_foreign_graph():
    module = OnnxModule(two_layers())
    assert {tuple(weight.shape) for weight in module.parameters()} == {(5, 8), (8,), (8, 4)}
    assert len(module.state_dict()) == 4  # the scalar is a buffer; names that PyTorch cannot have are changed
    feed = {"x": np.ones((3, 5), np.float32)}
    np.testing.assert_allclose(torch_run(module.eval(), feed)[0], ort_run(two_layers(), feed)[0], atol=1e-6)
    restored = with_trained(two_layers(), module)
    assert ort_run(restored, feed)[0].tolist() == ort_run(two_layers(), feed)[0].tolist()


def test_a_users_classifier_trains_on_labels_and_anything_else_on_a_target():
    step = trainer(two_layers("Identity"), 6).step
    losses = [step() for _ in range(400)]
    assert losses[-1] < 0.9 * losses[0]
    step = trainer(two_layers("Identity", classes=1), 6).step
    regression = [step() for _ in range(400)]
    assert regression[-1] < regression[0]
    assert regression != losses


def test_a_fixed_batch_that_differs_is_changed():
    model = two_layers()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    assert np.isfinite(trainer(model, 4).step())


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Einsum", ["x"], ["y"], name="sum", equation="ij->j"), r"operator Einsum \(node 'sum'\)"),
        (helper.make_node("Relu", ["x"], ["y"], name="own", domain="com.acme"), r"operator Relu \(node 'own'\)"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"], name="r", mode="cubic"), "mode 'cubic'"),
        (helper.make_node("Cast", ["x"], ["y"], name="c", to=TensorProto.STRING), "element type STRING"),
        (helper.make_node("LRN", ["x"], ["y"], name="norm", size=4), "an even size, 4"),
    ],
)
def test_an_unimplemented_operator_is_named_with_its_node(node, message):
    model = graph_of([node], {"x": (FLOAT, ["n", 3])}, {"y": (FLOAT, None)}, {"s": np.ones(2, np.float32)})
    with pytest.raises(InputError, match=message):
        OnnxModule(model)


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
    for a, b in zip(ort_run(model, feed), torch_run(OnnxModule(model).eval(), feed), strict=True):
        assert b.shape == a.shape
        assert b.dtype == a.dtype
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


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
    [({"s": np.array([1, 1, 2, 3], np.float32)}, ["x", "", "s"]), ({"n": np.array([2, 3, 7, 4])}, ["x", "", "", "n"])],
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


def test_dropout_drops_only_while_training():
    node = helper.make_node("Dropout", ["x", "ratio"], ["y"])
    module = OnnxModule(model_of(node, {"x": X}, {"ratio": np.float32(0.25)}))
    x = torch.ones(10_000)
    assert torch.equal(module.eval()(x), x)
    torch.manual_seed(0)
    kept = module.train()(x)
    assert float((kept == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
